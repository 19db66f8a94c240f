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
    reads: Vec<(usize, Reads)>,
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

    /// The layouts in which it reads an input.
    pub(crate) fn reads(&self, input: usize) -> Reads {
        let exception = self.reads.iter().find(|(i, _)| *i == input);
        exception.map_or(Reads::Dense, |(_, reads)| *reads)
    }
}

/// An input of a kernel that computes whole values.
#[derive(Clone, Copy)]
pub(crate) struct Input {
    /// First element, its view's offset included.
    ptr: *mut u8,
    /// The layouts that the kernel has declared.
    reads: Reads,
}

impl Input {
    pub(crate) const NONE: Input = Input {
        ptr: std::ptr::null_mut(),
        reads: Reads::Packed,
    };

    /// An input that begins here, for which these layouts are declared.
    pub(crate) fn new(ptr: *mut u8, reads: Reads) -> Input {
        Input { ptr, reads }
    }

    /// An input that begins this many bytes later.
    pub(crate) fn from(self, bytes: usize) -> Input {
        Input {
            ptr: self.ptr.wrapping_add(bytes),
            ..self
        }
    }
}

/// The memory of one task of a whole kernel.
///
/// Calls from table entries are sound for this reason: the plan gives every operand the elements of its type at strides
/// that the entry accepts, outputs overlap no input but where [`Op::in_place`](lessen_graph::Op::in_place) allows it,
/// and tasks write disjoint elements. Inputs are given by accessors, which panic where the entry has declared other
/// layouts.
pub(crate) struct Work<'a> {
    pub(crate) inputs: &'a [Input],
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
    fn input<T>(&self, i: usize, asked: Reads) -> *const T {
        let Input { ptr, reads } = self.inputs[i];
        reads.admit(asked);
        ptr.cast::<T>().cast_const()
    }

    /// A dense input.
    pub(crate) fn dense<T>(&self, i: usize) -> *const T {
        self.input(i, Reads::Dense)
    }

    /// The first element of an input whose elements lie at the strides that its rounds were made for.
    pub(crate) fn strided<T>(&self, i: usize) -> *const T {
        self.input(i, Reads::Any)
    }

    /// The first element of an input with such strides and a dense last axis.
    pub(crate) fn dense_along<T>(&self, i: usize) -> *const T {
        self.input(i, Reads::DenseLastAxis)
    }

    /// An input that the kernel has packed.
    pub(crate) fn packed<T>(&self, i: usize) -> *const T {
        self.input(i, Reads::Packed)
    }

    /// A dense input of `f32`.
    pub(crate) fn x(&self, i: usize) -> *const f32 {
        self.dense(i)
    }

    pub(crate) fn y(&self, i: usize) -> *mut f32 {
        self.outputs[i].cast()
    }

    /// The key of random numbers.
    pub(crate) fn key(&self, i: usize) -> [u32; 2] {
        // SAFETY: the entry's operation has a key there, which is two dense numbers.
        unsafe { *self.dense(i) }
    }
}
