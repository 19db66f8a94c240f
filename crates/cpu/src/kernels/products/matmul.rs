//! Products of matrices: rows times one shared matrix.

use lessen_graph::ops;

use super::few_rows::{FEW, few_rows_kernel};
use super::gemm::gemm;
use super::gemm_bf16::{gemm_bf16, widened_bytes};
use super::stack::stack;
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::kernel::{Kernel, Reads, RowKernel, Types};
use crate::kernels::rows::Rows;

/// The kernel of [`ops::MatMul`].
pub(crate) fn matmul_kernel(op: &ops::MatMul, types: &Types<'_>) -> Option<Kernel> {
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
        let (a, b, y) = (r.inputs[0], r.inputs[1].matrix::<u8>(), r.y(0));
        let b = if transposed { b.exchanged() } else { b };
        let (first, end) = r.columns;
        let tile = match column_tile(columns) {
            // A part narrower than a tile is one product, with the columns that the last part has besides.
            tile if end - first < columns && cut < tile => end - first,
            tile => tile,
        };
        for j in (first..end).step_by(tile) {
            let width = tile.min(end - j);
            if of_bf16 {
                // SAFETY: see `Run`; the tile's columns are within the columns of `b` and `y`.
                unsafe {
                    let b = b.cast::<Bf16>();
                    let b = Rows {
                        ptr: b.element(0, j),
                        ..b
                    };
                    let y = Rows {
                        ptr: y.element(0, j),
                        ..y
                    };
                    gemm_bf16((r.n, k, width), a.matrix(), b, y, false, r.scratch.cast());
                }
                continue;
            }
            // SAFETY: as above.
            unsafe {
                let (a, b) = (a.matrix::<f32>(), b.cast::<f32>());
                gemm(
                    r.n,
                    k,
                    width,
                    (a.ptr, a.row as isize, a.col as isize),
                    (b.element(0, j), b.row as isize, b.col as isize),
                    (y.element(0, j), y.row as isize, y.col as isize),
                    false,
                );
            }
        }
    })
    .tiled()
    .reading(0, Reads::Matrix)
    .reading(1, Reads::Matrix);
    let kernel = if of_bf16 {
        kernel.with_scratch(widened_bytes(rows, columns), 0)
    } else {
        kernel
    };
    #[cfg(target_arch = "x86_64")]
    let kernel = {
        use crate::kernels::x86::amx::rows::{Shape, packed_bf16, packed_f32};
        use crate::kernels::x86::words::fixed::fixed;
        use crate::kernels::x86::words::rows::by_words;
        let shape = Shape::new((rows, k, columns), transposed, columns.min(2 * cut - 1));
        let words = crate::kernels::x86::words::rows::Shape {
            rows,
            k,
            columns,
            transposed,
            task_columns: columns.min(2 * cut - 1),
        };
        if of_bf16 {
            by_words::<Bf16>(words, packed_bf16(shape, kernel))
        } else {
            by_words::<f32>(words, packed_f32(shape, kernel)).with_fixed(fixed::<f32>(words))
        }
    };
    kernel
}
