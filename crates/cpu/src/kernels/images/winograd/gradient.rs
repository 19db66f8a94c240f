//! The gradient of a convolution's weight by minimal filtering. Chunks of tiles are transformed, those of images and
//! those of cotangents, and multiplied with each other; each sum is one chain over all tiles, and is transformed at the
//! end.

use std::ops::Range;

use lessen_graph::ops::Conv2dSizes;

use super::super::super::kernel::{Round, WholeKernel, Work};
use super::tiles::Tiles;
use super::transforms::{OUTPUTS, transform_cotangents, transform_pixels, transform_sums};
use super::{GAP, PANEL, POINTS, is_worth, slice};
use crate::kernels::x86::words::Word;
use crate::kernels::x86::words::outer::{Cotangents, Outer};

/// Bytes of the transformed tiles of a chunk, and the fewest tiles of one.
const CHUNK: usize = 4 << 20;
const FEWEST: usize = 48;

/// Tiles that a task transforms.
const TILES: usize = 4;

/// Tiles that a task adds up at once, so that a panel of their cotangents stays in the first-level cache.
const BLOCK: usize = 96;

/// Inputs of the weight that a task transforms.
const INPUTS: usize = 8;

/// The shape of the gradient, and how it is cut.
#[derive(Clone, Copy)]
struct Gradient {
    tiles: Tiles,
    inputs: usize,
    outputs: usize,
    /// Outputs of a slice, which the memory for sums holds.
    slice: usize,
    /// Tiles of a chunk.
    chunk: usize,
}

impl Gradient {
    fn of(tiles: Tiles, inputs: usize, outputs: usize) -> Gradient {
        let slice = slice(inputs, outputs);
        let most = (CHUNK / (POINTS * (inputs + slice) * size_of::<f32>())).max(FEWEST);
        let chunks = tiles.count().div_ceil(most).max(1);
        Gradient {
            tiles,
            inputs,
            outputs,
            slice,
            chunk: tiles.count().div_ceil(chunks),
        }
    }

    /// Elements from one element of the transformed images, of the transformed cotangents or of the sums to the next.
    fn apart(&self) -> [usize; 3] {
        [
            self.chunk * self.inputs + GAP,
            self.chunk * self.slice + GAP,
            self.inputs * self.slice + GAP,
        ]
    }

    /// Where these begin in shared memory.
    fn places(&self, shared: *mut u8) -> [*mut f32; 3] {
        let [images, cotangents, _] = self.apart();
        let first = shared.cast::<f32>();
        let second = first.wrapping_add(POINTS * images);
        [first, second, second.wrapping_add(POINTS * cotangents)]
    }

    fn shared(&self) -> usize {
        let numbers: usize = self.apart().iter().map(|apart| POINTS * apart).sum();
        numbers * size_of::<f32>()
    }

    /// Transforms some tiles of a chunk. A panel of the cotangents has the tiles' rows one after another.
    ///
    /// # Safety
    /// See [`Work`]; the shared memory has [`Gradient::shared`], and nobody else accesses these tiles there.
    unsafe fn transform(&self, w: &Work<'_>, outputs: &Range<usize>, chunk: &Range<usize>, task: usize) {
        let [of_images, of_cotangents, _] = self.apart();
        let [images, cotangents, _] = self.places(w.shared);
        for i in task * TILES..chunk.len().min((task + 1) * TILES) {
            let tile = chunk.start + i;
            let (read, written) = (self.tiles.read(tile), self.tiles.written(tile));
            // SAFETY: passed on.
            unsafe {
                let to = images.add(i * self.inputs);
                transform_pixels(&read, self.inputs, self.inputs, w.x(0), to, of_images);
                for first in (0..outputs.len()).step_by(PANEL) {
                    let count = PANEL.min(outputs.len() - first);
                    let dy = w.x(1).add(outputs.start + first);
                    let to = cotangents.add(self.chunk * first + i * count);
                    transform_cotangents(&written, self.outputs, count, dy, to, of_cotangents);
                }
            }
        }
    }

    /// Adds the products of a chunk's tiles to the sums of a panel for one element of tiles.
    ///
    /// # Safety
    /// See [`Work`]; the tiles are transformed, and nobody else accesses these sums.
    unsafe fn add(&self, w: &Work<'_>, outputs: &Range<usize>, chunk: &Range<usize>, task: usize) {
        let panels = outputs.len().div_ceil(PANEL);
        let (point, first) = (task / panels, task % panels * PANEL);
        let count = PANEL.min(outputs.len() - first);
        let [of_images, of_cotangents, of_sums] = self.apart();
        let [images, cotangents, sums] = self.places(w.shared);
        let pointers = w.scratch.cast::<*const u8>();
        for from in (0..chunk.len()).step_by(BLOCK) {
            let outer = Outer {
                pixels: BLOCK.min(chunk.len() - from),
                inputs: self.inputs,
                outputs: count,
            };
            // SAFETY: passed on; the scratch has room for pointers to the tiles of a block.
            unsafe {
                for i in 0..outer.pixels {
                    let row = images.add(point * of_images + (from + i) * self.inputs);
                    pointers.add(i).write(row.cast_const().cast());
                }
                let dy = cotangents.add(point * of_cotangents + self.chunk * first + from * count);
                let to = sums.add(point * of_sums + self.inputs * first);
                Cotangents::new::<f32>(outer, dy, count, w.scratch).add_words::<f32>(
                    pointers,
                    to,
                    chunk.start + from > 0,
                );
            }
        }
    }

    /// Makes the gradient of some inputs of a slice of its sums.
    ///
    /// # Safety
    /// See [`Work`]; the sums are there, and nobody else accesses these inputs of the result.
    unsafe fn end(&self, w: &Work<'_>, outputs: &Range<usize>, task: usize) {
        let [.., of_sums] = self.apart();
        let [.., sums] = self.places(w.shared);
        for first in (0..outputs.len()).step_by(OUTPUTS) {
            let panel = first / PANEL * PANEL;
            let width = PANEL.min(outputs.len() - panel);
            let count = OUTPUTS.min(outputs.len() - first);
            for input in task * INPUTS..self.inputs.min((task + 1) * INPUTS) {
                // SAFETY: passed on.
                unsafe {
                    let from = sums.add(self.inputs * panel + input * width + first - panel);
                    let to = w.y(0).add(((outputs.start + first) * self.inputs + input) * 9);
                    transform_sums(from, of_sums, count, to, self.inputs * 9);
                }
            }
        }
    }

    /// The rounds: slice by slice all chunks are transformed and added up, and the sums are transformed.
    fn rounds(self) -> Vec<Round> {
        let mut rounds = Vec::new();
        for start in (0..self.outputs).step_by(self.slice) {
            let outputs = start..self.outputs.min(start + self.slice);
            for start in (0..self.tiles.count()).step_by(self.chunk) {
                let chunk = start..self.tiles.count().min(start + self.chunk);
                let of_chunk = (outputs.clone(), chunk.clone());
                rounds.push(Round {
                    tasks: chunk.len().div_ceil(TILES),
                    // SAFETY: see `Work`; each task has tiles of its own.
                    run: Box::new(move |w, task| unsafe { self.transform(w, &of_chunk.0, &of_chunk.1, task) }),
                });
                let of_chunk = (outputs.clone(), chunk);
                rounds.push(Round {
                    tasks: POINTS * outputs.len().div_ceil(PANEL),
                    // SAFETY: see `Work`; the round before has transformed the tiles.
                    run: Box::new(move |w, task| unsafe { self.add(w, &of_chunk.0, &of_chunk.1, task) }),
                });
            }
            rounds.push(Round {
                tasks: self.inputs.div_ceil(INPUTS),
                // SAFETY: see `Work`; the rounds before have added up all chunks.
                run: Box::new(move |w, task| unsafe { self.end(w, &outputs, task) }),
            });
        }
        rounds
    }
}

/// The kernel of the gradient by minimal filtering, where that is worth it and the machine has vectors for it;
/// elsewhere the kernel `other`, with memory for either.
pub(in super::super) fn gradient(sizes: Conv2dSizes, other: WholeKernel) -> WholeKernel {
    let (inputs, outputs) = (sizes.inputs, sizes.outputs);
    let Some(tiles) = Tiles::of_windows(sizes).filter(|tiles| is_worth(tiles, inputs, outputs)) else {
        return other;
    };
    let gradient = Gradient::of(tiles, inputs, outputs);
    let shared = gradient.shared().max(other.scratch.shared);
    let worker = (BLOCK * size_of::<usize>()).max(other.scratch.worker);
    let kernel = if f32::is_used() {
        WholeKernel::rounds(move |_| gradient.rounds())
    } else {
        other
    };
    kernel.with_shared(shared).with_scratch(worker)
}
