//! The part of a device that plans depend on.

use std::sync::Arc;

use lessen_graph::{Layout, Op, Type};

use crate::costs::CostModel;
use crate::offsets::aligned;
use crate::place::{RowLayout, row_layout};

/// The part of a device that plans depend on. Two devices with equal answers get equal plans.
///
/// A compilation asks for the lowering of an operation on given types once and keeps it.
pub trait Target: Send + Sync {
    /// Numbers of the device that do not depend on an operation.
    fn limits(&self) -> Limits;

    /// Whether the device runs the operation, for some types at least. Other operations are replaced by their
    /// decomposition.
    fn supports(&self, op: &dyn Op) -> bool;

    /// How the device runs an operation on given types.
    fn lower(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Arc<Lowering>;

    /// How a row group is cut into row blocks.
    fn blocks(&self, group: &RowGroup) -> RowBlocks;

    /// Costs of operations on the device.
    fn costs(&self) -> &dyn CostModel;
}

/// Numbers of a device that plans depend on. By default the device has one worker and no cache, and cuts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Parts of a step that run at the same time, each with scratch memory of its own.
    pub workers: usize,
    /// Most elements of a row with which an elementwise operation joins a group of fewer rows than it has by itself: in
    /// such a group few workers would work on a large value.
    pub widest_row: usize,
    /// Rows of a slice. The device adds up sums over more rows slice by slice, in groups and where
    /// [`Lowering::adds_slices`] says so, so that they have the same bits where it runs slices one after another.
    pub slice_rows: usize,
    /// Bytes of the caches of all workers together. An array that the steps right before a step have touched is read
    /// from these caches, not from memory, as long as it fits there.
    pub cache_bytes: usize,
    /// Codes of 8 bits in a word, which a kernel reads at once. Runs of codes are padded to whole words.
    pub word_codes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            workers: 1,
            widest_row: usize::MAX,
            slice_rows: usize::MAX,
            cache_bytes: 0,
            word_codes: 1,
        }
    }
}

/// How a device runs an operation on given types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lowering {
    /// How the operation runs: by rows, by itself, or by its reference evaluation.
    pub kind: KernelKind,
    /// Layouts of each input that the kernel reads; an input in another layout is copied first.
    pub reads: Vec<Reads>,
    /// Scratch memory of the kernel while it runs.
    pub scratch: Scratch,
    /// How the kernel of an operation that runs by itself cuts its work, as far as the bits of a row of its results
    /// depend on it: the same operation on fewer rows has the same bits where this number is the same.
    pub cut: usize,
    /// Whether an operation that sums over rows adds up slices of [`Limits::slice_rows`] one after another.
    pub adds_slices: bool,
}

impl Lowering {
    /// A kernel that reads `inputs` dense inputs and takes no scratch.
    pub fn dense(kind: KernelKind, inputs: usize) -> Lowering {
        Lowering {
            kind,
            reads: vec![Reads::Dense; inputs],
            scratch: Scratch::default(),
            cut: 0,
            adds_slices: false,
        }
    }

    /// Whether the kernel reads input `input`, of shape `shape`, in the layout `layout` of a base array.
    pub fn accepts(&self, input: usize, shape: &[usize], layout: &Layout) -> bool {
        let reads = self.reads.get(input).copied().unwrap_or(Reads::Dense);
        reads.admits(shape, layout)
    }
}

/// Layouts in which a kernel reads an input. Dense ones are always among them, and strides along axes of one element do
/// not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// Dense layouts.
    Dense,
    /// Matrices with the given number of rows, whose columns lie one stride apart.
    Rows(usize),
    /// Such matrices whose columns follow each other: each row is a run of elements.
    Runs(usize),
    /// Matrices with the given number of rows, whose rows lie one stride apart and whose columns lie one stride apart.
    Matrix(usize),
    /// Such matrices whose columns follow each other.
    MatrixOfRuns(usize),
    /// Such matrices whose columns follow each other or whose rows do.
    RowsOrColumns(usize),
    /// Layouts whose last axis is dense.
    DenseLastAxis,
    /// All layouts.
    Any,
}

impl Reads {
    /// Whether the layout `layout` of an array of shape `shape` is among the layouts.
    pub fn admits(self, shape: &[usize], layout: &Layout) -> bool {
        if layout.is_dense(shape) {
            return true;
        }
        let rows_are = |rows: usize, wanted: fn(&RowLayout) -> bool| {
            row_layout(shape, layout, rows).is_some_and(|found| wanted(&found))
        };
        match self {
            Reads::Dense => false,
            Reads::Rows(rows) => rows_are(rows, |_| true),
            Reads::Runs(rows) => rows_are(rows, |found| found.step == 1),
            Reads::Matrix(rows) => rows_are(rows, |found| found.lead.len() <= 1),
            Reads::MatrixOfRuns(rows) => rows_are(rows, |found| found.lead.len() <= 1 && found.step == 1),
            Reads::RowsOrColumns(rows) => rows_are(rows, |found| match found.lead.as_slice() {
                [] => found.step == 1,
                [(_, row)] => found.step == 1 || *row == 1,
                _ => false,
            }),
            Reads::DenseLastAxis => match (shape.last(), layout.strides.last()) {
                (Some(1), _) => true,
                (_, last) => last == Some(&1),
            },
            Reads::Any => true,
        }
    }
}

/// Bytes that a kernel needs while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scratch {
    /// Bytes of each worker.
    pub worker: usize,
    /// Bytes that all workers share.
    pub shared: usize,
}

impl Scratch {
    /// Adds the scratch of the next kernel of a step. Returns the byte of the shared scratch at which the shared
    /// scratch of the kernel begins. Kernels that run one after the other take the same memory; in row blocks each
    /// kernel has shared memory of its own.
    pub fn add(&mut self, kernel: Scratch, one_after_the_other: bool) -> usize {
        self.worker = self.worker.max(kernel.worker);
        if one_after_the_other {
            self.shared = self.shared.max(kernel.shared);
            return 0;
        }
        let at = self.shared;
        self.shared = self.shared.saturating_add(aligned(kernel.shared));
        at
    }
}

/// How a device runs an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelKind {
    /// On row blocks, in a row group with other operations on the same rows.
    Rows {
        /// Whether the bits of its result depend on how rows are cut, so that it must run on tiles of a fixed number of
        /// rows.
        tiled: bool,
    },
    /// By itself.
    Whole,
    /// By its reference evaluation on the host, which is slow.
    Reference,
}

/// A group of row-wise operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowGroup {
    /// Rows of every value in the group.
    pub rows: usize,
    /// Bytes that the group reads and writes for one row, values read whole not counted.
    pub row_bytes: usize,
    /// Whether an operation of the group must run on tiles.
    pub tiled: bool,
    /// Elements of the largest sum over rows, which tiles add up; 0 if there is none.
    pub sum: usize,
}

/// How a group of row-wise operations is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowBlocks {
    /// Rows of one block, which a worker takes through all operations of the group. In a tiled group a multiple of
    /// `tile`, unless there are fewer rows.
    pub block: usize,
    /// Rows of one tile of products and sums over rows. Results depend on it, so it depends on shapes alone.
    pub tile: usize,
}
