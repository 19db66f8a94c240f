//! Cast: the same numbers in another dtype.

use lessen_base::Result;

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::op::{Fold, Op, Vjp};
use crate::ops::rules::{arity, fold_exactly, map};
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `y[i] = x[i]` in another dtype. Floats round to the nearest representable number, ties to even; a float
/// becomes an integer by dropping its fraction, beyond the range by the nearest end of it, NaN becomes 0;
/// integers wrap; everything but 0 is true; true is 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cast {
    /// The new dtype.
    pub dtype: DType,
}

named!("cast": Cast { dtype });

impl Op for Cast {
    named!();

    facts! { elementwise; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        Ok(vec![Type::new(self.dtype, &inputs[0].shape)])
    }

    fn is_cast(&self) -> bool {
        true
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let from = inputs[0].ty.dtype;
        map(inputs, &outputs[0], |x| convert(x[0], from, self.dtype))
    }

    /// Between floats the cotangent is cast back; elsewhere there is no derivative.
    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let from = cx.inputs[0].dtype();
        let smooth = from.is_float() && self.dtype.is_float();
        vec![cx.cotangents[0].filter(|_| smooth).map(|dy| dy.cast(from))]
    }

    /// Rounding aside, a number of a float dtype stays the same in another one.
    fn along(&self, query: AlongQuery<'_>) -> Along {
        if query.constant[0] {
            Along::Constant
        } else if query.inputs[0].dtype.is_float() && self.dtype.is_float() {
            query.same_axis()
        } else {
            Along::Unknown
        }
    }

    fn inverse(&self, _: usize, inputs: &[Type]) -> Option<Inverse> {
        let dtype = inputs[0].dtype;
        self.dtype.holds_all_of(dtype).then(|| Inverse::exact(Cast { dtype }))
    }

    fn fold(&self, known: &[Option<f64>], inputs: &[Type], outputs: &[Type]) -> Fold {
        fold_exactly(self, known, inputs, outputs)
    }
}

/// A number of one dtype in another.
fn convert(x: f64, from: DType, to: DType) -> f64 {
    match to {
        _ if from == to => x,
        DType::I32 if !from.is_float() => f64::from(x as i64 as i32),
        DType::U32 if !from.is_float() => f64::from(x as i64 as u32),
        DType::U8 if !from.is_float() => f64::from(x as i64 as u8),
        _ => to.round(x),
    }
}

impl Tensor {
    /// The same numbers in another dtype; this tensor if it has that dtype. See [`Cast`].
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Tensor {
        if self.dtype() == dtype {
            return self;
        }
        self.trace().apply1(Cast { dtype }, &[self])
    }
}
