//! Select: one of two values, element by element.

use lessen_base::{Error, Result};

use super::{arity, fold_exactly};
use crate::ops::broadcast::common_shape;
use crate::{Array, DType, Fold, Op, RowWise, Tensor, Type, Vjp};

/// `y[i] = if cond[i] { a[i] } else { b[i] }`: `cond` is boolean, `a` and `b` are of one type and of its
/// shape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Select;

impl Op for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 3)?;
        let (cond, a, b) = (&inputs[0], &inputs[1], &inputs[2]);
        if cond.dtype != DType::Bool {
            return Err(Error::user(format!("the condition must be bool, not {cond}")));
        }
        if a != b || cond.shape != a.shape {
            return Err(Error::user(format!(
                "the condition {cond} and the choices {a} and {b} differ in shape or dtype"
            )));
        }
        Ok(vec![a.clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let choices = inputs[1].data.iter().zip(&inputs[2].data);
        let data = inputs[0]
            .data
            .iter()
            .zip(choices)
            .map(|(&c, (&a, &b))| if c != 0.0 { a } else { b })
            .collect();
        vec![Array::new(outputs[0].clone(), data)]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        let Some(dy) = cx.cotangents[0] else {
            return vec![None; 3];
        };
        let (cond, zero) = (cx.inputs[0], dy.scalar_like(0.0));
        vec![
            None,
            cx.wanted[1].then(|| cond.select(dy, zero)),
            cx.wanted[2].then(|| cond.select(zero, dy)),
        ]
    }

    fn row_wise(&self, _: &[Type], _: &[Type]) -> RowWise {
        RowWise::Elementwise
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        fold_exactly(self, known, inputs, outputs)
    }
}

impl<'g> Tensor<'g> {
    /// `a` where this is true, `b` elsewhere; the three broadcast to their common shape.
    #[track_caller]
    pub fn select(self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        let (sc, sa, sb) = (self.shape(), a.shape(), b.shape());
        let Some(shape) = common_shape(&sa, &sb).and_then(|s| common_shape(&sc, &s)) else {
            panic!("select: the shapes {sc:?}, {sa:?} and {sb:?} do not broadcast to a common one");
        };
        let inputs = [
            self.broadcast_to(&shape),
            a.broadcast_to(&shape),
            b.broadcast_to(&shape),
        ];
        self.trace().apply1(Select, &inputs)
    }

    /// Whether both are true, element by element.
    #[track_caller]
    pub fn and(self, other: Tensor<'g>) -> Tensor<'g> {
        self.select(other, self.scalar_like(0.0))
    }
}
