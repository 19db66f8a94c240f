//! ELU (Clevert, Unterthiner, Hochreiter 2015).

use lessen_base::Result;

use super::{arity, float};
use crate::{Array, Attr, Attrs, Cost, Op, RowWise, Tensor, Type, Vjp};

/// `y = x` where `x > 0`, `alpha (e^x - 1)` elsewhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elu {
    /// Minus the limit at minus infinity.
    pub alpha: f64,
}

impl Op for Elu {
    fn name(&self) -> &'static str {
        "elu"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("alpha", Attr::Float(self.alpha))
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
            .map(|&x| if x > 0.0 { x } else { self.alpha * x.exp_m1() });
        vec![Array::new(outputs[0].clone(), data.collect())]
    }

    /// `dx = dy` where `x > 0`, `dy (y + alpha)` elsewhere. With a positive alpha the sign of `y` is that of
    /// `x`, so that the input need not be kept.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let y = cx.outputs[0];
        let sign = if self.alpha >= 0.0 { y } else { cx.inputs[0] };
        vec![cx.cotangents[0].map(|dy| sign.gt(sign.scalar_like(0.0)).select(dy, dy * (y + self.alpha)))]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let x = inputs[0];
        // The exponential is taken of the negative part alone, so that it cannot overflow.
        let below = x.minimum(x.scalar_like(0.0));
        Some(vec![
            x.gt(x.scalar_like(0.0))
                .select(x, (below.exp() - 1.0) * self.alpha),
        ])
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn cost(&self, inputs: &[Type], _: &[Type]) -> Cost {
        Cost {
            vector_flops: 18.0 * inputs[0].numel() as f64,
            bytes: 2.0 * inputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

impl<'g> Tensor<'g> {
    /// `x` where it is positive, `alpha (e^x - 1)` elsewhere.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Tensor<'g> {
        self.trace().apply1(Elu { alpha }, &[self])
    }
}
