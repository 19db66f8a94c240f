//! AdamW (Loshchilov, Hutter 2019), as `torch.optim.AdamW`.

use std::sync::Arc;

use lessen_base::Result;

use crate::array::Array;
use crate::op::{OnRows, Op};
use crate::ops::optimizer::adam_step::{AdamStep, Decay};
use crate::ops::optimizer::adamw_rows::AdamWRows;
use crate::ops::optimizer::update::updated;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, first and second moment `m`, `v`, learning rate `lr[]`, step count
/// `t[]` from 1 on, the last two `f32`. Outputs `p'`, `m'`, `v'`: `m' = beta1 m + (1 - beta1) g`, `v' = beta2
/// v + (1 - beta2) g^2`, `p' = p (1 - lr weight_decay) - lr / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 -
/// beta2^t) + eps)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

named!("adamw": AdamW { beta1, beta2, eps, weight_decay });

impl AdamW {
    fn step(&self) -> AdamStep {
        AdamStep {
            betas: [self.beta1, self.beta2],
            eps: self.eps,
            weight_decay: self.weight_decay,
            decay: Decay::Decoupled,
        }
    }
}

impl Op for AdamW {
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

    fn on_rows(&self, sparse: &[bool], _: &[Type]) -> OnRows {
        match sparse {
            [false, true, false, ..] => OnRows::By(Arc::new(AdamWRows { rule: *self })),
            _ => OnRows::No,
        }
    }
}
