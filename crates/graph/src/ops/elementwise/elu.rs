//! ELU (Clevert, Unterthiner, Hochreiter 2015).

use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;

/// `y = x` where `x > 0`, `alpha (e^x - 1)` elsewhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elu {
    /// Minus the limit at minus infinity.
    pub alpha: f64,
}

named!("elu": Elu { alpha });

impl Elementwise for Elu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        if x[0] > 0.0 { x[0] } else { self.alpha * x[0].exp_m1() }
    }

    fn flops(&self) -> f64 {
        18.0
    }

    /// `dx = dy` where `x > 0`, `dy (y + alpha)` elsewhere. With a positive alpha the sign of `y` is that of
    /// `x`, so that the input need not be kept.
    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let y = cx.outputs[0];
        let sign = if self.alpha >= 0.0 { y } else { cx.inputs[0] };
        let positive = sign.gt(sign.scalar_like(0.0));
        vec![Some(positive.select(dy, dy * (y + self.alpha)))]
    }

    /// The exponential is taken of the negative part alone, so that it cannot overflow.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let x = inputs[0];
        let below = x.minimum(x.scalar_like(0.0));
        let positive = x.gt(x.scalar_like(0.0));
        Some(positive.select(x, (below.exp() - 1.0) * self.alpha))
    }
}

impl Tensor {
    /// `x` where it is positive, `alpha (e^x - 1)` elsewhere.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Tensor {
        self.trace().apply1(Elu { alpha }, &[self])
    }
}
