//! The gradient of the weight of a convolution: products of transposed patches with cotangents, in parts of the pixels
//! where the weight is small, and in slices of its channels where it is large.

use std::ops::Range;

use lessen_graph::ops::Conv2dSizes;

use super::super::kernel::{Round, TaskFn, WholeKernel};
use super::super::rows::Rows;
use super::factor::Factor;
use super::pairs::Pairs;
use super::patches::write_patches;
use super::reads::{Pixels, of_windows};
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::x86::amx::both::Both;
use crate::kernels::x86::words::outer::{Cotangents, Outer};

/// Tasks that there are to be at least, where the shape allows it.
const TASKS: usize = 16;

/// The most elements of all parts of the gradient together, unless the gradient has more.
const PARTS: usize = 1 << 20;

/// The least rows and columns of a product on packed panels, which are padded to 16 and 32.
const LEAST: usize = 16;

/// Elements of the patches of a block of pixels.
const PATCHES: usize = 1 << 17;

/// Outputs whose sums a task gathers.
const GATHERED: usize = 16;

/// The most channels that make patches: the rows of a product in place are the channels of one tap.
const FEW: usize = 8;

/// How the work is cut; depends on the shape alone.
#[derive(Clone, Copy)]
struct Cuts {
    /// Parts of the pixels.
    parts: usize,
    /// Slices of the channels of a group.
    slices: usize,
    /// Channels of a slice but the last.
    slice: usize,
    /// Pixels of a block.
    block: usize,
}

impl Cuts {
    fn of(sizes: Conv2dSizes, taps: usize, pixels: usize) -> Cuts {
        let (inputs, outputs) = (sizes.group_inputs(), sizes.group_outputs());
        let weight = sizes.groups * taps * inputs * outputs;
        let parts = (PARTS / weight).clamp(1, TASKS).min(pixels.div_ceil(64));
        let slices = TASKS.div_ceil(parts * sizes.groups).min(inputs);
        let slice = inputs.div_ceil(slices);
        Cuts {
            parts,
            slices: inputs.div_ceil(slice),
            slice,
            block: (PATCHES / (taps * slice)).clamp(16, 256),
        }
    }
}

/// Writes a pointer for each tap and pixel of a block: to the channels of `x` that it reads, or to `zeros`.
///
/// # Safety
/// `to` has room for these pointers.
unsafe fn point<N>(
    read: &Pixels<usize>,
    width: usize,
    block: Range<usize>,
    (x, zeros): (*const N, *const N),
    taps: usize,
    to: *mut *const N,
) {
    let len = block.len();
    let mut pixel = block.start;
    // SAFETY: passed on.
    unsafe {
        for i in 0..taps * len {
            to.add(i).write(zeros);
        }
        while pixel < block.end {
            let line = pixel / read.columns.len();
            let from = pixel - line * read.columns.len();
            let row = read.row(line);
            let end = read.columns.len().min(from + block.end - pixel);
            for column in from..end {
                for above in row.rows {
                    let line = x.wrapping_add(row.image + above.at * row.line);
                    for beside in read.columns.of(column) {
                        let tap = above.by * width + beside.by;
                        let place = pixel - block.start + column - from;
                        to.add(tap * len + place)
                            .write(line.wrapping_add(beside.at * row.channels));
                    }
                }
            }
            pixel += end - from;
        }
    }
}

/// The kernel. Sums are `[part, group, slice, tap, channel, output]`.
pub(super) fn patches_weight<N: Factor>(sizes: Conv2dSizes) -> WholeKernel {
    let (width, taps) = (sizes.columns.taps, sizes.rows.taps * sizes.columns.taps);
    let (groups, inputs, outputs) = (sizes.groups, sizes.group_inputs(), sizes.group_outputs());
    let pixels = sizes.images * sizes.rows.windows * sizes.columns.windows;
    let cuts = Cuts::of(sizes, taps, pixels);
    let Cuts {
        parts,
        slices,
        slice,
        block,
    } = cuts;
    let weight = groups * taps * inputs * outputs;
    // The first channel of a slice and their number, and where its sums begin.
    let place = move |group: usize, number: usize| {
        let first = number * slice;
        (
            first,
            slice.min(inputs - first),
            (group * inputs + first) * taps * outputs,
        )
    };
    // Patches, then the packed factors.
    let patch_bytes = (block * taps * slice * size_of::<N>()).next_multiple_of(64);
    let packed = Both {
        m: taps * slice,
        k: block,
        n: outputs,
    };
    let is_worth = outputs >= LEAST && taps * slice >= LEAST;
    let other = N::product_bytes(taps * slice, outputs);
    let scratch = patch_bytes
        + if is_worth {
            other.max(packed.scratch::<N>())
        } else {
            other
        };
    // Pointers to the channels that each tap reads for each pixel, patches or zeros, and words of products in place.
    let few = slice < FEW;
    let pointers = (taps * block * size_of::<usize>()).next_multiple_of(64);
    let read_bytes = if few {
        patch_bytes
    } else {
        (slice * size_of::<N>()).next_multiple_of(64)
    };
    let outer = Outer {
        pixels: block,
        inputs: if few { taps * slice } else { slice },
        outputs,
    };
    let pairs = match size_of::<N>() {
        2 if !few => Pairs::of(sizes, slice),
        _ => None,
    };
    // Words of pairs of pixels, pointers to them, and words of cotangents.
    let of_pairs = pairs.map_or([0; 3], |pairs| {
        let outer = Outer {
            pixels: pairs.pixels(),
            inputs: slice,
            outputs,
        };
        let pointers = (pairs.pixels() / 2 * size_of::<usize>()).next_multiple_of(64);
        [pairs.bytes(), pointers, outer.scratch::<N>()]
    });
    let turned = GATHERED * slice * taps * size_of::<f32>();
    let scratch = (scratch.max(pointers + read_bytes + outer.scratch::<N>())).max(turned);
    let scratch = scratch.max(of_pairs.iter().sum());
    WholeKernel::rounds(move |_| {
        let in_place = N::is_used();
        let (read, on_tiles) = (of_windows(sizes), is_worth && Both::is_used());
        let add: TaskFn = Box::new(move |w, task| {
            let (part, rest) = (task / (groups * slices), task % (groups * slices));
            let (group, number) = (rest / slices, rest % slices);
            let (first, count, at) = place(group, number);
            let row = groups * outputs;
            if let Some(pairs) = pairs.filter(|_| in_place) {
                let blocks = part * pairs.count() / parts..(part + 1) * pairs.count() / parts;
                // SAFETY: see `Work`; the scratch has room for the words of a block, pointers to them and the words of
                // its cotangents, the shared one for sums.
                unsafe {
                    let x = w.dense::<Bf16>(0);
                    let read = w.scratch.add(of_pairs[0]).cast::<*const u8>();
                    let words = w.scratch.add(of_pairs[0] + of_pairs[1]);
                    let sums = w.shared.cast::<f32>().add(part * weight + at);
                    if blocks.is_empty() {
                        sums.write_bytes(0, taps * count * outputs);
                    }
                    for number in blocks.clone() {
                        let block = pairs.block(number);
                        let pixels = pairs.pixels_of(&block);
                        pairs.pack(&block, (group * inputs + first, count), x, w.scratch);
                        let dy = w.dense::<N>(1).add(pixels.start * row + group * outputs);
                        let outer = Outer {
                            pixels: pixels.len(),
                            inputs: count,
                            outputs,
                        };
                        let cotangents = Cotangents::new::<N>(outer, dy, row, words);
                        for tap in 0..taps {
                            pairs.point(&block, tap, w.scratch, read);
                            let sums = sums.add(tap * count * outputs);
                            cotangents.add_words::<N>(read, sums, number > blocks.start);
                        }
                    }
                }
                return;
            }
            let (begin, end) = (part * pixels / parts, (part + 1) * pixels / parts);
            for from in (begin..end).step_by(block) {
                let block = from..end.min(from + block);
                let channels = (group * inputs + first, count);
                let k = taps * count;
                if in_place {
                    // SAFETY: see `Work`; the scratch has room for pointers, the numbers that they point to and words,
                    // and the shared scratch for sums.
                    unsafe {
                        let x = w.dense::<N>(0);
                        let (read_at, len) = (w.scratch.cast::<*const N>(), block.len());
                        let after = w.scratch.add(pointers).cast::<N>();
                        let dy = w.dense::<N>(1).add(from * row + group * outputs);
                        let sums = w.shared.cast::<f32>().add(part * weight + at);
                        if few {
                            write_patches(&read, width, block, 0..taps, channels, x, after);
                            for i in 0..len {
                                read_at.add(i).write(after.add(i * k));
                            }
                        } else {
                            after.write_bytes(0, count);
                            let first = (x.add(channels.0), after.cast_const());
                            point(&read, width, block, first, taps, read_at);
                        }
                        // With patches, all taps are one tap.
                        let (inputs, taps) = if few { (k, 1) } else { (count, taps) };
                        let outer = Outer {
                            pixels: len,
                            inputs,
                            outputs,
                        };
                        let words = w.scratch.add(pointers + read_bytes);
                        let cotangents = Cotangents::new::<N>(outer, dy, row, words);
                        for tap in 0..taps {
                            let read = std::slice::from_raw_parts(read_at.add(tap * len), len);
                            cotangents.add(read, sums.add(tap * inputs * outputs), from > begin);
                        }
                    }
                    continue;
                }
                // SAFETY: see `Work`; the scratch has room for the patches of a block, the shared scratch for the sums.
                unsafe {
                    let patches = w.scratch.cast::<N>();
                    let x = w.dense::<N>(0);
                    write_patches(&read, width, block.clone(), 0..taps, channels, x, patches);
                    let dy = w.dense::<N>(1).add(from * row + group * outputs);
                    let sums = w.shared.cast::<f32>().add(part * weight + at);
                    let both = Both {
                        m: k,
                        k: block.len(),
                        n: outputs,
                    };
                    let after = w.scratch.add(patch_bytes);
                    let (a, b) = ((patches.cast_const(), 1, k), (dy, 1, row));
                    if on_tiles && both.multiply(a, b, (sums, outputs), from > begin, after) {
                        continue;
                    }
                    N::product(
                        (k, block.len(), outputs),
                        Rows {
                            ptr: patches,
                            row: 1,
                            col: k,
                        },
                        Rows {
                            ptr: dy.cast_mut(),
                            row,
                            col: 1,
                        },
                        Rows::dense(sums, outputs),
                        from > begin,
                        after,
                    );
                }
            }
        });
        let blocks = outputs.div_ceil(GATHERED);
        let gather: TaskFn = Box::new(move |w, task| {
            let (block, rest) = (task % blocks, task / blocks);
            let (group, number) = (rest / slices, rest % slices);
            let (first, count, at) = place(group, number);
            let (from, len) = (block * GATHERED, count * taps);
            let some = GATHERED.min(outputs - from);
            // SAFETY: see `Work`; the round before has written all parts, and the scratch has room for these outputs.
            unsafe {
                let turned = w.scratch.cast::<f32>();
                for (tap, c) in (0..taps).flat_map(|tap| (0..count).map(move |c| (tap, c))) {
                    let sums = w.shared.cast::<f32>().add(at + (tap * count + c) * outputs + from);
                    let mut all = [0.0; GATHERED];
                    for part in 0..parts {
                        for (o, sum) in all[..some].iter_mut().enumerate() {
                            *sum += *sums.add(part * weight + o);
                        }
                    }
                    for (o, sum) in all[..some].iter().enumerate() {
                        *turned.add(o * len + c * taps + tap) = *sum;
                    }
                }
                for o in 0..some {
                    let to = w.y(0).add(((group * outputs + from + o) * inputs + first) * taps);
                    to.copy_from_nonoverlapping(turned.add(o * len), len);
                }
            }
        });
        let round = |tasks, run| Round { tasks, run };
        vec![
            round(parts * groups * slices, add),
            round(groups * slices * blocks, gather),
        ]
    })
    .with_shared(parts * weight * size_of::<f32>())
    .with_scratch(scratch)
}
