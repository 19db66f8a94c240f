//! What the planner must know of a CPU.

use lessen_compile::{KernelKind, RowBlocks, RowGroup, Target, natural_rows, row_layout};
use lessen_graph::ops::{
    AdamW, Attention, AttentionBackward, Binary, CrossEntropyBackward, Identity, MatMul, Pad, Sgd,
};
use lessen_graph::{DType, Layout, Op, Role, RowWise, Type, numel};

use crate::row_kernels::row_kernel;
use crate::single_kernels::{has_single_kernel, scratch_bytes};

/// Rows of one tile: products and sums over rows are cut at multiples of it, whatever block a group runs in, so that
/// their bits depend on shapes alone.
const TILE_ROWS: usize = 128;

/// Bytes of the private second-level cache of present server cores; plans must not depend on the machine.
const CACHE_BYTES: usize = 1 << 20;

/// Blocks that a group is cut into at least, so that every thread has work.
const BLOCKS: usize = 16;

/// A CPU with this number of threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuTarget {
    /// Threads.
    pub threads: usize,
}

impl Target for CpuTarget {
    fn workers(&self) -> usize {
        self.threads.max(1)
    }

    fn supports(&self, op: &dyn Op) -> bool {
        op.is_standard()
    }

    fn kernel(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> KernelKind {
        if row_kernel(op, inputs, outputs).is_some() {
            KernelKind::Rows {
                tiled: op.is::<MatMul>(),
            }
        } else if has_single_kernel(op, inputs, outputs) {
            KernelKind::Whole
        } else {
            KernelKind::Reference
        }
    }

    fn accepts(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type], input: usize, layout: &Layout) -> bool {
        let shape = &inputs[input].shape;
        if op.is::<MatMul>() {
            let matmul = op.downcast_ref::<MatMul>().expect("just asked");
            if input == 0 && matmul.is_linear(&inputs[0], &inputs[1]) {
                let row = row_layout(shape, layout, numel(&shape[..shape.len() - 1]));
                return row.is_some_and(|r| r.lead.len() <= 1);
            }
            return true;
        }
        if op.is::<Attention>() || op.is::<AttentionBackward>() {
            return input < 3 && *layout.strides.last().expect("rank 4") == 1;
        }
        if op.is::<Identity>() {
            return true;
        }
        if op.is::<AdamW>()
            || op.is::<Sgd>()
            || op.is::<Pad>()
            || inputs[input].dtype == DType::I32 && !op.is::<Binary>()
        {
            return false;
        }
        match op.row_wise(inputs, outputs) {
            RowWise::No => false,
            RowWise::Elementwise => {
                inputs[input].rank() == 0 || row_layout(shape, layout, natural_rows(&inputs[input])).is_some()
            }
            RowWise::Rows { rows, inputs, .. } => {
                // Statistics of rows are read as dense vectors, the cotangent of a loss through any stride.
                let dense_only = numel(shape) == rows && !(op.is::<CrossEntropyBackward>() && input == 3);
                inputs[input] == Role::Rows && !dense_only && row_layout(shape, layout, rows).is_some()
            }
        }
    }

    fn block_rows(&self, group: &RowGroup) -> RowBlocks {
        let RowGroup {
            rows,
            row_bytes,
            tiled,
        } = *group;
        let fitting = (CACHE_BYTES / 2 / row_bytes.max(1)).max(1);
        let tile = TILE_ROWS.min(rows).max(1);
        let block = if tiled {
            (fitting / tile).clamp(1, rows.div_ceil(tile).div_ceil(BLOCKS).max(1)) * tile
        } else {
            fitting.min(rows.div_ceil(BLOCKS)).max(1)
        };
        RowBlocks { block, tile }
    }

    fn widest_row(&self) -> usize {
        1 << 13
    }

    fn scratch_bytes(&self, op: &dyn Op, inputs: &[Type], _: &[Type]) -> usize {
        scratch_bytes(op, inputs)
    }
}
