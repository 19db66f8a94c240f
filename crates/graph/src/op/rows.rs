//! How an operation works on the rows of its inputs: row by row, on a few of them, on slices of them.

use super::Op;
use crate::types::{Type, numel};
use std::sync::Arc;

/// How a row-wise operation reads an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Row `r` of the outputs reads only row `r` of this input.
    Rows,
    /// Every row reads all of this input: a weight, a table, a scale.
    Whole,
}

/// How a row-wise operation writes an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutRole {
    /// Row `r` is written from row `r` of the inputs.
    Rows,
    /// The sum of the contributions of all rows, such as a bias gradient. Where the output has one element, each row
    /// contributes one number, such as the sum of its elements.
    Sum,
}

/// Whether an operation works row by row, so that a block of rows passes through several operations while it is in a
/// cache. A row of a value of `n` elements has `n / rows` of them, in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowWise {
    /// The operation has no rows.
    No,
    /// Every output element depends on the input elements at the same index alone; every divisor of the number of
    /// elements is a number of rows. Inputs of shape `[]` are read whole.
    Elementwise,
    /// Each input and output has a role.
    Rows {
        /// Number of rows.
        rows: usize,
        /// How each input is read.
        inputs: Vec<Role>,
        /// How each output is written.
        outputs: Vec<OutRole>,
    },
}

impl RowWise {
    /// The structure with these roles.
    pub fn by_rows(rows: usize, inputs: &[Role], outputs: &[OutRole]) -> RowWise {
        RowWise::Rows {
            rows,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        }
    }

    /// The structure in which all inputs and outputs have the rows of input 0 along its last axis.
    ///
    /// # Panics
    /// If there is no input.
    pub fn of_last_axis(inputs: &[Type], outputs: &[Type]) -> RowWise {
        RowWise::Rows {
            rows: numel(inputs[0].shape.split_last().map_or(&[], |(_, lead)| lead)),
            inputs: vec![Role::Rows; inputs.len()],
            outputs: vec![OutRole::Rows; outputs.len()],
        }
    }
}

/// Rule of an operation for sparse inputs: zeros but for a few rows of the first axis, the same rows in all sparse
/// inputs.
///
/// An absent row stays zeros when it is multiplied by NaN or an infinity, where the dense product is NaN. While factors
/// are finite, results equal the dense ones. Where a clip coefficient is NaN, the rows of a batch become NaN and all
/// other rows are updated with the gradient 0.
#[derive(Clone, Debug)]
pub enum OnRows {
    /// Nothing that follows from the rows.
    No,
    /// The operation on these rows gives the same rows of the only output, whose other rows are zeros. Dense inputs are
    /// all one number.
    Rows,
    /// The operation on these rows gives the only output itself.
    Whole,
    /// This operation has the same outputs. In place of the one sparse input it takes the numbers of the rows, and the
    /// rows.
    By(Arc<dyn Op>),
}

/// Rule of an operation whose inputs with rows are cut into equal slices along the first axis.
#[derive(Clone, Debug)]
pub enum OnSlices {
    /// Nothing that follows from a slice.
    No,
    /// The operation on a slice gives the same slice of its outputs, bit for bit, and of a sum over rows a term.
    Same,
    /// This operation does.
    By(Arc<dyn Op>),
    /// This operation does, though it does not work row by row: these are the roles of inputs and outputs.
    Roles(Arc<dyn Op>, Vec<Role>, Vec<OutRole>),
}
