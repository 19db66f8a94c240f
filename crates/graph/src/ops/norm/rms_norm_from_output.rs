//! The derivative of root-mean-square normalization from its output.

use lessen_base::Result;
use std::sync::Arc;

use crate::array::Array;
use crate::inverse::{Condition, FromOutput, Operand};
use crate::op::Op;
use crate::ops::norm::rms_norm::RmsNorm;
use crate::ops::norm::statistics::scaled_backward;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Results of [`RmsNormBackward`](crate::ops::RmsNormBackward) from the output of [`RmsNorm`]: inputs `y[.., C]`,
/// `gamma[C]`, `rstd[..]`, `dy[.., C]`; outputs `dx`, `dgamma[C]`, as there with `h = y / gamma`. No element of `gamma`
/// is 0.
///
/// `y` has no shift, so its rounding is relative to `h gamma`, and `h` has a relative error of `4 u`, with `u = 2^-24`
/// in `f32`, however small `gamma` is, as long as `y` is no subnormal number. So the error of `dx` is at most `10 u`
/// times `rstd max |dy gamma| (1 + |h|)`, and that of `dgamma` as much times the sum of `|dy h|` over all rows, beside
/// the errors of sums that the derivative from `x` has, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsNormBackwardFromOutput;

named!("rms_norm_backward_from_output": RmsNormBackwardFromOutput {});

impl RmsNormBackwardFromOutput {
    /// The least magnitude of `gamma` that the rule admits: a subnormal `y` stands for an `h` below 1e-8.
    const LEAST: f64 = 1e-30;

    /// The rule of the derivative of [`RmsNorm`] for inputs of the types `inputs`. The bits of `bf16` are too few for
    /// the rule.
    pub(crate) fn rule(eps: f64, inputs: &[Type]) -> Option<FromOutput> {
        use Operand::{ForwardInput, ForwardOutput, Own};
        (inputs[0].dtype != DType::BF16).then(|| FromOutput {
            input: 0,
            forward: Arc::new(RmsNorm { eps }),
            same: vec![(1, ForwardInput(1)), (2, ForwardOutput(1))],
            side: None,
            op: Arc::new(RmsNormBackwardFromOutput),
            operands: vec![ForwardOutput(0), Own(1), Own(2), Own(3)],
            error: 10.0 * f64::from(f32::EPSILON) / 2.0,
            condition: Some(Condition {
                operand: Own(1),
                least: Self::LEAST,
            }),
        })
    }
}

impl Op for RmsNormBackwardFromOutput {
    named!();

    facts! {
        rows(Rows, Whole, Rows, Rows => Rows, Sum);
        in_place((0 | 3, 0));
        flops(14.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        scaled_backward(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let gamma = &inputs[1].data;
        let (mut dx, mut dgamma) = (Vec::new(), vec![0.0; gamma.len()]);
        for (row, (y, dy)) in inputs[0].rows().zip(inputs[3].rows()).enumerate() {
            let rstd = inputs[2].data[row];
            let h: Vec<f64> = y.iter().zip(gamma).map(|(y, gamma)| y / gamma).collect();
            let gh: f64 = (0..y.len()).map(|i| dy[i] * gamma[i] * h[i]).sum();
            let mean_gh = gh / y.len() as f64;
            for i in 0..y.len() {
                dx.push(rstd * (dy[i] * gamma[i] - h[i] * mean_gh));
                dgamma[i] += dy[i] * h[i];
            }
        }
        arrays(outputs, [dx, dgamma])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let dtype = inputs[0].dtype();
        let [y, gamma, rstd, dy] = [0, 1, 2, 3].map(|i| inputs[i].cast(dtype.accumulator()));
        let (h, g) = (y / gamma, dy * gamma);
        let dx = rstd.unsqueeze(-1) * (g - h * (g * h).mean_last());
        Some(vec![dx.cast(dtype), (dy * h).sum_rows().cast(dtype)])
    }
}
