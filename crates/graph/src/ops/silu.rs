//! SiLU, also called swish (Elfwing, Uchibe, Doya 2017).

use lessen_base::Result;

use super::{UnaryKind, arity, float};
use crate::{Array, Cost, Op, RowWise, Tensor, Type, Vjp};

/// `y = x / (1 + e^-x)`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Silu;

impl Op for Silu {
    fn name(&self) -> &'static str {
        "silu"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        float(&inputs[0])?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let data = inputs[0]
            .data
            .iter()
            .map(|&x| x * UnaryKind::Sigmoid.eval(x))
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    /// `dx = dy s (1 + x (1 - s))` with `s = 1 / (1 + e^-x)`.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let x = cx.inputs[0];
        vec![cx.cotangents[0].map(|dy| {
            let s = x.sigmoid();
            dy * s * (x * (1.0 - s) + 1.0)
        })]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        Some(vec![inputs[0] * inputs[0].sigmoid()])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 20.0 * inputs[0].numel() as f64,
            bytes: 2.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

impl<'g> Tensor<'g> {
    /// `x / (1 + e^-x)`
    #[track_caller]
    pub fn silu(self) -> Tensor<'g> {
        self.trace().apply1(Silu, &[self])
    }
}
