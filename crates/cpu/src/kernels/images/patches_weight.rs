//! The gradient of the weight of a convolution: products of transposed patches with cotangents, in parts of the pixels
//! where the weight is small, and in slices of its channels where it is large.

use lessen_graph::ops::Conv2dSizes;

use super::super::kernel::{Phase, TaskFn, WholeKernel};
use super::super::panels::both::Both;
use super::super::rows::Rows;
use super::convolution::of_windows;
use super::factor::Factor;
use super::patches::write_patches;

/// Tasks that there are to be at least, where the shape allows it.
const TASKS: usize = 16;

/// The most elements of all parts of the gradient together, unless the gradient has more.
const PARTS: usize = 1 << 20;

/// The least rows and columns of a product on packed panels, which are padded to 16 and 32.
const LEAST: usize = 16;

/// Elements of the patches of a block of pixels.
const PATCHES: usize = 1 << 17;

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
    WholeKernel::phases(move |_| {
        let (read, on_tiles) = (of_windows(sizes), is_worth && Both::is_used());
        let add: TaskFn = Box::new(move |w, task| {
            let (part, rest) = (task / (groups * slices), task % (groups * slices));
            let (group, number) = (rest / slices, rest % slices);
            let (first, count, at) = place(group, number);
            let row = groups * outputs;
            let (begin, end) = (part * pixels / parts, (part + 1) * pixels / parts);
            for from in (begin..end).step_by(block) {
                let block = from..end.min(from + block);
                let channels = (group * inputs + first, count);
                let k = taps * count;
                // SAFETY: see `Work`; the scratch has room for the patches of a block, the shared scratch for the sums.
                unsafe {
                    let patches = w.scratch.cast::<N>();
                    let x = w.inputs[0].cast::<N>();
                    write_patches(&read, width, block.clone(), 0..taps, channels, x, patches);
                    let dy = w.inputs[1].cast::<N>().add(from * row + group * outputs);
                    let sums = w.shared.cast::<f32>().add(part * weight + at);
                    let both = Both {
                        m: k,
                        k: block.len(),
                        n: outputs,
                    };
                    let behind = w.scratch.add(patch_bytes);
                    let (a, b) = ((patches.cast_const(), 1, k), (dy.cast_const(), 1, row));
                    if on_tiles && both.multiply(a, b, (sums, outputs), from > begin, behind) {
                        continue;
                    }
                    N::product(
                        (k, block.len(), outputs),
                        Rows {
                            ptr: patches,
                            row: 1,
                            col: k,
                        },
                        Rows { ptr: dy, row, col: 1 },
                        Rows::dense(sums, outputs),
                        from > begin,
                        behind,
                    );
                }
            }
        });
        let gather: TaskFn = Box::new(move |w, task| {
            let (group, number) = (task / slices, task % slices);
            let (first, count, at) = place(group, number);
            for (tap, c) in (0..taps).flat_map(|tap| (0..count).map(move |c| (tap, c))) {
                let from = at + (tap * count + c) * outputs;
                for o in 0..outputs {
                    // SAFETY: see `Work`; the phase before has written all parts.
                    unsafe {
                        let part = |part: usize| *w.shared.cast::<f32>().add(part * weight + from + o);
                        let to = ((group * outputs + o) * inputs + first + c) * taps + tap;
                        *w.y(0).add(to) = (0..parts).map(part).sum();
                    }
                }
            }
        });
        let phase = |tasks, run| Phase { tasks, run };
        vec![phase(parts * groups * slices, add), phase(groups * slices, gather)]
    })
    .with_shared(parts * weight * size_of::<f32>())
    .with_scratch(scratch)
}
