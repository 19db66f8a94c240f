//! Concat: tensors one after another along an axis.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::mistakes::fail_in_thread;
use crate::op::{Op, Vjp};
use crate::ops::rules::around;
use crate::ops::shape::slice::Slice;
use crate::size::checked_sum;
use crate::tensor::Tensor;
use crate::types::Type;

/// Any number of inputs, from one on, one after another along an axis; their other extents are equal.
#[derive(Clone, PartialEq, Debug)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

named!("concat": Concat { axis });

impl Op for Concat {
    named!();

    facts! {
        rows_where_axis_is_last;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let Some(first) = inputs.first() else {
            return Err(Error::user("needs at least one input"));
        };
        if self.axis >= first.rank() {
            return Err(Error::user(format!("{first} has no axis {}", self.axis)));
        }
        for ty in inputs {
            let fits = ty.dtype == first.dtype
                && ty.rank() == first.rank()
                && (0..ty.rank()).all(|a| a == self.axis || ty.shape[a] == first.shape[a]);
            if !fits {
                return Err(Error::user(format!(
                    "{first} and {ty} differ beyond axis {}",
                    self.axis
                )));
            }
        }
        let Some(extent) = checked_sum(inputs.iter().map(|ty| ty.shape[self.axis])) else {
            return Err(Error::user(format!(
                "{} tensors as {first} along axis {} are too large",
                inputs.len(),
                self.axis
            )));
        };
        let mut shape = first.shape.clone();
        shape[self.axis] = extent;
        Ok(vec![Type::sized(first.dtype, &shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (outer, inner) = around(&outputs[0], self.axis);
        let mut data = Vec::with_capacity(outputs[0].numel());
        for o in 0..outer {
            for x in inputs {
                let block = x.ty.shape[self.axis] * inner;
                data.extend_from_slice(&x.data[o * block..][..block]);
            }
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let Some(dy) = cx.cotangents[0] else {
            return vec![None; cx.inputs.len()];
        };
        let mut start = 0;
        let part = |(x, &wanted): (&Tensor, &bool)| {
            let (from, len) = (start, x.shape()[self.axis]);
            start += len;
            wanted.then(|| dy.slice(self.axis as isize, from, len))
        };
        cx.inputs.iter().zip(cx.wanted).map(part).collect()
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        query.unless_cut(self.axis)
    }

    fn inverse(&self, input: usize, inputs: &[Type]) -> Option<Inverse> {
        let extent = |ty: &Type| ty.shape[self.axis];
        Some(Inverse::exact(Slice {
            axis: self.axis,
            start: inputs[..input].iter().map(extent).sum(),
            len: extent(&inputs[input]),
        }))
    }
}

/// Tensors one after another along an axis, which counts from the end when negative.
///
/// # Panics
/// If there are none, or if they differ in dtype or in another extent.
#[track_caller]
pub fn concat(tensors: &[Tensor], axis: isize) -> Tensor {
    let Some(first) = tensors.first().copied() else {
        fail_in_thread("concat of no tensors has no type; give it at least one tensor");
    };
    let axis = first.axis(axis);
    first.trace().apply1(Concat { axis }, tensors)
}
