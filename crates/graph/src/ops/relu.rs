//! ReLU: `y = max(x, 0)`.

use lessen_base::Result;

use super::{arity, float};
use crate::{Array, Op, RowWise, Tensor, Type, Vjp};

/// `y = max(x, 0)`; NaN stays NaN. The derivative at 0 is 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Relu;

impl Op for Relu {
    fn name(&self) -> &'static str {
        "relu"
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
            .map(|&x| if x <= 0.0 { 0.0 } else { x })
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    /// From the result, whose sign says as much as the input's, so that the input need not be kept.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let y = cx.outputs[0];
        vec![cx.cotangents[0].map(|dy| y.gt(y.scalar_like(0.0)).select(dy, dy.scalar_like(0.0)))]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let (x, zero) = (inputs[0], inputs[0].scalar_like(0.0));
        Some(vec![x.le(zero).select(zero, x)])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }
}

impl<'g> Tensor<'g> {
    /// `max(x, 0)`
    #[track_caller]
    pub fn relu(self) -> Tensor<'g> {
        self.trace().apply1(Relu, &[self])
    }
}
