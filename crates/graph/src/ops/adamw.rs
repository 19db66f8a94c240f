//! AdamW (Loshchilov, Hutter 2019), as `torch.optim.AdamW`.

use lessen_base::{Error, Result};

use super::{arity, float};
use crate::{Array, Attr, Attrs, Cost, Op, RowWise, Tensor, Type};

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

/// Checks that a parameter, its gradient and its optimizer state are of one float type.
pub(crate) fn check_update(tensors: &[Type]) -> Result<()> {
    float(&tensors[0])?;
    match tensors.iter().find(|t| **t != tensors[0]) {
        Some(t) => Err(Error::user(format!(
            "a parameter {} cannot be updated with {t}",
            tensors[0]
        ))),
        None => Ok(()),
    }
}

/// Checks the scalars that an update is told.
pub(crate) fn check_scalars(scalars: &[Type]) -> Result<()> {
    match scalars.iter().find(|t| **t != Type::f32(&[])) {
        Some(t) => Err(Error::user(format!(
            "the learning rate and the step count must be f32[], not {t}"
        ))),
        None => Ok(()),
    }
}

impl Op for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("beta1", Attr::Float(self.beta1))
            .with("beta2", Attr::Float(self.beta2))
            .with("eps", Attr::Float(self.eps))
            .with("weight_decay", Attr::Float(self.weight_decay))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 6)?;
        check_update(&inputs[..4])?;
        check_scalars(&inputs[4..])?;
        Ok(vec![inputs[0].clone(); 3])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let AdamW {
            beta1,
            beta2,
            eps,
            weight_decay,
        } = *self;
        let (lr, t) = (inputs[4].item(), inputs[5].item());
        let (c1, c2) = (1.0 - beta1.powf(t), (1.0 - beta2.powf(t)).sqrt());
        let [mut p, mut m, mut v] = [0, 2, 3].map(|i| inputs[i].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            m[i] = beta1 * m[i] + (1.0 - beta1) * g;
            v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
            p[i] = p[i] * (1.0 - lr * weight_decay) - lr / c1 * m[i] / (v[i].sqrt() / c2 + eps);
        }
        outputs
            .iter()
            .cloned()
            .zip([p, m, v])
            .map(|(ty, data)| Array::new(ty, data))
            .collect()
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let [p, g, m, v] = [0, 1, 2, 3].map(|i| inputs[i]);
        let [lr, t] = [4, 5].map(|i| inputs[i].cast(p.dtype()));
        let c1 = 1.0 - t.scalar_like(self.beta1).pow(t);
        let c2 = (1.0 - t.scalar_like(self.beta2).pow(t)).sqrt();
        let m = m * self.beta1 + g * (1.0 - self.beta1);
        let v = v * self.beta2 + g * g * (1.0 - self.beta2);
        let decayed = p * (1.0 - lr * self.weight_decay);
        Some(vec![decayed - lr / c1 * m / (v.sqrt() / c2 + self.eps), m, v])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 20.0 * inputs[0].numel() as f64,
            bytes: 7.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}
