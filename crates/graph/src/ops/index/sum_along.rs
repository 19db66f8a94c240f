//! Sum along: elements of each row summed where their positions say; the derivative of taking them.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{IndexInput, Op, Row, RowKernel, Vjp};
use crate::ops::index::gather::row;
use crate::ops::index::sums::ids_below;
use crate::ops::rules::{arity, float, indexable, lead};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i.., p] = sum of updates[i.., j] with ids[i.., j] = p`, in the order of `j`: inputs are `ids`, `i32[lead.., m]`,
/// and `updates` of floats of the same shape; the result is `[lead.., extent]`. Ids must be in `0..extent`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SumAlong {
    /// Extent of the result's last axis; at most 2^31.
    pub extent: usize,
}

named!("sum_along": SumAlong { extent });

impl Op for SumAlong {
    named!();

    facts! { rows; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        indexable("positions of an axis", self.extent)?;
        let (ids, updates) = (&inputs[0], &inputs[1]);
        float(updates)?;
        if ids.dtype != DType::I32 || ids.shape != updates.shape || ids.rank() == 0 {
            return Err(Error::user(format!(
                "needs i32 ids and updates of one shape with an axis, not {ids} and {updates}"
            )));
        }
        let shape = [lead(updates), &[self.extent]].concat();
        Ok(vec![Type::sized(updates.dtype, &shape)?])
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (ids, updates) = (inputs[0], inputs[1]);
        let width = ids.ty.last().max(1);
        let mut sums = Array::full(outputs[0].clone(), 0.0);
        for (at, &id) in ids.data.iter().enumerate() {
            sums.data[at / width * self.extent + row(self.name(), id, at, self.extent)] += updates.data[at];
        }
        vec![sums]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![None, cx.cotangents[0].map(|dy| dy.take_along(-1, cx.inputs[0]))]
    }

    fn index_input(&self, _: &[Type]) -> Option<IndexInput> {
        Some(ids_below(self.extent))
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        Some(RowKernel::new(|inputs, outputs| {
            let (ids, y) = (inputs[0].i32(), outputs[0].f32());
            y.fill(0.0);
            if let Row::F32(updates) = inputs[1] {
                ids.iter().zip(updates).for_each(|(&id, x)| y[id as usize] += x);
            }
        }))
    }
}

impl Tensor {
    /// The elements of each row of this tensor summed into rows of `extent` elements where the ids say.
    #[track_caller]
    pub(crate) fn sums_along(self, ids: Tensor, extent: usize) -> Tensor {
        self.trace().apply1(SumAlong { extent }, &[ids, self])
    }

    /// This tensor with updates added at positions along an axis:
    /// `y[.., p, ..] = x[.., p, ..] + sum of updates[.., j, ..] with ids[.., j, ..] = p`. The ids are `i32` and the
    /// updates floats, both of this tensor's shape but for the extent of the axis, which counts from the end when
    /// negative; each id must be at least 0 and below the extent of this tensor.
    #[track_caller]
    pub fn scatter_add_along(self, axis: isize, ids: Tensor, updates: Tensor) -> Tensor {
        let axis = self.axis(axis);
        self.expect_same_axes("scatter_add_along", ids);
        self.expect_same_axes("scatter_add_along", updates);
        let extent = self.dim(axis as isize);
        let sums = updates.axis_to_last(axis).sums_along(ids.axis_to_last(axis), extent);
        self + sums.last_to_axis(axis)
    }
}
