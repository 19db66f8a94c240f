//! Kernels that run on blocks of rows.

use lessen_compile::Scratch;
use lessen_graph::{Role, RowWise};

use super::layouts::Reads;
use super::rows::Rows;
use crate::index_errors::IndexErrors;

/// The most operands of a row kernel.
pub(crate) const MAX_OPERANDS: usize = 13;

/// A loop over blocks of rows.
pub(crate) type RowLoop = Box<dyn Fn(&Run<'_>) + Send + Sync>;

/// How the work on a few rows is cut, where whole blocks of rows are too few tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Not at all.
    No,
    /// At any row.
    Rows,
    /// At any element: each output element depends on the input elements at its position alone.
    Elements,
    /// At multiples of this many columns of the output, the remainder added to the last of them. A column's bits do not
    /// depend on the cuts.
    Columns(usize),
    /// Into `parts` for each thread, as even as multiples of `width` columns are. A column's bits do not depend on the
    /// cuts.
    Even { parts: usize, width: usize },
}

/// A task of the preparation of a row kernel.
type PrepareFn = Box<dyn Fn(&Run<'_>, usize) + Send + Sync>;

/// Preparation of a row kernel: tasks before its blocks, which fill the memory that all blocks share.
pub(crate) struct Prepare {
    /// Tasks, which run in any order.
    pub(crate) tasks: usize,
    /// Runs a task. It gets the inputs that are read whole and, where all rows are one tile, matrices of rows.
    pub(crate) run: PrepareFn,
}

/// Replacement of a row kernel where an input that is read whole never changes: the input is packed once.
pub(crate) struct Fixed {
    /// The input.
    pub(crate) input: usize,
    /// Bytes of the packed input.
    pub(crate) bytes: usize,
    /// Packs the input into the memory that a run calls shared.
    pub(crate) pack: Prepare,
    /// The loop that reads the packed input, and other operands whose rows are runs of elements. A row after the
    /// operation's inputs is added to each row of the result.
    pub(crate) run: RowLoop,
    pub(crate) cut: Cut,
}

/// A kernel that runs on a block of rows.
pub(crate) struct RowKernel {
    pub(crate) run: RowLoop,
    pub(crate) prepare: Option<Prepare>,
    pub(crate) fixed: Option<Fixed>,
    /// Whether it reads a packed input; see [`Fixed`].
    pub(crate) is_frozen: bool,
    pub(crate) scratch: Scratch,
    /// Whether the bits of a row depend on which rows are computed together.
    pub(crate) tiled: bool,
    pub(crate) cut: Cut,
    /// The roles of its operands, where they come from the operation that brings the kernel. A plan must have them.
    pub(crate) roles: Option<RowWise>,
    /// Exceptions from [`Reads::Rows`] for inputs read by rows, and from [`Reads::Dense`] for inputs read whole.
    reads: Vec<(usize, Reads)>,
}

impl RowKernel {
    fn new(cut: Cut, run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel {
            run: Box::new(run),
            prepare: None,
            fixed: None,
            is_frozen: false,
            scratch: Scratch::default(),
            tiled: false,
            cut,
            roles: None,
            reads: Vec::new(),
        }
    }

    /// A kernel whose output elements depend on the input elements at the same position alone.
    pub(crate) fn elementwise(run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel::new(Cut::Elements, run)
    }

    /// A kernel whose output rows depend on the same rows of inputs alone.
    pub(crate) fn rows(run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel::new(Cut::Rows, run)
    }

    /// A kernel that adds up rows, or computes several at once, and whose columns may be cut at multiples of `width`.
    pub(crate) fn columns(width: usize, run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel::new(Cut::Columns(width), run)
    }

    /// A kernel that computes several rows at once, and whose columns are cut evenly; see [`Cut::Even`].
    pub(crate) fn even(parts: usize, width: usize, run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel::new(Cut::Even { parts, width }, run)
    }

    /// A kernel that adds up rows and cannot be cut otherwise.
    pub(crate) fn sums(run: impl Fn(&Run<'_>) + Send + Sync + 'static) -> RowKernel {
        RowKernel::new(Cut::No, run)
    }

    /// This kernel, to be run on tiles of a fixed number of rows.
    pub(crate) fn tiled(self) -> RowKernel {
        RowKernel { tiled: true, ..self }
    }

    /// This kernel, for plans in which its operands have these roles.
    pub(crate) fn of_roles(self, roles: RowWise) -> RowKernel {
        RowKernel {
            roles: Some(roles),
            ..self
        }
    }

    /// This kernel, with bytes of scratch for each worker, and bytes that all blocks share.
    pub(crate) fn with_scratch(self, worker: usize, shared: usize) -> RowKernel {
        RowKernel {
            scratch: Scratch { worker, shared },
            ..self
        }
    }

    /// This kernel, with a preparation that runs before it, and another loop, which is given the present loop.
    pub(crate) fn prepared(
        self,
        prepare: Prepare,
        run: impl Fn(&Run<'_>, &RowLoop) + Send + Sync + 'static,
    ) -> RowKernel {
        let plain = self.run;
        RowKernel {
            run: Box::new(move |r| run(r, &plain)),
            prepare: Some(prepare),
            ..self
        }
    }

    /// This kernel, with its replacement where an input never changes.
    pub(crate) fn with_fixed(self, fixed: Option<Fixed>) -> RowKernel {
        RowKernel { fixed, ..self }
    }

    /// Reads an input as packed elements from now on, if there is a loop for packed elements.
    pub(crate) fn freeze(&mut self) {
        if let Some(Fixed { run, cut, .. }) = self.fixed.take() {
            (self.run, self.cut, self.prepare, self.is_frozen) = (run, cut, None, true);
        }
    }

    /// This kernel, reading an input in these layouts.
    pub(crate) fn reading(mut self, input: usize, reads: Reads) -> RowKernel {
        self.reads.push((input, reads));
        self
    }

    /// This kernel, reading these inputs densely.
    pub(crate) fn dense<const N: usize>(self, inputs: [usize; N]) -> RowKernel {
        inputs
            .into_iter()
            .fold(self, |kernel, input| kernel.reading(input, Reads::Dense))
    }

    /// The layouts in which it reads an input.
    pub(crate) fn reads(&self, input: usize, role: Role) -> Reads {
        let exception = self.reads.iter().find(|(i, _)| *i == input);
        match (exception, role) {
            (Some(&(_, reads)), _) => reads,
            (None, Role::Rows) => Reads::Rows,
            (None, Role::Whole) => Reads::Dense,
        }
    }
}

/// One operand of a row kernel on a run of rows. An input is given by accessors, which panic where the kernel has
/// declared other layouts; an output is dense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    rows: Rows<u8>,
    columns: usize,
    reads: Reads,
}

impl Arg {
    pub(crate) const NONE: Arg = Arg {
        rows: Rows {
            ptr: std::ptr::null_mut(),
            row: 0,
            col: 0,
        },
        columns: 0,
        reads: Reads::Packed,
    };

    /// Rows of this many columns, for which these layouts are declared. Strides count elements of the operand's type.
    pub(crate) fn new(rows: Rows<u8>, columns: usize, reads: Reads) -> Arg {
        Arg { rows, columns, reads }
    }

    /// Some columns, which begin this many bytes later.
    pub(crate) fn cut(self, bytes: usize, columns: usize) -> Arg {
        Arg {
            rows: Rows {
                ptr: self.rows.ptr.wrapping_add(bytes),
                ..self.rows
            },
            columns,
            ..self
        }
    }

    /// Columns.
    pub(crate) fn columns(self) -> usize {
        self.columns
    }

    fn asked<T>(self, asked: Reads) -> Rows<T> {
        self.reads.admit(asked);
        self.rows.cast()
    }

    /// Rows whose columns lie one stride apart.
    pub(crate) fn rows<T>(self) -> Rows<T> {
        self.asked(Reads::Rows)
    }

    /// Rows that are runs of elements.
    pub(crate) fn runs<T>(self) -> Rows<T> {
        self.asked(Reads::Runs)
    }

    /// A matrix of which all rows lie one stride apart.
    pub(crate) fn matrix<T>(self) -> Rows<T> {
        self.asked(Reads::Matrix)
    }

    /// Such a matrix whose rows are runs of elements, or whose columns are.
    pub(crate) fn rows_or_columns<T>(self) -> Rows<T> {
        self.asked(Reads::RowsOrColumns)
    }

    /// All elements, which follow each other.
    pub(crate) fn dense<T>(self) -> *mut T {
        self.asked(Reads::Dense).ptr
    }

    /// An input that the kernel has packed.
    pub(crate) fn packed<T>(self) -> *const T {
        self.asked::<T>(Reads::Packed).ptr.cast_const()
    }
}

/// A run of rows that one call of a row kernel works on.
///
/// Kernels are `unsafe`; each call from a table entry is sound for the same reason. The plan gives every operand `n`
/// rows of as many columns as its type has, in a layout that the entry accepts. Outputs overlap inputs only where
/// [`Op::in_place`] allows it, and tasks write disjoint elements.
pub(crate) struct Run<'a> {
    /// Rows.
    pub(crate) n: usize,
    /// The position of the first output element in the whole value.
    pub(crate) first: usize,
    /// The columns to compute, for a kernel that is cut by [`Cut::Columns`] or [`Cut::Even`]; operands always begin at
    /// column 0.
    pub(crate) columns: (usize, usize),
    pub(crate) inputs: &'a [Arg],
    /// Rows to write; for a sum over rows the memory to add to.
    pub(crate) outputs: &'a [Arg],
    /// The worker's scratch.
    pub(crate) scratch: *mut u8,
    /// The scratch that all blocks share.
    pub(crate) shared: *mut u8,
    pub(crate) index_errors: &'a IndexErrors,
}

impl Run<'_> {
    /// Columns of the first output.
    pub(crate) fn c(&self) -> usize {
        self.outputs[0].columns
    }

    pub(crate) fn x(&self, i: usize) -> Rows<f32> {
        self.inputs[i].rows()
    }

    pub(crate) fn y(&self, i: usize) -> Rows<f32> {
        self.outputs[i].rows()
    }

    /// An input that is dense.
    pub(crate) fn whole(&self, i: usize) -> *const f32 {
        self.inputs[i].dense()
    }

    /// An output with one element for each row, or a sum over rows.
    pub(crate) fn column(&self, i: usize) -> *mut f32 {
        self.outputs[i].dense()
    }

    /// An input of one element.
    pub(crate) fn scalar(&self, i: usize) -> f32 {
        assert_eq!(self.inputs[i].columns, 1, "a scalar is one element");
        // SAFETY: the entry's operation has a scalar there, and a scalar has one element.
        unsafe { *self.inputs[i].rows.ptr.cast() }
    }

    /// The key of random numbers.
    pub(crate) fn key(&self, i: usize) -> [u32; 2] {
        // SAFETY: the entry's operation has a key there, which is two dense numbers.
        unsafe { *self.inputs[i].dense() }
    }

    /// Dense `i32` rows.
    pub(crate) fn indices(&self, i: usize) -> &[i32] {
        let arg = self.inputs[i];
        // SAFETY: the plan gives `n` rows of `columns` elements, and they are dense.
        unsafe { std::slice::from_raw_parts(arg.dense(), self.n * arg.columns) }
    }
}
