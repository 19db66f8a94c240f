//! A convolution, or its derivative for the image, by minimal filtering. The weight is transformed in a first round;
//! then each task transforms the pixels of a block of tiles, multiplies them panel by panel and transforms the products
//! back, so that both stay in the second-level cache. Products are sums of two halves of the inputs, which are added up
//! apart: rounding in these sums makes most of the error.

use std::ops::Range;

use super::super::super::kernel::{FixedInput, Round, WholeKernel, Work};
use super::super::products::Products;
use super::tiles::Tiles;
use super::transforms::{OUTPUTS, transform_pixels, transform_products, transform_weights};
use super::{GAP, PANEL, POINTS, is_worth, slice};
use crate::kernels::x86::words::Word;
use crate::kernels::x86::words::right::{Left, Right};

/// Bytes of a block's transformed pixels and products, and the fewest tiles of a block, a multiple of the rows of a
/// register tile.
const BLOCK: usize = 768 << 10;
const FEWEST: usize = 24;
const ROWS: usize = 6;

/// Tasks that there are to be at least, where the shape allows it.
const TASKS: usize = 8;

/// Inputs of the weight that a task transforms.
const INPUTS: usize = 8;

/// The shape of the products, and how they are cut.
#[derive(Clone, Copy)]
struct Filtering {
    tiles: Tiles,
    products: Products,
    /// Outputs of a slice, which the memory for the transformed weight holds.
    slice: usize,
    /// Tiles of a block.
    block: usize,
}

/// The transformed weight of a slice, as right factors for the halves of the inputs; elements of tiles are
/// [`Weight::bytes`] apart.
#[derive(Clone, Copy)]
struct Weight {
    /// The slice.
    number: usize,
    halves: [Right; 2],
}

impl Weight {
    fn bytes(&self) -> usize {
        self.halves[0].bytes() + self.halves[1].bytes()
    }

    /// The byte of an input for an output that begins a vector, where the second half begins at the input `half`.
    fn at(&self, input: usize, output: usize, half: usize) -> usize {
        match input.checked_sub(half) {
            Some(input) => self.halves[0].bytes() + self.halves[1].at(input, output),
            None => self.halves[0].at(input, output),
        }
    }
}

impl Filtering {
    fn of(tiles: Tiles, products: Products) -> Filtering {
        let (inputs, outputs) = (products.inputs, products.outputs);
        let bytes = POINTS * (inputs + outputs.min(PANEL)) * size_of::<f32>();
        let most = (BLOCK / bytes).max(FEWEST);
        let shared = tiles.count().div_ceil(tiles.count().div_ceil(most).max(1));
        Filtering {
            tiles,
            products,
            slice: slice(inputs, outputs),
            block: shared.next_multiple_of(ROWS),
        }
    }

    fn slices(&self) -> usize {
        self.products.outputs.div_ceil(self.slice)
    }

    /// The outputs of a slice.
    fn outputs(&self, number: usize) -> Range<usize> {
        number * self.slice..self.products.outputs.min((number + 1) * self.slice)
    }

    /// The first input of the second half.
    fn half(&self) -> usize {
        self.products.inputs / 2
    }

    /// The transformed weight of a slice for one element of a tile.
    fn weight(&self, number: usize) -> Option<Weight> {
        let (half, columns) = (self.half(), self.outputs(number).len());
        let halves = [
            Right::new::<f32>(1, half, columns)?,
            Right::new::<f32>(1, self.products.inputs - half, columns)?,
        ];
        Some(Weight { number, halves })
    }

    /// Elements from one element of the transformed pixels, or of a half of their products, to the next.
    fn apart(&self) -> [usize; 2] {
        [self.products.inputs, PANEL].map(|channels| self.block * channels + GAP)
    }

    /// Bytes of each worker: transformed pixels, products, and pointers to the rows of both.
    fn scratch(&self) -> usize {
        let [pixels, products] = self.apart();
        POINTS * (pixels + 2 * products) * size_of::<f32>() + 2 * self.block * size_of::<usize>()
    }

    /// Tasks that transform the weight of a slice.
    fn transform_tasks(&self) -> usize {
        self.products.inputs.div_ceil(INPUTS)
    }

    /// Transforms some inputs of the weight of a slice.
    ///
    /// # Safety
    /// `weight` has the weight, `to` room for the slice's, and nobody else accesses these inputs there.
    unsafe fn transform(&self, of: Weight, task: usize, weight: *const f32, to: *mut u8) {
        let p = self.products;
        let outputs = self.outputs(of.number);
        for input in task * INPUTS..p.inputs.min((task + 1) * INPUTS) {
            for first in (0..outputs.len()).step_by(OUTPUTS) {
                let from = input * p.input_stride + (outputs.start + first) * p.output_stride;
                let count = OUTPUTS.min(outputs.len() - first);
                // SAFETY: passed on; the factor has whole vectors of columns.
                unsafe {
                    transform_weights(
                        weight.add(from),
                        p.output_stride,
                        count,
                        self.tiles.is_turned,
                        to.add(of.at(input, first, self.half())).cast(),
                        of.bytes() / size_of::<f32>(),
                    );
                }
            }
        }
    }

    /// Tasks that a block of a slice is cut into by panels: several where there are few blocks.
    fn parts(&self, number: usize) -> usize {
        let panels = self.outputs(number).len().div_ceil(PANEL);
        panels.min(TASKS.div_ceil(self.blocks())).max(1)
    }

    fn blocks(&self) -> usize {
        self.tiles.count().div_ceil(self.block)
    }

    /// Computes some panels of a slice for a block of tiles, with the slice's transformed weight.
    ///
    /// # Safety
    /// See [`Work`]; the scratch has [`Filtering::scratch`], and the weight is transformed.
    unsafe fn multiply(&self, w: &Work<'_>, of: Weight, task: usize, weight: *const u8) {
        let p = self.products;
        let (parts, outputs) = (self.parts(of.number), self.outputs(of.number));
        let (block, part) = (task / parts, task % parts);
        let tiles = block * self.block..self.tiles.count().min((block + 1) * self.block);
        let panels = outputs.len().div_ceil(PANEL);
        let [of_pixels, of_products] = self.apart();
        let pixels = w.scratch.cast::<f32>();
        let products = [0, 1].map(|half| pixels.wrapping_add(POINTS * (of_pixels + half * of_products)));
        let read = products[1].wrapping_add(POINTS * of_products).cast::<*const u8>();
        let written = read.wrapping_add(self.block).cast::<*mut f32>();
        // SAFETY: passed on; the scratch has room for the transformed tiles, their products and pointers to both.
        unsafe {
            for (i, tile) in tiles.clone().enumerate() {
                let to = pixels.add(i * p.inputs);
                transform_pixels(&self.tiles.read(tile), p.inputs, p.inputs, w.x(0), to, of_pixels);
            }
            for panel in part * panels / parts..(part + 1) * panels / parts {
                let first = panel * PANEL;
                let columns = first..outputs.len().min(first + PANEL);
                for (point, half) in (0..POINTS).flat_map(|point| [(point, 0), (point, 1)]) {
                    for i in 0..tiles.len() {
                        let row = point * of_pixels + i * p.inputs + half * self.half();
                        read.add(i).write(pixels.add(row).cast());
                        let row = products[half].add(point * of_products + i * PANEL);
                        written.add(i).write(row.wrapping_sub(first));
                    }
                    let left = Left {
                        pointers: read,
                        apart: self.block,
                        rows: tiles.len(),
                        zeros: std::ptr::null(),
                    };
                    let packed = weight.add(point * of.bytes() + half * of.halves[0].bytes());
                    of.halves[half].multiply::<f32>(left, (packed, columns.clone()), written, false);
                }
                let y = w.y(0).add(outputs.start + first);
                for (i, tile) in tiles.clone().enumerate() {
                    let halves = products.map(|half| half.add(i * PANEL).cast_const());
                    transform_products(
                        &self.tiles.written(tile),
                        p.outputs,
                        columns.len(),
                        halves,
                        of_products,
                        y,
                    );
                }
            }
        }
    }

    /// The rounds: slice by slice the weight is transformed, and blocks of tiles are multiplied with it.
    fn rounds(self) -> Vec<Round> {
        let slices = (0..self.slices()).filter_map(move |number| self.weight(number));
        let rounds = slices.flat_map(move |of| {
            let transform = Round {
                tasks: self.transform_tasks(),
                // SAFETY: see `Work`; the shared memory has room for the slice's weight.
                run: Box::new(move |w, task| unsafe { self.transform(of, task, w.x(1), w.shared) }),
            };
            let multiply = Round {
                tasks: self.blocks() * self.parts(of.number),
                // SAFETY: see `Work`; the round before has transformed the weight.
                run: Box::new(move |w, task| unsafe { self.multiply(w, of, task, w.shared) }),
            };
            [transform, multiply]
        });
        rounds.collect()
    }

    /// The replacement of the rounds where the weight never changes: all slices are transformed once.
    fn fixed(self) -> FixedInput {
        let mut bytes = 0;
        let mut slices = Vec::new();
        for number in 0..self.slices() {
            if let Some(of) = self.weight(number) {
                slices.push((of, bytes));
                bytes += POINTS * of.bytes();
            }
        }
        let (tasks, packed) = (self.transform_tasks(), slices.clone());
        let multiply = slices.into_iter().map(move |(of, at)| Round {
            tasks: self.blocks() * self.parts(of.number),
            // SAFETY: see `Work`; the weight is transformed.
            run: Box::new(move |w, task| unsafe {
                self.multiply(w, of, task, w.packed::<u8>(1).add(at));
            }),
        });
        FixedInput {
            input: 1,
            bytes,
            rounds: multiply.collect(),
            pack: Round {
                tasks: tasks * self.slices(),
                run: Box::new(move |w, task| {
                    let (of, at) = packed[task / tasks];
                    // SAFETY: see `Work`; the transformed weight has memory of its own.
                    unsafe { self.transform(of, task % tasks, w.x(1), w.shared.add(at)) };
                }),
            },
        }
    }
}

/// The kernel of these products by minimal filtering, where that is worth it and the machine has vectors for it;
/// elsewhere the kernel `other`, with memory for either.
pub(in super::super) fn product(tiles: Option<Tiles>, products: Products, other: WholeKernel) -> WholeKernel {
    let Some(tiles) = tiles.filter(|tiles| is_worth(tiles, products.inputs, products.outputs)) else {
        return other;
    };
    let filtering = Filtering::of(tiles, products);
    let Some(weight) = filtering.weight(0) else {
        return other;
    };
    let shared = (POINTS * weight.bytes()).max(other.scratch.shared);
    let worker = filtering.scratch().max(other.scratch.worker);
    let kernel = if f32::is_used() {
        WholeKernel::rounds(move |_| filtering.rounds())
    } else {
        other
    };
    let kernel = if f32::is_packed(0) {
        kernel.with_fixed(move || filtering.fixed())
    } else {
        kernel
    };
    kernel.with_shared(shared).with_scratch(worker)
}
