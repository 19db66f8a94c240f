//! Derivatives of layer normalization and root-mean-square normalization from their outputs: `h = (y - beta) / gamma`.
//!
//! The mean of `dy gamma h` is that of `dy (y - beta)`, so that an element is divided once.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store, sum};

/// The vectors of a norm's columns.
#[derive(Clone, Copy)]
pub struct Columns {
    /// The scale.
    pub gamma: *const f32,
    /// The shift.
    pub beta: *const f32,
    /// The sums of `dy h`.
    pub dgamma: *mut f32,
    /// The sums of `dy`.
    pub dbeta: *mut f32,
}

dispatch! {
    /// The derivative of layer normalization: `dx = rstd (g - mean(g) - h mean(g h))` with `g = dy gamma`. Adds the
    /// columns' sums of `dy h` to `dgamma` and the columns' sums of `dy` to `dbeta`.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements, the vectors `c` elements, `rstd` `n`. `dx` may lie exactly where
    /// `y` or `dy` lies; otherwise the written memory overlaps nothing.
    pub unsafe fn layer_norm_backward_from_output(
        n: usize, c: usize, y: Rows<f32>, columns: Columns, rstd: *const f32, dy: Rows<f32>, dx: Rows<f32>,
    ) = layer_norm_body;

    /// The derivative of root-mean-square normalization: `dx = rstd (g - h mean(g h))` with `g = dy gamma` and `h = y /
    /// gamma`. Adds the columns' sums of `dy h` to `dgamma`; there is no `beta` and no `dbeta`.
    ///
    /// # Safety
    /// As for [`layer_norm_backward_from_output`].
    pub unsafe fn rms_norm_backward_from_output(
        n: usize, c: usize, y: Rows<f32>, columns: Columns, rstd: *const f32, dy: Rows<f32>, dx: Rows<f32>,
    ) = rms_norm_body;
}

#[inline(always)]
unsafe fn layer_norm_body<L: Level>(
    n: usize,
    c: usize,
    y: Rows<f32>,
    columns: Columns,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Rows<f32>,
) {
    // SAFETY: passed on.
    unsafe { backward::<L, true>(n, c, y, columns, rstd, dy, dx) }
}

#[inline(always)]
unsafe fn rms_norm_body<L: Level>(
    n: usize,
    c: usize,
    y: Rows<f32>,
    columns: Columns,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Rows<f32>,
) {
    // SAFETY: passed on.
    unsafe { backward::<L, false>(n, c, y, columns, rstd, dy, dx) }
}

#[inline(always)]
unsafe fn backward<L: Level, const CENTER: bool>(
    n: usize,
    c: usize,
    y: Rows<f32>,
    columns: Columns,
    rstd: *const f32,
    dy: Rows<f32>,
    dx: Rows<f32>,
) {
    for r in 0..n {
        let (y_row, dy_row, dx_row) = (y.at(r) as *const f32, dy.at(r) as *const f32, dx.at(r));
        // SAFETY: the rows lie within the operands, and `r < n`.
        unsafe {
            let rstd = *rstd.add(r);
            if [y.col, dy.col, dx.col] == [1; 3] {
                let means = row_means::<L, CENTER>(c, columns, (y_row, 1), (dy_row, 1));
                row_dx::<L, CENTER>(c, columns, rstd, means, (y_row, 1), (dy_row, 1), (dx_row, 1));
            } else {
                let (y, dy, dx) = ((y_row, y.col), (dy_row, dy.col), (dx_row, dx.col));
                let means = row_means::<L, CENTER>(c, columns, y, dy);
                row_dx::<L, CENTER>(c, columns, rstd, means, y, dy, dx);
            }
        }
    }
}

/// The shift of columns `j..j + len`.
#[inline(always)]
unsafe fn shift<const CENTER: bool>(columns: Columns, j: usize, len: usize) -> [f32; LANES] {
    if CENTER {
        // SAFETY: the caller's columns lie within the vector.
        unsafe { load(columns.beta.add(j), 1, len, 0.0) }
    } else {
        [0.0; LANES]
    }
}

/// The means of `g` (0 when not centering) and of `g h`.
#[inline(always)]
unsafe fn row_means<L: Level, const CENTER: bool>(
    c: usize,
    columns: Columns,
    (y, y_col): (*const f32, usize),
    (dy, dy_col): (*const f32, usize),
) -> (f32, f32) {
    let [s1, s2] = sums_of_row!(c, |j, len, sums: 2| {
        // SAFETY: elements j..j+len lie within the rows and the vectors. Lanes beyond `len` have dy = 0.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(columns.gamma.add(j), 1, len, 1.0);
            let betas = shift::<CENTER>(columns, j, len);
            for i in 0..LANES {
                sums[1][i] = fma::<L>(dys[i], ys[i] - betas[i], sums[1][i]);
                if CENTER {
                    sums[0][i] = fma::<L>(dys[i], gammas[i], sums[0][i]);
                }
            }
        }
    });
    (if CENTER { sum(s1) / c as f32 } else { 0.0 }, sum(s2) / c as f32)
}

/// Writes `dx`, and adds the row's part to the sums of columns.
#[inline(always)]
unsafe fn row_dx<L: Level, const CENTER: bool>(
    c: usize,
    columns: Columns,
    rstd: f32,
    (m1, m2): (f32, f32),
    (y, y_col): (*const f32, usize),
    (dy, dy_col): (*const f32, usize),
    (dx, dx_col): (*mut f32, usize),
) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows and the vectors; the chunks are read before any of them is
        // written.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            let gammas = load(columns.gamma.add(j), 1, len, 1.0);
            let betas = shift::<CENTER>(columns, j, len);
            let mut dgammas = load(columns.dgamma.add(j), 1, len, 0.0);
            let mut dxs = [0.0; LANES];
            for i in 0..LANES {
                let h = (ys[i] - betas[i]) / gammas[i];
                dgammas[i] = fma::<L>(dys[i], h, dgammas[i]);
                let g = fma::<L>(dys[i], gammas[i], -m1);
                dxs[i] = rstd * fma::<L>(-h, m2, g);
            }
            store(columns.dgamma.add(j), 1, len, &dgammas);
            if CENTER {
                let mut dbetas = load(columns.dbeta.add(j), 1, len, 0.0);
                for i in 0..LANES {
                    dbetas[i] += dys[i];
                }
                store(columns.dbeta.add(j), 1, len, &dbetas);
            }
            store(dx.add(j * dx_col), dx_col, len, &dxs);
        }
    });
}

/// The kernel of [`ops::LayerNormBackwardFromOutput`].
pub(crate) fn layer_norm_kernel(_: &ops::LayerNormBackwardFromOutput, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::sums(move |r| unsafe {
        let columns = Columns {
            gamma: r.whole(1),
            beta: r.whole(2),
            dgamma: r.column(1),
            dbeta: r.column(2),
        };
        layer_norm_backward_from_output(r.n, c, r.x(0), columns, r.whole(3), r.x(4), r.y(0));
    })
    .dense([3])
}

/// The kernel of [`ops::RmsNormBackwardFromOutput`].
pub(crate) fn rms_norm_kernel(_: &ops::RmsNormBackwardFromOutput, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::sums(move |r| unsafe {
        let columns = Columns {
            gamma: r.whole(1),
            beta: std::ptr::null(),
            dgamma: r.column(1),
            dbeta: std::ptr::null_mut(),
        };
        rms_norm_backward_from_output(r.n, c, r.x(0), columns, r.whole(2), r.x(3), r.y(0));
    })
    .dense([2])
}
