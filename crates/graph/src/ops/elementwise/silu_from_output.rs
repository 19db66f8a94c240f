//! The derivative of SiLU from its output, as for GELU: one bit for each element says on which side of the minimum it
//! is.

use lessen_base::Result;
use std::sync::Arc;

use crate::elementwise::Elementwise;
use crate::inverse::{FromOutput, Operand};
use crate::op::Vjp;
use crate::ops::elementwise::clamp::Between;
use crate::ops::elementwise::silu::{Silu, SiluBackward};
use crate::ops::elementwise::valley::{Valley, from_output_type};
use crate::trace::Tensor;
use crate::types::{DType, Type};

/// Result of [`SiluBackward`] from the output of [`Silu`]: inputs `y`, `side`, `dy`; `dx = dy g'(x)` with the `x` on
/// this side of the minimum for which `g(x) = y`. `side` is whether `x` is right of [`SiluBackwardFromOutput::ARGMIN`];
/// positive `y` are right of it anyway. Where `y` is below the minimum, by its rounding, `dx` is 0. The error of a
/// rounded `y` limits it near the minimum, as for GELU; here it stays below 1e-4.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SiluBackwardFromOutput;

named!("silu_backward_from_output": SiluBackwardFromOutput {});

impl SiluBackwardFromOutput {
    /// The argument of SiLU's minimum, where the derivative is 0.
    pub const ARGMIN: f64 = -1.278_464_542_761_074;

    /// The rule of [`SiluBackward`] for inputs of the types `inputs`. The bits of `bf16` are too few for the rule.
    pub(crate) fn rule(inputs: &[Type]) -> Option<FromOutput> {
        let side = Between {
            low: Self::ARGMIN,
            high: f64::INFINITY,
        };
        (inputs[0].dtype != DType::BF16).then(|| FromOutput {
            input: 0,
            forward: Arc::new(Silu),
            same: Vec::new(),
            side: Some(Arc::new(side)),
            op: Arc::new(SiluBackwardFromOutput),
            operands: vec![Operand::ForwardOutput(0), Operand::Side, Operand::Own(1)],
            error: 8e-5,
            condition: None,
        })
    }
}

impl Elementwise for SiluBackwardFromOutput {
    const INPUTS: usize = 3;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        from_output_type(inputs)
    }

    fn element(&self, x: &[f64]) -> f64 {
        let valley = Valley {
            value: |x| Silu.element(&[x]),
            slope: |x| SiluBackward.element(&[x, 1.0]),
            argmin: Self::ARGMIN,
        };
        x[2] * valley.slope_from(x[0], x[1] != 0.0)
    }

    fn flops(&self) -> f64 {
        50.0
    }

    /// The cotangent of `dy` alone, in which the operation is linear.
    ///
    /// # Panics
    /// Where the derivative for `y` is wanted: the operation replaces an operation that has been differentiated
    /// already.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>, dy: Tensor<'g>) -> Vec<Option<Tensor<'g>>> {
        if cx.wanted[0] {
            dy.trace().fail(
                "silu_backward_from_output has no derivative for its input y; differentiate silu_backward instead",
            );
        }
        let dx = || dy.trace().apply1(*self, &[cx.inputs[0], cx.inputs[1], dy]);
        vec![None, None, cx.wanted[2].then(dx)]
    }
}
