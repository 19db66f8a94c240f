//! Softmax and log-softmax along rows.
//!
//! Every function takes `n` rows of `c` elements. An output may lie exactly where an input lies; otherwise
//! operands do not overlap.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::math::{exp, log};
use crate::simd::{LANES, Level, chunks, dispatch, fma, fold, larger, load, store, sum};

dispatch! {
    /// `y = e^x / sum(e^x)` along each row; zeros where all of a row is -inf.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements; see the module for overlaps.
    pub unsafe fn softmax(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) = softmax_body;

    /// `y = x - ln(sum(e^x))` along each row; NaN where all of a row is -inf.
    ///
    /// # Safety
    /// As for [`softmax`].
    pub unsafe fn log_softmax(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) = log_softmax_body;

    /// The derivative of [`softmax`] from its result: `dx = y (dy - sum(y dy))`.
    ///
    /// # Safety
    /// As for [`softmax`].
    pub unsafe fn softmax_backward(
        n: usize, c: usize, y: Rows<f32>, dy: Rows<f32>, dx: Rows<f32>,
    ) = softmax_backward_body;
}

/// The largest element of a row, NaNs ignored; -inf if there is none. The following sum propagates a NaN.
#[inline(always)]
pub(crate) unsafe fn row_shift(c: usize, (x, col): (*const f32, usize)) -> f32 {
    let mut largest = [f32::NEG_INFINITY; LANES];
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row.
        let xs = unsafe { load(x.add(j * col), col, len, f32::NEG_INFINITY) };
        for i in 0..LANES {
            largest[i] = larger(xs[i], largest[i]);
        }
    });
    fold(largest, larger)
}

/// The sum of `e^(x - shift)` along a row.
#[inline(always)]
pub(crate) unsafe fn row_sum_exp<L: Level>(c: usize, (x, col): (*const f32, usize), shift: f32) -> f32 {
    let [sums] = sums_of_row!(c, |j, len, sums: 1| {
        // SAFETY: elements j..j+len lie within the row. e^-inf adds nothing.
        let xs = unsafe { load(x.add(j * col), col, len, f32::NEG_INFINITY) };
        for i in 0..LANES {
            sums[0][i] += exp::<L>(xs[i] - shift);
        }
    });
    sum(sums)
}

/// `y = e^(x - shift)` along a row; returns the sum.
#[inline(always)]
unsafe fn row_exp<L: Level>(
    c: usize,
    (x, x_col): (*const f32, usize),
    shift: f32,
    (y, y_col): (*mut f32, usize),
) -> f32 {
    let [sums] = sums_of_row!(c, |j, len, sums: 1| {
        // SAFETY: elements j..j+len lie within the rows; the chunk is read before any of it is written.
        unsafe {
            let mut xs = load(x.add(j * x_col), x_col, len, f32::NEG_INFINITY);
            for i in 0..LANES {
                xs[i] = exp::<L>(xs[i] - shift);
                sums[0][i] += xs[i];
            }
            store(y.add(j * y_col), y_col, len, &xs);
        }
    });
    sum(sums)
}

/// `y = y a` along a row.
#[inline(always)]
unsafe fn row_scale(c: usize, (y, col): (*mut f32, usize), a: f32) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row.
        unsafe {
            let mut ys = load(y.add(j * col), col, len, 0.0);
            for i in 0..LANES {
                ys[i] *= a;
            }
            store(y.add(j * col), col, len, &ys);
        }
    });
}

/// `y = (x - a) - b` along a row.
#[inline(always)]
unsafe fn row_subtract(c: usize, (x, x_col): (*const f32, usize), a: f32, b: f32, (y, y_col): (*mut f32, usize)) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunk is read before any of it is written.
        unsafe {
            let mut xs = load(x.add(j * x_col), x_col, len, 0.0);
            for i in 0..LANES {
                xs[i] = (xs[i] - a) - b;
            }
            store(y.add(j * y_col), y_col, len, &xs);
        }
    });
}

/// Softmax of one row; inlined with constant strides where they are 1.
#[inline(always)]
pub(crate) unsafe fn softmax_row<L: Level>(c: usize, x: (*const f32, usize), y: (*mut f32, usize)) {
    // SAFETY: passed on.
    unsafe {
        let largest = row_shift(c, x);
        // With nothing to weigh, all weights are zero: e^(-inf - 0) / 1.
        let nothing = largest == f32::NEG_INFINITY;
        let total = row_exp::<L>(c, x, if nothing { 0.0 } else { largest }, y);
        row_scale(c, y, if nothing { 1.0 } else { 1.0 / total });
    }
}

#[inline(always)]
unsafe fn softmax_body<L: Level>(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    for r in 0..n {
        // SAFETY: row `r` lies within the operands.
        unsafe {
            if x.col == 1 && y.col == 1 {
                softmax_row::<L>(c, (x.at(r), 1), (y.at(r), 1));
            } else {
                softmax_row::<L>(c, (x.at(r), x.col), (y.at(r), y.col));
            }
        }
    }
}

#[inline(always)]
unsafe fn log_softmax_body<L: Level>(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    for r in 0..n {
        let (from, to) = ((x.at(r) as *const f32, x.col), (y.at(r), y.col));
        // SAFETY: row `r` lies within the operands.
        unsafe {
            if x.col == 1 && y.col == 1 {
                log_softmax_row::<L>(c, (from.0, 1), (to.0, 1));
            } else {
                log_softmax_row::<L>(c, from, to);
            }
        }
    }
}

#[inline(always)]
unsafe fn log_softmax_row<L: Level>(c: usize, x: (*const f32, usize), y: (*mut f32, usize)) {
    // SAFETY: passed on.
    unsafe {
        let largest = row_shift(c, x);
        row_subtract(c, x, largest, log::<L>(row_sum_exp::<L>(c, x, largest)), y);
    }
}

#[inline(always)]
unsafe fn softmax_backward_body<L: Level>(n: usize, c: usize, y: Rows<f32>, dy: Rows<f32>, dx: Rows<f32>) {
    for r in 0..n {
        let row = (y.at(r) as *const f32, dy.at(r) as *const f32, dx.at(r));
        // SAFETY: row `r` lies within the operands.
        unsafe {
            if y.col == 1 && dy.col == 1 && dx.col == 1 {
                softmax_row_backward::<L>(c, row, 1, 1, 1);
            } else {
                softmax_row_backward::<L>(c, row, y.col, dy.col, dx.col);
            }
        }
    }
}

#[inline(always)]
unsafe fn softmax_row_backward<L: Level>(
    c: usize,
    (y, dy, dx): (*const f32, *const f32, *mut f32),
    y_col: usize,
    dy_col: usize,
    dx_col: usize,
) {
    let [sums] = sums_of_row!(c, |j, len, sums: 1| {
        // SAFETY: elements j..j+len lie within the rows.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            for i in 0..LANES {
                sums[0][i] = fma::<L>(ys[i], dys[i], sums[0][i]);
            }
        }
    });
    let total = sum(sums);
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunks are read before any of them is written.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let mut dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            for i in 0..LANES {
                dys[i] = ys[i] * (dys[i] - total);
            }
            store(dx.add(j * dx_col), dx_col, len, &dys);
        }
    });
}

/// The kernel of [`ops::Softmax`].
pub(crate) fn softmax_kernel(_: &ops::Softmax, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe { softmax(r.n, c, r.x(0), r.y(0)) })
}

/// The kernel of [`ops::SoftmaxBackward`].
pub(crate) fn softmax_backward_kernel(_: &ops::SoftmaxBackward, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe { softmax_backward(r.n, c, r.x(0), r.x(1), r.y(0)) })
}

/// The kernel of [`ops::LogSoftmax`].
pub(crate) fn log_softmax_kernel(_: &ops::LogSoftmax, types: &Types<'_>) -> RowKernel {
    let c = types.inputs[0].last();
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe { log_softmax(r.n, c, r.x(0), r.y(0)) })
}
