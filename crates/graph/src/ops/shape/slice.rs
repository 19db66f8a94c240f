//! Slice: a range of one axis.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::layout::Layout;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, around};
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[.., i, ..] = x[.., start + i, ..]` for `i < len`.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// The axis.
    pub axis: usize,
    /// First position.
    pub start: usize,
    /// Number of positions.
    pub len: usize,
}

named!("slice": Slice { axis, start, len });

impl Op for Slice {
    named!();

    facts! {
        rows_where_axis_is_last;
        free;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let x = &inputs[0];
        let end = self.start.checked_add(self.len);
        if self.axis >= x.rank() || end.is_none_or(|end| end > x.shape[self.axis]) {
            let Slice { axis, start, len } = self;
            return Err(Error::user(format!(
                "{x} has no {len} positions from {start} on along an axis {axis}"
            )));
        }
        let mut shape = x.shape.clone();
        shape[self.axis] = self.len;
        Ok(vec![Type::new(x.dtype, &shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let (outer, inner) = around(&x.ty, self.axis);
        let block = x.ty.shape[self.axis] * inner;
        let rows = (0..outer).flat_map(|o| &x.data[o * block + self.start * inner..][..self.len * inner]);
        vec![Array::new(outputs[0].clone(), rows.copied().collect())]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let after = cx.inputs[0].shape()[self.axis] - self.start - self.len;
        vec![cx.cotangents[0].map(|dy| dy.pad(self.axis as isize, self.start, after, 0.0))]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        query.unless_cut(self.axis)
    }

    fn view(&self, input: &Layout, _: &[Type], _: &[Type]) -> Option<Vec<Layout>> {
        let offset = input.offset + self.start * input.strides[self.axis];
        Some(vec![Layout {
            offset,
            strides: input.strides.clone(),
        }])
    }
}

impl Tensor {
    /// `len` positions of an axis from `start` on; the axis counts from the end when negative.
    #[track_caller]
    pub fn slice(self, axis: isize, start: usize, len: usize) -> Tensor {
        let axis = self.axis(axis);
        self.trace().apply1(Slice { axis, start, len }, &[self])
    }
}
