//! Logits divided by the temperature of their row (Jiang et al. 2023), and the derivative.
//!
//! Both take `n` rows of `c >= 1` elements. As in [`norm`](super::norm), the variance gets a pass of its own.

use lessen_graph::ops;
use lessen_graph::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store, sum};

dispatch! {
    /// `y = (x - m) / t` with the row's temperature and its mean or 0, as [`ops::NormLogits`] says; writes `t[r]`, and
    /// to `s[r]` the number `slope` where the temperature follows the row, else 0.
    ///
    /// # Safety
    /// The operands cover `n` rows of `c` elements, `t` and `s` have `n`. `y` may lie exactly where `x` lies; otherwise
    /// the written memory overlaps nothing.
    pub unsafe fn norm_logits(
        temperature: Temperature, slope: f32, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>, t: *mut f32, s: *mut f32,
    ) = norm_logits_body;

    /// `dx = (dy - mean(dy) - s sum(dy y) y) / t`, the mean only if `centered`.
    ///
    /// # Safety
    /// As for [`norm_logits`]; `dx` may lie exactly where `y` or `dy` lies.
    pub unsafe fn norm_logits_backward(
        centered: bool, n: usize, c: usize, y: Rows<f32>, t: *const f32, s: *const f32, dy: Rows<f32>, dx: Rows<f32>,
    ) = norm_logits_backward_body;
}

#[inline(always)]
unsafe fn norm_logits_body<L: Level>(
    temperature: Temperature,
    slope: f32,
    n: usize,
    c: usize,
    x: Rows<f32>,
    y: Rows<f32>,
    t: *mut f32,
    s: *mut f32,
) {
    for r in 0..n {
        // SAFETY: row `r` lies within the operands, and `r < n`.
        unsafe {
            let (from, to) = (x.at(r) as *const f32, y.at(r));
            let (value, follows) = if x.col == 1 && y.col == 1 {
                normalize_row::<L>(temperature, c, (from, 1), (to, 1))
            } else {
                normalize_row::<L>(temperature, c, (from, x.col), (to, y.col))
            };
            *t.add(r) = value;
            *s.add(r) = if follows { slope } else { 0.0 };
        }
    }
}

/// Normalizes one row; its temperature, and whether that follows the row.
#[inline(always)]
unsafe fn normalize_row<L: Level>(
    temperature: Temperature,
    c: usize,
    (x, x_col): (*const f32, usize),
    (y, y_col): (*mut f32, usize),
) -> (f32, bool) {
    let mut mean = 0.0;
    if temperature.centered {
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
    let sigma = (sum(squares) / c as f32).sqrt();
    let (clipped, free) = match temperature.clip {
        Clip::AtMost(gamma) => (sigma.min(gamma as f32), sigma < gamma as f32),
        Clip::AtLeast(floor) => (sigma.max(floor as f32), sigma > floor as f32),
    };
    let least = LEAST_TEMPERATURE as f32;
    // The maximum would turn NaN into a number.
    let clipped = if sigma.is_nan() { sigma } else { clipped.max(least) };
    let t = temperature.tau as f32 * clipped;
    let scale = 1.0 / t;
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunk is read before any of it is written.
        unsafe {
            let mut xs = load(x.add(j * x_col), x_col, len, 0.0);
            for i in 0..LANES {
                xs[i] = (xs[i] - mean) * scale;
            }
            store(y.add(j * y_col), y_col, len, &xs);
        }
    });
    (t, free && clipped > least)
}

#[inline(always)]
unsafe fn norm_logits_backward_body<L: Level>(
    centered: bool,
    n: usize,
    c: usize,
    y: Rows<f32>,
    t: *const f32,
    s: *const f32,
    dy: Rows<f32>,
    dx: Rows<f32>,
) {
    for r in 0..n {
        let row = (y.at(r) as *const f32, dy.at(r) as *const f32, dx.at(r));
        // SAFETY: row `r` lies within the operands, and `r < n`.
        unsafe {
            let (t, s) = (*t.add(r), *s.add(r));
            if y.col == 1 && dy.col == 1 && dx.col == 1 {
                derive_row::<L>(centered, c, (t, s), row, [1; 3]);
            } else {
                derive_row::<L>(centered, c, (t, s), row, [y.col, dy.col, dx.col]);
            }
        }
    }
}

#[inline(always)]
unsafe fn derive_row<L: Level>(
    centered: bool,
    c: usize,
    (t, s): (f32, f32),
    (y, dy, dx): (*const f32, *const f32, *mut f32),
    [y_col, dy_col, dx_col]: [usize; 3],
) {
    let [sums, products] = sums_of_row!(c, |j, len, sums: 2| {
        // SAFETY: elements j..j+len lie within the rows.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            for i in 0..LANES {
                sums[0][i] += dys[i];
                sums[1][i] = fma::<L>(ys[i], dys[i], sums[1][i]);
            }
        }
    });
    let mean = if centered { sum(sums) / c as f32 } else { 0.0 };
    let along = s * sum(products);
    let scale = 1.0 / t;
    chunks!(c, |j, len| {
        // SAFETY: as above; the chunks are read before any of them is written.
        unsafe {
            let ys = load(y.add(j * y_col), y_col, len, 0.0);
            let mut dys = load(dy.add(j * dy_col), dy_col, len, 0.0);
            for i in 0..LANES {
                dys[i] = fma::<L>(-along, ys[i], dys[i] - mean) * scale;
            }
            store(dx.add(j * dx_col), dx_col, len, &dys);
        }
    });
}

/// The kernel of [`ops::NormLogits`].
pub(crate) fn norm_logits_kernel(op: &ops::NormLogits, types: &Types<'_>) -> RowKernel {
    let (temperature, c) = (op.temperature, types.inputs[0].last());
    let slope = op.slope(c) as f32;
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        norm_logits(temperature, slope, r.n, c, r.x(0), r.y(0), r.column(1), r.column(2));
    })
}

/// The kernel of [`ops::NormLogitsBackward`].
pub(crate) fn norm_logits_backward_kernel(op: &ops::NormLogitsBackward, types: &Types<'_>) -> RowKernel {
    let (centered, c) = (op.centered, types.inputs[0].last());
    // SAFETY: see `Run`.
    let kernel = RowKernel::rows(move |r| unsafe {
        norm_logits_backward(centered, r.n, c, r.x(0), r.whole(1), r.whole(2), r.x(3), r.y(0));
    });
    kernel.dense([1, 2])
}
