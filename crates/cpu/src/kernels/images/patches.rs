//! Convolution as products of patches with a matrix: the pixels that a block of pixels of the result reads are written
//! side by side, zeros in place of padding, and multiplied with the weight.

use std::ops::Range;

use lessen_graph::ops::{Conv2dSizes, Slide};

use super::super::kernel::{Round, WholeKernel};
use super::super::rows::Rows;
use super::direct::direct;
use super::factor::Factor;
use super::products::Products;
use super::reads::Pixels;
use super::sums::{Block, Sums};
use crate::kernels::x86::amx::right::Right;

/// Pixels of a block.
const BLOCK: usize = 128;

/// The least channels of a group of the result that are computed on packed panels, whose columns are padded to 32.
const LEAST: usize = 16;

/// Writes the patches of the pixels of a block for some taps and `count` channels from `first` on: for each pixel the
/// taps one after another.
///
/// # Safety
/// `x` has the images, and `to` room for the patches.
pub(super) unsafe fn write_patches<N: Factor>(
    pixels: &Pixels<usize>,
    width: usize,
    block: Range<usize>,
    taps: Range<usize>,
    (first, count): (usize, usize),
    x: *const N,
    to: *mut N,
) {
    let len = taps.len() * count;
    for (i, pixel) in block.enumerate() {
        let row = pixels.row(pixel / pixels.columns.len());
        let columns = row.columns.of(pixel % pixels.columns.len());
        // SAFETY: the patch is the pixel's, and the pixels that it reads lie in the image.
        unsafe {
            let patch = to.add(i * len);
            patch.write_bytes(0, len);
            for (read, column) in row.rows.iter().flat_map(|read| columns.iter().map(move |c| (read, c))) {
                let tap = read.by * width + column.by;
                if taps.contains(&tap) {
                    let from = x.add(row.image + read.at * row.line + column.at * row.channels + first);
                    from.copy_to_nonoverlapping(patch.add((tap - taps.start) * count), count);
                }
            }
        }
    }
}

/// Chunks of taps whose patches are written at once, each with its first tap, its taps, and where its packed weight
/// begins.
#[derive(Clone)]
struct Chunks {
    chunks: Vec<Chunk>,
    /// Bytes of the packed weights of a group.
    bytes: usize,
    /// The most bytes of the packed rows of a block.
    scratch: usize,
}

#[derive(Clone)]
struct Chunk {
    taps: Range<usize>,
    at: usize,
    right: Right,
}

impl Chunks {
    fn of<N: Factor>(p: &Products) -> Chunks {
        let step = p.taps_at_once();
        let mut all = Chunks {
            chunks: Vec::new(),
            bytes: 0,
            scratch: 0,
        };
        for first in (0..p.count()).step_by(step) {
            let taps = first..p.count().min(first + step);
            let right = Right::new::<N>(taps.len() * p.inputs, p.outputs);
            all.chunks.push(Chunk {
                taps,
                at: all.bytes,
                right,
            });
            all.bytes += right.bytes().next_multiple_of(64);
            all.scratch = all.scratch.max(right.scratch(BLOCK));
        }
        all
    }
}

/// The kernel, which rounds results to `bf16` where `narrow` is set. The weight of each group is turned, chunk by chunk
/// packed, and multiplied with patches.
pub(super) fn patches<N: Factor>(
    sizes: Conv2dSizes,
    read: fn(Conv2dSizes) -> Pixels<usize>,
    p: Products,
    narrow: bool,
) -> WholeKernel {
    let (taps, step, pixels) = (p.count(), p.taps_at_once(), p.images * p.image);
    let weight = p.inputs * p.outputs;
    let turned_bytes = (p.groups * taps * weight * size_of::<N>()).next_multiple_of(64);
    let patch_bytes = (BLOCK * step * p.inputs * size_of::<N>()).next_multiple_of(64);
    let chunks = Chunks::of::<N>(&p);
    let is_worth = p.outputs >= LEAST;
    let (packed, strips) = if is_worth {
        (p.groups * chunks.bytes, chunks.scratch)
    } else {
        (0, 0)
    };
    // Memory after the patches: strips, or the factors of another product where strips cannot hold the numbers.
    let after = strips.max(N::product_bytes(BLOCK, p.outputs)).next_multiple_of(64);
    let sums = Sums::new(narrow, p);
    let (shared, scratch) = (turned_bytes + packed, patch_bytes + after + sums.bytes(BLOCK));
    let kernel = WholeKernel::rounds(move |_| {
        let turn = Round {
            tasks: p.groups * taps,
            run: Box::new(move |w, task| {
                // SAFETY: see `Work`; the shared scratch has as many elements as the weight.
                unsafe {
                    let to = w.shared.cast::<N>().add(task * weight);
                    p.turn(task / taps, task % taps, w.dense::<N>(1), to);
                }
            }),
        };
        let packed = chunks.clone();
        let pack = Round {
            tasks: if is_worth && Right::is_used() {
                p.groups * packed.chunks.len()
            } else {
                0
            },
            run: Box::new(move |w, task| {
                let (group, chunk) = (task / packed.chunks.len(), &packed.chunks[task % packed.chunks.len()]);
                // SAFETY: see `Work`; the round before has written the weights.
                unsafe {
                    let turned = w.shared.cast::<N>().add((group * taps + chunk.taps.start) * weight);
                    chunk
                        .right
                        .pack(turned, w.shared.add(turned_bytes + group * packed.bytes + chunk.at));
                }
            }),
        };
        let (read, chunks, on_tiles) = (read(sizes), chunks.clone(), is_worth && Right::is_used());
        let multiply = Round {
            tasks: pixels.div_ceil(BLOCK),
            run: Box::new(move |w, task| {
                let block = task * BLOCK..pixels.min((task + 1) * BLOCK);
                let to = w.scratch.cast::<N>();
                for (group, chunk) in (0..p.groups).flat_map(|g| chunks.chunks.iter().map(move |chunk| (g, chunk))) {
                    let first = chunk.taps.start;
                    let k = chunk.taps.len() * p.inputs;
                    let channels = (group * p.inputs, p.inputs);
                    // SAFETY: see `Work`; the scratch has room for the patches of a block and their strips, and the
                    // rounds before have written and packed the weights.
                    unsafe {
                        write_patches(
                            &read,
                            p.taps[1],
                            block.clone(),
                            chunk.taps.clone(),
                            channels,
                            w.dense::<N>(0),
                            to,
                        );
                        let of_block = Block {
                            pixels: block.clone(),
                            group,
                            room: w.scratch.add(patch_bytes + after),
                            levels: std::ptr::null(),
                        };
                        let (y, row) = sums.begin(w.outputs[0], &of_block);
                        let packed = w.shared.add(turned_bytes + group * chunks.bytes + chunk.at);
                        let after = w.scratch.add(patch_bytes);
                        let patches = (to.cast_const(), block.len());
                        if !on_tiles || !chunk.right.multiply(patches, packed, (y, row), first > 0, after) {
                            let turned = w.shared.cast::<N>().add((group * taps + first) * weight);
                            N::product(
                                (block.len(), k, p.outputs),
                                Rows::dense(to, k),
                                Rows::dense(turned, p.outputs),
                                Rows { ptr: y, row, col: 1 },
                                first > 0,
                                after,
                            );
                        }
                        if chunk.taps.end == taps {
                            sums.end(w, &of_block, 0..p.outputs);
                        }
                    }
                }
            }),
        };
        vec![turn, pack, multiply]
    })
    .with_shared(shared)
    .with_scratch(scratch);
    let of_runs = Conv2dSizes {
        columns: Slide {
            taps: sizes.columns.taps / p.joined,
            ..sizes.columns
        },
        ..sizes
    };
    direct::<N>((p, sums, 0), move || read(of_runs), kernel)
}
