//! Properties of a CPU on which plans depend; the table of kernels answers questions about operations.

use std::sync::Arc;

use lessen_compile::{
    CostModel, KernelKind, Limits, Lowering, Measured, MeasuredMemory, Operands, Rates, RowBlocks, RowGroup, Scratch,
    Target,
};
use lessen_graph::ops::Scan;
use lessen_graph::{Op, Type};

use crate::device::CpuTarget;
use crate::kernels::kernel::{Kernel, Types};
use crate::kernels::table::{has_kernel, kernel};
use crate::scan::lowering;
use crate::tiles::{SLICE_ROWS, tile_rows};
use crate::times::Times;

/// Bytes of the private second-level cache of present server cores; plans must not depend on the machine.
const CACHE_BYTES: usize = 1 << 20;

/// Codes in the 32 bits that an instruction for products of codes adds up.
const WORD_CODES: usize = 4;

/// Blocks that a group is cut into at least, so that every thread has work.
const BLOCKS: usize = 16;

impl CpuTarget {
    fn workers(&self) -> usize {
        self.threads.max(1)
    }
}

impl Target for CpuTarget {
    fn limits(&self) -> Limits {
        Limits {
            workers: self.workers(),
            widest_row: 1 << 13,
            slice_rows: SLICE_ROWS,
            cache_bytes: CACHE_BYTES * self.workers(),
            word_codes: WORD_CODES,
        }
    }

    fn supports(&self, op: &dyn Op) -> bool {
        has_kernel(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        if let Some(scan) = op.downcast_ref::<Scan>() {
            return Arc::new(lowering(scan, self.workers()));
        }
        let types = Types { inputs, outputs };
        let Some(kernel) = kernel(op, &types) else {
            return Arc::new(Lowering::dense(KernelKind::Reference, inputs.len()));
        };
        let (kind, scratch, cut, adds_slices) = match &kernel {
            Kernel::Rows(kernel) => (KernelKind::Rows { tiled: kernel.tiled }, kernel.scratch, 0, false),
            Kernel::Whole(kernel) => (KernelKind::Whole, kernel.scratch, kernel.cut, kernel.slice.is_some()),
            Kernel::Nothing => (KernelKind::Whole, Scratch::default(), 0, false),
        };
        Arc::new(Lowering {
            kind,
            reads: kernel.reads(op, types),
            scratch,
            cut,
            adds_slices,
        })
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
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

    fn costs(&self) -> &dyn CostModel {
        self
    }
}

impl CostModel for CpuTarget {
    fn rates(&self) -> Rates {
        Rates::default().of_workers(self.workers())
    }
}

/// A CPU with the times of its operations, once they are measured. All else is that of [`CpuTarget`], so that results
/// do not depend on them.
pub(crate) struct TimedTarget {
    pub(crate) cpu: CpuTarget,
    pub(crate) times: Option<Times>,
}

impl Target for TimedTarget {
    fn limits(&self) -> Limits {
        self.cpu.limits()
    }

    fn supports(&self, op: &dyn Op) -> bool {
        self.cpu.supports(op)
    }

    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering> {
        self.cpu.lower(op, inputs, outputs)
    }

    fn blocks(&self, group: &RowGroup) -> RowBlocks {
        self.cpu.blocks(group)
    }

    fn costs(&self) -> &dyn CostModel {
        self
    }
}

impl CostModel for TimedTarget {
    fn rates(&self) -> Rates {
        self.cpu.rates()
    }

    fn measured(&self, op: &dyn Op, operands: &Operands<'_>) -> Option<Measured> {
        self.times.as_ref()?.of(op, operands)
    }

    fn measured_memory(&self) -> Option<MeasuredMemory> {
        self.times.as_ref()?.known.memory
    }
}
