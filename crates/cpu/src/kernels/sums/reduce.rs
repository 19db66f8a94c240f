//! Reductions of blocks of rows, each in a fixed order: along rows, along columns, over everything.

use lessen_graph::ops::ReduceKind;

use super::pairwise::{RUN, in_runs, sums_of_row};
use crate::kernels::rows::{Rows, flatten};
use crate::kernels::widths::{self, widths};
use crate::simd::{LANES, Level, chunks, dispatch, fold, load, max, min, store, sum};

dispatch! {
    /// `y[r]` is the sum, the largest or the smallest of row `r`; the latter two are NaN if any element is.
    /// Of no elements they are 0, -inf and inf.
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements, and `y` has `n`; they do not overlap.
    pub unsafe fn reduce_rows(
        kind: ReduceKind, n: usize, c: usize, x: Rows<f32>, y: *mut f32,
    ) = reduce_rows_body;

    /// Adds the sum of each column to `acc[j]`.
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements, and `acc` has `c`; they do not overlap.
    pub unsafe fn sum_cols(n: usize, c: usize, x: Rows<f32>, acc: *mut f32) = sum_cols_body;

    /// `acc[j]` becomes the largest or the smallest of itself and column `j`, NaN if any of them is.
    ///
    /// # Safety
    /// As for [`sum_cols`].
    pub unsafe fn extreme_cols(
        kind: ReduceKind, n: usize, c: usize, x: Rows<f32>, acc: *mut f32,
    ) = extreme_cols_body;

    /// The sum of all elements.
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements.
    pub unsafe fn sum_all(n: usize, c: usize, x: Rows<f32>) -> f32 = sum_all_body;
}

#[inline(always)]
unsafe fn reduce_rows_body<L: Level>(kind: ReduceKind, n: usize, c: usize, x: Rows<f32>, y: *mut f32) {
    if kind == ReduceKind::Sum && c > RUN * LANES {
        for r in 0..n {
            // SAFETY: row `r` lies within `x`, and `r < n`.
            unsafe { *y.add(r) = sum(long_row_sums(c, x, r)) };
        }
        return;
    }
    for r in 0..n {
        let row = (x.at(r) as *const f32, x.col);
        // SAFETY: row `r` lies within `x`, and `r < n`.
        unsafe {
            *y.add(r) = match (kind, x.col) {
                (ReduceKind::Sum, 1) => row_sum(c, (row.0, 1)),
                (ReduceKind::Sum, _) => row_sum(c, row),
                (ReduceKind::Max, 1) => row_fold(c, (row.0, 1), f32::NEG_INFINITY, max),
                (ReduceKind::Max, _) => row_fold(c, row, f32::NEG_INFINITY, max),
                (ReduceKind::Min, 1) => row_fold(c, (row.0, 1), f32::INFINITY, min),
                (ReduceKind::Min, _) => row_fold(c, row, f32::INFINITY, min),
            };
        }
    }
}

#[inline(always)]
unsafe fn row_sum(c: usize, x: (*const f32, usize)) -> f32 {
    let mut sums = [0.0; LANES];
    // SAFETY: passed on.
    unsafe { add_row(c, x, &mut sums) };
    sum(sums)
}

/// [`row_sums`] of row `r`, inlined with a constant stride where it is 1.
#[inline(always)]
unsafe fn long_row_sums(c: usize, x: Rows<f32>, r: usize) -> [f32; LANES] {
    // SAFETY: passed on.
    unsafe {
        if x.col == 1 {
            row_sums(c, (x.at(r), 1))
        } else {
            row_sums(c, (x.at(r), x.col))
        }
    }
}

/// The sum of the elements `j` of a row with the same `j % LANES`.
#[inline(always)]
unsafe fn row_sums(c: usize, (x, col): (*const f32, usize)) -> [f32; LANES] {
    let [sums] = sums_of_row!(c, |j, len, sums: 1| {
        // SAFETY: elements j..j+len lie within the row.
        let xs = unsafe { load(x.add(j * col), col, len, 0.0) };
        for i in 0..LANES {
            sums[0][i] += xs[i];
        }
    });
    sums
}

/// Adds element `j` of a row to lane `j % LANES`.
#[inline(always)]
unsafe fn add_row(c: usize, (x, col): (*const f32, usize), sums: &mut [f32; LANES]) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row.
        let xs = unsafe { load(x.add(j * col), col, len, 0.0) };
        for i in 0..LANES {
            sums[i] += xs[i];
        }
    });
}

/// Combines all elements of a row, in lanes and then in a tree; the neutral element if there are none.
#[inline(always)]
unsafe fn row_fold(c: usize, (x, col): (*const f32, usize), neutral: f32, combine: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [neutral; LANES];
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row.
        let xs = unsafe { load(x.add(j * col), col, len, neutral) };
        for i in 0..LANES {
            lanes[i] = combine(lanes[i], xs[i]);
        }
    });
    fold(lanes, combine)
}

#[inline(always)]
unsafe fn sum_cols_body<L: Level>(n: usize, c: usize, x: Rows<f32>, acc: *mut f32) {
    if x.col == 1 {
        // SAFETY: passed on.
        return unsafe { sum_dense_cols(n, c, x, acc) };
    }
    chunks!(c, |j, len| {
        // SAFETY: columns j..j+len lie within `x` and `acc`.
        unsafe {
            let [sums] = in_runs!(n, RUN, |rows| {
                let mut sums = [[0.0; LANES]];
                for r in rows {
                    let xs = load(x.element(r, j) as *const f32, x.col, len, 0.0);
                    for i in 0..LANES {
                        sums[0][i] += xs[i];
                    }
                }
                sums
            });
            let mut accs = load(acc.add(j) as *const f32, 1, len, 0.0);
            for i in 0..LANES {
                accs[i] += sums[i];
            }
            store(acc.add(j), 1, len, &accs);
        }
    });
}

/// [`sum_cols`] of rows whose elements follow each other: all in vectors, for few columns, too.
#[inline(always)]
unsafe fn sum_dense_cols(n: usize, c: usize, x: Rows<f32>, acc: *mut f32) {
    widths!(c, |j, W| {
        // SAFETY: columns j..j+W lie within `x` and `acc`.
        unsafe {
            let [sums] = in_runs!(n, RUN, |rows| {
                let mut sums = [[0.0f32; W]];
                for r in rows {
                    let xs: [f32; W] = widths::load(x.at(r).add(j));
                    for i in 0..W {
                        sums[0][i] += xs[i];
                    }
                }
                sums
            });
            let mut accs: [f32; W] = widths::load(acc.add(j));
            for i in 0..W {
                accs[i] += sums[i];
            }
            widths::store(acc.add(j), accs);
        }
    });
}

#[inline(always)]
unsafe fn sum_all_body<L: Level>(n: usize, c: usize, x: Rows<f32>) -> f32 {
    flatten!(n, c, x);
    let chunks = c.div_ceil(LANES).max(1);
    let [sums] = in_runs!(n, (RUN / chunks).max(1), |rows| {
        let mut sums = [[0.0; LANES]];
        for r in rows {
            // SAFETY: row `r` lies within `x`.
            unsafe {
                if chunks > RUN {
                    sums[0] = long_row_sums(c, x, r);
                } else if x.col == 1 {
                    add_row(c, (x.at(r), 1), &mut sums[0]);
                } else {
                    add_row(c, (x.at(r), x.col), &mut sums[0]);
                }
            }
        }
        sums
    });
    sum(sums)
}

#[inline(always)]
unsafe fn extreme_cols_body<L: Level>(kind: ReduceKind, n: usize, c: usize, x: Rows<f32>, acc: *mut f32) {
    // SAFETY: passed on.
    unsafe {
        match kind {
            ReduceKind::Min => fold_cols(n, c, x, acc, min),
            _ => fold_cols(n, c, x, acc, max),
        }
    }
}

#[inline(always)]
unsafe fn fold_cols(n: usize, c: usize, x: Rows<f32>, acc: *mut f32, combine: impl Fn(f32, f32) -> f32) {
    chunks!(c, |j, len| {
        // SAFETY: columns j..j+len lie within `x` and `acc`.
        unsafe {
            let mut lanes = load(acc.add(j) as *const f32, 1, len, 0.0);
            for r in 0..n {
                let xs = load(x.element(r, j) as *const f32, x.col, len, 0.0);
                for i in 0..LANES {
                    lanes[i] = combine(lanes[i], xs[i]);
                }
            }
            store(acc.add(j), 1, len, &lanes);
        }
    });
}
