//! Random bits and dropout against known answers and the definition.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::elementwise::random;
use lessen_graph::philox;

fn bits(key: [u32; 2], stream: u32, first: u64, n: usize) -> Vec<u32> {
    let mut out = vec![0; n + 1];
    // SAFETY: there is room for `n` words.
    unsafe { random::random_bits(key, stream, first, n, out.as_mut_ptr()) };
    assert_eq!(out[n], 0, "wrote too far");
    out.truncate(n);
    out
}

#[test]
fn known_answers() {
    at_all_levels(|_| {
        // From the test vectors of the authors' library: counter and key of zeros.
        assert_eq!(bits([0, 0], 0, 0, 4), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        // Others, whose counter ends in 0 as ours does, from the scalar definition.
        for (key, stream, block) in [
            ([1, 2], 3, 0u64),
            ([u32::MAX, 7], u32::MAX, u64::MAX >> 2),
            ([9, 9], 0, 1 << 32),
        ] {
            assert_eq!(bits(key, stream, block * 4, 4), philox::block(key, stream, block));
        }
    });
}

#[test]
fn any_piece_of_a_stream_is_the_same() {
    at_all_levels(|_| {
        let whole: Vec<u32> = (0..300).flat_map(|b| philox::block([5, 6], 7, b)).collect();
        for first in [0, 1, 2, 3, 4, 63, 64, 65, 130] {
            for n in [0, 1, 3, 64, 65, 200, 1000] {
                assert_eq!(bits([5, 6], 7, first as u64, n), whole[first..first + n], "{first} {n}");
            }
        }
        // Across the end of the low word of the counter.
        let first = (u64::from(u32::MAX) - 1) * 4 + 1;
        let end: Vec<u32> = (0..20).flat_map(|b| philox::block([5, 6], 7, first / 4 + b)).collect();
        assert_eq!(bits([5, 6], 7, first, 70), end[1..71]);
    });
}

#[test]
fn dropout_is_the_definition_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for (n, c) in SIZES.into_iter().chain([(3, 1000)]) {
            for lie in READABLE {
                for to in WRITABLE {
                    for first in [0u64, 5, 8, 1_000_003] {
                        let p = [0.1, 0.5, 0.0, 0.9999][random.below(4)];
                        let mut x = random_block(&mut random, n, c, lie, 2.0);
                        let mut y = random_block(&mut random, n, c, to, 1.0);
                        let before = y.clone();
                        // SAFETY: the blocks have these sizes.
                        unsafe { random::dropout(p, 4, [1, 2], first, n, c, x.rows(), y.rows()) };
                        let threshold = philox::dropout_threshold(p);
                        let scale = (65536.0 / (65536.0 - f64::from(threshold))) as f32;
                        let expected: Vec<f32> = (x.values().iter().enumerate())
                            .map(|(i, &x)| {
                                let keep = philox::dropout_keeps([1, 2], 4, first + i as u64, threshold);
                                if keep { x * scale } else { 0.0 }
                            })
                            .collect();
                        assert_eq!(y.values(), expected, "{n}x{c} {lie:?} {to:?} {first} {p}");
                        assert!(y.same_gaps(&before));
                        if lie == to {
                            let rows = x.rows();
                            // SAFETY: as above, in place.
                            unsafe { random::dropout(p, 4, [1, 2], first, n, c, rows, rows) };
                            assert_eq!(x.values(), expected, "in place {n}x{c} {lie:?} {first} {p}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn what_is_dropped_is_zero_whatever_it_was() {
    at_all_levels(|_| {
        let mut x = vec![f32::NAN; 1000];
        let rows = Rows::dense(x.as_mut_ptr(), 1000);
        // SAFETY: one row in place.
        unsafe { random::dropout(0.5, 0, [3, 4], 0, 1, 1000, rows, rows) };
        let zeros = x.iter().filter(|&&x| x == 0.0).count();
        assert!(
            (400..600).contains(&zeros) && x.iter().all(|x| x.is_nan() || *x == 0.0),
            "{zeros}"
        );
    });
}

#[test]
fn a_half_word_equal_to_the_threshold_keeps() {
    at_all_levels(|_| {
        let word = philox::block([1, 2], 4, 3)[1];
        for (index, half) in [(3 * 8 + 2, word & 0xffff), (3 * 8 + 3, word >> 16)] {
            for (threshold, kept) in [(half, true), (half + 1, false)] {
                let (mut x, p) = (1.0, f64::from(threshold) / 65536.0);
                let rows = Rows::scalar(&mut x);
                // SAFETY: one element in place.
                unsafe { random::dropout(p, 4, [1, 2], index, 1, 1, rows, rows) };
                assert_eq!(x > 0.0, kept, "{threshold}");
            }
        }
    });
}
