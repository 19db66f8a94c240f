//! The derivative of layer normalization from its output, as in Tempo (Andoorveedu, Zhu, Zheng, Pekhimenko 2022).

use lessen_base::Result;
use std::sync::Arc;

use crate::array::Array;
use crate::inverse::{Condition, FromOutput, Operand};
use crate::op::Op;
use crate::ops::norm::layer_norm::LayerNorm;
use crate::ops::norm::statistics::{check_backward, check_parameters};
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Results of [`LayerNormBackward`](crate::ops::LayerNormBackward) from the output of [`LayerNorm`]: inputs `y[.., C]`,
/// `gamma[C]`, `beta[C]`, `rstd[..]`, `dy[.., C]`; outputs `dx`, `dgamma[C]`, `dbeta[C]`, as there with `h = (y - beta)
/// / gamma`. No element of `gamma` is 0.
///
/// `h` has the rounding error of `y` divided by `gamma`: in `f32`, with `u = 2^-24`, at most `u (6 |h| + |beta /
/// gamma|)`. So for `|beta| <= 1` and `|gamma| >= least`, the error of `dx` is at most `u (12 + 1 / least)` times `rstd
/// max |dy gamma| (1 + |h|)`, and that of `dgamma` as much times the sum of `|dy| (1 + |h|)` over all rows, beside the
/// errors of sums that the derivative from `x` has, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerNormBackwardFromOutput;

named!("layer_norm_backward_from_output": LayerNormBackwardFromOutput {});

impl LayerNormBackwardFromOutput {
    /// The least magnitude of `gamma` that the rule admits.
    const LEAST: f64 = 0.01;

    /// The rule of the derivative of [`LayerNorm`] for inputs of the types `inputs`. The bits of `bf16` are too few for
    /// the rule.
    pub(crate) fn rule(eps: f64, inputs: &[Type]) -> Option<FromOutput> {
        use Operand::{ForwardInput, ForwardOutput, Own};
        (inputs[0].dtype != DType::BF16).then(|| FromOutput {
            input: 0,
            forward: Arc::new(LayerNorm { eps }),
            same: vec![(1, ForwardInput(1)), (2, ForwardOutput(1)), (3, ForwardOutput(2))],
            side: None,
            op: Arc::new(LayerNormBackwardFromOutput),
            operands: vec![ForwardOutput(0), Own(1), ForwardInput(2), Own(3), Own(4)],
            error: f64::from(f32::EPSILON) / 2.0 * (12.0 + 1.0 / Self::LEAST),
            condition: Some(Condition {
                operand: Own(1),
                least: Self::LEAST,
            }),
        })
    }
}

impl Op for LayerNormBackwardFromOutput {
    named!();

    facts! {
        rows(Rows, Whole, Whole, Rows, Rows => Rows, Sum, Sum);
        in_place((0 | 4, 0));
        flops(18.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 5)?;
        check_parameters(&inputs[0], &inputs[1..3])?;
        check_backward(&inputs[0], &inputs[3..4], &inputs[4])?;
        Ok(vec![inputs[0].clone(), inputs[1].clone(), inputs[1].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (gamma, beta) = (&inputs[1].data, &inputs[2].data);
        let width = gamma.len();
        let (mut dx, mut dgamma, mut dbeta) = (Vec::new(), vec![0.0; width], vec![0.0; width]);
        for (row, (y, dy)) in inputs[0].rows().zip(inputs[4].rows()).enumerate() {
            let rstd = inputs[3].data[row];
            let h: Vec<f64> = (0..width).map(|i| (y[i] - beta[i]) / gamma[i]).collect();
            let mean = |f: &dyn Fn(usize) -> f64| (0..width).map(f).sum::<f64>() / width as f64;
            let mean_g = mean(&|i| dy[i] * gamma[i]);
            let mean_gh = mean(&|i| dy[i] * gamma[i] * h[i]);
            for i in 0..width {
                dx.push(rstd * (dy[i] * gamma[i] - mean_g - h[i] * mean_gh));
                dgamma[i] += dy[i] * h[i];
                dbeta[i] += dy[i];
            }
        }
        arrays(outputs, [dx, dgamma, dbeta])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [y, gamma, beta, rstd, dy] = [0, 1, 2, 3, 4].map(|i| inputs[i].cast(dtype.accumulator()));
        let (h, g) = ((y - beta) / gamma, dy * gamma);
        let dx = rstd.unsqueeze(-1) * (g - g.mean_last() - h * (g * h).mean_last());
        Some(vec![
            dx.cast(dtype),
            (dy * h).sum_rows().cast(dtype),
            dy.sum_rows().cast(dtype),
        ])
    }
}
