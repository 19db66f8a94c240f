//! SiLU, also called swish (Elfwing, Uchibe, Doya 2017), and its derivative.

use crate::inverse::FromOutput;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::elementwise::silu_from_output::SiluBackwardFromOutput;
use crate::ops::elementwise::unary::UnaryKind;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y = x / (1 + e^-x)`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Silu;

/// The derivative of [`Silu`]: inputs `x`, `dy`; `dx = dy s (1 + x (1 - s))` with `s = 1 / (1 + e^-x)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SiluBackward;

named!("silu": Silu {});
named!("silu_backward": SiluBackward {});

impl Elementwise for Silu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        x[0] * UnaryKind::Sigmoid.eval(x[0])
    }

    fn flops(&self) -> f64 {
        20.0
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        vec![Some(dy.trace().apply1(SiluBackward, &[cx.inputs[0], dy]))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        Some(inputs[0] * inputs[0].sigmoid())
    }
}

impl Elementwise for SiluBackward {
    const INPUTS: usize = 2;

    fn element(&self, x: &[f64]) -> f64 {
        let s = UnaryKind::Sigmoid.eval(x[0]);
        x[1] * s * (1.0 + x[0] * (1.0 - s))
    }

    fn flops(&self) -> f64 {
        24.0
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let (x, dy) = (inputs[0], inputs[1]);
        let s = x.sigmoid();
        Some(dy * s * (x * (1.0 - s) + 1.0))
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        SiluBackwardFromOutput::rule(inputs)
    }
}

impl Tensor {
    /// `x / (1 + e^-x)`
    #[track_caller]
    pub fn silu(self) -> Tensor {
        self.trace().apply1(Silu, &[self])
    }
}
