//! ReLU: `y = max(x, 0)`.

use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::tensor::Tensor;

/// `y = max(x, 0)`; NaN stays NaN. The derivative at 0 is 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Relu;

named!("relu": Relu {});

impl Elementwise for Relu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        if x[0] <= 0.0 { 0.0 } else { x[0] }
    }

    /// From the result, whose sign says as much as the input's, so that the input need not be kept.
    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let y = cx.outputs[0];
        vec![Some(y.gt(y.scalar_like(0.0)).select(dy, dy.scalar_like(0.0)))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let (x, zero) = (inputs[0], inputs[0].scalar_like(0.0));
        Some(x.le(zero).select(zero, x))
    }
}

impl Tensor {
    /// `max(x, 0)`
    #[track_caller]
    pub fn relu(self) -> Tensor {
        self.trace().apply1(Relu, &[self])
    }
}
