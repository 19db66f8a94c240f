//! Adagrad (Duchi, Hazan, Singer 2011), as `torch.optim.Adagrad`.

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::optimizer::update::updated;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, sum of squares `s`, learning rate `lr[]`, step count `t[]` from 1 on, the last
/// two `f32`. Outputs `p'`, `s'`: `d = g + weight_decay p`, `s' = s + d^2`, `p' = p - lr / (1 + (t - 1) lr_decay) d /
/// (sqrt(initial + s') + eps)`. PyTorch's sum begins with its `initial_accumulator_value`, which is `initial` here, so
/// that `s` begins with zeros.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Adagrad {
    /// Growth of the learning rate's denominator per step.
    pub lr_decay: f64,
    /// Added to the sum of squares under the root.
    pub initial: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

named!("adagrad": Adagrad { lr_decay, initial, eps, weight_decay });

impl Op for Adagrad {
    named!();

    facts! {
        elementwise;
        flops(8.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        updated(inputs, 3, 2)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (lr, t) = (inputs[3].item(), inputs[4].item());
        let rate = lr / (1.0 + (t - 1.0) * self.lr_decay);
        let (mut p, mut s) = (inputs[0].data.clone(), inputs[2].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + self.weight_decay * p[i];
            s[i] += d * d;
            p[i] -= rate * d / ((self.initial + s[i]).sqrt() + self.eps);
        }
        arrays(outputs, [p, s])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, s] = [0, 1, 2].map(|i| inputs[i]);
        let [lr, t] = [3, 4].map(|i| inputs[i].cast(p.dtype()));
        let rate = lr / ((t - 1.0) * self.lr_decay + 1.0);
        let d = g + p * self.weight_decay;
        let s = s + d * d;
        Some(vec![p - rate * d / ((s + self.initial).sqrt() + self.eps), s])
    }
}
