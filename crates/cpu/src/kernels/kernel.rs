//! What a kernel is: a loop with what the planner and the executor must know of it.

use lessen_compile::{natural_rows, row_layout};
use lessen_graph::{DType, Layout, Op, Role, RowWise, Type, numel};

pub(crate) use super::layouts::Reads;
pub(crate) use super::row_kernel::{Arg, Cut, Fixed, MAX_OPERANDS, Prepare, RowKernel, Run};
pub(crate) use super::whole::{Round, TaskFn, WholeKernel, Work};

/// The types that an operation is applied to.
#[derive(Clone, Copy)]
pub(crate) struct Types<'a> {
    pub(crate) inputs: &'a [Type],
    pub(crate) outputs: &'a [Type],
}

impl Types<'_> {
    fn all(&self) -> impl Iterator<Item = &Type> {
        self.inputs.iter().chain(self.outputs)
    }

    /// Whether all floats are `f32`.
    pub(crate) fn floats_are_f32(&self) -> bool {
        self.all()
            .filter(|ty| ty.dtype.is_float())
            .all(|ty| ty.dtype == DType::F32)
    }

    /// Whether an operand has no elements.
    pub(crate) fn any_empty(&self) -> bool {
        self.all().any(|ty| ty.numel() == 0)
    }
}

/// How a device runs an operation.
pub(crate) enum Kernel {
    /// On blocks of rows.
    Rows(RowKernel),
    /// By itself.
    Whole(WholeKernel),
    /// Nothing runs: the operation is a view, or a constant that is evaluated when a plan is loaded.
    Nothing,
}

impl From<RowKernel> for Option<Kernel> {
    fn from(kernel: RowKernel) -> Option<Kernel> {
        Some(Kernel::Rows(kernel))
    }
}

impl From<WholeKernel> for Option<Kernel> {
    fn from(kernel: WholeKernel) -> Option<Kernel> {
        Some(Kernel::Whole(kernel))
    }
}

impl Kernel {
    /// Whether the kernel of an operation on these types reads an input in this layout.
    pub(crate) fn accepts(&self, op: &dyn Op, types: Types<'_>, input: usize, layout: &Layout) -> bool {
        let ty = &types.inputs[input];
        if layout.is_dense(&ty.shape) {
            return true;
        }
        let (reads, rows) = match self {
            Kernel::Nothing => return false,
            Kernel::Whole(kernel) => {
                let exception = kernel.reads.iter().find(|(i, _)| *i == input);
                (
                    exception.map_or(Reads::Dense, |e| e.1),
                    numel(&ty.shape[..ty.rank() - 1]),
                )
            }
            Kernel::Rows(kernel) => match op.row_wise(types.inputs, types.outputs) {
                RowWise::Rows { rows, inputs, .. } => (kernel.reads(input, inputs[input]), rows),
                _ => (kernel.reads(input, Role::Rows), natural_rows(ty)),
            },
        };
        match reads {
            Reads::Dense => false,
            Reads::Rows => row_layout(&ty.shape, layout, rows).is_some(),
            Reads::Matrix => row_layout(&ty.shape, layout, rows).is_some_and(|r| r.lead.len() <= 1),
            Reads::DenseLastAxis => layout.strides.last() == Some(&1),
            Reads::Runs => layout.strides.contains(&1),
            Reads::Any => true,
        }
    }
}
