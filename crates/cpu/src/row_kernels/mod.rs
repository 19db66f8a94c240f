//! Which kernel runs an operation on a block of rows, if one does.

mod elementwise;
mod network;
mod sums;

use lessen_graph::{DType, Op, RowWise, Type};

use crate::faults::Faults;
use crate::kernels::Rows;
use crate::operand::Arg;

/// A run of rows that one call works on.
pub(crate) struct Run<'a> {
    /// Rows.
    pub(crate) n: usize,
    /// The first row, counted in the whole value.
    pub(crate) first: usize,
    pub(crate) inputs: &'a [Arg],
    /// Rows to write; for a sum over rows the memory to add to.
    pub(crate) outputs: &'a [Arg],
    pub(crate) faults: &'a Faults,
}

impl Run<'_> {
    fn x(&self, i: usize) -> Rows<f32> {
        rows(self.inputs[i])
    }

    fn y(&self, i: usize) -> Rows<f32> {
        rows(self.outputs[i])
    }

    /// An input that is read whole.
    fn whole(&self, i: usize) -> *const f32 {
        self.inputs[i].ptr.cast()
    }

    /// An output with one element for each row.
    fn column(&self, i: usize) -> *mut f32 {
        self.outputs[i].ptr.cast()
    }

    fn scalar(&self, i: usize) -> f32 {
        // SAFETY: a scalar input has one element.
        unsafe { *self.whole(i) }
    }

    /// Integer inputs of one element a row; the schedule only admits dense ones here.
    fn indices(&self, i: usize) -> &[i32] {
        let arg = self.inputs[i];
        // SAFETY: the plan gives `n` rows of `columns` dense elements.
        unsafe { std::slice::from_raw_parts(arg.ptr.cast(), self.n * arg.columns) }
    }
}

fn rows<T>(arg: Arg) -> Rows<T> {
    Rows {
        ptr: arg.ptr.cast(),
        row: arg.row,
        col: arg.col,
    }
}

/// A kernel bound to an operation's attributes.
pub(crate) type RowKernel = Box<dyn Fn(&Run<'_>) + Send + Sync>;

/// The most operands of a node in a group.
pub(crate) const MAX_OPERANDS: usize = 12;

/// The kernel for an operation on these types, if there is one that runs row by row.
///
/// The kernels are `unsafe`; each call is sound for the same reason: the plan gives every operand `n` rows of as many
/// columns as its type has, outputs overlap inputs only where [`Op::in_place`] allows it, and tasks write disjoint
/// rows.
pub(crate) fn row_kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> Option<RowKernel> {
    if op.row_wise(inputs, outputs) == RowWise::No || inputs.len() + outputs.len() > MAX_OPERANDS {
        return None;
    }
    let all_f32 = inputs
        .iter()
        .chain(outputs)
        .filter(|t| t.dtype.is_float())
        .all(|t| t.dtype == DType::F32);
    elementwise::kernel(op, inputs, outputs).or_else(|| {
        if all_f32 {
            network::kernel(op, inputs, outputs)
        } else {
            None
        }
    })
}
