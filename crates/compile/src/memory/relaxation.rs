//! A lower bound of the seconds of blocks: bytes cost seconds instead of being limited (Lagrangian relaxation), and the
//! blocks do what is cheapest then.

use super::compose::Block;

/// Prices beside the best one, as parts of it: states between two blocks have more or less room left than the start.
const PRICES: [f64; 7] = [0.0, 0.6, 0.85, 1.0, 1.15, 1.5, 2.5];

/// The lowest price beside none, in seconds per byte.
const LOWEST: f64 = 1e-15;

/// Halvings of the interval that holds the best price, which is four times its lower end.
const HALVINGS: usize = 12;

/// What a block adds to the bytes that are kept, and the seconds that it takes then.
type Step = (f64, f64);

/// What a block can do.
struct Steps {
    /// By itself, in each way.
    alone: Vec<Step>,
    /// As the first one of a segment.
    first: Step,
    /// Within a segment, neither the first nor the last.
    inner: Step,
    /// As the last one of a segment.
    last: Step,
}

/// The least costs of blocks at a price.
struct Costs {
    /// Seconds per byte.
    price: f64,
    /// Of each block and all behind it, where no segment is open before it.
    closed: Vec<f64>,
    /// The same where a segment is open.
    open: Vec<f64>,
    /// Bytes that the blocks keep at these costs.
    bytes: f64,
}

/// Lower bounds of the seconds of each block and all behind it, for the bytes that those before it keep.
pub(super) struct Relaxation {
    costs: Vec<Costs>,
    /// The most bytes that all blocks before the last one can keep.
    room: f64,
}

impl Relaxation {
    /// The bounds of blocks within a limit of bytes, with segments or without.
    pub fn of(blocks: &[Block<'_>], limit: usize, segments: bool) -> Relaxation {
        let steps: Vec<Steps> = blocks.iter().map(Steps::of).collect();
        let room = limit as f64 - blocks.last().map_or(0, least_peak) as f64;
        let at = |price: f64| Costs::at(price, &steps, segments);
        let best = best_price(room, &at);
        let costs = PRICES.iter().map(|part| at(part * best)).collect();
        Relaxation { costs, room }
    }

    /// The block at the position and all behind it take no less where those before keep so many bytes.
    pub fn least(&self, at: usize, kept: usize, is_open: bool) -> f64 {
        let left = self.room - kept as f64;
        let bounds = self.costs.iter().map(|costs| {
            let cost = if is_open { costs.open[at] } else { costs.closed[at] };
            cost - costs.price * left
        });
        bounds.fold(0.0, f64::max)
    }
}

impl Steps {
    fn of(block: &Block<'_>) -> Steps {
        let mut alone = Vec::new();
        for ways in [Some(block.ways), block.inverted].into_iter().flatten() {
            for way in &ways.best {
                let entry = way.form.map_or(block.entry, |form| block.rounded_entry[form as usize]);
                let kept = (entry + way.kept).saturating_sub(block.inverted_next);
                alone.push((kept as f64, way.seconds));
            }
        }
        // What a block of a segment keeps is there no longer than the segment.
        let fastest = block.ways.best[0].seconds.min(block.ways.smallest.seconds);
        let again = fastest + block.ways.forward_seconds;
        Steps {
            alone,
            first: (block.entry as f64, again),
            inner: (0.0, again),
            last: (0.0, block.ways.smallest.seconds),
        }
    }
}

impl Costs {
    fn at(price: f64, steps: &[Steps], segments: bool) -> Costs {
        let n = steps.len();
        // Behind the last block no segment is open.
        let (mut closed, mut open) = (vec![(0.0, 0.0); n + 1], vec![(f64::INFINITY, 0.0); n + 1]);
        for (at, steps) in steps.iter().enumerate().rev() {
            // What the last block keeps is not there with what a later block takes.
            let price = if at + 1 == n { 0.0 } else { price };
            let to = |after: (f64, f64), step: Step| (after.0 + step.1 + price * step.0, after.1 + step.0);
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

/// The price at which the bound of all blocks is highest: it is concave in the price, and rises where the blocks keep
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

/// The fewest bytes that a block takes at once, besides what others keep.
fn least_peak(block: &Block<'_>) -> usize {
    let ways = [Some(block.ways), block.inverted].into_iter().flatten();
    let ways = ways.flat_map(|ways| ways.best.iter().chain([&ways.smallest]));
    let peaks = ways.map(|way| way.forward.max(way.backward + block.waiting));
    peaks.min().unwrap_or(0)
}
