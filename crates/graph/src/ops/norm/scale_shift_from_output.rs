//! Columns centered, scaled and shifted once more, from the output of the first time: what the derivative of batch
//! normalization reads of its input.

use lessen_base::Result;
use std::sync::Arc;

use crate::array::Array;
use crate::inverse::{Condition, FromOutput, Operand};
use crate::op::Op;
use crate::ops::norm::scale_shift::ScaleShift;
use crate::ops::norm::statistics::check_parameters;
use crate::ops::rules::{arity, arrays};
use crate::tensor::Tensor;
use crate::types::Type;

/// Result of a [`ScaleShift`] from the output of another one with the same `x` and `center`: inputs `y[.., C]`,
/// `scale[C]` and `shift[C]` of the other one, `by[C]`, `plus[C]`; output `(y - shift) / scale by + plus`. No element
/// of `scale` is 0.
///
/// `x - center` has the rounding error of `y` divided by `scale`: in `f32`, with `u = 2^-24`, at most `u (6 |x -
/// center| + |shift / scale|)`. So for `|shift| <= 1` and `|scale| >= least` the error is at most `u (8 + 1 / least)`
/// times `|by| (1 + |x - center|) + |plus|`, in the units of `x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScaleShiftFromOutput;

named!("scale_shift_from_output": ScaleShiftFromOutput {});

/// The least magnitude of the scale that the rules admit.
const LEAST: f64 = 0.01;

/// The rule by which `op` computes the results of an operation on `x` and `center`, its inputs 0 and 1, from the output
/// of a [`ScaleShift`] in place of `x`, where `x` is not narrower than the output. Operands of `op` after the output
/// are scale, shift and the inputs `own` of the replaced operation.
pub(super) fn rule(op: impl Op, own: &[usize], inputs: &[Type]) -> Option<FromOutput> {
    use Operand::{ForwardInput, ForwardOutput, Own};
    let wide = inputs[0].dtype.accumulator();
    let mut operands = vec![ForwardOutput(0), ForwardInput(2), ForwardInput(3)];
    operands.extend(own.iter().map(|&i| Own(i)));
    inputs[..2].iter().all(|ty| ty.dtype == wide).then(|| FromOutput {
        input: 0,
        forward: Arc::new(ScaleShift),
        same: vec![(1, ForwardInput(1))],
        side: None,
        op: Arc::new(op),
        operands,
        error: f64::from(f32::EPSILON) / 2.0 * (8.0 + 1.0 / LEAST),
        condition: Some(Condition {
            operand: ForwardInput(2),
            least: LEAST,
        }),
    })
}

impl Op for ScaleShiftFromOutput {
    named!();

    facts! {
        rows(Rows, Whole, Whole, Whole, Whole => Rows);
        in_place((0, 0));
        flops(4.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 5)?;
        check_parameters(&inputs[0], &inputs[1..])?;
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let [scale, shift, by, plus] = [1, 2, 3, 4].map(|i| &inputs[i].data);
        let of_row = |y: &[f64]| -> Vec<f64> {
            (0..y.len())
                .map(|i| (y[i] - shift[i]) / scale[i] * by[i] + plus[i])
                .collect()
        };
        arrays(outputs, [inputs[0].rows().flat_map(of_row).collect()])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [y, scale, shift, by, plus] = [0, 1, 2, 3, 4].map(|i| inputs[i]);
        Some(vec![(y - shift) / scale * by + plus])
    }
}
