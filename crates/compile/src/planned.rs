//! The parts of a plan: the storage of a value, and the memory of a plan step.

use lessen_graph::{NodeId, ValueId};

use crate::target::RowBlocks;

/// Place of the dense array of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Storage {
    /// Nowhere: the value is a view, or nothing reads it.
    None,
    /// In the state of this input (position in [`Graph::inputs`](lessen_graph::Graph::inputs)).
    State(usize),
    /// At this byte of the arena.
    Arena(usize),
    /// At this byte of the running worker's scratch in its plan step; one row block.
    Local(usize),
    /// A constant, evaluated once when the plan is loaded; a position in [`Plan::constants`](crate::Plan::constants).
    Constant(usize),
}

/// The rows of a row group, and how they are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsPlan {
    /// Number of rows.
    pub rows: usize,
    /// Rows of a row block.
    pub block: usize,
    /// Rows of one tile of products and sums.
    pub tile: usize,
}

impl RowsPlan {
    pub(crate) fn new(rows: usize, blocks: RowBlocks) -> RowsPlan {
        let RowBlocks { block, tile } = blocks;
        RowsPlan {
            rows,
            block: block.clamp(1, rows.max(1)),
            tile: tile.max(1),
        }
    }

    /// Whether all rows are one row block and one tile. Workers then run its nodes together, in one scratch.
    pub fn is_one_tile(&self) -> bool {
        self.rows <= self.block && self.rows <= self.tile
    }
}

/// The memory in which the tiles of a sum over rows collect their parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partial {
    /// The sum.
    pub value: ValueId,
    /// Byte of the arena.
    pub offset: usize,
    /// Number of parts, one for each tile.
    pub parts: usize,
}

/// A plan step with its memory.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// Nodes, in order.
    pub nodes: Vec<NodeId>,
    /// The rows of a row group; none for a single node.
    pub rows: Option<RowsPlan>,
    /// The workers' scratch.
    pub scratch: StepScratch,
    /// Byte of the arena where the scratch shared by all workers begins.
    pub shared_offset: usize,
    /// Bytes of the scratch shared by all workers.
    pub shared_scratch: usize,
    /// Sums over rows.
    pub partials: Vec<Partial>,
}

/// The scratch of the workers in a plan step: row blocks of values that never leave a row group, and memory of kernels
/// while they run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepScratch {
    /// Byte of the arena where it begins.
    pub offset: usize,
    /// Bytes of the row blocks of a worker.
    pub local: usize,
    /// Bytes of the kernels of a worker.
    pub kernel: usize,
    /// Whether all workers share the same row blocks, because all rows are one tile.
    pub one_tile: bool,
}

impl StepScratch {
    /// Bytes of all scratch of `workers` workers; the greatest number where the sum does not fit a `usize`.
    pub fn bytes(&self, workers: usize) -> usize {
        let kernels = self.kernel.saturating_mul(workers);
        self.locals(workers).saturating_add(kernels)
    }

    /// Bytes of the row blocks of `workers` workers.
    fn locals(&self, workers: usize) -> usize {
        self.local.saturating_mul(if self.one_tile { 1 } else { workers })
    }

    /// Byte of the arena where a worker's row blocks begin.
    pub fn local_at(&self, worker: usize) -> usize {
        self.offset
            + if self.one_tile {
                0
            } else {
                worker * (self.local + self.kernel)
            }
    }

    /// Byte of the arena where the scratch of a worker's kernels begins.
    pub fn kernel_at(&self, worker: usize) -> usize {
        let others = if self.one_tile { worker * self.kernel } else { 0 };
        self.local_at(worker) + self.local + others
    }
}
