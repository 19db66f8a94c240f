//! The pieces of a plan: where a value lies, and what a step needs.

use lessen_graph::{NodeId, ValueId};

use crate::target::RowBlocks;

/// Where the dense array of a value lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Storage {
    /// Nowhere: the value is a view, or nothing reads it.
    None,
    /// In the state of this input (position in [`Graph::inputs`](lessen_graph::Graph::inputs)).
    State(usize),
    /// At this byte of the arena.
    Arena(usize),
    /// At this byte of the running worker's scratch in its step; one block of rows.
    Local(usize),
    /// A constant, evaluated once when the plan is loaded; a position in [`Plan::constants`](crate::Plan::constants).
    Constant(usize),
}

/// The rows of a group, and how they are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsPlan {
    /// Rows in all.
    pub rows: usize,
    /// Rows that a worker takes at a time.
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

    /// Whether all rows are one block and one tile. Workers then run its nodes together, in one scratch.
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

/// A step with its memory.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// Nodes, in order.
    pub nodes: Vec<NodeId>,
    /// The rows of a group; none for a single node.
    pub rows: Option<RowsPlan>,
    /// The workers' scratch.
    pub scratch: StepScratch,
    /// Byte of the arena where the scratch that all workers share begins.
    pub shared_offset: usize,
    /// Its bytes.
    pub shared_scratch: usize,
    /// Sums over rows.
    pub partials: Vec<Partial>,
}

/// The scratch of the workers of a step: blocks of values that never leave a group, and what kernels need while they
/// run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepScratch {
    /// Byte of the arena where it begins.
    pub offset: usize,
    /// Bytes of the blocks.
    pub local: usize,
    /// Bytes of a worker's kernels.
    pub kernel: usize,
    /// Whether all workers work on the same blocks: all rows are one tile.
    pub one_tile: bool,
}

impl StepScratch {
    /// Bytes of this many workers.
    pub fn bytes(&self, workers: usize) -> usize {
        let kernels = self.kernel.saturating_mul(workers);
        self.locals(workers).saturating_add(kernels)
    }

    /// Bytes of the blocks of all workers.
    fn locals(&self, workers: usize) -> usize {
        self.local.saturating_mul(if self.one_tile { 1 } else { workers })
    }

    /// Byte of the arena where a worker's blocks begin.
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
