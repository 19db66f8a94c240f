//! Adam (Kingma, Ba 2015) with an L2 penalty, as `torch.optim.Adam`.

use lessen_base::Result;

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, RowWise};
use crate::ops::optimizer::adam_step::{AdamStep, Decay};
use crate::trace::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, first and second moment `m`, `v`, learning rate `lr[]`, step count
/// `t[]` from 1 on, the last two `f32`. Outputs `p'`, `m'`, `v'`: `d = g + weight_decay p`, `m' = beta1 m + (1 -
/// beta1) d`, `v' = beta2 v + (1 - beta2) d^2`, `p' = p - lr / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) +
/// eps)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adam {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

named!("adam": Adam { beta1, beta2, eps, weight_decay });

impl Adam {
    fn step(&self) -> AdamStep {
        let Adam {
            beta1,
            beta2,
            eps,
            weight_decay,
        } = *self;
        AdamStep {
            beta1,
            beta2,
            eps,
            weight_decay,
            decay: Decay::Penalty,
        }
    }
}

impl Op for Adam {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        AdamStep::infer(inputs)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        self.step().eval(inputs, outputs)
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        Some(self.step().decompose(inputs))
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        AdamStep::cost(inputs, outputs)
    }
}
