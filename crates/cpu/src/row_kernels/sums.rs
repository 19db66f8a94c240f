//! Products with a shared matrix, and reductions.

use lessen_graph::Type;
use lessen_graph::ops::{MatMul, Reduce};

use super::RowKernel;
use crate::kernels::{gemm, reduce};

/// Columns of one tile of a product: narrow tiles of all columns keep more of the shared factor in the cache.
fn column_tile(columns: usize) -> usize {
    if columns <= 768 {
        return columns.max(1);
    }
    let tiles = columns.div_ceil(512);
    columns.div_ceil(tiles).div_ceil(64) * 64
}

/// Rows times one shared matrix.
pub(super) fn linear(op: &MatMul, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    if !op.is_linear(&inputs[0], &inputs[1]) {
        return None;
    }
    let (_, k, columns) = op.sizes(&inputs[0], &inputs[1]);
    let transposed = op.transpose_b;
    let tile = column_tile(columns);
    debug_assert_eq!(outputs[0].last(), columns);
    Some(Box::new(move |r| {
        let (a, b, y) = (r.inputs[0], r.inputs[1], r.outputs[0]);
        let (b_row, b_col) = if transposed {
            (b.col, b.row)
        } else {
            (b.row, b.col)
        };
        for j in (0..columns).step_by(tile) {
            let n = tile.min(columns - j);
            // SAFETY: see `row_kernel`; the tile's columns are within those of `b` and `y`.
            unsafe {
                gemm::gemm(
                    r.n,
                    k,
                    n,
                    (a.ptr.cast(), a.row as isize, a.col as isize),
                    (b.ptr.cast::<f32>().add(j * b_col), b_row as isize, b_col as isize),
                    (y.ptr.cast::<f32>().add(j * y.col), y.row as isize, y.col as isize),
                    false,
                );
            }
        }
    }))
}

/// Reductions within rows, and sums over rows.
pub(super) fn reduction(op: &Reduce, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    let kind = op.kind;
    if outputs[0].numel() == 1 && inputs[0].rank() == op.axes.len() {
        return Some(Box::new(|r| unsafe {
            // SAFETY: see `row_kernel`; the sum has one element.
            *r.column(0) += reduce::sum_all(r.n, r.inputs[0].columns, r.x(0));
        }));
    }
    if op.axes.first() == Some(&0) {
        return Some(Box::new(|r| unsafe {
            // SAFETY: see `row_kernel`; the sum has as many elements as a row.
            reduce::sum_cols(r.n, r.inputs[0].columns, r.x(0), r.column(0));
        }));
    }
    // SAFETY: see `row_kernel`.
    Some(Box::new(move |r| unsafe {
        reduce::reduce_rows(kind, r.n, r.inputs[0].columns, r.x(0), r.column(0))
    }))
}
