//! Columns centered, scaled and shifted, and the sums of the derivative.

use lessen_graph::{DType, ops};

use crate::kernels::elementwise::cast::{Bf16, Float};
use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::{RUN, in_runs};
use crate::kernels::widths::{load, store, widths};
use crate::simd::{Level, dispatch, fma};

/// A vector for the columns of each operand that is read whole.
#[derive(Clone, Copy)]
struct Columns {
    center: *const f32,
    scale: *const f32,
    shift: *const f32,
}

dispatch! {
    /// `y = (x - center) scale + shift`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements that follow each other, the vectors have `c` elements; `y` may lie
    /// exactly where `x` lies, and overlaps nothing otherwise.
    unsafe fn scale_shift[X: Float](
        n: usize, c: usize, x: Rows<X>, by: Columns, y: Rows<f32>,
    ) = scale_shift_body;

    /// Adds the columns' sums of `dy` to `dshift`, and the columns' sums of `dy (x - center)` to `dscale`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements that follow each other, the vectors have `c` elements; the sums
    /// overlap nothing.
    unsafe fn scale_shift_sums[X: Float](
        n: usize, c: usize, x: Rows<X>, center: *const f32, dy: Rows<f32>, dshift: *mut f32, dscale: *mut f32,
    ) = scale_shift_sums_body;
}

#[inline(always)]
unsafe fn scale_shift_body<L: Level, X: Float>(n: usize, c: usize, x: Rows<X>, by: Columns, y: Rows<f32>) {
    widths!(c, |j, W| {
        // SAFETY: the columns lie within the rows and the vectors.
        unsafe {
            let center: [f32; W] = load(by.center.add(j));
            let scale: [f32; W] = load(by.scale.add(j));
            let shift: [f32; W] = load(by.shift.add(j));
            for r in 0..n {
                let xs: [X; W] = load(x.at(r).add(j));
                let mut ys = [0.0; W];
                for i in 0..W {
                    ys[i] = fma::<L>(xs[i].wide() - center[i], scale[i], shift[i]);
                }
                store(y.at(r).add(j), ys);
            }
        }
    });
}

#[inline(always)]
unsafe fn scale_shift_sums_body<L: Level, X: Float>(
    n: usize,
    c: usize,
    x: Rows<X>,
    center: *const f32,
    dy: Rows<f32>,
    dshift: *mut f32,
    dscale: *mut f32,
) {
    widths!(c, |j, W| {
        // SAFETY: the columns lie within the rows, the vector and the sums.
        unsafe {
            let centers: [f32; W] = load(center.add(j));
            let [shifts, scales] = in_runs!(n, RUN, |rows| {
                let (mut shifts, mut scales) = ([0.0f32; W], [0.0f32; W]);
                for r in rows {
                    let (xs, dys): ([X; W], [f32; W]) = (load(x.at(r).add(j)), load(dy.at(r).add(j)));
                    for i in 0..W {
                        shifts[i] += dys[i];
                        scales[i] = fma::<L>(dys[i], xs[i].wide() - centers[i], scales[i]);
                    }
                }
                [shifts, scales]
            });
            let (mut all_shifts, mut all_scales): ([f32; W], [f32; W]) = (load(dshift.add(j)), load(dscale.add(j)));
            for i in 0..W {
                all_shifts[i] += shifts[i];
                all_scales[i] += scales[i];
            }
            store(dshift.add(j), all_shifts);
            store(dscale.add(j), all_scales);
        }
    });
}

/// The kernel of [`ops::ScaleShift`].
pub(crate) fn scale_shift_kernel(_: &ops::ScaleShift, types: &Types<'_>) -> Option<Kernel> {
    fn of<X: Float>() -> Option<Kernel> {
        // SAFETY: see `Run`.
        RowKernel::rows(move |r| unsafe {
            let by = Columns {
                center: r.whole(1),
                scale: r.whole(2),
                shift: r.whole(3),
            };
            scale_shift::<X>(r.n, r.c(), r.inputs[0].runs(), by, r.y(0));
        })
        .dense([0])
        .into()
    }
    match (types.inputs[0].dtype, types.inputs[1].dtype) {
        (DType::F32, DType::F32) => of::<f32>(),
        (DType::BF16, DType::F32) => of::<Bf16>(),
        _ => None,
    }
}

/// The kernel of [`ops::ScaleShiftSums`].
pub(crate) fn scale_shift_sums_kernel(_: &ops::ScaleShiftSums, types: &Types<'_>) -> Option<Kernel> {
    fn of<X: Float>() -> Option<Kernel> {
        // SAFETY: see `Run`.
        RowKernel::sums(move |r| unsafe {
            let (c, x) = (r.inputs[0].columns(), r.inputs[0].runs::<X>());
            scale_shift_sums(r.n, c, x, r.whole(1), r.inputs[2].runs(), r.column(0), r.column(1));
        })
        .dense([0, 2])
        .into()
    }
    match (types.inputs[0].dtype, types.inputs[1].dtype) {
        (DType::F32, DType::F32) => of::<f32>(),
        (DType::BF16, DType::F32) => of::<Bf16>(),
        _ => None,
    }
}
