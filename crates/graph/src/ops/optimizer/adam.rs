//! Adam (Kingma, Ba 2015) with an L2 penalty, as `torch.optim.Adam`.

use lessen_base::Result;

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, Op, RowWise};
use crate::ops::optimizer::update::{check_scalars, check_update};
use crate::ops::rules::{arity, arrays};
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

impl Op for Adam {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 6)?;
        check_update(&inputs[..4])?;
        check_scalars(&inputs[4..])?;
        Ok(vec![inputs[0].clone(); 3])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let Adam {
            beta1,
            beta2,
            eps,
            weight_decay,
        } = *self;
        let (lr, t) = (inputs[4].item(), inputs[5].item());
        let (c1, c2) = (1.0 - beta1.powf(t), (1.0 - beta2.powf(t)).sqrt());
        let [mut p, mut m, mut v] = [0, 2, 3].map(|i| inputs[i].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + weight_decay * p[i];
            m[i] = beta1 * m[i] + (1.0 - beta1) * d;
            v[i] = beta2 * v[i] + (1.0 - beta2) * d * d;
            p[i] -= lr / c1 * m[i] / (v[i].sqrt() / c2 + eps);
        }
        arrays(outputs, [p, m, v])
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let [p, g, m, v] = [0, 1, 2, 3].map(|i| inputs[i]);
        let [lr, t] = [4, 5].map(|i| inputs[i].cast(p.dtype()));
        let c1 = 1.0 - t.scalar_like(self.beta1).pow(t);
        let c2 = (1.0 - t.scalar_like(self.beta2).pow(t)).sqrt();
        let d = g + p * self.weight_decay;
        let m = m * self.beta1 + d * (1.0 - self.beta1);
        let v = v * self.beta2 + d * d * (1.0 - self.beta2);
        Some(vec![p - lr / c1 * m / (v.sqrt() / c2 + self.eps), m, v])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(20.0 * inputs[0].numel() as f64, inputs, outputs)
    }
}
