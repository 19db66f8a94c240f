//! Weighted sums of pixels and their derivative, which has the transposed weights.

use lessen_graph::ops::{self, Sampling};

use super::super::kernel::{Kernel, Types, WholeKernel};
use super::super::widths::{load, store, widths};
use super::of_f32;
use super::reads::{Pixels, Read, Reads, Row};
use crate::kernels::sums::pairwise::{RUN, in_runs};
use crate::simd::{Level, dispatch, fma};

dispatch! {
    /// One row of the result: `y[j, c]` is the sum of `A B x[a, b, c]` over the pixels that column `j` reads, with the
    /// weights of their row and column.
    ///
    /// # Safety
    /// `x` has the image that the row reads, `y` has the row and overlaps nothing.
    unsafe fn resample_row(row: &Row<'_, f64>, x: *const f32, y: *mut f32) = resample_row_body;
}

#[inline(always)]
unsafe fn resample_row_body<L: Level>(row: &Row<'_, f64>, x: *const f32, y: *mut f32) {
    for column in 0..row.columns.len() {
        let columns = row.columns.of(column);
        let is_one_run = row.rows.len() * columns.len() <= RUN;
        widths!(row.channels, |c, W| {
            // SAFETY: the pixels lie in the image, and the channels belong to a pixel of the row.
            unsafe {
                let sums: [f32; W] = if is_one_run {
                    window::<L, W>(row.rows, columns, row, x.add(c))
                } else {
                    large_window::<L, W>(columns, row, x.add(c))
                };
                store(y.add(column * row.channels + c), sums);
            }
        });
    }
}

/// The sum of some pixels of some rows with their weights, one after another.
#[inline(always)]
unsafe fn window<L: Level, const W: usize>(
    rows: &[Read<f64>],
    columns: &[Read<f64>],
    row: &Row<'_, f64>,
    x: *const f32,
) -> [f32; W] {
    let mut sums = [0.0; W];
    for a in rows {
        for b in columns {
            let weight = (a.by * b.by) as f32;
            // SAFETY: the pixel lies in the image.
            let xs: [f32; W] = unsafe { load(x.add(a.at * row.line + b.at * row.channels)) };
            for i in 0..W {
                sums[i] = fma::<L>(weight, xs[i], sums[i]);
            }
        }
    }
    sums
}

/// The sum of more pixels than a run has: in runs of whole rows, or of parts of a row.
#[inline(always)]
unsafe fn large_window<L: Level, const W: usize>(columns: &[Read<f64>], row: &Row<'_, f64>, x: *const f32) -> [f32; W] {
    let rows_of_run = (RUN / columns.len()).max(1);
    let [sums] = in_runs!(row.rows.len(), rows_of_run, |rows| {
        let rows = &row.rows[rows];
        in_runs!(columns.len(), RUN, |some| {
            // SAFETY: passed on.
            [unsafe { window::<L, W>(rows, &columns[some], row, x) }]
        })
    });
    sums
}

/// The weights for the rows or the columns of an image of this size.
fn weights(sampling: Sampling, size: [usize; 2], axis: usize) -> Reads<f64> {
    let lists = sampling.weights(size, axis).into_iter();
    Reads::new(lists.map(|list| list.into_iter().map(|(at, by)| Read { at, by }).collect()))
}

/// The kernel of weighted sums over the pixels that `read` gives for rows (axis 0) and columns.
fn sums(types: &Types<'_>, read: impl Fn(usize) -> Reads<f64> + Send + Sync + 'static) -> Option<Kernel> {
    let shape = types.inputs[0].shape.clone();
    let kernel = WholeKernel::rounds(move |_| {
        let pixels = Pixels {
            rows: read(0),
            columns: read(1),
            images: shape[0],
            from: [shape[1], shape[2]],
            channels: shape[3],
        };
        vec![pixels.round(move |w, row| {
            // SAFETY: see `Work`.
            unsafe { resample_row(&row, w.x(0).add(row.image), w.y(0).add(row.to)) };
        })]
    });
    of_f32(types, || Some(kernel))
}

/// The kernel of [`ops::Resample2d`].
pub(in super::super) fn resample2d_kernel(op: &ops::Resample2d, types: &Types<'_>) -> Option<Kernel> {
    let sampling = op.sampling;
    let size = [types.inputs[0].shape[1], types.inputs[0].shape[2]];
    sums(types, move |axis| weights(sampling, size, axis))
}

/// The kernel of [`ops::Resample2dGrad`].
pub(in super::super) fn resample2d_grad_kernel(op: &ops::Resample2dGrad, types: &Types<'_>) -> Option<Kernel> {
    let ops::Resample2dGrad { sampling, size } = *op;
    sums(types, move |axis| weights(sampling, size, axis).transposed(size[axis]))
}
