//! Kernels of operations: loops, with the facts that planner and executor need.

use lessen_compile::natural_rows;
use lessen_graph::{DType, Op, Role, RowWise, Type, numel};

pub(crate) use super::layouts::Reads;
pub(crate) use super::row_kernel::{Arg, Cut, Fixed, MAX_OPERANDS, Prepare, RowKernel, Run};
pub(crate) use super::whole::{FixInput, FixedInput, Input, Round, TaskFn, WholeKernel, Work};

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

    /// The elements of the largest operand; none where they cannot be counted.
    pub(crate) fn most_elements(&self) -> Option<usize> {
        let mut most = 0;
        for ty in self.all() {
            // Extents of an array without elements are numbers, too.
            let mut extents = ty.shape.iter().map(|&extent| extent.max(1));
            most = most.max(extents.try_fold(1usize, usize::checked_mul)?);
        }
        Some(most)
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
    /// Layouts in which the kernel of an operation on these types reads each input, as the planner knows them.
    pub(crate) fn reads(&self, op: &dyn Op, types: Types<'_>) -> Vec<lessen_compile::Reads> {
        let row_wise = match self {
            Kernel::Rows(_) => op.row_wise(types.inputs, types.outputs),
            _ => RowWise::No,
        };
        let of_input = |(input, ty): (usize, &Type)| {
            let own_rows = numel(&ty.shape[..ty.rank().saturating_sub(1)]);
            match (self, &row_wise) {
                (Kernel::Nothing, _) => lessen_compile::Reads::Dense,
                (Kernel::Whole(kernel), _) => kernel.reads(input).planned(own_rows),
                (Kernel::Rows(kernel), RowWise::Rows { rows, inputs, .. }) => {
                    let role = inputs[input];
                    let rows = if role == Role::Whole { own_rows } else { *rows };
                    kernel.reads(input, role).planned(rows)
                }
                (Kernel::Rows(kernel), _) => kernel.reads(input, Role::Rows).planned(natural_rows(ty)),
            }
        };
        types.inputs.iter().enumerate().map(of_input).collect()
    }
}
