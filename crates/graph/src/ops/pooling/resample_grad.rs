//! The derivative of weighted sums of pixels: the transposed weights.

use lessen_base::{Error, Result};

use super::resample::{Resample2d, for_each_weight};
use super::sampling::Sampling;
use super::window::{resized, size_of};
use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::{Cost, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// Input `dy[N, OH, OW, C]`; the result is `dx[N, H, W, C]` with
/// `dx[n, a, b, c] = sum over i, j of A[i, a] B[j, b] dy[n, i, j, c]`, with the weights of a [`Resample2d`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resample2dGrad {
    /// The weights.
    pub sampling: Sampling,
    /// Height and width of the result, the image that is sampled.
    pub size: [usize; 2],
}

impl Named for Resample2dGrad {
    const NAME: &'static str = "resample2d_grad";

    fn to_attrs(&self) -> Attrs {
        self.sampling.to_attrs().with("size", self.size.to_attr())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Resample2dGrad> {
        Ok(Resample2dGrad {
            sampling: Sampling::from_attrs(attrs)?,
            size: AttrValue::read(attrs, "size")?,
        })
    }
}

impl Op for Resample2dGrad {
    named!();

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let dy = &inputs[0];
        let outputs = self.sampling.outputs(self.size)?;
        if size_of(dy)? != outputs {
            return Err(Error::user(format!(
                "{dy} is no cotangent of images of the size {outputs:?}, which those of the size {:?} become",
                self.size
            )));
        }
        Ok(vec![resized(dy, self.size)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let dy = inputs[0];
        let mut dx = Array::full(outputs[0].clone(), 0.0);
        for_each_weight(self.sampling, &outputs[0], &dy.ty, |to, from, weight| {
            dx.data[to] += weight * dy.data[from]
        });
        vec![dx]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let op = Resample2d {
            sampling: self.sampling,
        };
        vec![cx.cotangents[0].map(|x| x.trace().apply1(op, &[x]))]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        let flops = inputs[0].numel().max(outputs[0].numel());
        Cost::vector(2.0 * flops as f64, inputs, outputs)
    }
}
