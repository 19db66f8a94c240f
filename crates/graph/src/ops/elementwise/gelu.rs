//! GELU (Hendrycks, Gimpel 2016), exact or in the tanh approximation, and its derivative.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use crate::inverse::FromOutput;
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::elementwise::gelu_from_output::GeluBackwardFromOutput;
use crate::ops::elementwise::unary::erf;
use crate::tensor::Tensor;
use crate::types::Type;

/// The factor of the cubic term in the tanh approximation.
const CUBIC: f64 = 0.044715;

/// `y = x/2 (1 + erf(x / sqrt 2))`, or in the tanh approximation `y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gelu {
    /// Whether to take the tanh approximation.
    pub tanh: bool,
}

/// The derivative of [`Gelu`]: inputs `x`, `dy`; `dx = dy (Phi(x) + x phi(x))` with the normal distribution `Phi` and
/// its density `phi`, or the derivative of the tanh approximation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeluBackward {
    /// Whether to take the tanh approximation.
    pub tanh: bool,
}

named!("gelu": Gelu { tanh });
named!("gelu_backward": GeluBackward { tanh });

/// The argument of tanh in the tanh approximation.
fn bend(x: f64) -> f64 {
    FRAC_2_PI.sqrt() * (x + CUBIC * x * x * x)
}

fn tensor_bend(x: Tensor) -> Tensor {
    (x + x * x * x * CUBIC) * FRAC_2_PI.sqrt()
}

impl Elementwise for Gelu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        let gate = if self.tanh {
            bend(x[0]).tanh()
        } else {
            erf(x[0] * FRAC_1_SQRT_2)
        };
        0.5 * x[0] * (1.0 + gate)
    }

    fn flops(&self) -> f64 {
        24.0
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let backward = GeluBackward { tanh: self.tanh };
        vec![Some(dy.trace().apply1(backward, &[cx.inputs[0], dy]))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let x = inputs[0];
        let gate = if self.tanh {
            tensor_bend(x).tanh()
        } else {
            (x * FRAC_1_SQRT_2).erf()
        };
        Some(x * 0.5 * (gate + 1.0))
    }
}

impl Elementwise for GeluBackward {
    const INPUTS: usize = 2;

    fn element(&self, x: &[f64]) -> f64 {
        let (x, dy) = (x[0], x[1]);
        let slope = if self.tanh {
            let t = bend(x).tanh();
            let inner = FRAC_2_PI.sqrt() * (1.0 + 3.0 * CUBIC * x * x);
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
        } else {
            let density = (-0.5 * x * x).exp() * 0.5 * FRAC_2_PI.sqrt();
            0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)) + x * density
        };
        dy * slope
    }

    fn flops(&self) -> f64 {
        40.0
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let (x, dy) = (inputs[0], inputs[1]);
        let slope = if self.tanh {
            let t = tensor_bend(x).tanh();
            let inner = (x * x * (3.0 * CUBIC) + 1.0) * FRAC_2_PI.sqrt();
            (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner
        } else {
            let density = (x * x * -0.5).exp() * (0.5 * FRAC_2_PI.sqrt());
            ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5 + x * density
        };
        Some(dy * slope)
    }

    fn from_output(&self, inputs: &[Type]) -> Option<FromOutput> {
        GeluBackwardFromOutput { tanh: self.tanh }.rule(inputs)
    }
}

impl Tensor {
    /// GELU: `x/2 (1 + erf(x / sqrt 2))`.
    #[track_caller]
    pub fn gelu(self) -> Tensor {
        self.trace().apply1(Gelu { tanh: false }, &[self])
    }

    /// GELU in the tanh approximation of GPT-2.
    #[track_caller]
    pub fn gelu_tanh(self) -> Tensor {
        self.trace().apply1(Gelu { tanh: true }, &[self])
    }
}
