//! Select: one of two values, element by element.

use lessen_base::{Error, Result};

use crate::along::{Along, AlongQuery};
use crate::op::Vjp;
use crate::ops::element_function::Elementwise;
use crate::ops::shape::broadcast::common_shape;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i] = if cond[i] { a[i] } else { b[i] }`: `cond` is boolean, `a` and `b` are of one type and of its
/// shape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Select;

named!("select": Select {});

impl Elementwise for Select {
    const INPUTS: usize = 3;

    fn output(&self, inputs: &[Type]) -> Result<Type> {
        let (cond, a, b) = (&inputs[0], &inputs[1], &inputs[2]);
        if cond.dtype != DType::Bool {
            return Err(Error::user(format!("the condition must be bool, not {cond}")));
        }
        if a != b || cond.shape != a.shape {
            return Err(Error::user(format!(
                "the condition {cond} and the choices {a} and {b} differ in shape or dtype"
            )));
        }
        Ok(a.clone())
    }

    fn element(&self, x: &[f64]) -> f64 {
        if x[0] != 0.0 { x[1] } else { x[2] }
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        if query.constant[0] && query.inputs[1].dtype.is_float() {
            Along::Linear(vec![(1, query.axis), (2, query.axis)])
        } else {
            Along::Unknown
        }
    }

    fn vjp(&self, cx: &Vjp<'_>, dy: Tensor) -> Vec<Option<Tensor>> {
        let (cond, zero) = (cx.inputs[0], dy.scalar_like(0.0));
        vec![
            None,
            cx.wanted[1].then(|| cond.select(dy, zero)),
            cx.wanted[2].then(|| cond.select(zero, dy)),
        ]
    }
}

impl Tensor {
    /// `a` where this is true, `b` elsewhere; the three broadcast to their common shape.
    #[track_caller]
    pub fn select(self, a: Tensor, b: Tensor) -> Tensor {
        self.trace().check_related(format_args!("select:"), &[a, b]);
        let (sc, sa, sb) = (self.shape(), a.shape(), b.shape());
        let Some(shape) = common_shape(&sa, &sb).and_then(|s| common_shape(&sc, &s)) else {
            let sentence = format!("select: the shapes {sc:?}, {sa:?} and {sb:?} do not broadcast to a common one");
            self.trace().fail(sentence);
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
    pub fn and(self, other: Tensor) -> Tensor {
        self.select(other, self.scalar_like(0.0))
    }
}
