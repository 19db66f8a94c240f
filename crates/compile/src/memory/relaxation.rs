//! A lower bound on the time of blocks by Lagrangian relaxation: instead of a limit on bytes there is a price in
//! seconds per byte, and each block takes the cheapest way at that price.

use super::block::Block;

/// The prices that are tried, as multiples of the best one. The room left differs from state to state, and so does the
/// best price.
const PRICES: [f64; 7] = [0.0, 0.6, 0.85, 1.0, 1.15, 1.5, 2.5];

/// The lowest price above zero, in seconds per byte.
const LOWEST: f64 = 1e-15;

/// Halvings of the interval around the best price, whose upper end is four times its lower end.
const HALVINGS: usize = 12;

/// Bytes that a block keeps, and the seconds that it takes.
type Cost = (f64, f64);

/// The costs of a block in each role.
struct BlockCosts {
    /// Costs of the block outside segments, one for each way.
    alone: Vec<Cost>,
    /// Cost of the block as the first block of a segment.
    first: Cost,
    /// Cost of the block as an inner block of a segment.
    inner: Cost,
    /// Cost of the block as the last block of a segment.
    last: Cost,
}

/// The least costs of blocks at a price.
struct Costs {
    /// The price, in seconds per byte.
    price: f64,
    /// For each block: the cost of it and all later blocks, from a closed state.
    closed: Vec<f64>,
    /// For each block: the cost of it and all later blocks, from an open state.
    open: Vec<f64>,
    /// Bytes that all blocks keep at these costs.
    bytes: f64,
}

/// Lower bounds on the time of each block and all later ones, for the bytes that earlier blocks keep.
pub(super) struct Relaxation {
    costs: Vec<Costs>,
    /// The most bytes that all blocks but the last one can keep.
    room: f64,
}

impl Relaxation {
    /// The bounds of blocks within a limit of bytes, with segments or without.
    pub fn of(blocks: &[Block<'_>], limit: usize, segments: bool) -> Relaxation {
        let steps: Vec<BlockCosts> = blocks.iter().map(BlockCosts::of).collect();
        let room = limit as f64 - blocks.last().map_or(0, least_peak) as f64;
        let at = |price: f64| Costs::at(price, &steps, segments);
        let best = best_price(room, &at);
        let costs = PRICES.iter().map(|part| at(part * best)).collect();
        Relaxation { costs, room }
    }

    /// Lower bound on the seconds of the block at position `at` and all later blocks, where earlier blocks keep `kept`
    /// bytes.
    pub fn least(&self, at: usize, kept: usize, is_open: bool) -> f64 {
        let left = self.room - kept as f64;
        let bounds = self.costs.iter().map(|costs| {
            let cost = if is_open { costs.open[at] } else { costs.closed[at] };
            cost - costs.price * left
        });
        bounds.fold(0.0, f64::max)
    }
}

impl BlockCosts {
    fn of(block: &Block<'_>) -> BlockCosts {
        let mut alone = Vec::new();
        for ways in [Some(block.ways), block.inverted].into_iter().flatten() {
            for way in &ways.best {
                let entry = way
                    .format
                    .map_or(block.entry, |format| block.rounded_entry[format as usize]);
                let kept = (entry + way.kept).saturating_sub(block.inverted_next);
                alone.push((kept as f64, way.seconds));
            }
        }
        // Values that a block of a segment keeps are gone before the next segment begins.
        let fastest = block.ways.best[0].seconds.min(block.ways.smallest.seconds);
        let again = fastest + block.ways.forward_seconds;
        BlockCosts {
            alone,
            first: (block.entry as f64, again),
            inner: (0.0, again),
            last: (0.0, block.ways.smallest.seconds),
        }
    }
}

impl Costs {
    fn at(price: f64, steps: &[BlockCosts], segments: bool) -> Costs {
        let n = steps.len();
        // No segment is open after the last block.
        let (mut closed, mut open) = (vec![(0.0, 0.0); n + 1], vec![(f64::INFINITY, 0.0); n + 1]);
        for (at, steps) in steps.iter().enumerate().rev() {
            // Bytes that the last block keeps are free before any other stage runs.
            let price = if at + 1 == n { 0.0 } else { price };
            let to = |after: (f64, f64), step: Cost| (after.0 + step.1 + price * step.0, after.1 + step.0);
            let alone = steps.alone.iter().map(|&step| to(closed[at + 1], step));
            let first = segments.then(|| to(open[at + 1], steps.first));
            closed[at] = least(alone.chain(first));
            open[at] = least([to(open[at + 1], steps.inner), to(closed[at + 1], steps.last)].into_iter());
        }
        Costs {
            price,
            bytes: closed[0].1,
            closed: closed.into_iter().map(|cost| cost.0).collect(),
            open: open.into_iter().map(|cost| cost.0).collect(),
        }
    }
}

/// The pair of the least cost.
fn least(costs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let less = |best: (f64, f64), other: (f64, f64)| if other.0 < best.0 { other } else { best };
    costs.fold((f64::INFINITY, 0.0), less)
}

/// The price with the highest bound for all blocks. The bound is concave in the price, and rises while the blocks keep
/// more bytes than there is room for.
fn best_price(room: f64, at: &impl Fn(f64) -> Costs) -> f64 {
    let is_too_low = |price: f64| at(price).bytes > room;
    if !is_too_low(0.0) {
        return 0.0;
    }
    let mut above = LOWEST;
    while is_too_low(above) && above < 1.0 {
        above *= 4.0;
    }
    let mut below = above / 4.0;
    for _ in 0..HALVINGS {
        let middle = below.midpoint(above);
        if is_too_low(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
    above
}

/// The lowest peak of a block, values of other blocks not counted.
fn least_peak(block: &Block<'_>) -> usize {
    let ways = [Some(block.ways), block.inverted].into_iter().flatten();
    let ways = ways.flat_map(|ways| ways.best.iter().chain([&ways.smallest]));
    let peaks = ways.map(|way| way.forward.max(way.backward + block.waiting));
    peaks.min().unwrap_or(0)
}
