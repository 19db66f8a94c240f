//! Stochastic gradient descent with momentum, as `torch.optim.SGD`.

use lessen_base::Result;

use super::adamw::{check_scalars, check_update};
use super::arity;
use crate::{Array, Attr, Attrs, Cost, Op, RowWise, Tensor, Type};

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

impl Op for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("momentum", Attr::Float(self.momentum))
            .with("nesterov", Attr::Bool(self.nesterov))
            .with("weight_decay", Attr::Float(self.weight_decay))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 4)?;
        check_update(&inputs[..3])?;
        check_scalars(&inputs[3..])?;
        Ok(vec![inputs[0].clone(); 2])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let lr = inputs[3].item();
        let (mut p, mut b) = (inputs[0].data.clone(), inputs[2].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let d = g + self.weight_decay * p[i];
            b[i] = self.momentum * b[i] + d;
            p[i] -= lr
                * if self.nesterov {
                    d + self.momentum * b[i]
                } else {
                    b[i]
                };
        }
        vec![
            Array::new(outputs[0].clone(), p),
            Array::new(outputs[1].clone(), b),
        ]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let [p, g, b] = [0, 1, 2].map(|i| inputs[i]);
        let lr = inputs[3].cast(p.dtype());
        let d = g + p * self.weight_decay;
        let b = b * self.momentum + d;
        let step = if self.nesterov { d + b * self.momentum } else { b };
        Some(vec![p - lr * step, b])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 6.0 * inputs[0].numel() as f64,
            bytes: 5.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}
