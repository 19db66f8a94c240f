//! RMSprop (Tieleman, Hinton 2012), as `torch.optim.RMSprop`.

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::optimizer::update::updated;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, mean square `v`, with momentum its buffer `b`, learning rate `lr`, an `f32[]`.
/// Outputs `p'`, `v'`, with momentum `b'`: `d = g + weight_decay p`, `v' = alpha v + (1 - alpha) d^2`, `s = d /
/// (sqrt(v') + eps)`, `b' = momentum b + s`, `p' = p - lr b'`, or without momentum `p' = p - lr s`. It is not centred.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsProp {
    /// Decay of the mean square.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Decay of the buffer; 0 is no buffer.
    pub momentum: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

named!("rmsprop": RmsProp { alpha, eps, momentum, weight_decay });

impl Op for RmsProp {
    named!();

    facts! {
        elementwise;
        flops(12.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let tensors = 3 + usize::from(self.momentum != 0.0);
        updated(inputs, tensors, 1)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let lr = inputs[inputs.len() - 1].item();
        let (mut p, mut v) = (inputs[0].data.clone(), inputs[2].data.clone());
        let mut buffer = match inputs {
            [_, _, _, buffer, _] => buffer.data.clone(),
            _ => vec![0.0; p.len()],
        };
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + self.weight_decay * p[i];
            v[i] = self.alpha * v[i] + (1.0 - self.alpha) * d * d;
            buffer[i] = self.momentum * buffer[i] + d / (v[i].sqrt() + self.eps);
            p[i] -= lr * buffer[i];
        }
        let pairs = outputs.iter().cloned().zip([p, v, buffer]);
        pairs.map(|(ty, data)| Array::new(ty, data)).collect()
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, v] = [0, 1, 2].map(|i| inputs[i]);
        let lr = inputs[inputs.len() - 1].cast(p.dtype());
        let d = g + p * self.weight_decay;
        let v = v * self.alpha + d * d * (1.0 - self.alpha);
        let step = d / (v.sqrt() + self.eps);
        if self.momentum == 0.0 {
            return Some(vec![p - lr * step, v]);
        }
        let buffer = inputs[3] * self.momentum + step;
        Some(vec![p - lr * buffer, v, buffer])
    }
}
