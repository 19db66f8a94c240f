//! Lion (Chen, Liang, Huang et al. 2023, algorithm 2).

use lessen_base::Result;

use crate::array::Array;
use crate::op::Op;
use crate::ops::elementwise::UnaryKind;
use crate::ops::optimizer::update::updated;
use crate::ops::rules::arrays;
use crate::tensor::Tensor;
use crate::types::Type;

/// Inputs: parameter `p`, gradient `g`, moment `m`, learning rate `lr`, an `f32[]`. Outputs `p'`, `m'`: `p' = p (1 - lr
/// weight_decay) - lr sign(beta1 m + (1 - beta1) g)`, `m' = beta2 m + (1 - beta2) g`. The sign of 0 is 0, that of NaN
/// is NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lion {
    /// Share of the moment in the argument of the sign.
    pub beta1: f64,
    /// Decay of the moment.
    pub beta2: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

named!("lion": Lion { beta1, beta2, weight_decay });

impl Op for Lion {
    named!();

    facts! {
        elementwise;
        flops(8.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        updated(inputs, 3, 1)
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let Lion {
            beta1,
            beta2,
            weight_decay,
        } = *self;
        let lr = inputs[3].item();
        let (mut p, mut m) = (inputs[0].data.clone(), inputs[2].data.clone());
        for (i, &g) in inputs[1].data.iter().enumerate() {
            let direction = UnaryKind::Sign.eval(beta1 * m[i] + (1.0 - beta1) * g);
            p[i] = p[i] * (1.0 - lr * weight_decay) - lr * direction;
            m[i] = beta2 * m[i] + (1.0 - beta2) * g;
        }
        arrays(outputs, [p, m])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let [p, g, m] = [0, 1, 2].map(|i| inputs[i]);
        let lr = inputs[3].cast(p.dtype());
        let direction = (m * self.beta1 + g * (1.0 - self.beta1)).sign();
        let decayed = p * (1.0 - lr * self.weight_decay);
        let m = m * self.beta2 + g * (1.0 - self.beta2);
        Some(vec![decayed - lr * direction, m])
    }
}
