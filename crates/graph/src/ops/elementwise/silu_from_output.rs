//! The derivative of SiLU from its output, as for GELU: one bit for each element says on which side of the minimum it
//! is.

use lessen_base::Result;

use crate::inverse::FromOutput;
use crate::named::Named;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::elementwise::silu::{Silu, SiluBackward};
use crate::ops::elementwise::valley::{self, Valley, from_output_type};
use crate::tensor::Tensor;
use crate::types::Type;

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
        valley::rule(inputs, Silu, SiluBackwardFromOutput, Self::ARGMIN, 8e-5)
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

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        valley::vjp(*self, SiluBackward::NAME, cx, dy)
    }
}
