//! Layer normalization (Ba, Kiros and Hinton 2016), root-mean-square normalization (Zhang and Sennrich 2019),
//! and their derivatives.
//!
//! Every function takes `n` rows of `c >= 1` elements. A row is in the L1 cache after its first pass, so the
//! variance gets a second pass, which avoids cancellation where the mean is large.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store, sum};

dispatch! {
    /// `y = (x - mean) rstd gamma + beta`, with the row's mean and `rstd = 1 / sqrt(variance + eps)`, which
    /// are written to `mean[r]` and `rstd[r]`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements, `gamma` and `beta` `c` elements, `mean` and `rstd` `n`. `y` may lie
    /// exactly where `x` lies; otherwise the written memory overlaps nothing.
    pub unsafe fn layer_norm(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, beta: *const f32, eps: f32, y: Rows<f32>,
        mean: *mut f32, rstd: *mut f32,
    ) = layer_norm_body;

    /// `y = x rstd gamma`, with the row's `rstd = 1 / sqrt(mean of x^2 + eps)`, which is written to
    /// `rstd[r]`.
    ///
    /// # Safety
    /// As for [`layer_norm`].
    pub unsafe fn rms_norm(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, eps: f32, y: Rows<f32>, rstd: *mut f32,
    ) = rms_norm_body;

    /// The derivative of [`layer_norm`]: `dx = rstd (g - mean(g) - xhat mean(g xhat))` with `g = dy gamma` and
    /// `xhat = (x - mean) rstd`, unless there is no `dx`. Adds the columns' sums of `dy xhat` to `dgamma` and the
    /// columns' sums of `dy` to `dbeta`.
    ///
    /// # Safety
    /// As for [`layer_norm`]; `dx` may lie exactly where `dy` or `x` lies, and `dgamma` and `dbeta` overlap
    /// nothing.
    pub unsafe fn layer_norm_backward(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, mean: *const f32, rstd: *const f32,
        dy: Rows<f32>, dx: Option<Rows<f32>>, dgamma: *mut f32, dbeta: *mut f32,
    ) = layer_norm_backward_body;

    /// The derivative of [`rms_norm`]: `dx = rstd (g - xhat mean(g xhat))` with `g = dy gamma` and `xhat = x
    /// rstd`, unless there is no `dx`. Adds the columns' sums of `dy xhat` to `dgamma`.
    ///
    /// # Safety
    /// As for [`layer_norm_backward`].
    pub unsafe fn rms_norm_backward(
        n: usize, c: usize, x: Rows<f32>, gamma: *const f32, rstd: *const f32, dy: Rows<f32>,
        dx: Option<Rows<f32>>, dgamma: *mut f32,
    ) = rms_norm_backward_body;
}

#[inline(always)]
unsafe fn layer_norm_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    beta: *const f32,
    eps: f32,
    y: Rows<f32>,
    mean: *mut f32,
    rstd: *mut f32,
) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            let (m, s) = if x.col == 1 && y.col == 1 {
                norm_row::<L, true>(c, x.at(r), 1, gamma, beta, eps, y.at(r), 1)
            } else {
                norm_row::<L, true>(c, x.at(r), x.col, gamma, beta, eps, y.at(r), y.col)
            };
            *mean.add(r) = m;
            *rstd.add(r) = s;
        }
    }
}

#[inline(always)]
unsafe fn rms_norm_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    eps: f32,
    y: Rows<f32>,
    rstd: *mut f32,
) {
    for r in 0..n {
        let none = std::ptr::null();
        // SAFETY: the rows lie within the operands, and `r < n`; without centering there is no `beta` to
        // read.
        unsafe {
            let (_, s) = if x.col == 1 && y.col == 1 {
                norm_row::<L, false>(c, x.at(r), 1, gamma, none, eps, y.at(r), 1)
            } else {
                norm_row::<L, false>(c, x.at(r), x.col, gamma, none, eps, y.at(r), y.col)
            };
            *rstd.add(r) = s;
        }
    }
}

/// Normalizes one row; returns its mean (0 when not centering) and `rstd`.
#[inline(always)]
unsafe fn norm_row<L: Level, const CENTER: bool>(
    c: usize,
    x: *const f32,
    x_col: usize,
    gamma: *const f32,
    beta: *const f32,
    eps: f32,
    y: *mut f32,
    y_col: usize,
) -> (f32, f32) {
    let mut mean = 0.0;
    if CENTER {
        let [sums] = sums_of_row!(c, |j, len, sums: 1| {
            // SAFETY: elements j..j+len lie within the row.
            let xs = unsafe { load(x.add(j * x_col), x_col, len, 0.0) };
            for i in 0..LANES {
                sums[0][i] += xs[i];
            }
        });
        mean = sum(sums) / c as f32;
    }
    let [squares] = sums_of_row!(c, |j, len, squares: 1| {
        // SAFETY: as above. Filled up with the mean, the other lanes add nothing.
        let xs = unsafe { load(x.add(j * x_col), x_col, len, mean) };
        for i in 0..LANES {
            let d = xs[i] - mean;
            squares[0][i] = fma::<L>(d, d, squares[0][i]);
        }
    });
    let rstd = 1.0 / (sum(squares) / c as f32 + eps).sqrt();
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunk is read before any of it is written.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let betas = if CENTER {
                load(beta.add(j), 1, len, 0.0)
            } else {
                [0.0; LANES]
            };
            let mut ys = [0.0; LANES];
            for i in 0..LANES {
                let normal = (xs[i] - mean) * rstd;
                ys[i] = if CENTER {
                    fma::<L>(normal, gammas[i], betas[i])
                } else {
                    normal * gammas[i]
                };
            }
            store(y.add(j * y_col), y_col, len, &ys);
        }
    });
    (mean, rstd)
}

#[inline(always)]
unsafe fn layer_norm_backward_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    mean: *const f32,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Option<Rows<f32>>,
    dgamma: *mut f32,
    dbeta: *mut f32,
) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            let row = Row {
                c,
                mean: *mean.add(r),
                rstd: *rstd.add(r),
                gamma,
                dgamma,
                dbeta,
            };
            norm_row_backward::<L, true>(row, r, x, dy, dx);
        }
    }
}

#[inline(always)]
unsafe fn rms_norm_backward_body<L: Level>(
    n: usize,
    c: usize,
    x: Rows<f32>,
    gamma: *const f32,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Option<Rows<f32>>,
    dgamma: *mut f32,
) {
    for r in 0..n {
        // SAFETY: the rows lie within the operands, and `r < n`; without centering nothing is added to
        // `dbeta`.
        unsafe {
            let rstd = *rstd.add(r);
            let row = Row {
                c,
                mean: 0.0,
                rstd,
                gamma,
                dgamma,
                dbeta: std::ptr::null_mut(),
            };
            norm_row_backward::<L, false>(row, r, x, dy, dx);
        }
    }
}

/// The statistics that a row's derivative reads besides the row.
#[derive(Clone, Copy)]
struct Row {
    c: usize,
    mean: f32,
    rstd: f32,
    gamma: *const f32,
    dgamma: *mut f32,
    dbeta: *mut f32,
}

#[inline(always)]
unsafe fn norm_row_backward<L: Level, const CENTER: bool>(
    row: Row,
    r: usize,
    x: Rows<f32>,
    dy: Rows<f32>,
    dx: Option<Rows<f32>>,
) {
    let target = dx.map(|dx| (dx.at(r), dx.col));
    let dense = x.col == 1 && dy.col == 1 && dx.is_none_or(|dx| dx.col == 1);
    // SAFETY: row `r` lies within the operands.
    unsafe {
        let (m1, m2) = if dense {
            row_sums::<L, CENTER>(row, (x.at(r), 1), (dy.at(r), 1))
        } else {
            row_sums::<L, CENTER>(row, (x.at(r), x.col), (dy.at(r), dy.col))
        };
        match target {
            Some((dx, _)) if dense => row_dx::<L>(row, m1, m2, (x.at(r), 1), (dy.at(r), 1), (dx, 1)),
            Some(dx) => row_dx::<L>(row, m1, m2, (x.at(r), x.col), (dy.at(r), dy.col), dx),
            None => {}
        }
    }
}

/// Adds the row's part to `dgamma` and `dbeta`; returns the means of `g` (0 when not centering) and of `g
/// xhat`.
#[inline(always)]
unsafe fn row_sums<L: Level, const CENTER: bool>(
    row: Row,
    (x, x_col): (*const f32, usize),
    (dy, dy_col): (*const f32, usize),
) -> (f32, f32) {
    let Row {
        c,
        mean,
        rstd,
        gamma,
        dgamma,
        dbeta,
    } = row;
    let [s1, s2] = sums_of_row!(c, |j, len, sums: 2| {
        // SAFETY: elements j..j+len lie within the row and within the columns' sums. Lanes beyond `len` have
        // dy = 0.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, mean);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let mut dgammas = load(dgamma.add(j), 1, len, 0.0);
            let mut dbetas = if CENTER {
                load(dbeta.add(j), 1, len, 0.0)
            } else {
                [0.0; LANES]
            };
            for i in 0..LANES {
                let xhat = (xs[i] - mean) * rstd;
                let g = dys[i] * gammas[i];
                sums[1][i] = fma::<L>(g, xhat, sums[1][i]);
                dgammas[i] = fma::<L>(dys[i], xhat, dgammas[i]);
                if CENTER {
                    sums[0][i] += g;
                    dbetas[i] += dys[i];
                }
            }
            store(dgamma.add(j), 1, len, &dgammas);
            if CENTER {
                store(dbeta.add(j), 1, len, &dbetas);
            }
        }
    });
    (if CENTER { sum(s1) / c as f32 } else { 0.0 }, sum(s2) / c as f32)
}

#[inline(always)]
unsafe fn row_dx<L: Level>(
    row: Row,
    m1: f32,
    m2: f32,
    (x, x_col): (*const f32, usize),
    (dy, dy_col): (*const f32, usize),
    (dx, dx_col): (*mut f32, usize),
) {
    let Row {
        c, mean, rstd, gamma, ..
    } = row;
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunks are read before any of them is written.
        unsafe {
            let xs = load(x.add(j * x_col), x_col, len, mean);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(gamma.add(j), 1, len, 0.0);
            let mut dxs = [0.0; LANES];
            for i in 0..LANES {
                let xhat = (xs[i] - mean) * rstd;
                let g = fma::<L>(dys[i], gammas[i], -m1);
                dxs[i] = rstd * fma::<L>(-xhat, m2, g);
            }
            store(dx.add(j * dx_col), dx_col, len, &dxs);
        }
    });
}

/// The kernel of [`ops::LayerNorm`].
pub(crate) fn layer_norm_kernel(op: &ops::LayerNorm, types: &Types<'_>) -> RowKernel {
    let (eps, c) = (op.eps as f32, types.inputs[0].last());
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        let (gamma, beta) = (r.whole(1), r.whole(2));
        layer_norm(r.n, c, r.x(0), gamma, beta, eps, r.y(0), r.column(1), r.column(2));
    })
}

/// The kernel of [`ops::LayerNormBackward`].
pub(crate) fn layer_norm_backward_kernel(_: &ops::LayerNormBackward, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::sums(move |r| unsafe {
        let [gamma, mean, rstd] = [1, 2, 3].map(|i| r.whole(i));
        let (dx, dgamma, dbeta) = (Some(r.y(0)), r.column(1), r.column(2));
        layer_norm_backward(r.n, c, r.x(0), gamma, mean, rstd, r.x(4), dx, dgamma, dbeta);
    })
    .dense([2, 3])
}

/// The kernel of [`ops::RmsNorm`].
pub(crate) fn rms_norm_kernel(op: &ops::RmsNorm, types: &Types<'_>) -> RowKernel {
    let (eps, c) = (op.eps as f32, types.inputs[0].last());
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        rms_norm(r.n, c, r.x(0), r.whole(1), eps, r.y(0), r.column(1));
    })
}

/// The kernel of [`ops::RmsNormBackward`].
pub(crate) fn rms_norm_backward_kernel(_: &ops::RmsNormBackward, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::sums(move |r| unsafe {
        let (gamma, rstd) = (r.whole(1), r.whole(2));
        rms_norm_backward(r.n, c, r.x(0), gamma, rstd, r.x(3), Some(r.y(0)), r.column(1));
    })
    .dense([2])
}
