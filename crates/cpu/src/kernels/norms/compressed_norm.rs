//! Compressed root-mean-square normalization (Jiang et al. 2023, equation 3.5) and its derivative.
//!
//! Rows lack their last element, which makes their sum zero, so a row of `c` elements stands for one of `c + 1`.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store, sum};

dispatch! {
    /// `y = x rstd gamma`, with the row's `rstd = 1 / sqrt((sum of x^2 + (sum of x)^2) / (c + 1) + eps)`, which is
    /// written to `rstd[r]`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c >= 1` elements, `gamma` `c` elements, `rstd` `n`. `y` may lie exactly where
    /// `x` lies; otherwise the written memory overlaps nothing.
    pub unsafe fn crms_norm(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, eps: f32, y: Rows<f32>, rstd: *mut f32,
    ) = crms_norm_body;

    /// The derivative of [`crms_norm`]: `dx = rstd (g - (x + sum of x) rstd^2 (sum of g x) / (c + 1))` with `g = dy
    /// gamma`. Adds the columns' sums of `dy x rstd` to `dgamma`.
    ///
    /// # Safety
    /// As for [`crms_norm`]; `dx` may lie exactly where `dy` or `x` lies, and `dgamma` overlaps nothing.
    pub unsafe fn crms_norm_backward(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, rstd: *const f32, dy: Rows<f32>, dx: Rows<f32>,
        dgamma: *mut f32,
    ) = crms_norm_backward_body;
}

#[inline(always)]
unsafe fn crms_norm_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    eps: f32,
    y: Rows<f32>,
    rstd: *mut f32,
) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            let (from, to) = ((x.at(r).cast_const(), x.col), (y.at(r), y.col));
            *rstd.add(r) = if x.col == 1 && y.col == 1 {
                norm_row::<L>(c, (from.0, 1), gamma, eps, (to.0, 1))
            } else {
                norm_row::<L>(c, from, gamma, eps, to)
            };
        }
    }
}

/// Normalizes one row; returns its `rstd`.
#[inline(always)]
unsafe fn norm_row<L: Level>(
    c: usize,
    (x, x_col): (*const f32, usize),
    gamma: *const f32,
    eps: f32,
    (y, y_col): (*mut f32, usize),
) -> f32 {
    let [sums, squares] = sums_of_row!(c, |j, len, sums: 2| {
        // SAFETY: elements j..j+len lie within the row.
        let xs = unsafe { load(x.add(j * x_col), x_col, len, 0.0) };
        for i in 0..LANES {
            sums[0][i] += xs[i];
            sums[1][i] = fma::<L>(xs[i], xs[i], sums[1][i]);
        }
    });
    let last = sum(sums);
    let mean_square = (sum(squares) + last * last) / (c + 1) as f32;
    let rstd = 1.0 / (mean_square + eps).sqrt();
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunk is read before any of it is written.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let mut ys = [0.0; LANES];
            for i in 0..LANES {
                ys[i] = xs[i] * rstd * gammas[i];
            }
            store(y.add(j * y_col), y_col, len, &ys);
        }
    });
    rstd
}

#[inline(always)]
unsafe fn crms_norm_backward_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Rows<f32>,
    dgamma: *mut f32,
) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            let (from, cotangent) = ((x.at(r).cast_const(), x.col), (dy.at(r).cast_const(), dy.col));
            let to = (dx.at(r), dx.col);
            let rstd = *rstd.add(r);
            if x.col == 1 && dy.col == 1 && dx.col == 1 {
                norm_row_backward::<L>(c, (from.0, 1), gamma, rstd, (cotangent.0, 1), (to.0, 1), dgamma);
            } else {
                norm_row_backward::<L>(c, from, gamma, rstd, cotangent, to, dgamma);
            }
        }
    }
}

#[inline(always)]
unsafe fn norm_row_backward<L: Level>(
    c: usize,
    (x, x_col): (*const f32, usize),
    gamma: *const f32,
    rstd: f32,
    (dy, dy_col): (*const f32, usize),
    (dx, dx_col): (*mut f32, usize),
    dgamma: *mut f32,
) {
    let [sums, products] = sums_of_row!(c, |j, len, sums: 2| {
        // SAFETY: elements j..j+len lie within the row and within the columns' sums. Lanes beyond `len` are zero.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let mut dgammas = load(dgamma.add(j), 1, len, 0.0);
            for i in 0..LANES {
                sums[0][i] += xs[i];
                sums[1][i] = fma::<L>(dys[i] * gammas[i], xs[i], sums[1][i]);
                dgammas[i] = fma::<L>(dys[i], xs[i] * rstd, dgammas[i]);
            }
            store(dgamma.add(j), 1, len, &dgammas);
        }
    });
    let (total, factor) = (sum(sums), rstd * rstd * sum(products) / (c + 1) as f32);
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunks are read before any of them is written.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let mut dxs = [0.0; LANES];
            for i in 0..LANES {
                let g = dys[i] * gammas[i];
                dxs[i] = rstd * fma::<L>(-(xs[i] + total), factor, g);
            }
            store(dx.add(j * dx_col), dx_col, len, &dxs);
        }
    });
}

/// The kernel of [`ops::CrmsNorm`].
pub(crate) fn crms_norm_kernel(op: &ops::CrmsNorm, types: &Types<'_>) -> RowKernel {
    let (eps, c) = (op.eps as f32, types.inputs[0].last());
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        crms_norm(r.n, c, r.x(0), r.whole(1), eps, r.y(0), r.column(1));
    })
}

/// The kernel of [`ops::CrmsNormBackward`].
pub(crate) fn crms_norm_backward_kernel(_: &ops::CrmsNormBackward, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::sums(move |r| unsafe {
        let (gamma, rstd) = (r.whole(1), r.whole(2));
        crms_norm_backward(r.n, c, r.x(0), gamma, rstd, r.x(3), r.y(0), r.column(1));
    })
    .dense([2])
}
