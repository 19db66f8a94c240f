//! What the planner must know of a device.

use lessen_graph::{Layout, Op, Type};

use crate::offsets::aligned;

/// The part of a device that plans depend on. Two devices with equal answers get equal plans.
pub trait Target: Send + Sync {
    /// Parts of a step that run at the same time, each with scratch memory of its own.
    fn workers(&self) -> usize;

    /// Whether the device runs this operation, for some types at least. Others are replaced by their decomposition.
    fn supports(&self, op: &dyn Op) -> bool;

    /// How the device runs an operation on these types.
    fn kernel(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> KernelKind;

    /// Whether the operation's kernel reads input `input` in this layout of a base array; if not, the input is first
    /// copied densely. Dense layouts are never asked about.
    fn accepts(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type], input: usize, layout: &Layout) -> bool;

    /// How a group of row-wise operations is cut into blocks of rows.
    fn block_rows(&self, group: &RowGroup) -> RowBlocks;

    /// The most elements of a row with which an elementwise operation joins a group of fewer rows than it has by
    /// itself: in such a group few workers would work on a large value.
    fn widest_row(&self) -> usize;

    /// The scratch memory of this operation while it runs.
    fn scratch(&self, op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Scratch;

    /// Rows of a slice. The device adds up sums over more rows, those of groups and those of which
    /// [`Target::adds_slices`] says so, slice by slice, so that they have the same bits where it runs slices one after
    /// another. By default it has none.
    fn slice_rows(&self) -> usize {
        usize::MAX
    }

    /// Whether an operation that sums over rows adds up slices of [`Target::slice_rows`] one after another.
    fn adds_slices(&self, _op: &dyn Op, _inputs: &[Type], _outputs: &[Type]) -> bool {
        false
    }

    /// How the kernel of an operation that runs as a whole cuts its work, as far as the bits of a row of its results
    /// depend on it: the same operation on fewer rows has the same bits where this number is the same.
    fn cut(&self, _op: &dyn Op, _inputs: &[Type], _outputs: &[Type]) -> usize {
        0
    }

    /// How fast the device works, as far as plans depend on it.
    fn rates(&self) -> Rates {
        Rates::default()
    }

    /// Bytes that the caches of all workers hold together. What a step reads of the little that the steps right before
    /// it have touched does not come from memory.
    fn cache_bytes(&self) -> usize {
        0
    }

    /// What was measured of an operation; none where [`Target::rates`] have to do, as for all
    /// operations until the device has measured any.
    fn measured(&self, _op: &dyn Op, _operands: &Operands<'_>) -> Option<Measured> {
        None
    }

    /// What was measured of the device's memory; none where nothing was.
    fn measured_memory(&self) -> Option<MeasuredMemory> {
        None
    }
}

/// How fast a device works, all workers together. Plans compare times by it, so that only the ratios matter; the
/// default is that of a present server core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Floating-point operations of products per second.
    pub products: f64,
    /// Those of products that read `bf16`.
    pub narrow_products: f64,
    /// All other operations per second.
    pub others: f64,
    /// Bytes per second that are read from memory or written there.
    pub memory: f64,
    /// Seconds that a step takes besides its work.
    pub begin: f64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            products: 1e11,
            narrow_products: 1.8e11,
            others: 3e10,
            memory: 1.5e10,
            begin: 4e-6,
        }
    }
}

impl Rates {
    /// The rates of so many workers, each with these.
    pub fn of_workers(self, workers: usize) -> Rates {
        let workers = workers as f64;
        Rates {
            products: self.products * workers,
            narrow_products: self.narrow_products * workers,
            others: self.others * workers,
            memory: self.memory * workers,
            begin: self.begin,
        }
    }
}

/// What an operation is applied to.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// Types of what it reads.
    pub inputs: &'a [Type],
    /// Where the elements of its inputs lie in their base arrays.
    pub layouts: Vec<&'a Layout>,
    /// Types of its results.
    pub outputs: &'a [Type],
}

/// What an operation takes, as measured, all workers together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measured {
    /// Seconds in a group of rows, where what it reads and writes is in a cache.
    InCache(f64),
    /// Seconds by itself, with what it reads from memory and writes there.
    Whole(f64),
}

impl Measured {
    /// The seconds, with or without what is moved between memory and caches.
    pub fn seconds(self) -> f64 {
        match self {
            Measured::InCache(seconds) | Measured::Whole(seconds) => seconds,
        }
    }
}

/// What was measured of a device's memory, all workers together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredMemory {
    /// Bytes per second between memory and workers. What is written where it was not read before counts twice, since
    /// a cache reads it first.
    pub rate: f64,
    /// Seconds that a step takes besides its work.
    pub begin: f64,
}

/// Bytes that a kernel needs while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scratch {
    /// Those of each worker.
    pub worker: usize,
    /// Those that all workers share.
    pub shared: usize,
}

impl Scratch {
    /// Adds the scratch of the next kernel of a step, and returns at which byte of the shared scratch that of the
    /// kernel begins. Kernels that run one after the other take the same memory; in blocks of rows each has shared
    /// memory of its own.
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
    /// On blocks of rows, in a group with other operations on the same rows.
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
