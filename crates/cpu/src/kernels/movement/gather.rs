//! Rows of a table by index, and the sum of rows into a table by index: an embedding and its derivative.

use std::ops::Range;

use lessen_graph::ops;

use crate::kernels::kernel::{Kernel, RowKernel, Types, WholeKernel};
use crate::kernels::rows::{Element, Rows};
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
    /// Rows of a sum into a table: `y[r - rows.start, j] = sum of updates[i, j] with ids[i] = r`, in the order of `i`,
    /// for the rows and columns of a range.
    ///
    /// # Safety
    /// `ids` has `n` elements, `updates` covers `n` rows, `y` covers the rows of the range, both with at least as many
    /// columns as the range ends at; `y` overlaps nothing.
    pub unsafe fn scatter_add(
        n: usize, ids: *const i32, updates: Rows<f32>, y: Rows<f32>, rows: Range<usize>, columns: Range<usize>,
    ) = scatter_add_body;
}

#[inline(always)]
unsafe fn scatter_add_body<L: Level>(
    n: usize,
    ids: *const i32,
    updates: Rows<f32>,
    y: Rows<f32>,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    for r in 0..rows.len() {
        // SAFETY: the row and the columns lie within `y`.
        unsafe { y.element(r, columns.start).write_bytes(0, columns.len()) };
    }
    // SAFETY: the ids are initialized and nobody writes to them.
    let ids = unsafe { std::slice::from_raw_parts(ids, n) };
    let (first, count) = (rows.start as i32, rows.len() as u32);
    let is_here = |id: i32| (id.wrapping_sub(first) as u32) < count;
    for (chunk, part) in ids.chunks(LANES).enumerate() {
        // Most blocks of a large table have no row of the batch.
        if !part.iter().fold(false, |any, &id| any | is_here(id)) {
            continue;
        }
        for (i, &id) in part.iter().enumerate().filter(|(_, id)| is_here(**id)) {
            // SAFETY: the id is a row of the range, and the columns lie within both.
            unsafe {
                let from = updates.element(chunk * LANES + i, columns.start) as *const f32;
                let to = y.element((id - first) as usize, columns.start);
                if updates.col == 1 {
                    add_row(columns.len(), (from, 1), to);
                } else {
                    add_row(columns.len(), (from, updates.col), to);
                }
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
pub(crate) fn gather_kernel(_: &ops::Gather, types: &Types<'_>) -> Option<Kernel> {
    fn of<T: Element>(limit: usize) -> Option<Kernel> {
        // SAFETY: see `Run`; rows are only copied if all indices are rows of the table.
        RowKernel::rows(move |r| unsafe {
            let ids = r.indices(1);
            let c = r.c() / r.inputs[1].columns().max(1);
            if r.index_errors.check(ids, limit) {
                let y = Rows::dense(r.outputs[0].dense::<T>(), c);
                gather(ids.len(), c, r.inputs[0].dense::<T>(), ids.as_ptr(), y);
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
            let ids = unsafe { std::slice::from_raw_parts(w.dense::<i32>(1), ids) };
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

/// Ranges of columns that the tasks of a sum into a small table share.
pub(crate) const PARTS: usize = 4;

/// The kernel of [`ops::ScatterAdd`]: each task adds up some rows of the table, or, of a small table, some columns.
pub(crate) fn scatter_add_kernel(op: &ops::ScatterAdd, types: &Types<'_>) -> Option<Kernel> {
    let (rows, ids) = (op.rows, types.inputs[0].numel());
    let width = types.outputs[0].numel() / rows.max(1);
    if types.any_empty() {
        // Without ids the sums are zeros; of a table without rows no id is valid.
        let zeros = types.outputs[0].bytes();
        return WholeKernel::dense(1, move |w, _| {
            // SAFETY: see `Work`.
            unsafe {
                w.index_errors.check(std::slice::from_raw_parts(w.dense(0), ids), rows);
                w.outputs[0].write_bytes(0, zeros);
            }
        })
        .into();
    }
    RowKernel::columns(width.div_ceil(PARTS).max(LANES), move |r| {
        let first = (r.first - r.columns.0) / width;
        // SAFETY: see `Run`; an id that is no row of the table is in no range.
        unsafe {
            let all = std::slice::from_raw_parts(r.inputs[0].dense::<i32>(), ids);
            if first == 0 && r.columns.0 == 0 {
                r.index_errors.check(all, rows);
            }
            let updates = Rows::dense(r.inputs[1].dense(), width);
            let y = Rows::dense(r.outputs[0].dense(), width);
            scatter_add(
                ids,
                all.as_ptr(),
                updates,
                y,
                first..first + r.n,
                r.columns.0..r.columns.1,
            );
        }
    })
    .into()
}
