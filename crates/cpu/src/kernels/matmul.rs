//! Products of matrices: rows times one shared matrix, and stacks of products.

use lessen_graph::{numel, ops};

use super::cast::Bf16;
use super::few_rows::{FEW, few_rows_kernel};
use super::gemm::gemm;
use super::gemm_bf16::{gemm_bf16, widened_bytes};
use super::kernel::{Kernel, Phase, Reads, RowKernel, TaskFn, Types, WholeKernel};
#[cfg(target_arch = "x86_64")]
use super::panels;
use super::rows::Rows;
#[cfg(target_arch = "x86_64")]
use super::words;

/// The kernel of [`ops::MatMul`].
pub(super) fn matmul_kernel(op: &ops::MatMul, types: &Types<'_>) -> Option<Kernel> {
    let (a, b, y) = (&types.inputs[0], &types.inputs[1], &types.outputs[0]);
    let rows = (op.is_linear(a, b) && !types.any_empty()).then(|| y.numel() / y.last());
    let has_few_rows = rows.is_some_and(|rows| rows <= FEW);
    if op.widens_shared(a, b) {
        return has_few_rows.then(|| Kernel::Rows(few_rows_kernel::<Bf16>(op, types)));
    }
    if !op.widens && !types.floats_are_f32() {
        return None;
    }
    match rows {
        Some(_) if has_few_rows && !op.widens => few_rows_kernel::<f32>(op, types).into(),
        Some(_) => linear(op, types).into(),
        None => stack(op, types).into(),
    }
}

/// Columns of one tile of a product with a shared matrix: narrow tiles of all columns keep more of that in the cache.
pub fn column_tile(columns: usize) -> usize {
    if columns <= 768 {
        return columns.max(1);
    }
    let tiles = columns.div_ceil(512);
    columns.div_ceil(tiles).div_ceil(64) * 64
}

/// Columns of one task where all rows are one tile: about 192, fewer where there would be less than 4 tasks, more where
/// there would be many. They depend on the shape alone.
pub fn column_cut(rows: usize, k: usize, columns: usize) -> usize {
    /// Multiplications that are worth a task.
    const LEAST: usize = 1 << 16;
    let worth = LEAST.div_ceil((rows * k).max(1));
    let even = columns.div_ceil(4).min(192).max(columns.div_ceil(16));
    even.min(column_tile(columns)).max(worth).next_multiple_of(32)
}

/// Rows times one shared matrix.
fn linear(op: &ops::MatMul, types: &Types<'_>) -> RowKernel {
    let (_, k, columns) = op.sizes(&types.inputs[0], &types.inputs[1]);
    let rows = types.outputs[0].numel() / columns;
    let (transposed, of_bf16, cut) = (op.transpose_b, op.widens, column_cut(rows, k, columns));
    let kernel = RowKernel::columns(cut, move |r| {
        let (a, b, y) = (r.inputs[0], r.inputs[1], r.outputs[0]);
        let (b_row, b_col) = if transposed { (b.col, b.row) } else { (b.row, b.col) };
        let (first, end) = r.columns;
        let tile = match column_tile(columns) {
            // A part narrower than a tile, and what the last part has besides, is one product.
            tile if end - first < columns && cut < tile => end - first,
            tile => tile,
        };
        for j in (first..end).step_by(tile) {
            let width = tile.min(end - j);
            if of_bf16 {
                // SAFETY: see `Run`; the tile's columns are within those of `b` and `y`.
                unsafe {
                    let b = Rows {
                        ptr: b.ptr.cast::<Bf16>().add(j * b_col),
                        row: b_row,
                        col: b_col,
                    };
                    let y = Rows {
                        ptr: y.ptr.cast::<f32>().add(j * y.col),
                        row: y.row,
                        col: y.col,
                    };
                    gemm_bf16((r.n, k, width), a.rows(), b, y, false, r.scratch.cast());
                }
                continue;
            }
            // SAFETY: as above.
            unsafe {
                gemm(
                    r.n,
                    k,
                    width,
                    (a.ptr.cast(), a.row as isize, a.col as isize),
                    (b.ptr.cast::<f32>().add(j * b_col), b_row as isize, b_col as isize),
                    (y.ptr.cast::<f32>().add(j * y.col), y.row as isize, y.col as isize),
                    false,
                );
            }
        }
    })
    .tiled()
    .reading(0, Reads::Matrix)
    .reading(1, Reads::Any);
    let kernel = if of_bf16 {
        kernel.with_scratch(widened_bytes(rows, columns), 0)
    } else {
        kernel
    };
    #[cfg(target_arch = "x86_64")]
    let kernel = {
        use super::panels::rows::{Shape, packed_bf16, packed_f32};
        use super::words::rows::by_words;
        let shape = Shape::new((rows, k, columns), transposed, columns.min(2 * cut - 1));
        let words = super::words::rows::Shape {
            rows,
            k,
            columns,
            transposed,
            task_columns: columns.min(2 * cut - 1),
        };
        if of_bf16 {
            by_words::<Bf16>(words, packed_bf16(shape, kernel))
        } else {
            packed_f32(shape, kernel)
        }
    };
    kernel
}

/// The extents of the tiles that a product's result is cut into: about 192 by 384, smaller where there would be fewer
/// tasks than a few threads need.
fn tiles(m: usize, n: usize, batch: usize) -> (usize, usize) {
    let (mut tm, mut tn) = (192.min(m).max(1), 384.min(n).max(1));
    while batch * m.div_ceil(tm) * n.div_ceil(tn) < 8 && tm.max(tn) > 64 {
        if tm >= tn {
            tm = tm.div_ceil(2)
        } else {
            tn = tn.div_ceil(2)
        }
    }
    let even = |size: usize, tile: usize| size.div_ceil(size.div_ceil(tile)).div_ceil(16) * 16;
    (even(m, tm), even(n, tn))
}

/// Products of stacks of matrices, and of transposed ones, over any strides.
fn stack(op: &ops::MatMul, types: &Types<'_>) -> WholeKernel {
    let (op, a, b) = (*op, types.inputs[0].clone(), types.inputs[1].clone());
    let (m, k, n) = op.sizes(&a, &b);
    #[cfg(target_arch = "x86_64")]
    let extents = panels::whole::Extents {
        m,
        k,
        n,
        of_bf16: op.widens,
    };
    #[cfg(target_arch = "x86_64")]
    let by_words = words::whole::Extents { m, k, n };
    let kernel = WholeKernel::phases(move |strides| {
        let lead: Vec<usize> = a.shape[..a.rank() - 2].to_vec();
        let batch = numel(&lead);
        if batch * m * n == 0 {
            return Vec::new();
        }
        let matrix = |strides: &[usize], transposed: bool| {
            let (row, col) = (strides[strides.len() - 2] as isize, strides[strides.len() - 1] as isize);
            if transposed { (col, row) } else { (row, col) }
        };
        let (a_row, a_col) = matrix(&strides[0], op.transpose_a);
        let (b_row, b_col) = matrix(&strides[1], op.transpose_b);
        #[cfg(target_arch = "x86_64")]
        if batch == 1 && op.widens {
            let (left, right) = (
                words::whole::Strides {
                    line: a_row as usize,
                    k: a_col as usize,
                },
                words::whole::Strides {
                    line: b_col as usize,
                    k: b_row as usize,
                },
            );
            if let Some(phases) = by_words.phases::<Bf16>(left, right) {
                return phases;
            }
        }
        #[cfg(target_arch = "x86_64")]
        if batch == 1
            && let Some(phases) = extents.phases((a_row as usize, a_col as usize), (b_row as usize, b_col as usize))
        {
            return phases;
        }
        let a_lead = strides[0][..lead.len()].to_vec();
        let b_lead = if b.rank() == 2 {
            vec![0; lead.len()]
        } else {
            strides[1][..lead.len()].to_vec()
        };
        let (tm, tn) = tiles(m, n, batch);
        let (rows, cols) = (m.div_ceil(tm), n.div_ceil(tn));
        let run: TaskFn = Box::new(move |w, task| {
            let (tile, mut rest) = (task % (rows * cols), task / (rows * cols));
            let (i, j) = (tile / cols * tm, tile % cols * tn);
            let (mut a_at, mut b_at, at) = (0, 0, rest * m * n);
            for axis in (0..lead.len()).rev() {
                a_at += rest % lead[axis] * a_lead[axis];
                b_at += rest % lead[axis] * b_lead[axis];
                rest /= lead[axis];
            }
            let (m, n_of_tile) = (tm.min(m - i), tn.min(n - j));
            // SAFETY: see `Work`; the tile lies within the result, tiles do not overlap.
            unsafe {
                if op.widens {
                    let rows = |ptr: *mut u8, at: usize, row: isize, col: isize| Rows {
                        ptr: ptr.cast::<Bf16>().add(at),
                        row: row as usize,
                        col: col as usize,
                    };
                    let a = rows(w.inputs[0], a_at + i * a_row as usize, a_row, a_col);
                    let b = rows(w.inputs[1], b_at + j * b_col as usize, b_row, b_col);
                    let y = Rows::dense(w.y(0).add(at + i * n + j), n);
                    return gemm_bf16((m, k, n_of_tile), a, b, y, false, w.scratch.cast());
                }
                gemm(
                    m,
                    k,
                    n_of_tile,
                    (w.x(0).add(a_at).offset(i as isize * a_row), a_row, a_col),
                    (w.x(1).add(b_at).offset(j as isize * b_col), b_row, b_col),
                    (w.y(0).add(at + i * n + j), n as isize, 1),
                    false,
                );
            }
        });
        vec![Phase {
            tasks: batch * rows * cols,
            run,
        }]
    })
    .reading(0, Reads::Any)
    .reading(1, Reads::Any);
    let kernel = if op.widens {
        kernel.with_scratch(widened_bytes(m, n))
    } else {
        kernel
    };
    #[cfg(target_arch = "x86_64")]
    let kernel = if types.inputs[0].numel() == m * k {
        let (shared, worker) = match op.widens {
            true => by_words.scratch::<Bf16>(),
            false => (0, 0),
        };
        let worker = kernel.scratch.worker.max(worker);
        kernel.with_shared(extents.shared().max(shared)).with_scratch(worker)
    } else {
        kernel
    };
    kernel
}
