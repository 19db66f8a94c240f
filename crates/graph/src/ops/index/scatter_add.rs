//! Scatter-add: rows summed where their numbers say; the derivative of gather.

use std::sync::Arc;

use lessen_base::Result;

use crate::array::Array;
use crate::op::{IndexInput, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::index::combine_rows::CombineRows;
use crate::ops::index::sums;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[r, :] = sum of updates[i.., :] with ids[i..] = r`, in the order of `i`: inputs are `ids`, `i32` of any
/// shape, and `updates` of `ids.shape + rest`; the result is `[rows, rest..]`. Ids must be in `0..rows`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScatterAdd {
    /// Rows of the result; at most 2^31.
    pub rows: usize,
}

named!("scatter_add": ScatterAdd { rows });

impl Op for ScatterAdd {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        sums::infer(inputs, self.rows, |_| self.rows)
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        sums::eval(self.name(), inputs, outputs, self.rows, |row, _| row)
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![None, cx.cotangents[0].map(|dy| dy.gather(cx.inputs[0]))]
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::by_rows(self.rows, &[Role::Whole, Role::Whole], &[OutRole::Rows])
    }

    fn sparse_rows(&self) -> Option<Arc<dyn Op>> {
        Some(Arc::new(CombineRows { rows: self.rows }))
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        Some(sums::ids_below(self.rows))
    }
}

impl Tensor {
    /// The rows of this tensor `ids.shape + rest` summed into `[rows, rest..]` where the ids say.
    #[track_caller]
    pub fn scatter_add(self, ids: Tensor, rows: usize) -> Tensor {
        self.trace().apply1(ScatterAdd { rows }, &[ids, self])
    }
}
