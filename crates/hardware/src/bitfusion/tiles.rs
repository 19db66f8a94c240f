//! The tiles of a pass, and the order of the loops over them: least cycles, then least energy.
//!
//! A pass is one convolution or product without groups. Its loops run over tiles of images, output rows and columns,
//! input channels and output channels, whose sizes are powers of two; 120 orders are possible. A buffer that holds the
//! tiles of inner loops is read from memory once for them. The search skips tiles that cannot be better than the best
//! so far, and orders that differ in nothing, so that its result is that of the whole search.

use lessen_base::{Error, Result};

use super::accelerator::{Accelerator, OUTPUT_BITS};
use crate::layer::Bits;

/// Number of loops over tiles: images, output rows, output columns, input channels, output channels.
const LOOPS: usize = 5;

/// One convolution or product, as the array computes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pass {
    /// Extents of the loops: images, output rows, output columns, input channels that an output reads, output channels.
    pub extents: [u64; LOOPS],
    /// Taps of a window.
    pub kernel: [u64; 2],
    /// Pixels from window to window.
    pub stride: [u64; 2],
    /// Pixels from the first to the last tap.
    pub reach: [u64; 2],
    /// Whether memory holds every window by itself (im2col).
    pub windows_apart: bool,
    /// Whether the taps of a window lie on the array's rows beside the input channels, and not one after another.
    pub taps_on_rows: bool,
    /// Output channels that read the same input channels, where the columns of the array read other ones.
    pub group_outputs: Option<u64>,
}

/// Cycles and traffic of a pass with its best tiles. Traffic is counted in bits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Taken {
    /// All cycles.
    pub cycles: u64,
    /// Cycles in which the array multiplies.
    pub compute_cycles: u64,
    /// Reads and writes of the weights' buffer.
    pub weights: [u64; 2],
    /// Reads and writes of the activations' buffer.
    pub activations: [u64; 2],
    /// Reads and writes of the partial sums' buffer.
    pub outputs: [u64; 2],
    /// Reads and writes of memory.
    pub dram: [u64; 2],
}

impl Taken {
    /// Energies in pJ: array, buffers of weights, activations and partial sums, memory.
    pub fn energies(&self, accelerator: &Accelerator) -> [f64; 5] {
        let costs = &accelerator.energy;
        let both = |[read, written]: [u64; 2], a: f64, b: f64| read as f64 * a + written as f64 * b;
        [
            self.compute_cycles as f64 * costs.core_cycle,
            both(self.weights, costs.weight_read, costs.weight_write),
            both(self.activations, costs.activation_read, costs.activation_write),
            both(self.outputs, costs.output_read, costs.output_write),
            both(self.dram, costs.dram, costs.dram),
        ]
    }
}

/// Tiles of a pass: their sizes, and how many there are along each loop.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    size: [u64; LOOPS],
    count: [u64; LOOPS],
}

impl Tiling {
    /// Tiles in all.
    fn tiles(&self) -> u64 {
        self.count.iter().product()
    }

    /// Tiles along these loops.
    fn along(&self, depends: [bool; LOOPS]) -> u64 {
        let counts = self.count.iter().zip(depends);
        counts
            .map(|(&count, depends)| if depends { count } else { 1 })
            .product()
    }
}

/// The part of a pass that lies in one buffer.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Bits from memory in all loops so far.
    total: u64,
    /// Bits that the buffer holds at most.
    largest: u64,
    /// Whether the buffer holds the tiles of all loops so far.
    fits: bool,
}

impl Held {
    fn of(tile: u64) -> Held {
        Held {
            total: tile,
            largest: tile,
            fits: true,
        }
    }

    /// The part within one more loop, around those so far.
    fn around(self, count: u64, depends: bool, half: u64) -> Held {
        if self.fits && !depends {
            return self;
        }
        let total = self.total * count;
        let fits = self.fits && total <= half;
        Held {
            total,
            largest: if fits { total } else { self.largest },
            fits,
        }
    }
}

/// Tiles, with the amounts that do not depend on the order of the loops.
struct Candidate {
    tiling: Tiling,
    /// Bits of one tile of weights, activations and partial sums.
    tile: [u64; 3],
    compute_cycles: u64,
    least_cycles: u64,
}

/// The search for one pass.
struct Search<'a> {
    pass: &'a Pass,
    accelerator: &'a Accelerator,
    bits: Bits,
    /// Products of these bits that one column adds up in a cycle.
    depth: u64,
    /// Bits of half of each buffer: weights, activations, partial sums.
    half: [u64; 3],
    /// The loops on which each buffer's content depends.
    depends: [[bool; LOOPS]; 3],
    best: Option<(Taken, f64)>,
}

/// The best tiles of a pass.
///
/// # Errors
/// Bits that the accelerator does not have; a pass that is too large to count, or of which no tile fits the buffers.
pub(super) fn best(pass: &Pass, accelerator: &Accelerator, bits: Bits) -> Result<Taken> {
    let depth = accelerator.rows * accelerator.fused(bits)?;
    let buffers = [
        accelerator.weight_buffer,
        accelerator.activation_buffer,
        accelerator.output_buffer,
    ];
    let mut search = Search {
        pass,
        accelerator,
        bits,
        depth,
        half: buffers.map(|bytes| bytes * 4),
        depends: [
            [false, false, false, true, true],
            [true, true, true, true, pass.group_outputs.is_some()],
            [true, true, true, false, true],
        ],
        best: None,
    };
    search.check_size()?;
    let mut candidates = search.candidates();
    candidates.sort_by_key(|candidate| candidate.least_cycles);
    for candidate in &candidates {
        let best = search.best.map_or(u64::MAX, |(taken, _)| taken.cycles);
        if candidate.least_cycles > best {
            break;
        }
        search.order(candidate);
    }
    match search.best {
        Some((taken, _)) => Ok(taken),
        None => Err(Error::user(format!(
            "no tile of it fits half of the buffers of {}: {} bytes of weights, {} of activations, {} of partial sums; \
             give an accelerator with larger ones",
            accelerator.name,
            accelerator.weight_buffer / 2,
            accelerator.activation_buffer / 2,
            accelerator.output_buffer / 2
        ))),
    }
}

/// Powers of two below an extent, in this unit, and the extent.
fn sizes(extent: u64, unit: u64) -> impl Iterator<Item = u64> {
    let below = std::iter::successors(Some(unit), |size| size.checked_mul(2));
    below.take_while(move |&size| size < extent).chain([extent])
}

impl Search<'_> {
    /// Checks in `f64` that no amount of any tiling exceeds 2^62.
    fn check_size(&self) -> Result<()> {
        let f = |extent: u64| extent as f64;
        let [images, rows, columns, inputs, outputs] = self.pass.extents.map(f);
        let taps = f(self.pass.kernel[0]) * f(self.pass.kernel[1]);
        let depth = f(self.depth);
        let width = f(self.accelerator.columns);
        let windows = 8.0 * images * rows * columns;
        let step = |axis: usize| f(self.pass.reach[axis]) + f(self.pass.stride[axis]);
        let most = [
            windows * 4.0 * inputs * outputs * step(0) * step(1) * 64.0,
            windows * 4.0 * inputs * outputs * taps * 64.0,
            windows * inputs * (2.0 * taps + depth) * outputs * 64.0,
            windows * inputs * outputs * (2.0 + width) * 64.0,
            images * rows * columns * (inputs + depth) * taps * (outputs + width) * 128.0,
        ];
        match most.iter().all(|&amount| amount < 2f64.powi(62)) {
            true => Ok(()),
            false => Err(Error::user(format!(
                "it is too large to be tiled for {}: its traffic exceeds 2^62 bits",
                self.accelerator.name
            ))),
        }
    }

    /// All tilings of which a tile fits the buffers.
    fn candidates(&self) -> Vec<Candidate> {
        let [images, rows, columns, inputs, outputs] = self.pass.extents;
        let unit = if self.pass.windows_apart {
            1
        } else {
            self.accelerator.columns
        };
        // Rows and columns of a tile are the same power of two, as far as the output has them.
        let longest = rows.max(columns);
        let mut found = Vec::new();
        for image in sizes(images, 1) {
            for side in sizes(longest, 1) {
                for input in sizes(inputs, 1) {
                    for output in sizes(outputs, unit) {
                        let size = [image, side.min(rows), side.min(columns), input, output];
                        found.extend(self.candidate(size));
                    }
                }
            }
        }
        found
    }

    fn candidate(&self, size: [u64; LOOPS]) -> Option<Candidate> {
        let (pass, width) = (self.pass, self.accelerator.columns);
        let [images, rows, columns, inputs, outputs] = size;
        let taps = pass.kernel[0] * pass.kernel[1];
        let windows = images * rows * columns;
        let groups = pass.group_outputs.map_or(1, |of_group| outputs.div_ceil(of_group));
        let weights = (taps * inputs).div_ceil(self.depth) * self.depth * outputs * u64::from(self.bits.weights);
        let pixels = if pass.windows_apart {
            rows * columns * taps
        } else {
            (pass.reach[0] + (rows - 1) * pass.stride[0]) * (pass.reach[1] + (columns - 1) * pass.stride[1])
        };
        let activations = pixels * inputs * groups * images * u64::from(self.bits.activations);
        let sums = windows * outputs.div_ceil(width) * width * OUTPUT_BITS;
        let tile = [weights, activations, sums];
        if tile.iter().zip(self.half).any(|(&bits, half)| bits > half) {
            return None;
        }
        let mut count = [0; LOOPS];
        for (at, count) in count.iter_mut().enumerate() {
            *count = pass.extents[at].div_ceil(size[at]);
        }
        let tiling = Tiling { size, count };
        let steps = if pass.taps_on_rows {
            (taps * inputs).div_ceil(self.depth)
        } else {
            taps * inputs.div_ceil(self.depth)
        };
        let compute_cycles = tiling.tiles() * windows * outputs.div_ceil(width) * steps;
        let moved: u64 = (0..3).map(|at| tile[at] * tiling.along(self.depends[at])).sum();
        let moved = moved + sums * tiling.along(self.depends[2]);
        let latency = self.transfer(weights + activations + sums) + self.transfer(sums);
        Some(Candidate {
            tiling,
            tile,
            compute_cycles,
            least_cycles: self.transfer(moved).max(compute_cycles + latency),
        })
    }

    /// Cycles in which memory gives or takes this many bits.
    fn transfer(&self, bits: u64) -> u64 {
        bits.div_ceil(self.accelerator.memory_bits)
    }

    /// Tries all orders of the loops around these tiles.
    fn order(&mut self, candidate: &Candidate) {
        let inner = self.inner(candidate);
        let active: Vec<usize> = (0..LOOPS).filter(|&at| candidate.tiling.count[at] > 1).collect();
        self.around(candidate, &inner, &active, candidate.tile.map(Held::of));
    }

    /// Adds each of the loops that are left around those so far, innermost first.
    fn around(&mut self, candidate: &Candidate, inner: &Taken, left: &[usize], held: [Held; 3]) {
        if left.is_empty() {
            return self.finish(candidate, inner, held);
        }
        let alike = |a: usize, b: usize| {
            let depends = self.depends.iter().all(|depends| depends[a] == depends[b]);
            depends && candidate.tiling.count[a] == candidate.tiling.count[b]
        };
        // Of loops that differ in nothing, the first stands for all.
        let is_first = |at: usize| !left[..at].iter().any(|&other| alike(other, left[at]));
        let next: Vec<usize> = (0..left.len()).filter(|&at| is_first(at)).collect();
        for at in next {
            let chosen = left[at];
            let count = candidate.tiling.count[chosen];
            let mut wider = held;
            for (buffer, held) in wider.iter_mut().enumerate() {
                *held = held.around(count, self.depends[buffer][chosen], self.half[buffer]);
            }
            let others: Vec<usize> = left.iter().copied().filter(|&other| other != chosen).collect();
            self.around(candidate, inner, &others, wider);
        }
    }

    /// Reads and writes of the buffers while the array computes: the dataflow, stationary in inputs, sums or weights,
    /// that moves the fewest bits.
    fn inner(&self, candidate: &Candidate) -> Taken {
        let (pass, width) = (self.pass, self.accelerator.columns);
        let [images, rows, columns, inputs, outputs] = candidate.tiling.size;
        let taps = pass.kernel[0] * pass.kernel[1];
        let (w, a) = (u64::from(self.bits.weights), u64::from(self.bits.activations));
        let windows = images * rows * columns;
        let padded_outputs = outputs.div_ceil(width) * width;
        let padded_inputs = if pass.taps_on_rows {
            (taps * inputs).div_ceil(self.depth) * self.depth
        } else {
            inputs.div_ceil(self.depth) * self.depth * taps
        };
        let by_inputs = padded_inputs * windows * (a + padded_outputs * (w + OUTPUT_BITS));
        let by_sums = padded_outputs * windows * (OUTPUT_BITS + padded_inputs * (a + w));
        let by_weights = padded_inputs * padded_outputs * (w + windows * (a + OUTPUT_BITS));
        let least = by_inputs.min(by_sums).min(by_weights);
        let tiles = candidate.tiling.tiles();
        let products = tiles * taps * inputs * windows * outputs;
        let groups = pass.group_outputs.map_or(1, |of_group| outputs.div_ceil(of_group));
        let (weights, activations, sums) = if by_inputs == least {
            (products * w, products / outputs * groups * a, products * OUTPUT_BITS)
        } else if by_sums == least {
            (products * w, products * a, tiles * outputs * windows * OUTPUT_BITS)
        } else {
            (products / windows * w, products * a, products * OUTPUT_BITS)
        };
        Taken {
            compute_cycles: candidate.compute_cycles,
            weights: [weights, 0],
            activations: [activations, 0],
            outputs: [sums, sums],
            ..Taken::default()
        }
    }

    /// Compares one order with the best so far.
    fn finish(&mut self, candidate: &Candidate, inner: &Taken, held: [Held; 3]) {
        let [weights, activations, sums] = held;
        let read = weights.total + activations.total + sums.total;
        let first = weights.largest + activations.largest + sums.largest;
        let last = sums.largest;
        let between = self.transfer(read + sums.total - first - last);
        let waits = between.saturating_sub(candidate.compute_cycles) + self.transfer(first) + self.transfer(last);
        let cycles = candidate.compute_cycles + waits;
        if self.best.is_some_and(|(best, _)| best.cycles < cycles) {
            return;
        }
        let mut taken = *inner;
        taken.cycles = cycles;
        taken.weights[1] += weights.total;
        taken.activations[1] += activations.total;
        taken.outputs[0] += sums.total;
        taken.outputs[1] += sums.total;
        taken.dram = [read, sums.total];
        let energy: f64 = taken.energies(self.accelerator).iter().sum();
        let is_better = |(best, least): (Taken, f64)| cycles < best.cycles || energy < least;
        if self.best.is_none_or(is_better) {
            self.best = Some((taken, energy));
        }
    }
}
