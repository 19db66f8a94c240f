//! The sum of the updates of each number at the number's first position: the rows of a sum into a table that are not
//! zeros.

use lessen_graph::ops;

use super::gather::{PARTS, scatter_add};
use crate::kernels::kernel::{Kernel, Round, TaskFn, Types, WholeKernel};
use crate::kernels::rows::Rows;
use crate::simd::LANES;

/// The most rows of a table that is filled in scratch; first positions in a larger one are found by sorting.
const MOST_ROWS: usize = 1 << 24;

/// The kernel of [`ops::CombineRows`]: the first position of each number, in shared scratch, then the sums, by columns.
/// Scratch has an element for each id, before it one for each row of a table, or for each id again where they are
/// sorted.
pub(crate) fn combine_rows_kernel(op: &ops::CombineRows, types: &Types<'_>) -> Option<Kernel> {
    let (rows, ids) = (op.rows, types.inputs[0].numel());
    // Positions are `i32`.
    i32::try_from(ids).ok()?;
    let width = types.outputs[0].numel() / ids.max(1);
    let part = width.div_ceil(2 * PARTS).max(1).next_multiple_of(LANES);
    let (by_table, before) = if rows <= MOST_ROWS { (true, rows) } else { (false, ids) };
    let shared = before.checked_add(ids)?.checked_mul(size_of::<i32>())?;
    let kernel = WholeKernel::rounds(move |_| {
        let first: TaskFn = Box::new(move |w, _| {
            // SAFETY: see `Work`; the scratch has `before` numbers and one for each id.
            let (all, shared) = unsafe {
                let all = std::slice::from_raw_parts(w.dense::<i32>(0), ids);
                (
                    all,
                    std::slice::from_raw_parts_mut(w.shared.cast::<i32>(), before + ids),
                )
            };
            let (room, first) = shared.split_at_mut(before);
            if !w.index_errors.check(all, rows) {
                first.fill(0);
            } else if by_table {
                first_by_table(all, room, first);
            } else {
                first_by_order(all, room, first);
            }
        });
        let sums: TaskFn = Box::new(move |w, task| {
            let columns = task * part..width.min((task + 1) * part);
            // SAFETY: see `Work`; the round before has written positions, and tasks write columns of their own.
            unsafe {
                let first = w.shared.cast::<i32>().add(before).cast_const();
                let (updates, y) = (Rows::dense(w.x(1).cast_mut(), width), Rows::dense(w.y(0), width));
                scatter_add(ids, first, updates, y, 0..ids, columns);
            }
        });
        let sums = Round {
            tasks: width.div_ceil(part),
            run: sums,
        };
        vec![Round { tasks: 1, run: first }, sums]
    });
    kernel.with_shared(shared).into()
}

/// Writes the first position of each id, by a table with an element for each id that there may be.
fn first_by_table(ids: &[i32], table: &mut [i32], first: &mut [i32]) {
    table.fill(-1);
    for (position, (&id, first)) in ids.iter().zip(first).enumerate() {
        let place = &mut table[id as usize];
        *place = if *place < 0 { position as i32 } else { *place };
        *first = *place;
    }
}

/// Writes the first position of each id, by the order of positions by id.
fn first_by_order(ids: &[i32], order: &mut [i32], first: &mut [i32]) {
    for (position, place) in order.iter_mut().enumerate() {
        *place = position as i32;
    }
    order.sort_unstable_by_key(|&position| (ids[position as usize], position));
    for run in order.chunk_by(|&a, &b| ids[a as usize] == ids[b as usize]) {
        for &position in run {
            first[position as usize] = run[0];
        }
    }
}
