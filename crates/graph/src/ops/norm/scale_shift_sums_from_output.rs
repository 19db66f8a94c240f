//! The sums of the derivative of columns that are centered, scaled and shifted, from the output, as in-place activated
//! batch normalization has them (Rota Bulò, Porzi, Kontschieder 2018).

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::norm::statistics::check_parameters;
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::Type;

/// Results of [`ScaleShiftSums`](crate::ops::ScaleShiftSums) from the output of [`ScaleShift`](crate::ops::ScaleShift):
/// inputs `y[.., C]`, `scale[C]`, `shift[C]`, `dy[.., C]`; outputs `dshift[C]`, the sum of `dy` over all rows, and
/// `dscale[C]`, that of `dy (y - shift) / scale`. No element of `scale` is 0.
///
/// The error of `dscale` is that of [`ScaleShiftFromOutput`](crate::ops::ScaleShiftFromOutput) times the sum of
/// `|dy| (1 + |x - center|)` over all rows, beside the errors of sums that the derivative from `x` has, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScaleShiftSumsFromOutput;

named!("scale_shift_sums_from_output": ScaleShiftSumsFromOutput {});

impl Op for ScaleShiftSumsFromOutput {
    named!();

    facts! {
        rows(Rows, Whole, Whole, Rows => Sum, Sum);
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        check_parameters(&inputs[0], &inputs[1..3])?;
        if inputs[3] != inputs[0] {
            return Err(Error::user(format!(
                "the cotangent of {} has type {}",
                inputs[0], inputs[3]
            )));
        }
        Ok(vec![inputs[1].clone(); 2])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (scale, shift) = (&inputs[1].data, &inputs[2].data);
        let (mut dshift, mut dscale) = (vec![0.0; scale.len()], vec![0.0; scale.len()]);
        for (y, dy) in inputs[0].rows().zip(inputs[3].rows()) {
            for i in 0..y.len() {
                dshift[i] += dy[i];
                dscale[i] += dy[i] * (y[i] - shift[i]) / scale[i];
            }
        }
        arrays(outputs, [dshift, dscale])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [y, scale, shift, dy] = [0, 1, 2, 3].map(|i| inputs[i]);
        Some(vec![dy.sum_rows(), (dy * (y - shift)).sum_rows() / scale])
    }
}
