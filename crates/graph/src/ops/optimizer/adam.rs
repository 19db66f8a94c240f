//! Adam (Kingma, Ba 2015) with an L2 penalty, as `torch.optim.Adam`.

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::optimizer::adam_step::{AdamStep, Decay};
use crate::ops::optimizer::update::updated;
use crate::tensor::Tensor;
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
        AdamStep {
            betas: [self.beta1, self.beta2],
            eps: self.eps,
            weight_decay: self.weight_decay,
            decay: Decay::Penalty,
        }
    }
}

impl Op for Adam {
    named!();

    facts! {
        elementwise;
        flops(20.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        updated(inputs, 4, 2)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        self.step().eval(inputs, outputs)
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(self.step().decompose(inputs))
    }
}
