//! Numbers kept within bounds, and which are within.

use lessen_base::Result;

use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::rules::float;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y = min(max(x, low), high)`, as ReLU6 with 0 and 6; NaN stays NaN. The derivative is 1 between the bounds and 0 at
/// them, as in PyTorch's `hardtanh`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Clamp {
    /// The least result.
    pub low: f64,
    /// The largest result, above the least one.
    pub high: f64,
}

/// `y[i] = low < x[i] and x[i] < high`, false for NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Between {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

named!("clamp": Clamp { low, high });
named!("between": Between { low, high });

impl Elementwise for Clamp {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        match x[0] {
            x if x <= self.low => self.low,
            x if x >= self.high => self.high,
            x => x,
        }
    }

    /// From the result, which lies between the bounds where the input does, so that the input need not be kept.
    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let Clamp { low, high } = *self;
        let passes = dy.trace().apply1(Between { low, high }, &[cx.outputs[0]]);
        vec![Some(passes.select(dy, dy.scalar_like(0.0)))]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Tensor> {
        let (x, [low, high]) = (
            inputs[0],
            [self.low, self.high].map(|bound| inputs[0].scalar_like(bound)),
        );
        Some(x.le(low).select(low, x.ge(high).select(high, x)))
    }
}

impl Elementwise for Between {
    const INPUTS: usize = 1;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        float(&inputs[0])?;
        Ok(Type::new(DType::Bool, &inputs[0].shape))
    }

    fn element(&self, x: &[f64]) -> f64 {
        f64::from(self.low < x[0] && x[0] < self.high)
    }

    fn vjp(&self, _: &Vjp<'_>, _: Tensor) -> Vec<Option<Tensor>> {
        vec![None]
    }
}

impl Tensor {
    /// `min(max(x, low), high)`; see [`Clamp`].
    #[track_caller]
    pub fn clamp(self, low: f64, high: f64) -> Tensor {
        self.trace().apply1(Clamp { low, high }, &[self])
    }
}
