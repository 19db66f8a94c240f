//! Weighted sums of pixels and their derivative, which has the transposed weights.

use lessen_graph::ops::{self, Sampling};

use super::super::kernel::{Kernel, Types, WholeKernel};
use super::super::widths::{load, store, widths};
use super::of_f32;
use super::reads::{Pixels, Read, Reads, Row};
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
        widths!(row.channels, |c, W| {
            let mut sums = [0.0; W];
            for a in row.rows {
                for b in row.columns.of(column) {
                    let weight = (a.by * b.by) as f32;
                    // SAFETY: the pixel lies in the image.
                    let xs: [f32; W] = unsafe { load(x.add(a.at * row.line + b.at * row.channels + c)) };
                    for i in 0..W {
                        sums[i] = fma::<L>(weight, xs[i], sums[i]);
                    }
                }
            }
            // SAFETY: the channels are those of a pixel of the row.
            unsafe { store(y.add(column * row.channels + c), sums) };
        });
    }
}

/// The weights for the rows or the columns of an image of this size.
fn weights(sampling: Sampling, size: [usize; 2], axis: usize) -> Reads<f64> {
    let lists = sampling.weights(size, axis).into_iter();
    Reads::new(lists.map(|list| list.into_iter().map(|(at, by)| Read { at, by }).collect()))
}

/// The kernel of sums over what `read` says for rows (axis 0) and columns.
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
