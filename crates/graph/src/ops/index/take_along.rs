//! Take along: elements of each row by their positions.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{IndexInput, Op, Row, RowKernel, Vjp};
use crate::ops::index::gather::row;
use crate::ops::rules::{arity, indexable_rows, lead, number};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i.., j] = x[i.., ids[i.., j]]`: `x` is `[lead.., n]` of floats or `i32`, `ids` are `i32[lead.., m]`, the result
/// is `[lead.., m]`. Ids must be in `0..n`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TakeAlong;

named!("take_along": TakeAlong {});

impl Op for TakeAlong {
    named!();

    facts! {
        rows;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (x, ids) = (&inputs[0], &inputs[1]);
        number(x)?;
        indexable_rows(x)?;
        if ids.dtype != DType::I32 || ids.rank() != x.rank() || lead(ids) != lead(x) {
            return Err(Error::user(format!(
                "needs a tensor and i32 ids whose shapes differ along one axis alone, not {x} and {ids}"
            )));
        }
        Ok(vec![Type::sized(x.dtype, &ids.shape)?])
    }

    /// # Panics
    /// If an id is out of range.
    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (x, ids) = (inputs[0], inputs[1]);
        let (columns, width) = (x.ty.last(), ids.ty.last().max(1));
        let positions = ids.data.iter().enumerate();
        let taken = positions.map(|(at, &id)| x.data[at / width * columns + row(self.name(), id, at, columns)]);
        vec![Array::new(outputs[0].clone(), taken.collect())]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let extent = cx.inputs[0].ty().last();
        vec![cx.cotangents[0].map(|dy| dy.sums_along(cx.inputs[1], extent)), None]
    }

    fn index_input(&self, inputs: &[Type]) -> Option<IndexInput> {
        Some(IndexInput {
            input: 1,
            limit: inputs[0].last(),
            ignored: None,
        })
    }

    fn row_kernel(&self) -> Option<RowKernel> {
        fn take<T: Copy>(x: &[T], ids: &[i32], y: &mut [T]) {
            y.iter_mut().zip(ids).for_each(|(y, &id)| *y = x[id as usize]);
        }
        Some(RowKernel::new(|inputs, outputs| match inputs[0] {
            Row::F32(x) => take(x, inputs[1].i32(), outputs[0].f32()),
            Row::I32(x) => take(x, inputs[1].i32(), outputs[0].i32()),
        }))
    }
}

impl Tensor {
    /// The elements at these positions along an axis: `y[.., j, ..] = x[.., ids[.., j, ..], ..]`. The ids are `i32` of
    /// this tensor's shape but for the extent of the axis, which counts from the end when negative; each must be at
    /// least 0 and below the extent of this tensor.
    #[track_caller]
    pub fn take_along(self, axis: isize, ids: Tensor) -> Tensor {
        let axis = self.axis(axis);
        self.expect_same_axes("take_along", ids);
        let (x, ids) = (self.axis_to_last(axis), ids.axis_to_last(axis));
        x.trace().apply1(TakeAlong, &[x, ids]).last_to_axis(axis)
    }

    /// Reports operands that have another number of axes.
    #[track_caller]
    pub(super) fn expect_same_axes(self, what: &str, other: Tensor) {
        if self.rank() != other.rank() {
            self.trace().fail(format!(
                "{what} needs operands with the same number of axes, not {} and {}",
                self.ty(),
                other.ty()
            ));
        }
    }
}
