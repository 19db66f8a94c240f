//! Logarithm of the softmax along the last axis.

use lessen_base::Result;

use crate::array::Array;
use crate::named::Named;
use crate::op::{Cost, Op, RowWise, Vjp};
use crate::ops::rules::{all_rows, arity, float_rows, log_sum_exp, rows};
use crate::trace::Tensor;
use crate::types::Type;

/// `y[.., j] = x[.., j] - log(sum_k e^x[.., k])`. A row of nothing but `-inf` gives NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogSoftmax;

named!("log_softmax": LogSoftmax {});

impl Op for LogSoftmax {
    fn name(&self) -> &'static str {
        Self::NAME
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

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![cx.cotangents[0].map(|dy| dy - cx.outputs[0].exp() * dy.sum_last())]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let shifted = inputs[0] - inputs[0].max_last();
        Some(vec![shifted - shifted.exp().sum_last().log()])
    }

    fn ignores_shift(&self, _: usize, axis: usize, inputs: &[Type]) -> bool {
        axis + 1 == inputs[0].rank()
    }

    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        all_rows(inputs, outputs, rows(&inputs[0]))
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(20.0 * inputs[0].numel() as f64, inputs, outputs)
    }

    fn in_place(&self, input: usize, output: usize, _: &[Type], _: &[Type]) -> bool {
        (input, output) == (0, 0)
    }
}

impl<'g> Tensor<'g> {
    /// Logarithm of the softmax along the last axis.
    #[track_caller]
    pub fn log_softmax(self) -> Tensor<'g> {
        self.trace().apply1(LogSoftmax, &[self])
    }
}
