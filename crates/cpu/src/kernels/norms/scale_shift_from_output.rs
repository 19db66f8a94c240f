//! Columns centered, scaled and shifted once more, from the output of the first time, and the sums of the derivative:
//! `x - center = (y - shift) / scale`.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::{RUN, in_runs};
use crate::kernels::widths::{load, store, widths};
use crate::simd::{Level, dispatch, fma};

dispatch! {
    /// `z = (y - shift) / scale by + plus`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements that follow each other, the vectors have `c` elements; `z` may lie
    /// exactly where `y` lies, and overlaps nothing otherwise.
    pub unsafe fn scale_shift_from_output(
        n: usize, c: usize, y: Rows<f32>, scale: *const f32, shift: *const f32, by: *const f32, plus: *const f32,
        z: Rows<f32>,
    ) = scale_shift_body;

    /// Adds the columns' sums of `dy` to `dshift`, and the columns' sums of `dy (y - shift) / scale` to `dscale`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements that follow each other, the vectors have `c` elements; the sums
    /// overlap nothing.
    pub unsafe fn scale_shift_sums_from_output(
        n: usize, c: usize, y: Rows<f32>, scale: *const f32, shift: *const f32, dy: Rows<f32>, dshift: *mut f32,
        dscale: *mut f32,
    ) = scale_shift_sums_body;
}

#[inline(always)]
unsafe fn scale_shift_body<L: Level>(
    n: usize,
    c: usize,
    y: Rows<f32>,
    scale: *const f32,
    shift: *const f32,
    by: *const f32,
    plus: *const f32,
    z: Rows<f32>,
) {
    widths!(c, |j, W| {
        // SAFETY: the columns lie within the rows and the vectors.
        unsafe {
            let (scales, by): ([f32; W], [f32; W]) = (load(scale.add(j)), load(by.add(j)));
            let (shifts, plus): ([f32; W], [f32; W]) = (load(shift.add(j)), load(plus.add(j)));
            let mut ratios = [0.0; W];
            for i in 0..W {
                ratios[i] = by[i] / scales[i];
            }
            for r in 0..n {
                let ys: [f32; W] = load(y.at(r).add(j));
                let mut zs = [0.0; W];
                for i in 0..W {
                    zs[i] = fma::<L>(ys[i] - shifts[i], ratios[i], plus[i]);
                }
                store(z.at(r).add(j), zs);
            }
        }
    });
}

#[inline(always)]
unsafe fn scale_shift_sums_body<L: Level>(
    n: usize,
    c: usize,
    y: Rows<f32>,
    scale: *const f32,
    shift: *const f32,
    dy: Rows<f32>,
    dshift: *mut f32,
    dscale: *mut f32,
) {
    widths!(c, |j, W| {
        // SAFETY: the columns lie within the rows, the vectors and the sums.
        unsafe {
            let (scales, shifts): ([f32; W], [f32; W]) = (load(scale.add(j)), load(shift.add(j)));
            let [sums, scaled] = in_runs!(n, RUN, |rows| {
                let (mut sums, mut scaled) = ([0.0f32; W], [0.0f32; W]);
                for r in rows {
                    let (ys, dys): ([f32; W], [f32; W]) = (load(y.at(r).add(j)), load(dy.at(r).add(j)));
                    for i in 0..W {
                        sums[i] += dys[i];
                        scaled[i] = fma::<L>(dys[i], ys[i] - shifts[i], scaled[i]);
                    }
                }
                [sums, scaled]
            });
            let (mut dshifts, mut dscales): ([f32; W], [f32; W]) = (load(dshift.add(j)), load(dscale.add(j)));
            for i in 0..W {
                dshifts[i] += sums[i];
                dscales[i] += scaled[i] / scales[i];
            }
            store(dshift.add(j), dshifts);
            store(dscale.add(j), dscales);
        }
    });
}

/// The kernel of [`ops::ScaleShiftFromOutput`].
pub(crate) fn scale_shift_kernel(_: &ops::ScaleShiftFromOutput, _: &Types<'_>) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::rows(|r| unsafe {
        let [scale, shift, by, plus] = [1, 2, 3, 4].map(|i| r.whole(i));
        scale_shift_from_output(r.n, r.c(), r.inputs[0].runs(), scale, shift, by, plus, r.y(0));
    })
    .dense([0])
}

/// The kernel of [`ops::ScaleShiftSumsFromOutput`].
pub(crate) fn scale_shift_sums_kernel(_: &ops::ScaleShiftSumsFromOutput, _: &Types<'_>) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::sums(|r| unsafe {
        let (c, scale, shift) = (r.inputs[0].columns(), r.whole(1), r.whole(2));
        let [y, dy] = [0, 3].map(|i| r.inputs[i].runs());
        scale_shift_sums_from_output(r.n, c, y, scale, shift, dy, r.column(0), r.column(1));
    })
    .dense([0, 3])
}
