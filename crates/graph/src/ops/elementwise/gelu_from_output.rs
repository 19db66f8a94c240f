//! The derivative of GELU from its output, as in Tempo (Andoorveedu, Zhu, Zheng, Pekhimenko 2022): one bit for each
//! element says on which side of the minimum it is.

use lessen_base::Result;

use crate::inverse::FromOutput;
use crate::named::Named;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::elementwise::gelu::{Gelu, GeluBackward};
use crate::ops::elementwise::valley::{self, Valley, from_output_type};
use crate::tensor::Tensor;
use crate::types::Type;

/// Result of [`GeluBackward`] from the output of [`Gelu`]: inputs `y`, `side`, `dy`; `dx = dy g'(x)` with the `x` on
/// this side of the minimum for which `g(x) = y`. `side` is whether `x` is right of [`GeluBackwardFromOutput::argmin`];
/// positive `y` are right of it anyway. Where `y` is below the minimum, by its rounding, `dx` is 0.
///
/// Near the minimum the derivative is as the root of `y`'s distance from it, so that the error of `y` limits it. From a
/// `y` rounded to nearest its error is below 1e-4; a forward kernel that errs by 4 units in the last place there, as
/// that of a CPU does, leaves up to 1.06e-4 to any function of `y` and the side, and the rule declares 1.1e-4.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeluBackwardFromOutput {
    /// Whether for the tanh approximation.
    pub tanh: bool,
}

named!("gelu_backward_from_output": GeluBackwardFromOutput { tanh });

impl GeluBackwardFromOutput {
    /// The argument of GELU's minimum, where the derivative is 0.
    pub fn argmin(self) -> f64 {
        if self.tanh {
            -0.752_461_422_071_016_3
        } else {
            -0.751_791_524_693_564_5
        }
    }

    /// The rule of [`GeluBackward`] for inputs of the types `inputs`. The bits of `bf16` are too few for the rule.
    pub(crate) fn rule(self, inputs: &[Type]) -> Option<FromOutput> {
        valley::rule(inputs, Gelu { tanh: self.tanh }, self, self.argmin(), 1.1e-4)
    }
}

impl Elementwise for GeluBackwardFromOutput {
    const INPUTS: usize = 3;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        from_output_type(inputs)
    }

    fn element(&self, x: &[f64]) -> f64 {
        let (forward, backward) = (Gelu { tanh: self.tanh }, GeluBackward { tanh: self.tanh });
        let valley = Valley {
            value: |x| forward.element(&[x]),
            slope: |x| backward.element(&[x, 1.0]),
            argmin: self.argmin(),
        };
        x[2] * valley.slope_from(x[0], x[1] != 0.0)
    }

    fn flops(&self) -> f64 {
        50.0
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        valley::vjp(*self, GeluBackward::NAME, cx, dy)
    }
}
