//! Rows of a table by index, and the sum of rows into a table by index: an embedding and its derivative.

use std::ops::Range;

use lessen_graph::ops;

use super::kernel::{Kernel, RowKernel, Types, WholeKernel};
use super::rows::{Element, Rows};
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

/// `y[r] = table[ids[r]]`, for `n` rows of `c` elements.
///
/// # Safety
/// Every id is a row of the table, whose rows of `c` elements lie without gaps; `ids` has `n` elements, `y`
/// covers `n` rows of `c`, and overlaps nothing.
pub unsafe fn gather<T: Element>(n: usize, c: usize, table: *const T, ids: *const i32, y: Rows<T>) {
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
    /// `out[ids[r], j] += updates[r, j]` for the ids of a range and the columns `j` of a range, in the order of the
    /// rows. Threads take ranges of their own.
    ///
    /// # Safety
    /// As for [`gather`] with `out` as the table; `updates` covers `n` rows of `c` elements, `columns` lies
    /// within `0..c`, and what is written overlaps nothing.
    pub unsafe fn scatter_add(
        n: usize, c: usize, ids: *const i32, updates: Rows<f32>, out: *mut f32, rows: Range<usize>,
        columns: Range<usize>,
    ) = scatter_add_body;
}

#[inline(always)]
unsafe fn scatter_add_body<L: Level>(
    n: usize,
    c: usize,
    ids: *const i32,
    updates: Rows<f32>,
    out: *mut f32,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    for r in 0..n {
        // SAFETY: `r < n`.
        let id = unsafe { *ids.add(r) } as usize;
        if !rows.contains(&id) {
            continue;
        }
        // SAFETY: `r < n`, the id is a row of the table, and the columns lie within it.
        unsafe {
            let from = updates.element(r, columns.start) as *const f32;
            let to = out.add(id * c + columns.start);
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

/// The kernel of [`ops::Gather`]. The unsigned integer of the same size stands for any dtype.
pub(super) fn gather_kernel(_: &ops::Gather, types: &Types<'_>) -> Option<Kernel> {
    fn of<T: Element>(limit: usize) -> Option<Kernel> {
        // SAFETY: see `Run`; rows are only copied if all indices are rows of the table.
        RowKernel::rows(move |r| unsafe {
            let ids = r.indices(1);
            let c = r.c() / r.inputs[1].columns.max(1);
            if r.index_errors.check(ids, limit) {
                let y = Rows::dense(r.outputs[0].ptr.cast::<T>(), c);
                gather(ids.len(), c, r.inputs[0].ptr.cast::<T>(), ids.as_ptr(), y);
            }
        })
        .dense([1])
        .into()
    }
    let (limit, ids) = (types.inputs[0].shape[0], types.inputs[1].numel());
    if types.any_empty() {
        // Of a table without rows no index is valid; else there is nothing to copy.
        return WholeKernel::dense(1, move |w, _| {
            // SAFETY: see `Work`.
            let ids = unsafe { std::slice::from_raw_parts(w.inputs[1].cast::<i32>(), ids) };
            w.index_errors.check(ids, limit);
        })
        .into();
    }
    match types.outputs[0].dtype.bytes() {
        8 => of::<u64>(limit),
        4 => of::<u32>(limit),
        2 => of::<u16>(limit),
        _ => of::<u8>(limit),
    }
}

/// Ranges of columns, and ranges of rows, that the tasks of a sum into a table share; fewer for a small table.
const PARTS: usize = 4;

/// The kernel of [`ops::ScatterAdd`]: each task adds up some of the columns of some of the table's rows.
pub(super) fn scatter_add_kernel(op: &ops::ScatterAdd, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() {
        return None;
    }
    let (rows, ids) = (op.rows, types.inputs[0].numel());
    let columns = types.outputs[0].numel() / rows.max(1);
    let width = columns.div_ceil(PARTS).max(LANES);
    let height = if rows * columns < 1 << 14 {
        rows
    } else {
        rows.div_ceil(PARTS)
    }
    .max(1);
    let across = columns.div_ceil(width);
    WholeKernel::dense(across * rows.div_ceil(height), move |w, task| {
        let (i, j) = (task / across * height, task % across * width);
        let (range, part) = (i..rows.min(i + height), j..columns.min(j + width));
        // SAFETY: see `Work`; tasks write disjoint parts, and every index is checked to be a row.
        unsafe {
            let indices = std::slice::from_raw_parts(w.inputs[0].cast::<i32>(), ids);
            for row in range.clone() {
                w.y(0).add(row * columns + part.start).write_bytes(0, part.len());
            }
            if w.index_errors.check(indices, rows) {
                let updates = Rows::dense(w.inputs[1].cast(), columns);
                scatter_add(ids, columns, indices.as_ptr(), updates, w.y(0), range, part);
            }
        }
    })
    .into()
}
