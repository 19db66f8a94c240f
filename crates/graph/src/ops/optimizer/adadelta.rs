//! Adadelta (Zeiler 2012), as `torch.optim.Adadelta`.

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::optimizer::update::updated;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, mean square of gradients `v`, mean square of steps `u`, learning rate `lr`, an
/// `f32[]`. Outputs `p'`, `v'`, `u'`: `d = g + weight_decay p`, `v' = rho v + (1 - rho) d^2`, `s = sqrt(u + eps) /
/// sqrt(v' + eps) d`, `u' = rho u + (1 - rho) s^2`, `p' = p - lr s`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adadelta {
    /// Decay of both mean squares.
    pub rho: f64,
    /// Added to both mean squares under their roots.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

named!("adadelta": Adadelta { rho, eps, weight_decay });

impl Op for Adadelta {
    named!();

    facts! {
        elementwise;
        flops(16.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        updated(inputs, 4, 1)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (lr, rho) = (inputs[4].item(), self.rho);
        let [mut p, mut v, mut u] = [0, 2, 3].map(|i| inputs[i].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + self.weight_decay * p[i];
            v[i] = rho * v[i] + (1.0 - rho) * d * d;
            let step = (u[i] + self.eps).sqrt() / (v[i] + self.eps).sqrt() * d;
            u[i] = rho * u[i] + (1.0 - rho) * step * step;
            p[i] -= lr * step;
        }
        arrays(outputs, [p, v, u])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, v, u] = [0, 1, 2, 3].map(|i| inputs[i]);
        let lr = inputs[4].cast(p.dtype());
        let d = g + p * self.weight_decay;
        let v = v * self.rho + d * d * (1.0 - self.rho);
        let step = (u + self.eps).sqrt() / (v + self.eps).sqrt() * d;
        let u = u * self.rho + step * step * (1.0 - self.rho);
        Some(vec![p - lr * step, v, u])
    }
}
