//! Max pooling with the taps of the largest elements, and its derivatives, which write to these taps or read there.

use lessen_graph::ops::{self, Slide};

use super::super::kernel::{Kernel, Types, WholeKernel};
use super::super::widths::{load, store, widths};
use super::of_f32;
use super::reads::{Pixels, Reads, Row};
use crate::kernels::sums::pairwise::{RUN, in_runs};
use crate::simd::{Level, dispatch};

dispatch! {
    /// One row of [`ops::MaxPool2d`], whose windows have rows of `width` taps.
    ///
    /// # Safety
    /// `x` has the image that the row reads, `y` and `taps` have the row and overlap nothing.
    unsafe fn max_row(
        row: &Row<'_, usize>, width: usize, x: *const f32, y: *mut f32, taps: *mut i32,
    ) = max_row_body;

    /// One row of [`ops::MaxPool2dScatter`]: the sum of the cotangents of the windows whose tap a pixel is.
    ///
    /// # Safety
    /// `dy` and `taps` have the windows of the image, `dx` has the row and overlaps nothing.
    unsafe fn scatter_row(
        row: &Row<'_, usize>, width: usize, dy: *const f32, taps: *const i32, dx: *mut f32,
    ) = scatter_row_body;

    /// One row of [`ops::MaxPool2dGather`]: of each window the element at its tap.
    ///
    /// # Safety
    /// `x` has the image that the row reads, `taps` and `y` have the row; `y` overlaps nothing.
    unsafe fn gather_row(
        row: &Row<'_, usize>, width: usize, x: *const f32, taps: *const i32, y: *mut f32,
    ) = gather_row_body;
}

/// The elements that a column of a row reads, from its first channel on, with the numbers of their taps.
#[inline(always)]
fn each<'a>(row: &'a Row<'_, usize>, column: usize, width: usize) -> impl Iterator<Item = (usize, i32)> + 'a {
    row.rows.iter().flat_map(move |read| {
        let columns = row.columns.of(column).iter();
        columns.map(move |c| {
            let at = read.at * row.line + c.at * row.channels;
            (at, (read.by * width + c.by) as i32)
        })
    })
}

#[inline(always)]
unsafe fn max_row_body<L: Level>(row: &Row<'_, usize>, width: usize, x: *const f32, y: *mut f32, taps: *mut i32) {
    for column in 0..row.columns.len() {
        let to = column * row.channels;
        let first = each(row, column, width).next().map_or(0, |read| read.1);
        widths!(row.channels, |c, W| {
            let (mut most, mut which) = ([f32::NEG_INFINITY; W], [first; W]);
            for (at, tap) in each(row, column, width) {
                // SAFETY: the pixel lies in the image.
                let xs: [f32; W] = unsafe { load(x.add(at + c)) };
                for i in 0..W {
                    let is_larger = (xs[i] > most[i]) | xs[i].is_nan();
                    most[i] = if is_larger { xs[i] } else { most[i] };
                    which[i] = if is_larger { tap } else { which[i] };
                }
            }
            // SAFETY: the channels belong to a pixel of the row.
            unsafe {
                store(y.add(to + c), most);
                store(taps.add(to + c), which);
            }
        });
    }
}

#[inline(always)]
unsafe fn scatter_row_body<L: Level>(
    row: &Row<'_, usize>,
    width: usize,
    dy: *const f32,
    taps: *const i32,
    dx: *mut f32,
) {
    for column in 0..row.columns.len() {
        let count = row.rows.len() * row.columns.of(column).len();
        widths!(row.channels, |c, W| {
            let mut windows = each(row, column, width);
            // SAFETY: the windows belong to the image, and the channels to a pixel of the row.
            unsafe {
                let (dy, taps) = (dy.add(c), taps.add(c));
                let sums: [f32; W] = if count <= RUN {
                    sum_of_windows(windows, dy, taps)
                } else {
                    let [sums] = in_runs!(count, RUN, |run| {
                        [sum_of_windows(windows.by_ref().take(run.len()), dy, taps)]
                    });
                    sums
                };
                store(dx.add(column * row.channels + c), sums);
            }
        });
    }
}

/// The sum of the cotangents of windows that have a pixel at their tap, one after another.
#[inline(always)]
unsafe fn sum_of_windows<const W: usize>(
    windows: impl Iterator<Item = (usize, i32)>,
    dy: *const f32,
    taps: *const i32,
) -> [f32; W] {
    let mut sums = [0.0; W];
    for (at, tap) in windows {
        // SAFETY: the window is one of the image.
        let (dys, ts): ([f32; W], [i32; W]) = unsafe { (load(dy.add(at)), load(taps.add(at))) };
        for i in 0..W {
            sums[i] += if ts[i] == tap { dys[i] } else { 0.0 };
        }
    }
    sums
}

#[inline(always)]
unsafe fn gather_row_body<L: Level>(row: &Row<'_, usize>, width: usize, x: *const f32, taps: *const i32, y: *mut f32) {
    for column in 0..row.columns.len() {
        let to = column * row.channels;
        widths!(row.channels, |c, W| {
            // SAFETY: the channels belong to a pixel of the row.
            let ts: [i32; W] = unsafe { load(taps.add(to + c)) };
            let mut ys = [0.0; W];
            for (at, tap) in each(row, column, width) {
                // SAFETY: the pixel lies in the image.
                let xs: [f32; W] = unsafe { load(x.add(at + c)) };
                for i in 0..W {
                    ys[i] = if ts[i] == tap { xs[i] } else { ys[i] };
                }
            }
            // SAFETY: as above.
            unsafe { store(y.add(to + c), ys) };
        });
    }
}

/// The pixels that each window reads, for images `[N, H, W, C]` of this shape.
fn of_windows([rows, columns]: [Slide; 2], shape: &[usize]) -> Pixels<usize> {
    Pixels {
        rows: Reads::of_windows(rows),
        columns: Reads::of_windows(columns),
        images: shape[0],
        from: [rows.input, columns.input],
        channels: shape[3],
    }
}

/// The kernel of [`ops::MaxPool2d`].
pub(in super::super) fn max_pool2d_kernel(op: &ops::MaxPool2d, types: &Types<'_>) -> Option<Kernel> {
    let shape = types.inputs[0].shape.clone();
    let slides = op.windows.slides([shape[1], shape[2]]).ok()?;
    let width = slides[1].taps;
    let kernel = WholeKernel::rounds(move |_| {
        vec![of_windows(slides, &shape).round(move |w, row| {
            // SAFETY: see `Work`.
            unsafe {
                let (y, taps) = (w.y(0).add(row.to), w.outputs[1].cast::<i32>().add(row.to));
                max_row(&row, width, w.x(0).add(row.image), y, taps);
            }
        })]
    });
    of_f32(types, || Some(kernel))
}

/// The kernel of [`ops::MaxPool2dScatter`].
pub(in super::super) fn max_pool2d_scatter_kernel(op: &ops::MaxPool2dScatter, types: &Types<'_>) -> Option<Kernel> {
    let [rows, columns] = op.windows.slides(op.size).ok()?;
    let (images, channels) = (types.inputs[0].shape[0], types.inputs[0].last());
    let kernel = WholeKernel::rounds(move |_| {
        let pixels = Pixels {
            rows: Reads::of_positions(rows),
            columns: Reads::of_positions(columns),
            images,
            from: [rows.windows, columns.windows],
            channels,
        };
        vec![pixels.round(move |w, row| {
            // SAFETY: see `Work`.
            unsafe {
                let taps = w.dense::<i32>(1).add(row.image);
                scatter_row(&row, columns.taps, w.x(0).add(row.image), taps, w.y(0).add(row.to));
            }
        })]
    });
    of_f32(types, || Some(kernel))
}

/// The kernel of [`ops::MaxPool2dGather`].
pub(in super::super) fn max_pool2d_gather_kernel(op: &ops::MaxPool2dGather, types: &Types<'_>) -> Option<Kernel> {
    let shape = types.inputs[0].shape.clone();
    let slides = op.windows.slides([shape[1], shape[2]]).ok()?;
    let width = slides[1].taps;
    let kernel = WholeKernel::rounds(move |_| {
        vec![of_windows(slides, &shape).round(move |w, row| {
            // SAFETY: see `Work`.
            unsafe {
                let taps = w.dense::<i32>(1).add(row.to);
                gather_row(&row, width, w.x(0).add(row.image), taps, w.y(0).add(row.to));
            }
        })]
    });
    of_f32(types, || Some(kernel))
}
