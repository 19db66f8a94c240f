//! The step that Adam and AdamW share; they differ in where the weight decay enters.

use crate::array::Array;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::Type;

/// Where weight decay enters a step.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Decay {
    /// A term of the gradient: an L2 penalty.
    Penalty,
    /// A factor of the parameter (Loshchilov, Hutter 2019).
    Decoupled,
}

/// A step with inputs `p`, `g`, `m`, `v`, `lr[]`, `t[]` and outputs `p'`, `m'`, `v'`.
pub(super) struct AdamStep {
    /// Decays of the first and second moment.
    pub betas: [f64; 2],
    pub eps: f64,
    pub weight_decay: f64,
    pub decay: Decay,
}

impl AdamStep {
    pub fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let ([beta1, beta2], weight_decay) = (self.betas, self.weight_decay);
        let (lr, t) = (inputs[4].item(), inputs[5].item());
        let (c1, c2) = (1.0 - beta1.powf(t), (1.0 - beta2.powf(t)).sqrt());
        let [mut p, mut m, mut v] = [0, 2, 3].map(|i| inputs[i].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let (d, decayed) = match self.decay {
                Decay::Penalty => (g + weight_decay * p[i], p[i]),
                Decay::Decoupled => (g, p[i] * (1.0 - lr * weight_decay)),
            };
            m[i] = beta1 * m[i] + (1.0 - beta1) * d;
            v[i] = beta2 * v[i] + (1.0 - beta2) * d * d;
            p[i] = decayed - lr / c1 * m[i] / (v[i].sqrt() / c2 + self.eps);
        }
        arrays(outputs, [p, m, v])
    }

    pub fn decompose(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let [p, g, m, v] = [0, 1, 2, 3].map(|i| inputs[i]);
        let [lr, t] = [4, 5].map(|i| inputs[i].cast(p.dtype()));
        let [beta1, beta2] = self.betas;
        let c1 = 1.0 - t.scalar_like(beta1).pow(t);
        let c2 = (1.0 - t.scalar_like(beta2).pow(t)).sqrt();
        let d = match self.decay {
            Decay::Penalty => g + p * self.weight_decay,
            Decay::Decoupled => g,
        };
        let m = m * beta1 + d * (1.0 - beta1);
        let v = v * beta2 + d * d * (1.0 - beta2);
        let decayed = match self.decay {
            Decay::Penalty => p,
            Decay::Decoupled => p * (1.0 - lr * self.weight_decay),
        };
        vec![decayed - lr / c1 * m / (v.sqrt() / c2 + self.eps), m, v]
    }
}
