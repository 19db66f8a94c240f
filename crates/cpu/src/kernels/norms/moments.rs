//! Mean and variance of columns. A tile of rows is read twice while it is in the cache, and the moments of tiles are
//! merged (Chan, Golub and LeVeque 1979), so that a large mean costs no digits and memory is read once.

use std::ops::Range;

use lessen_graph::{DType, ops};

use crate::kernels::elementwise::cast::{Bf16, Float};
use crate::kernels::kernel::{Kernel, Round, TaskFn, Types, WholeKernel};
use crate::kernels::widths::{load, store, widths};
use crate::kernels::zeros::zeros;
use crate::simd::{Level, dispatch, fma};

/// Elements of a tile.
const TILE: usize = 1 << 14;

/// The most tiles whose moments are merged one after another.
const FEW: usize = 32;

/// The mean of each column of some rows, and the sum of squared deviations from it.
#[derive(Clone, Copy)]
struct Sums {
    rows: usize,
    mean: *mut f32,
    squares: *mut f32,
}

dispatch! {
    /// Merges the rows of a tile into `sums`, which has `rows` rows less.
    ///
    /// # Safety
    /// `x` has `rows` rows of `c` elements, the sums `c` elements each, and they overlap nothing.
    unsafe fn add_tile[T: Float](rows: usize, c: usize, x: *const T, sums: Sums) = add_tile_body;

    /// Merges some sums into others.
    ///
    /// # Safety
    /// Both have `c` elements each and overlap nothing.
    unsafe fn merge(c: usize, from: Sums, to: Sums) = merge_body;
}

#[inline(always)]
fn wide<T: Float, const W: usize>(x: [T; W]) -> [f32; W] {
    let mut wide = [0.0; W];
    for i in 0..W {
        wide[i] = x[i].wide();
    }
    wide
}

#[inline(always)]
unsafe fn add_tile_body<L: Level, T: Float>(rows: usize, c: usize, x: *const T, sums: Sums) {
    let n = rows as f32;
    widths!(c, |j, W| {
        let (mut mean, mut squares) = ([0.0f32; W], [0.0f32; W]);
        // SAFETY: there is a first row. Differences from it are summed, which are small where a mean is large.
        let first = wide(unsafe { load::<T, W>(x.add(j)) });
        for r in 1..rows {
            // SAFETY: the elements lie within the row.
            let xs = wide(unsafe { load::<T, W>(x.add(r * c + j)) });
            for i in 0..W {
                mean[i] += xs[i] - first[i];
            }
        }
        for i in 0..W {
            mean[i] = first[i] + mean[i] / n;
        }
        for r in 0..rows {
            // SAFETY: as above.
            let xs = wide(unsafe { load::<T, W>(x.add(r * c + j)) });
            for i in 0..W {
                let d = xs[i] - mean[i];
                squares[i] = fma::<L>(d, d, squares[i]);
            }
        }
        // SAFETY: the sums have these columns.
        unsafe { merge_columns::<L, W>(j, (rows, mean, squares), sums) };
    });
}

#[inline(always)]
unsafe fn merge_body<L: Level>(c: usize, from: Sums, to: Sums) {
    widths!(c, |j, W| {
        // SAFETY: both have these columns.
        unsafe {
            let (mean, squares) = (load(from.mean.add(j)), load(from.squares.add(j)));
            merge_columns::<L, W>(j, (from.rows, mean, squares), to);
        }
    });
}

/// Merges the sums of `rows` rows for the columns from `j` on.
#[inline(always)]
unsafe fn merge_columns<L: Level, const W: usize>(
    j: usize,
    (rows, mean, squares): (usize, [f32; W], [f32; W]),
    to: Sums,
) {
    let all = (to.rows + rows) as f32;
    let (share, both) = (rows as f32 / all, to.rows as f32 * (rows as f32 / all));
    // SAFETY: the sums have these columns.
    unsafe {
        if to.rows == 0 {
            store(to.mean.add(j), mean);
            store(to.squares.add(j), squares);
            return;
        }
        let (mut means, mut sums): ([f32; W], [f32; W]) = (load(to.mean.add(j)), load(to.squares.add(j)));
        for i in 0..W {
            let d = mean[i] - means[i];
            means[i] = fma::<L>(d, share, means[i]);
            sums[i] += fma::<L>(d * d, both, squares[i]);
        }
        store(to.mean.add(j), means);
        store(to.squares.add(j), sums);
    }
}

/// The kernel of [`ops::Moments`]: parts of the rows, which depend on the shape alone, then these merged in order.
pub(crate) fn moments_kernel(_: &ops::Moments, types: &Types<'_>) -> Option<Kernel> {
    if types.any_empty() {
        return zeros(types).into();
    }
    match types.inputs[0].dtype {
        DType::F32 => moments_of::<f32>(types).into(),
        DType::BF16 => moments_of::<Bf16>(types).into(),
        _ => None,
    }
}

fn moments_of<T: Float>(types: &Types<'_>) -> WholeKernel {
    let x = &types.inputs[0];
    let (rows, c) = (x.shape[x.rank() - 2], x.last());
    let batch = x.numel() / (rows * c);
    let tile = (TILE / c).clamp(4, 256);
    let parts = ((rows * c) >> 15).min(32usize.div_ceil(batch)).clamp(1, rows);
    let has_many_tiles = rows.div_ceil(parts) > FEW * tile;
    let kernel = WholeKernel::rounds(move |_| {
        let sums = move |shared: *mut u8, index: usize, rows: usize| {
            let mean = shared.cast::<f32>().wrapping_add(2 * index * c);
            let squares = mean.wrapping_add(c);
            Sums { rows, mean, squares }
        };
        let add: TaskFn = Box::new(move |w, task| {
            let (block, part) = (task / parts, task % parts);
            let (first, end) = (part * rows / parts, (part + 1) * rows / parts);
            let add_tiles = |rows_of: Range<usize>, to: *mut u8, index: usize| {
                for row in rows_of.clone().step_by(tile) {
                    // SAFETY: see `Work`; there is room for the sums.
                    unsafe {
                        let x = w.dense::<T>(0).add((block * rows + row) * c);
                        let to = sums(to, index, row - rows_of.start);
                        add_tile(tile.min(rows_of.end - row), c, x, to);
                    }
                }
            };
            if !has_many_tiles {
                return add_tiles(first..end, w.shared, task);
            }
            for row in (first..end).step_by(FEW * tile) {
                let some = row..end.min(row + FEW * tile);
                add_tiles(some.clone(), w.scratch, 0);
                // SAFETY: as above.
                unsafe { merge(c, sums(w.scratch, 0, some.len()), sums(w.shared, task, row - first)) };
            }
        });
        let finish: TaskFn = Box::new(move |w, block| {
            let (mean, variance) = (w.y(0).wrapping_add(block * c), w.y(1).wrapping_add(block * c));
            for part in 0..parts {
                let (first, end) = (part * rows / parts, (part + 1) * rows / parts);
                let to = Sums {
                    rows: first,
                    mean,
                    squares: variance,
                };
                // SAFETY: see `Work`; the round before has written the sums of all parts.
                unsafe { merge(c, sums(w.shared, block * parts + part, end - first), to) };
            }
            for i in 0..c {
                // SAFETY: see `Work`.
                unsafe { *variance.add(i) /= rows as f32 };
            }
        });
        let round = |tasks, run| Round { tasks, run };
        vec![round(batch * parts, add), round(batch, finish)]
    });
    let bytes = 2 * c * size_of::<f32>();
    let kernel = kernel.with_shared(batch * parts * bytes);
    if has_many_tiles {
        kernel.with_scratch(bytes)
    } else {
        kernel
    }
}
