//! GELU (Hendrycks, Gimpel 2016) in its exact form and in the tanh approximation, and its derivative.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use lessen_base::{Error, Result};

use super::unary::erf;
use super::{arity, float};
use crate::{Array, Attr, Attrs, Cost, Op, RowWise, Tensor, Type, Vjp};

/// The factor of the cubic term in the tanh form.
const CUBIC: f64 = 0.044715;

/// `y = x/2 (1 + erf(x / sqrt 2))`, or in the tanh form `y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gelu {
    /// Whether in the tanh form.
    pub tanh: bool,
}

/// The derivative of [`Gelu`]: inputs `x`, `dy`; `dx = dy (Phi(x) + x phi(x))` with the normal distribution
/// `Phi` and its density `phi`, or the derivative of the tanh form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GeluBackward {
    /// Whether in the tanh form.
    pub tanh: bool,
}

impl Op for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("tanh", Attr::Bool(self.tanh))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float(&inputs[0])?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let gate = |x: f64| {
            if self.tanh {
                bend(x).tanh()
            } else {
                erf(x * FRAC_1_SQRT_2)
            }
        };
        let data = inputs[0]
            .data
            .iter()
            .map(|&x| 0.5 * x * (1.0 + gate(x)))
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let backward = GeluBackward { tanh: self.tanh };
        vec![cx.cotangents[0].map(|dy| dy.trace().apply1(backward, &[cx.inputs[0], dy]))]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let x = inputs[0];
        let gate = if self.tanh {
            tensor_bend(x).tanh()
        } else {
            (x * FRAC_1_SQRT_2).erf()
        };
        Some(vec![x * 0.5 * (gate + 1.0)])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 24.0 * inputs[0].numel() as f64,
            bytes: 2.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

/// The argument of tanh in the tanh form.
fn bend(x: f64) -> f64 {
    FRAC_2_PI.sqrt() * (x + CUBIC * x * x * x)
}

fn tensor_bend(x: Tensor<'_>) -> Tensor<'_> {
    (x + x * x * x * CUBIC) * FRAC_2_PI.sqrt()
}

impl Op for GeluBackward {
    fn name(&self) -> &'static str {
        "gelu_backward"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("tanh", Attr::Bool(self.tanh))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        float(&inputs[0])?;
        if inputs[0] != inputs[1] {
            return Err(Error::user(format!("{} and {} differ", inputs[0], inputs[1])));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let slope = |x: f64| {
            if self.tanh {
                let t = bend(x).tanh();
                let inner = FRAC_2_PI.sqrt() * (1.0 + 3.0 * CUBIC * x * x);
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
            } else {
                let density = (-0.5 * x * x).exp() * 0.5 * FRAC_2_PI.sqrt();
                0.5 * (1.0 + erf(x * FRAC_1_SQRT_2)) + x * density
            }
        };
        let data = inputs[0]
            .data
            .iter()
            .zip(&inputs[1].data)
            .map(|(&x, &dy)| dy * slope(x))
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let (x, dy) = (inputs[0], inputs[1]);
        let slope = if self.tanh {
            let t = tensor_bend(x).tanh();
            let inner = (x * x * (3.0 * CUBIC) + 1.0) * FRAC_2_PI.sqrt();
            (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner
        } else {
            let density = (x * x * -0.5).exp() * (0.5 * FRAC_2_PI.sqrt());
            ((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5 + x * density
        };
        Some(vec![dy * slope])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 40.0 * inputs[0].numel() as f64,
            bytes: 3.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

impl<'g> Tensor<'g> {
    /// GELU: `x/2 (1 + erf(x / sqrt 2))`.
    #[track_caller]
    pub fn gelu(self) -> Tensor<'g> {
        self.trace().apply1(Gelu { tanh: false }, &[self])
    }

    /// GELU in the tanh form of GPT-2.
    #[track_caller]
    pub fn gelu_tanh(self) -> Tensor<'g> {
        self.trace().apply1(Gelu { tanh: true }, &[self])
    }
}
