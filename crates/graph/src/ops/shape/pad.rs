//! Pad: one axis made longer with a constant.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, around};
use crate::ops::shape::slice::Slice;
use crate::size::checked_sum;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[.., before + i, ..] = x[.., i, ..]`, and `value` before and after along the axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Pad {
    /// The axis.
    pub axis: usize,
    /// Positions added in front.
    pub before: usize,
    /// Positions added at the end.
    pub after: usize,
    /// Value of the added positions.
    pub value: f64,
}

named!("pad": Pad { axis, before, after, value });

impl Op for Pad {
    named!();

    facts! {
        rows_where_axis_is_last;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let x = &inputs[0];
        if self.axis >= x.rank() {
            return Err(Error::user(format!("{x} has no axis {}", self.axis)));
        }
        x.check_holds(&[self.value])?;
        let mut shape = x.shape.clone();
        let Some(extent) = checked_sum([shape[self.axis], self.before, self.after]) else {
            return Err(Error::user(format!(
                "{x} with {} positions before and {} after axis {} is too large",
                self.before, self.after, self.axis
            )));
        };
        shape[self.axis] = extent;
        Ok(vec![Type::sized(x.dtype, &shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let x = inputs[0];
        let (outer, inner) = around(&x.ty, self.axis);
        let block = x.ty.shape[self.axis] * inner;
        let mut data = Vec::with_capacity(outputs[0].numel());
        for o in 0..outer {
            data.resize(data.len() + self.before * inner, self.value);
            data.extend_from_slice(&x.data[o * block..][..block]);
            data.resize(data.len() + self.after * inner, self.value);
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let len = cx.inputs[0].shape()[self.axis];
        vec![cx.cotangents[0].map(|dy| dy.slice(self.axis as isize, self.before, len))]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        if query.axis == self.axis || self.value != 0.0 {
            Along::Unknown
        } else {
            query.same_axis()
        }
    }

    fn inverse(&self, _: usize, inputs: &[Type]) -> Option<Inverse> {
        Some(Inverse::exact(Slice {
            axis: self.axis,
            start: self.before,
            len: inputs[0].shape[self.axis],
        }))
    }
}

impl Tensor {
    /// The axis made longer by `before` positions in front and `after` at the end, all of them `value`; the
    /// axis counts from the end when negative.
    #[track_caller]
    pub fn pad(self, axis: isize, before: usize, after: usize, value: f64) -> Tensor {
        let axis = self.axis(axis);
        self.trace().apply1(
            Pad {
                axis,
                before,
                after,
                value,
            },
            &[self],
        )
    }
}
