//! HeLU (hysteresis rectified linear unit): ReLU forward; backward the gradient also passes where `-alpha < x <= 0`, so
//! that a unit that is only just off can learn to be on again.

use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;

/// `y = max(x, 0)` with the modified derivative `dx = dy` where `x > -alpha` and 0 elsewhere. NaN stays NaN. With
/// `alpha = 0` it is ReLU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Helu {
    /// The width of the interval below 0 in which gradients pass; not negative.
    pub alpha: f64,
}

named!("helu": Helu { alpha });

impl Elementwise for Helu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        if x[0] <= 0.0 { 0.0 } else { x[0] }
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let x = cx.inputs[0];
        let passes = x.gt(x.scalar_like(-self.alpha));
        vec![Some(passes.select(dy, dy.scalar_like(0.0)))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        Some(inputs[0].relu())
    }
}

impl Tensor {
    /// ReLU whose gradient also passes where `-alpha < x <= 0`. See [`Helu`].
    #[track_caller]
    pub fn helu(self, alpha: f64) -> Tensor {
        self.trace().apply1(Helu { alpha }, &[self])
    }
}
