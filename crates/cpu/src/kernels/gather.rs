//! Rows of a table by index, and the sum of rows into a table by index: an embedding and its derivative.

use std::ops::Range;

use super::rows::Rows;
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

/// `y[r] = table[ids[r]]`, for `n` rows of `c` elements.
///
/// # Safety
/// Every id is a row of the table, whose rows of `c` elements lie without gaps; `ids` has `n` elements, `y`
/// covers `n` rows of `c`, and overlaps nothing.
pub unsafe fn gather(n: usize, c: usize, table: *const f32, ids: *const i32, y: Rows<f32>) {
    for r in 0..n {
        // SAFETY: `r < n`, and the id is a row of the table.
        unsafe {
            let from = table.add(*ids.add(r) as usize * c);
            if y.col == 1 {
                std::ptr::copy_nonoverlapping(from, y.at(r), c);
            } else {
                for j in 0..c {
                    *y.element(r, j) = *from.add(j);
                }
            }
        }
    }
}

dispatch! {
    /// `out[ids[r], j] += updates[r, j]` for the columns `j` of a range, in the order of the rows. Threads
    /// take ranges of columns of their own.
    ///
    /// # Safety
    /// As for [`gather`] with `out` as the table; `updates` covers `n` rows of `c` elements, `columns` lies
    /// within `0..c`, and what is written overlaps nothing.
    pub unsafe fn scatter_add(
        n: usize, c: usize, ids: *const i32, updates: Rows<f32>, out: *mut f32, columns: Range<usize>,
    ) = scatter_add_body;
}

#[inline(always)]
unsafe fn scatter_add_body<L: Level>(
    n: usize,
    c: usize,
    ids: *const i32,
    updates: Rows<f32>,
    out: *mut f32,
    columns: Range<usize>,
) {
    for r in 0..n {
        // SAFETY: `r < n`, the id is a row of the table, and the columns lie within it.
        unsafe {
            let from = updates.element(r, columns.start) as *const f32;
            let to = out.add(*ids.add(r) as usize * c + columns.start);
            if updates.col == 1 {
                add_row(columns.len(), (from, 1), to);
            } else {
                add_row(columns.len(), (from, updates.col), to);
            }
        }
    }
}

#[inline(always)]
unsafe fn add_row(c: usize, (x, col): (*const f32, usize), y: *mut f32) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within both rows.
        unsafe {
            let xs = load(x.add(j * col), col, len, 0.0);
            let mut ys = load(y.add(j) as *const f32, 1, len, 0.0);
            for i in 0..LANES {
                ys[i] += xs[i];
            }
            store(y.add(j), 1, len, &ys);
        }
    });
}
