//! Ranks that are threads, and sums to compare with.

use std::thread;
use std::time::Duration;

use lessen_base::SplitMix64;
use lessen_comm::{Accumulator, Addition, Delayed, Exchange, Network, Reduction, ThreadWire, Tree, Wire, deal, part};

/// Leaves of the sums.
pub const LEAVES: usize = 8;

/// Runs `each` on ranks that are connected by wires; the results in order.
pub fn on_wires<W: Wire + Send + 'static, T: Send>(
    deadline: Duration,
    wires: impl IntoIterator<Item = W>,
    each: impl Fn(Exchange) -> T + Sync,
) -> Vec<T> {
    let each = &each;
    thread::scope(|scope| {
        let start = |wire| scope.spawn(move || each(Exchange::start(deadline, || Ok(Box::new(wire) as _)).unwrap()));
        let ranks: Vec<_> = wires.into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs `each` on ranks whose networks have these latencies and 100 MB/s.
pub fn on_slow_ranks<T: Send>(
    deadline: Duration,
    latencies: &[Duration],
    each: impl Fn(Exchange) -> T + Sync,
) -> Vec<T> {
    let wires = ThreadWire::connected(latencies.len()).into_iter().zip(latencies);
    let delayed = wires.map(|(wire, &latency)| Delayed::new(wire, Network { latency, rate: 1e8 }));
    on_wires(deadline, delayed, each)
}

/// Runs `each` on so many ranks that are connected without delay.
pub fn on_ranks<T: Send>(size: usize, each: impl Fn(Exchange) -> T + Sync) -> Vec<T> {
    on_wires(Duration::from_secs(60), ThreadWire::connected(size), each)
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

/// The sum of `count` random numbers over the leaves on this rank, and the gather of what the ranks own of it.
pub fn sum_and_gather(exchange: &Exchange, seed: u64, count: usize, pieces: &[usize]) -> Vec<u8> {
    let leaf = |leaf| bytes_of(&leaf_numbers(seed, leaf, count));
    let reduction = reduction(exchange, LEAVES, pieces, Addition::f32(), leaf);
    let borders = reduction.borders.clone();
    let owned = exchange.reduce_scatter("sum", reduction).end().unwrap();
    exchange.all_gather("gather", owned, borders).end().unwrap()
}

/// What `sum_and_gather` gives.
pub fn expected_sum(seed: u64, count: usize) -> Vec<u8> {
    let leaves: Vec<_> = (0..LEAVES).map(|leaf| leaf_numbers(seed, leaf, count)).collect();
    bytes_of(&sum_by_recursion(&leaves))
}
