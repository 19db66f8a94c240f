//! The gradient of the weight of a depthwise convolution: for each tap and channel a sum over all pixels, in parts that
//! depend on the shape alone.

use std::ops::Range;

use lessen_graph::ops::{Conv2dSizes, Slide};

use super::super::kernel::{Round, TaskFn, WholeKernel, Work};
use super::super::widths::{load, store, widths};
use crate::kernels::elementwise::cast::Float;
use crate::kernels::sums::pairwise::RUN;
use crate::simd::{Level, dispatch, fma};

/// Taps whose sums stay in registers together.
const TAPS: usize = 3;

/// Rows of an image and of the cotangent.
struct Lines<X> {
    /// The windows along the row.
    columns: Slide,
    channels: usize,
    /// A row of the image.
    x: *const X,
    /// A row of the cotangent.
    dy: *const X,
}

dispatch! {
    /// Adds to `sums[k, c]`, for the taps of a row of the kernel, the sum of `x[b, c] dy[j, c]` over the columns `j` of
    /// the cotangent, where tap `k` for column `j` is at column `b` of the image.
    ///
    /// # Safety
    /// The rows exist, `sums` has an element for each tap and channel, and overlaps nothing.
    unsafe fn add_taps[X: Float](lines: &Lines<X>, sums: *mut f32) = add_taps_body;
}

/// The windows whose tap lies in the image.
fn windows_of(slide: Slide, tap: usize) -> Range<usize> {
    let offset = tap * slide.dilation;
    let first = slide.before.saturating_sub(offset).div_ceil(slide.stride);
    let end = (slide.input + slide.before)
        .saturating_sub(offset)
        .div_ceil(slide.stride);
    first.min(slide.windows)..end.clamp(first.min(slide.windows), slide.windows)
}

#[inline(always)]
unsafe fn add_taps_body<L: Level, X: Float>(lines: &Lines<X>, sums: *mut f32) {
    let taps = lines.columns.taps;
    let mut tap = 0;
    while tap < taps {
        // SAFETY: passed on; only taps of the kernel are added to.
        unsafe {
            if tap + TAPS <= taps {
                let ranges: [Range<usize>; TAPS] = std::array::from_fn(|k| windows_of(lines.columns, tap + k));
                let first = ranges.iter().map(|r| r.start).max().unwrap_or(0);
                let end = ranges.iter().map(|r| r.end).min().unwrap_or(0).max(first);
                add_range::<L, X, TAPS>(lines, tap, first..end, sums);
                for (k, range) in ranges.into_iter().enumerate() {
                    add_range::<L, X, 1>(lines, tap + k, range.start..range.end.min(first), sums);
                    add_range::<L, X, 1>(lines, tap + k, range.start.max(end)..range.end, sums);
                }
                tap += TAPS;
            } else {
                add_range::<L, X, 1>(lines, tap, windows_of(lines.columns, tap), sums);
                tap += 1;
            }
        }
    }
}

/// Some windows, for `T` taps from one on that lie in the image in all of them.
#[inline(always)]
unsafe fn add_range<L: Level, X: Float, const T: usize>(
    lines: &Lines<X>,
    tap: usize,
    windows: Range<usize>,
    sums: *mut f32,
) {
    let (slide, channels) = (lines.columns, lines.channels);
    if windows.is_empty() {
        return;
    }
    widths!(channels, |c, W| {
        let mut parts = [[0.0; W]; T];
        for j in windows.clone() {
            // SAFETY: the window is a column of the cotangent, and its taps are columns of the image.
            unsafe {
                let dys: [X; W] = load(lines.dy.add(j * channels + c));
                for k in 0..T {
                    let at = j * slide.stride + (tap + k) * slide.dilation - slide.before;
                    let xs: [X; W] = load(lines.x.add(at * channels + c));
                    for i in 0..W {
                        parts[k][i] = fma::<L>(xs[i].wide(), dys[i].wide(), parts[k][i]);
                    }
                }
            }
        }
        for k in 0..T {
            // SAFETY: `sums` has the tap's channels.
            unsafe {
                let to = sums.add((tap + k) * channels + c);
                let mut all: [f32; W] = load(to);
                for i in 0..W {
                    all[i] += parts[k][i];
                }
                store(to, all);
            }
        }
    });
}

/// The kernel: sums of parts of the rows of all cotangents, then the total of these sums.
pub(super) fn depthwise_weight<X: Float>(sizes: Conv2dSizes) -> WholeKernel {
    let Conv2dSizes {
        images,
        rows,
        columns,
        inputs: channels,
        ..
    } = sizes;
    let taps = rows.taps * columns.taps;
    let lines = images * rows.windows;
    let products = lines * columns.windows * channels * taps;
    let parts = (products >> 17).clamp(1, 32).min(lines);
    let len = taps * channels;
    let has_many_lines = lines.div_ceil(parts) > RUN;
    let kernel = WholeKernel::rounds(move |_| {
        let add_lines = move |w: &Work<'_>, some: Range<usize>, sums: *mut f32| {
            // SAFETY: the sums are this task's own.
            unsafe { sums.write_bytes(0, len) };
            for line in some {
                let (image, window) = (line / rows.windows, line % rows.windows);
                for tap in 0..rows.taps {
                    let Some(row) = rows.position(window, tap) else {
                        continue;
                    };
                    // SAFETY: the rows lie within the operands.
                    unsafe {
                        let lines = Lines {
                            columns,
                            channels,
                            x: w.dense::<X>(0)
                                .add((image * rows.input + row) * columns.input * channels),
                            dy: w.dense::<X>(1).add(line * columns.windows * channels),
                        };
                        add_taps(&lines, sums.add(tap * columns.taps * channels));
                    }
                }
            }
        };
        let add: TaskFn = Box::new(move |w, part| {
            // SAFETY: see `Work`; the shared scratch has room for each part.
            let sums = unsafe { w.shared.cast::<f32>().add(part * len) };
            let all = part * lines / parts..(part + 1) * lines / parts;
            if !has_many_lines {
                return add_lines(w, all, sums);
            }
            // SAFETY: as above; the worker's scratch has room for a run.
            unsafe {
                sums.write_bytes(0, len);
                let of_run = w.scratch.cast::<f32>();
                for first in all.clone().step_by(RUN) {
                    add_lines(w, first..all.end.min(first + RUN), of_run);
                    (0..len).for_each(|i| *sums.add(i) += *of_run.add(i));
                }
            }
        });
        let gather: TaskFn = Box::new(move |w, tap| {
            for c in 0..channels {
                // SAFETY: see `Work`; the round before has written all parts.
                unsafe {
                    let part = |part: usize| *w.shared.cast::<f32>().add(part * len + tap * channels + c);
                    *w.y(0).add(c * taps + tap) = (0..parts).map(part).sum();
                }
            }
        });
        let round = |tasks, run| Round { tasks, run };
        vec![round(parts, add), round(taps, gather)]
    });
    let bytes = len * size_of::<f32>();
    let kernel = kernel.with_shared(parts * bytes);
    if has_many_lines {
        kernel.with_scratch(bytes)
    } else {
        kernel
    }
}
