//! A convolution, or its derivative for the image, by minimal filtering. The weight is transformed in a first round;
//! then each task transforms the pixels of a block of tiles, multiplies them panel by panel and transforms the products
//! back, so that both stay in the second-level cache.

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

    /// The transformed weight of a slice for one element of a tile, as a right factor.
    fn right(&self, number: usize) -> Option<Right> {
        Right::new::<f32>(1, self.products.inputs, self.outputs(number).len())
    }

    /// Elements from one element of the transformed pixels, or of their products, to the next.
    fn apart(&self) -> [usize; 2] {
        [self.products.inputs, PANEL].map(|channels| self.block * channels + GAP)
    }

    /// Bytes of each worker: transformed pixels, products, and pointers to the rows of both.
    fn scratch(&self) -> usize {
        let numbers: usize = self.apart().iter().map(|apart| POINTS * apart).sum();
        numbers * size_of::<f32>() + 2 * self.block * size_of::<usize>()
    }

    /// Tasks that transform the weight of a slice.
    fn transform_tasks(&self) -> usize {
        self.products.inputs.div_ceil(INPUTS)
    }

    /// Transforms some inputs of the weight of a slice.
    ///
    /// # Safety
    /// `weight` has the weight, `to` room for the slice's, and nobody else accesses these inputs there.
    unsafe fn transform(&self, (number, right): (usize, Right), task: usize, weight: *const f32, to: *mut u8) {
        let p = self.products;
        let outputs = self.outputs(number);
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
                        to.add(right.at(input, first)).cast(),
                        right.bytes() / size_of::<f32>(),
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
    unsafe fn multiply(&self, w: &Work<'_>, (number, right): (usize, Right), task: usize, weight: *const u8) {
        let p = self.products;
        let (parts, outputs) = (self.parts(number), self.outputs(number));
        let (block, part) = (task / parts, task % parts);
        let tiles = block * self.block..self.tiles.count().min((block + 1) * self.block);
        let panels = outputs.len().div_ceil(PANEL);
        let [of_pixels, of_products] = self.apart();
        let pixels = w.scratch.cast::<f32>();
        let products = pixels.wrapping_add(POINTS * of_pixels);
        let read = products.wrapping_add(POINTS * of_products).cast::<*const u8>();
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
                for point in 0..POINTS {
                    for i in 0..tiles.len() {
                        read.add(i).write(pixels.add(point * of_pixels + i * p.inputs).cast());
                        let row = products.add(point * of_products + i * PANEL);
                        written.add(i).write(row.wrapping_sub(first));
                    }
                    let left = Left {
                        pointers: read,
                        apart: self.block,
                        rows: tiles.len(),
                        zeros: std::ptr::null(),
                    };
                    let packed = weight.add(point * right.bytes());
                    right.multiply::<f32>(left, (packed, columns.clone()), written, false);
                }
                let y = w.y(0).add(outputs.start + first);
                for (i, tile) in tiles.clone().enumerate() {
                    let from = products.add(i * PANEL);
                    transform_products(
                        &self.tiles.written(tile),
                        p.outputs,
                        columns.len(),
                        from,
                        of_products,
                        y,
                    );
                }
            }
        }
    }

    /// The rounds: slice by slice the weight is transformed, and blocks of tiles are multiplied with it.
    fn rounds(self) -> Vec<Round> {
        let slices = (0..self.slices()).filter_map(move |number| Some((number, self.right(number)?)));
        let rounds = slices.flat_map(move |of_slice| {
            let transform = Round {
                tasks: self.transform_tasks(),
                // SAFETY: see `Work`; the shared memory has room for the slice's weight.
                run: Box::new(move |w, task| unsafe { self.transform(of_slice, task, w.x(1), w.shared) }),
            };
            let multiply = Round {
                tasks: self.blocks() * self.parts(of_slice.0),
                // SAFETY: see `Work`; the round before has transformed the weight.
                run: Box::new(move |w, task| unsafe { self.multiply(w, of_slice, task, w.shared) }),
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
            if let Some(right) = self.right(number) {
                slices.push((number, right, bytes));
                bytes += POINTS * right.bytes();
            }
        }
        let (tasks, packed) = (self.transform_tasks(), slices.clone());
        let multiply = slices.into_iter().map(move |(number, right, at)| Round {
            tasks: self.blocks() * self.parts(number),
            // SAFETY: see `Work`; the weight is transformed.
            run: Box::new(move |w, task| unsafe {
                self.multiply(w, (number, right), task, w.packed::<u8>(1).add(at));
            }),
        });
        FixedInput {
            input: 1,
            bytes,
            rounds: multiply.collect(),
            pack: Round {
                tasks: tasks * self.slices(),
                run: Box::new(move |w, task| {
                    let (number, right, at) = packed[task / tasks];
                    // SAFETY: see `Work`; the transformed weight has memory of its own.
                    unsafe { self.transform((number, right), task % tasks, w.x(1), w.shared.add(at)) };
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
    let Some(right) = filtering.right(0) else {
        return other;
    };
    let shared = (POINTS * right.bytes()).max(other.scratch.shared);
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
