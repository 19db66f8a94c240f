//! Logarithm of the softmax along the last axis.

use lessen_base::Result;

use super::{all_rows, arity, float_rows, rows};
use crate::{Array, Cost, Op, RowWise, Tensor, Type, Vjp};

/// `y[.., j] = x[.., j] - log(sum_k e^x[.., k])`. A row of nothing but `-inf` gives NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogSoftmax;

/// `log(sum e^x)` of one row; `-inf` if all of it is.
pub(crate) fn log_sum_exp(row: &[f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return row.iter().sum();
    }
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

impl Op for LogSoftmax {
    fn name(&self) -> &'static str {
        "log_softmax"
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

    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        all_rows(inputs, outputs, rows(&inputs[0]))
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 20.0 * inputs[0].numel() as f64,
            bytes: 2.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }

    fn in_place(&self, input: usize, output: usize, inputs: &[Type], outputs: &[Type]) -> bool {
        input == 0 && output == 0 && inputs[input] == outputs[output]
    }
}

impl<'g> Tensor<'g> {
    /// Logarithm of the softmax along the last axis.
    #[track_caller]
    pub fn log_softmax(self) -> Tensor<'g> {
        self.trace().apply1(LogSoftmax, &[self])
    }
}
