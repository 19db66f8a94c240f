//! Stochastic gradient descent with momentum, as `torch.optim.SGD`.

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::optimizer::update::updated;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, momentum buffer `b`, learning rate `lr`, an `f32[]`. Outputs `p'`,
/// `b'`: `d = g + weight_decay p`, `b' = momentum b + d`, `p' = p - lr b'`, or with Nesterov's momentum `p' =
/// p - lr (d + momentum b')`. The buffer is zero before the first step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sgd {
    /// Decay of the buffer.
    pub momentum: f64,
    /// Whether the momentum is Nesterov's.
    pub nesterov: bool,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

named!("sgd": Sgd { momentum, nesterov, weight_decay });

impl Op for Sgd {
    named!();

    facts! {
        elementwise;
        flops(6.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        updated(inputs, 3, 1)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let lr = inputs[3].item();
        let (mut p, mut b) = (inputs[0].data.clone(), inputs[2].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + self.weight_decay * p[i];
            b[i] = self.momentum * b[i] + d;
            p[i] -= lr * if self.nesterov { d + self.momentum * b[i] } else { b[i] };
        }
        arrays(outputs, [p, b])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, b] = [0, 1, 2].map(|i| inputs[i]);
        let lr = inputs[3].cast(p.dtype());
        let d = g + p * self.weight_decay;
        let b = b * self.momentum + d;
        let step = if self.nesterov { d + b * self.momentum } else { b };
        Some(vec![p - lr * step, b])
    }
}
