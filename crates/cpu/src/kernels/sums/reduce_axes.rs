//! The kernel of reductions: within rows, over all rows, or over any axes of a whole value.

use lessen_graph::ops::{self, ReduceKind};
use lessen_graph::{Op, RowWise};

use super::pairwise::{Pairwise, RUN, sum_of};
use super::reduce::{extreme_cols, reduce_rows, sum_all, sum_cols};
use crate::kernels::kernel::{Kernel, Round, RowKernel, TaskFn, Types, WholeKernel};
use crate::kernels::rows::Rows;
use crate::simd::{LANES, max, min};

/// The kernel of [`ops::Reduce`]: within rows, over all rows, or over any axes of a whole value.
pub(crate) fn reduce_kernel(op: &ops::Reduce, types: &Types<'_>) -> Option<Kernel> {
    let (kind, input, output) = (op.kind, &types.inputs[0], &types.outputs[0]);
    if types.any_empty() || op.row_wise(types.inputs, types.outputs) == RowWise::No {
        return whole(op, types).into();
    }
    if op.axes.len() == input.rank() {
        // SAFETY: see `Run`; the sum has one element.
        return RowKernel::sums(|r| unsafe {
            *r.column(0) += sum_all(r.n, r.inputs[0].columns(), r.x(0));
        })
        .into();
    }
    if op.axes[0] == 0 {
        let rows = input.numel() / output.numel();
        return RowKernel::columns(column_cut(rows, output.numel()), |r| {
            let (first, end) = r.columns;
            let mut x = r.x(0);
            x.ptr = x.element(0, first);
            // SAFETY: see `Run`; the sum has as many elements as a row.
            unsafe { sum_cols(r.n, end - first, x, r.column(0).add(first)) }
        })
        .into();
    }
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe { reduce_rows(kind, r.n, r.inputs[0].columns(), r.x(0), r.column(0)) }).into()
}

/// Columns of one task of a reduction of `n` rows: at least some work, and few tasks.
fn column_cut(n: usize, columns: usize) -> usize {
    let worth = (1 << 13) / n.max(1);
    columns.div_ceil(16).max(worth).next_multiple_of(LANES)
}

/// Axes of a dense array that are counted through together.
#[derive(Clone, Default)]
struct Axes {
    /// Extents and strides, outermost first.
    axes: Vec<(usize, usize)>,
}

impl Axes {
    fn count(&self) -> usize {
        self.axes.iter().map(|a| a.0).product()
    }

    /// Where the elements of index tuple number `i` begin.
    fn at(&self, mut i: usize) -> usize {
        let mut at = 0;
        for &(extent, stride) in self.axes.iter().rev() {
            at += i % extent * stride;
            i /= extent;
        }
        at
    }
}

/// The axes of a reduction of a dense array: kept axes, outer reduced axes, the innermost reduced axis with its stride,
/// and the number of kept elements after that axis.
struct Split {
    kept: Axes,
    outer: Axes,
    rows: (usize, usize),
    columns: usize,
}

fn split(op: &ops::Reduce, shape: &[usize]) -> Split {
    // Extent, stride and whether it vanishes, innermost first; adjacent axes of a kind are one.
    let mut groups: Vec<(usize, usize, bool)> = Vec::new();
    let mut stride = 1;
    for axis in (0..shape.len()).rev().filter(|&a| shape[a] != 1) {
        let vanishes = op.axes.contains(&axis);
        match groups.last_mut() {
            Some(last) if last.2 == vanishes => last.0 *= shape[axis],
            _ => groups.push((shape[axis], stride, vanishes)),
        }
        stride *= shape[axis];
    }
    let mut groups = groups.into_iter().peekable();
    let columns = groups.next_if(|g| !g.2).map_or(1, |g| g.0);
    let rows = groups.next().map_or((1, columns), |g| (g.0, g.1));
    let (mut kept, mut outer) = (Axes::default(), Axes::default());
    for (extent, stride, vanishes) in groups {
        let axes = if vanishes { &mut outer } else { &mut kept };
        axes.axes.insert(0, (extent, stride));
    }
    Split {
        kept,
        outer,
        rows,
        columns,
    }
}

/// The result for no elements.
fn start(kind: ReduceKind) -> f32 {
    match kind {
        ReduceKind::Sum => 0.0,
        ReduceKind::Max => f32::NEG_INFINITY,
        ReduceKind::Min => f32::INFINITY,
    }
}

/// A reduction over any axes of a dense array.
fn whole(op: &ops::Reduce, types: &Types<'_>) -> WholeKernel {
    let (kind, n) = (op.kind, types.inputs[0].numel());
    let outputs = types.outputs[0].numel();
    let split = split(op, &types.inputs[0].shape);
    if outputs == 0 || n == 0 {
        return WholeKernel::dense(outputs.div_ceil(CHUNK), move |w, task| {
            for i in task * CHUNK..outputs.min((task + 1) * CHUNK) {
                // SAFETY: see `Work`.
                unsafe { *w.y(0).add(i) = start(kind) };
            }
        });
    }
    if split.columns > 1 {
        over_columns(kind, split)
    } else if outputs == 1 {
        over_all(kind, n)
    } else {
        over_rows(kind, split, n / outputs)
    }
}

/// Elements of one task of a reduction.
const CHUNK: usize = 1 << 14;

/// Rows of columns that stay: each task reduces some columns for one index of the axes that stay before them.
fn over_columns(kind: ReduceKind, split: Split) -> WholeKernel {
    let Split {
        kept,
        outer,
        rows: (n, row),
        columns,
    } = split;
    let count = kept.count();
    let width = if count < 16 {
        column_cut(n * outer.count(), columns)
    } else {
        columns
    };
    let across = columns.div_ceil(width);
    WholeKernel::dense(count * across, move |w, task| {
        let (index, first) = (task / across, task % across * width);
        let c = width.min(columns - first);
        // SAFETY: see `Work`; each task reduces columns into a range of its own.
        unsafe {
            let y = w.y(0).add(index * columns + first);
            let x = |i: usize| Rows {
                ptr: w.x(0).add(kept.at(index) + outer.at(i) + first).cast_mut(),
                row,
                col: 1,
            };
            if kind == ReduceKind::Sum {
                return sum_blocks(outer.count(), n, c, x, y);
            }
            std::slice::from_raw_parts_mut(y, c).fill(start(kind));
            for i in 0..outer.count() {
                extreme_cols(kind, n, c, x(i), y);
            }
        }
    })
}

/// Columns whose sums lie on the stack.
const WIDE: usize = 256;

/// The sums of `c` columns of several blocks of `n` rows.
///
/// # Safety
/// Every block has `n` rows of `c` elements, `y` has `c` elements and overlaps none.
unsafe fn sum_blocks(blocks: usize, n: usize, c: usize, block: impl Fn(usize) -> Rows<f32>, y: *mut f32) {
    let of_run = (RUN / n).max(1);
    if blocks <= of_run {
        // SAFETY: passed on.
        unsafe {
            y.write_bytes(0, c);
            (0..blocks).for_each(|i| sum_cols(n, c, block(i), y));
        }
        return;
    }
    for first in (0..c).step_by(WIDE) {
        let c = WIDE.min(c - first);
        let mut all = Pairwise::<1, WIDE>::new();
        for from in (0..blocks).step_by(of_run) {
            let mut sums = [[0.0; WIDE]];
            for i in from..blocks.min(from + of_run) {
                let mut x = block(i);
                x.ptr = x.element(0, first);
                // SAFETY: the columns lie within the block and are as many as the sums at most.
                unsafe { sum_cols(n, c, x, sums[0].as_mut_ptr()) };
            }
            all.add(&sums);
        }
        // SAFETY: the columns lie within `y`.
        unsafe { y.add(first).copy_from_nonoverlapping(all.total()[0].as_ptr(), c) };
    }
}

/// Rows that vanish, and other axes with them; `n` elements for each output.
fn over_rows(kind: ReduceKind, split: Split, n: usize) -> WholeKernel {
    let Split { kept, outer, rows, .. } = split;
    let outputs = kept.count();
    let chunk = (CHUNK / n).max(1);
    WholeKernel::dense(outputs.div_ceil(chunk), move |w, task| {
        for index in task * chunk..outputs.min((task + 1) * chunk) {
            let parts = (0..outer.count()).map(|i| {
                let at = kept.at(index) + outer.at(i);
                // SAFETY: see `Work`; the row lies within the input.
                unsafe { reduce_run(kind, rows.0, w.x(0).add(at)) }
            });
            let result = match kind {
                ReduceKind::Sum => sum_of(parts),
                _ => parts.fold(start(kind), |a, b| combine(kind, a, b)),
            };
            // SAFETY: see `Work`; each task writes outputs of its own.
            unsafe { *w.y(0).add(index) = result };
        }
    })
}

/// Everything: parts first, then their results in order.
fn over_all(kind: ReduceKind, n: usize) -> WholeKernel {
    let part = n.div_ceil(64).max(CHUNK).next_multiple_of(LANES);
    let parts = n.div_ceil(part);
    WholeKernel::rounds(move |_| {
        let first: TaskFn = Box::new(move |w, task| {
            let first = task * part;
            // SAFETY: see `Work`; the shared scratch has an element for each part.
            unsafe {
                let result = reduce_run(kind, part.min(n - first), w.x(0).add(first));
                *w.shared.cast::<f32>().add(task) = result;
            }
        });
        let second: TaskFn = Box::new(move |w, _| {
            // SAFETY: see `Work`; all parts have been written.
            unsafe {
                let parts = std::slice::from_raw_parts(w.shared.cast::<f32>(), parts);
                *w.y(0) = parts.iter().fold(start(kind), |a, &b| combine(kind, a, b));
            }
        });
        let round = |tasks, run| Round { tasks, run };
        vec![round(parts, first), round(1, second)]
    })
    .with_shared(parts * size_of::<f32>())
}

fn combine(kind: ReduceKind, a: f32, b: f32) -> f32 {
    match kind {
        ReduceKind::Sum => a + b,
        ReduceKind::Max => max(a, b),
        ReduceKind::Min => min(a, b),
    }
}

/// The reduction of `n` elements without gaps.
///
/// # Safety
/// `x` has `n` elements.
unsafe fn reduce_run(kind: ReduceKind, n: usize, x: *const f32) -> f32 {
    let mut y = 0.0;
    // SAFETY: one row, and the number that it is reduced to.
    unsafe { reduce_rows(kind, 1, n, Rows::dense(x.cast_mut(), n), &mut y) };
    y
}
