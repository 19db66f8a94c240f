//! Kernels that compute whole values, in rounds of tasks.

use lessen_compile::Scratch;

use super::layouts::Reads;
use crate::clock::Clock;
use crate::index_errors::IndexErrors;

/// The work of a task, given its number.
pub(crate) type TaskFn = Box<dyn Fn(&Work<'_>, usize) + Send + Sync>;

/// Tasks that run in any order, after the tasks of the round before.
pub(crate) struct Round {
    pub(crate) tasks: usize,
    pub(crate) run: TaskFn,
}

/// Makes the rounds of a kernel for inputs with these strides.
type Rounds = Box<dyn Fn(&[Vec<usize>]) -> Vec<Round> + Send + Sync>;

/// Replacement of the rounds of a kernel where an input never changes: the input is packed once.
pub(crate) struct FixedInput {
    /// The input.
    pub(crate) input: usize,
    /// Bytes of the packed input.
    pub(crate) bytes: usize,
    /// Packs the input into the memory that the work calls shared.
    pub(crate) pack: Round,
    /// The rounds that read the packed input in its place.
    pub(crate) rounds: Vec<Round>,
}

/// Makes the replacement of a kernel's rounds.
pub(crate) type FixInput = Box<dyn Fn() -> FixedInput + Send + Sync>;

/// A kernel that computes whole values.
pub(crate) struct WholeKernel {
    pub(crate) rounds: Rounds,
    pub(crate) scratch: Scratch,
    /// The replacement of the rounds where an input never changes, if there is one.
    pub(crate) fixed: Option<FixInput>,
    /// The rows of a slice, where it adds up slices of rows one after another.
    pub(crate) slice: Option<usize>,
    /// How it cuts its work, as far as bits depend on it and it depends on the number of rows.
    pub(crate) cut: usize,
    /// Exceptions from [`Reads::Dense`].
    pub(super) reads: Vec<(usize, Reads)>,
}

impl WholeKernel {
    /// A kernel of several rounds.
    pub(crate) fn rounds(rounds: impl Fn(&[Vec<usize>]) -> Vec<Round> + Send + Sync + 'static) -> WholeKernel {
        WholeKernel {
            rounds: Box::new(rounds),
            scratch: Scratch::default(),
            fixed: None,
            slice: None,
            cut: 0,
            reads: Vec::new(),
        }
    }

    /// A kernel of `tasks` tasks over dense inputs.
    pub(crate) fn dense(tasks: usize, run: impl Fn(&Work<'_>, usize) + Clone + Send + Sync + 'static) -> WholeKernel {
        WholeKernel::rounds(move |_| {
            vec![Round {
                tasks,
                run: Box::new(run.clone()),
            }]
        })
    }

    /// This kernel, with `bytes` bytes of scratch for each worker.
    pub(crate) fn with_scratch(mut self, bytes: usize) -> WholeKernel {
        self.scratch.worker = bytes;
        self
    }

    /// This kernel, with `bytes` bytes of scratch that all workers share: a round hands the scratch to the next round.
    pub(crate) fn with_shared(mut self, bytes: usize) -> WholeKernel {
        self.scratch.shared = bytes;
        self
    }

    /// This kernel, with a replacement of its rounds where an input never changes.
    pub(crate) fn with_fixed(mut self, fixed: impl Fn() -> FixedInput + Send + Sync + 'static) -> WholeKernel {
        self.fixed = Some(Box::new(fixed));
        self
    }

    /// This kernel, with its work cut by `cut`.
    pub(crate) fn cut_by(mut self, cut: usize) -> WholeKernel {
        self.cut = cut;
        self
    }

    /// This kernel, adding up slices of `rows` rows.
    pub(crate) fn in_slices(mut self, rows: Option<usize>) -> WholeKernel {
        self.slice = rows;
        self
    }

    /// This kernel, reading an input in these layouts.
    pub(crate) fn reading(mut self, input: usize, reads: Reads) -> WholeKernel {
        self.reads.push((input, reads));
        self
    }
}

/// The memory of one task of a whole kernel.
///
/// Calls from table entries are sound for this reason: the plan gives every operand the elements of its type at strides
/// that the entry accepts, outputs overlap no input but where [`Op::in_place`](lessen_graph::Op::in_place) allows it,
/// and tasks write disjoint elements.
pub(crate) struct Work<'a> {
    /// First element of each input, its view's offset included.
    pub(crate) inputs: &'a [*mut u8],
    /// First element of each output.
    pub(crate) outputs: &'a [*mut u8],
    /// The worker's scratch.
    pub(crate) scratch: *mut u8,
    /// The scratch that all workers share.
    pub(crate) shared: *mut u8,
    pub(crate) index_errors: &'a IndexErrors,
    pub(crate) clock: &'a Clock,
}

impl Work<'_> {
    pub(crate) fn x(&self, i: usize) -> *const f32 {
        self.inputs[i].cast()
    }

    pub(crate) fn y(&self, i: usize) -> *mut f32 {
        self.outputs[i].cast()
    }

    /// The key of random numbers.
    pub(crate) fn key(&self, i: usize) -> [u32; 2] {
        // SAFETY: the entry's operation has a key there, which is two dense numbers.
        unsafe { *self.inputs[i].cast() }
    }
}
