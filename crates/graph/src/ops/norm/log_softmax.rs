//! Logarithm of the softmax along the last axis.

use lessen_base::Result;

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::rules::{arity, float_rows, log_sum_exp};
use crate::tensor::Tensor;
use crate::types::Type;

/// `y[.., j] = x[.., j] - log(sum_k e^x[.., k])`. A row of nothing but `-inf` gives NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogSoftmax;

named!("log_softmax": LogSoftmax {});

impl Op for LogSoftmax {
    named!();

    facts! {
        rows;
        in_place((0, 0));
        flops(20.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float_rows(&inputs[0])?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let mut data = Vec::with_capacity(outputs[0].numel());
        for row in inputs[0].rows() {
            let lse = log_sum_exp(row);
            data.extend(row.iter().map(|x| x - lse));
        }
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0].map(|dy| dy - cx.outputs[0].exp() * dy.sum_last())]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let shifted = inputs[0] - inputs[0].max_last();
        Some(vec![shifted - shifted.exp().sum_last().log()])
    }

    fn ignores_shift(&self, _: usize, axis: usize, inputs: &[Type]) -> bool {
        axis + 1 == inputs[0].rank()
    }
}

impl Tensor {
    /// Logarithm of the softmax along the last axis.
    #[track_caller]
    pub fn log_softmax(self) -> Tensor {
        self.trace().apply1(LogSoftmax, &[self])
    }

    /// [`Tensor::log_softmax`] along any axis, which counts from the end when negative.
    ///
    /// # Panics
    /// If there is no such axis.
    #[track_caller]
    pub fn log_softmax_along(self, axis: isize) -> Tensor {
        self.with_axis_last(axis).log_softmax().with_axis_last(axis)
    }
}
