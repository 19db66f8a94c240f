//! Leaky ReLU (Maas, Hannun, Ng 2013).

use std::sync::Arc;

use crate::inverse::{Inverse, Operand};
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y = x` where `x > 0`, `slope x` elsewhere. The derivative at 0 is the slope.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LeakyRelu {
    /// The derivative for negative inputs.
    pub slope: f64,
}

named!("leaky_relu": LeakyRelu { slope });

impl Elementwise for LeakyRelu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        if x[0] > 0.0 { x[0] } else { self.slope * x[0] }
    }

    fn flops(&self) -> f64 {
        2.0
    }

    /// With a slope that is not negative the sign of `y` is that of `x`, so that the input need not be kept.
    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let sign = if self.slope >= 0.0 { cx.outputs[0] } else { cx.inputs[0] };
        let positive = sign.gt(sign.scalar_like(0.0));
        vec![Some(positive.select(dy, dy * self.slope))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let x = inputs[0];
        Some(x.gt(x.scalar_like(0.0)).select(x, x * self.slope))
    }

    /// Leaky ReLU of the inverse slope. Two slopes and two products are rounded, of a magnitude of at most 1 the last
    /// one.
    fn inverse(&self, _: usize, inputs: &[Type]) -> Option<Inverse> {
        (1e-30..=1e30).contains(&self.slope).then(|| Inverse {
            op: Arc::new(LeakyRelu {
                slope: 1.0 / self.slope,
            }),
            operands: vec![Operand::ForwardOutput(0)],
            error: 1.76 * inputs[0].dtype.epsilon(),
            condition: None,
        })
    }
}

impl Tensor {
    /// `x` where it is positive, `slope x` elsewhere.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Tensor {
        self.trace().apply1(LeakyRelu { slope }, &[self])
    }
}
