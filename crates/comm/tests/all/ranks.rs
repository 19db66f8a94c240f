//! Ranks that are threads, and sums to compare with.

use std::thread;
use std::time::Duration;

use lessen_base::SplitMix64;
use lessen_comm::{Accumulator, Addition, Delayed, Exchange, Network, Reduction, ThreadWire, Tree, deal, part};

/// Runs `each` on so many ranks, whose networks have the latencies `latency(rank)` and 100 MB/s; the results in order.
pub fn on_slow_ranks<T: Send>(
    size: usize,
    deadline: Duration,
    latency: impl Fn(usize) -> Duration,
    each: impl Fn(Exchange) -> T + Sync,
) -> Vec<T> {
    let each = &each;
    thread::scope(|scope| {
        let ranks = ThreadWire::connected(size).into_iter().enumerate().map(|(rank, wire)| {
            let network = Network {
                latency: latency(rank),
                rate: 1e8,
            };
            scope.spawn(move || {
                let open = move || match network.latency.is_zero() {
                    true => Ok(Box::new(wire) as _),
                    false => Ok(Box::new(Delayed::new(wire, network)) as _),
                };
                each(Exchange::start(deadline, open).unwrap())
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs `each` on so many ranks that are connected without delay.
pub fn on_ranks<T: Send>(size: usize, each: impl Fn(Exchange) -> T + Sync) -> Vec<T> {
    on_slow_ranks(size, Duration::from_secs(60), |_| Duration::ZERO, each)
}

/// Numbers of a leaf whose sum depends on the order of the additions.
pub fn leaf_numbers(seed: u64, leaf: usize, count: usize) -> Vec<f32> {
    let mut random = SplitMix64::keyed(seed, leaf as u64);
    let number = |_| (random.unit() as f32 - 0.5) * 10f32.powi(random.below(6) as i32);
    (0..count).map(number).collect()
}

pub fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The sum over all leaves by recursion: a node splits at the largest power of two below the number of its leaves.
pub fn sum_by_recursion(leaves: &[Vec<f32>]) -> Vec<f32> {
    if let [leaf] = leaves {
        return leaf.clone();
    }
    let mut split = 1;
    while 2 * split < leaves.len() {
        split *= 2;
    }
    let (left, right) = (sum_by_recursion(&leaves[..split]), sum_by_recursion(&leaves[split..]));
    left.iter().zip(right).map(|(a, b)| a + b).collect()
}

/// What a rank gives to the sum of the leaves that `leaf` makes; pieces at the borders are dealt out.
pub fn reduction(
    exchange: &Exchange,
    leaves: usize,
    pieces: &[usize],
    addition: Addition,
    leaf: impl Fn(usize) -> Vec<u8>,
) -> Reduction {
    let mut sums = Accumulator::new(Tree::new(leaves));
    for index in part(leaves, exchange.size(), exchange.rank()) {
        let add = |left: &mut Vec<u8>, right: Vec<u8>| addition.add(left, &right);
        sums.push(index..index + 1, leaf(index), add);
    }
    Reduction {
        leaves,
        sums: sums.into_sums().into_iter().map(|(_, sum)| sum).collect(),
        borders: deal(pieces, exchange.size()),
        addition,
    }
}

/// Borders of pieces of `count` numbers of `width` bytes, some of them empty.
pub fn random_pieces(random: &mut SplitMix64, count: usize, width: usize) -> Vec<usize> {
    let mut borders: Vec<usize> = (0..random.below(12))
        .map(|_| random.below(count as u64 + 1) as usize)
        .collect();
    borders.extend([0, count]);
    borders.sort_unstable();
    borders.iter().map(|border| border * width).collect()
}
