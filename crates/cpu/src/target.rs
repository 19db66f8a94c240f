//! What the planner must know of a CPU; what it asks about operations is answered by the table of kernels.

use lessen_compile::{KernelKind, Measured, MeasuredMemory, Operands, Rates, RowBlocks, RowGroup, Scratch, Target};
use lessen_graph::{Layout, Op, Type};

use crate::device::CpuTarget;
use crate::kernels::kernel::{Kernel, Types};
use crate::kernels::table::{is_listed, kernel};
use crate::tiles::{SLICE_ROWS, tile_rows};
use crate::times::Times;

/// Bytes of the private second-level cache of present server cores; plans must not depend on the machine.
const CACHE_BYTES: usize = 1 << 20;

/// Blocks that a group is cut into at least, so that every thread has work.
const BLOCKS: usize = 16;

impl Target for CpuTarget {
    fn workers(&self) -> usize {
        self.threads.max(1)
    }

    fn supports(&self, op: &dyn Op) -> bool {
        is_listed(op)
    }

    fn kernel(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> KernelKind {
        match kernel(op, &Types { inputs, outputs }) {
            Some(Kernel::Rows(kernel)) => KernelKind::Rows { tiled: kernel.tiled },
            Some(Kernel::Whole(_) | Kernel::Nothing) => KernelKind::Whole,
            None => KernelKind::Reference,
        }
    }

    fn accepts(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type], input: usize, layout: &Layout) -> bool {
        let types = Types { inputs, outputs };
        kernel(op, &types).is_some_and(|kernel| kernel.accepts(op, types, input, layout))
    }

    fn block_rows(&self, group: &RowGroup) -> RowBlocks {
        let RowGroup {
            rows,
            row_bytes,
            tiled,
            sum,
        } = *group;
        let fitting = (CACHE_BYTES / 2 / row_bytes.max(1)).max(1);
        let tile = tile_rows(rows);
        let block = if tiled || sum > 0 {
            (fitting / tile).clamp(1, rows.div_ceil(tile).div_ceil(BLOCKS).max(1)) * tile
        } else {
            fitting.min(rows.div_ceil(BLOCKS)).max(1)
        };
        RowBlocks { block, tile }
    }

    fn widest_row(&self) -> usize {
        1 << 13
    }

    fn scratch(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Scratch {
        match kernel(op, &Types { inputs, outputs }) {
            Some(Kernel::Whole(kernel)) => kernel.scratch,
            Some(Kernel::Rows(kernel)) => kernel.scratch,
            _ => Scratch::default(),
        }
    }

    fn slice_rows(&self) -> usize {
        SLICE_ROWS
    }

    fn adds_slices(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> bool {
        let kernel = kernel(op, &Types { inputs, outputs });
        matches!(kernel, Some(Kernel::Whole(kernel)) if kernel.slice.is_some())
    }

    fn cut(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> usize {
        match kernel(op, &Types { inputs, outputs }) {
            Some(Kernel::Whole(kernel)) => kernel.cut,
            _ => 0,
        }
    }

    fn rates(&self) -> Rates {
        Rates::default().of_workers(self.workers())
    }

    fn cache_bytes(&self) -> usize {
        CACHE_BYTES * self.workers()
    }
}

/// A CPU with the times of its operations, once they are measured. All else is that of [`CpuTarget`], so that results
/// do not depend on them.
pub(crate) struct TimedTarget {
    pub(crate) cpu: CpuTarget,
    pub(crate) times: Option<Times>,
}

impl Target for TimedTarget {
    fn workers(&self) -> usize {
        self.cpu.workers()
    }

    fn supports(&self, op: &dyn Op) -> bool {
        self.cpu.supports(op)
    }

    fn kernel(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> KernelKind {
        self.cpu.kernel(op, inputs, outputs)
    }

    fn accepts(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type], input: usize, layout: &Layout) -> bool {
        self.cpu.accepts(op, inputs, outputs, input, layout)
    }

    fn block_rows(&self, group: &RowGroup) -> RowBlocks {
        self.cpu.block_rows(group)
    }

    fn widest_row(&self) -> usize {
        self.cpu.widest_row()
    }

    fn scratch(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Scratch {
        self.cpu.scratch(op, inputs, outputs)
    }

    fn slice_rows(&self) -> usize {
        self.cpu.slice_rows()
    }

    fn adds_slices(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> bool {
        self.cpu.adds_slices(op, inputs, outputs)
    }

    fn cut(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> usize {
        self.cpu.cut(op, inputs, outputs)
    }

    fn rates(&self) -> Rates {
        self.cpu.rates()
    }

    fn cache_bytes(&self) -> usize {
        self.cpu.cache_bytes()
    }

    fn measured(&self, op: &dyn Op, operands: &Operands<'_>) -> Option<Measured> {
        self.times.as_ref()?.of(op, operands)
    }

    fn measured_memory(&self) -> Option<MeasuredMemory> {
        self.times.as_ref()?.memory
    }
}
