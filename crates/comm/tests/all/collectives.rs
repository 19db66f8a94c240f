use std::time::{Duration, Instant};

use lessen_base::{SplitMix64, cases};
use lessen_comm::{Addition, Network, deal, part};

use crate::ranks::{
    LEAVES, expected_sum, leaf_numbers, on_ranks, on_slow_ranks, random_pieces, reduction, sum_and_gather,
};

const SIZES: [usize; 6] = [1, 2, 3, 4, 8, 11];

#[test]
fn sums_have_the_same_bits_on_any_number_of_ranks() {
    for seed in 0..cases(100) {
        let mut random = SplitMix64::new(seed);
        let count = random.below(3000) as usize;
        let pieces = random_pieces(&mut random, count, 4);
        let expected = expected_sum(seed, count);
        for size in SIZES {
            let results = on_ranks(size, |exchange| {
                let all = sum_and_gather(&exchange, seed, count, &pieces);
                exchange.finish().unwrap();
                all
            });
            assert!(results.iter().all(|all| *all == expected), "seed {seed}, {size} ranks");
        }
    }
}

#[test]
fn long_sums_move_in_several_messages() {
    let count = 2_500_001;
    let pieces: Vec<usize> = (0..=LEAVES).map(|piece| count * piece / LEAVES * 4).collect();
    let results = on_ranks(2, |exchange| sum_and_gather(&exchange, 7, count, &pieces));
    let expected = expected_sum(7, count);
    assert!(results.iter().all(|all| *all == expected));
}

#[test]
fn delays_change_no_bit() {
    let pieces = [0, 400, 4000];
    let latencies = [5, 1, 9].map(Duration::from_millis);
    let results = on_slow_ranks(Duration::from_secs(60), &latencies, |exchange| {
        sum_and_gather(&exchange, 3, 1000, &pieces)
    });
    assert!(results.iter().all(|all| *all == expected_sum(3, 1000)));
}

#[test]
fn numbers_of_16_bits_are_added_by_the_callers_function() {
    // The addition of bf16 numbers that are rounded toward zero.
    let number = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    let add = move |a, b| ((number(a) + number(b)).to_bits() >> 16) as u16;
    let leaf = |leaf| -> Vec<u8> {
        let numbers = leaf_numbers(5, leaf, 100);
        numbers
            .iter()
            .flat_map(|number| ((number.to_bits() >> 16) as u16).to_le_bytes())
            .collect()
    };
    let sums = |size| -> Vec<u8> {
        let owned = on_ranks(size, |exchange| {
            let reduction = reduction(&exchange, LEAVES, &[0, 20, 50, 120, 200], Addition::u16(add), leaf);
            exchange.reduce_scatter("sum", reduction).end().unwrap()
        });
        owned.concat()
    };
    let one = sums(1);
    assert_eq!(one.len(), 200);
    assert!(SIZES.into_iter().all(|size| sums(size) == one));
}

#[test]
fn norms_have_the_same_bits_on_any_number_of_ranks() {
    let terms: Vec<Vec<f64>> = (0..LEAVES)
        .map(|leaf| {
            leaf_numbers(9, leaf, 3)
                .into_iter()
                .map(|number| f64::from(number).powi(3))
                .collect()
        })
        .collect();
    let norm = |size| {
        let sums = on_ranks(size, |exchange| {
            let own = part(LEAVES, size, exchange.rank());
            exchange.all_reduce("norm", terms[own].to_vec()).end().unwrap()
        });
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{size} ranks");
        sums[0].clone()
    };
    let one = norm(1);
    assert_eq!(one.len(), 3);
    for size in SIZES {
        assert_eq!(norm(size), one, "{size} ranks");
    }
    let nothing = on_ranks(2, |exchange| exchange.all_reduce("norm", Vec::new()).end().unwrap());
    assert_eq!(nothing, [[]; 2]);
}

#[test]
fn bytes_of_any_length_reach_all_ranks() {
    for size in SIZES {
        on_ranks(size, |exchange| {
            let own = |rank: usize| vec![rank as u8; rank * 700_000];
            let all = exchange.gather("gather", own(exchange.rank())).end().unwrap();
            assert!(all.iter().enumerate().all(|(rank, bytes)| *bytes == own(rank)));
            for root in 0..size {
                let bytes = vec![exchange.rank() as u8; 3 + root];
                let bytes = exchange.broadcast("broadcast", root, bytes).end().unwrap();
                assert_eq!(bytes, vec![root as u8; 3 + root]);
            }
            exchange.finish().unwrap();
        });
    }
}

/// Collectives that run at the same time do not mix, and end in any order.
#[test]
fn collectives_overlap() {
    on_ranks(3, |exchange| {
        let borders = [0, 1, 2, 3];
        let begun = (0..200u8).map(|turn| {
            let owned = vec![turn ^ exchange.rank() as u8];
            exchange.all_gather("gather", owned, borders.to_vec())
        });
        let begun: Vec<_> = begun.collect();
        for (turn, gather) in (0..200u8).zip(begun).rev() {
            assert_eq!(gather.end().unwrap(), [turn, turn ^ 1, turn ^ 2]);
        }
    });
}

/// Each rank sends one sum of what the others own, and what it owns to each of them: no byte more than a ring does.
#[test]
fn bytes_are_counted() {
    let pieces: Vec<usize> = (0..=LEAVES).map(|piece| piece * 400).collect();
    for size in [1, 2, 4, 8] {
        let sent = on_ranks(size, |exchange| {
            sum_and_gather(&exchange, 1, 800, &pieces);
            exchange.bytes_sent()
        });
        let expected = 2 * (size as u64 - 1) * (3200 / size as u64);
        assert_eq!(sent, vec![expected; size]);
    }
}

#[test]
fn a_delayed_message_takes_latency_and_time_to_send() {
    let network = Network {
        latency: Duration::from_millis(10),
        rate: 125e6,
    };
    let ms = Duration::from_millis;
    assert_eq!(network.leaves(ms(0), ms(5), 1_250_000), ms(15));
    assert_eq!(network.leaves(ms(15), ms(6), 125_000), ms(16));
    let latency = ms(40);
    let begun = Instant::now();
    on_slow_ranks(Duration::from_secs(60), &[latency; 2], |exchange| {
        // 1 MB takes 10 ms at 100 MB/s.
        let borders = deal(&[0, 1_000_000, 2_000_000], 2);
        exchange
            .all_gather("gather", vec![0; 1_000_000], borders)
            .end()
            .unwrap();
    });
    assert!(begun.elapsed() >= latency + ms(10));
}
