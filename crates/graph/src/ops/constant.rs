//! Values without inputs: one number everywhere, given elements, positions.

use std::sync::Arc;

use lessen_base::{Error, Result};

use super::arity;
use crate::{Array, Attr, Attrs, Cost, DType, Fold, Op, Tensor, Trace, Type, Vjp};

/// `y[i] = value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Full {
    /// Dtype and shape.
    pub ty: Type,
    /// The number; a whole one for integers, 0 or 1 for booleans.
    pub value: f64,
}

/// Attributes of a type.
fn type_attrs(ty: &Type) -> Attrs {
    Attrs::new()
        .with("dtype", Attr::Word(ty.dtype.name().to_string()))
        .with("shape", Attr::sizes(&ty.shape))
}

impl Op for Full {
    fn name(&self) -> &'static str {
        "full"
    }

    fn attrs(&self) -> Attrs {
        type_attrs(&self.ty).with("value", Attr::Float(self.value))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        self.ty.check_holds(&[self.value])?;
        Ok(vec![self.ty.clone()])
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![Array::full(self.ty.clone(), self.value)]
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![]
    }

    fn cost(&self, _: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            vector_flops: 0.0,
            bytes: outputs[0].bytes() as f64,
            ..Cost::default()
        }
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        Fold::Splat(self.ty.dtype.round(self.value))
    }
}

/// Given elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Constant {
    /// Type and elements.
    pub array: Arc<Array>,
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn attrs(&self) -> Attrs {
        type_attrs(&self.array.ty).with("data", Attr::Floats(self.array.data.clone()))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        self.array.ty.check_holds(&self.array.data)?;
        Ok(vec![self.array.ty.clone()])
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![(*self.array).clone()]
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![]
    }

    fn cost(&self, _: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            vector_flops: 0.0,
            bytes: outputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

/// Positions: `y[.., i, ..] = i`, the index along one axis, as a number of the dtype.
#[derive(Clone, PartialEq, Debug)]
pub struct Iota {
    /// Dtype and shape.
    pub ty: Type,
    /// The axis that counts.
    pub axis: usize,
}

impl Op for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn attrs(&self) -> Attrs {
        type_attrs(&self.ty).with("axis", Attr::Int(self.axis as i64))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        if self.axis >= self.ty.rank() || self.ty.dtype == DType::Bool {
            return Err(Error::user(format!(
                "{} has no positions along an axis {}",
                self.ty, self.axis
            )));
        }
        Ok(vec![self.ty.clone()])
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![Array::from_fn(self.ty.clone(), |index| index[self.axis] as f64)]
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![]
    }

    fn cost(&self, _: &[Type], outputs: &[Type]) -> Cost {
        Cost {
            vector_flops: 0.0,
            bytes: outputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

impl Trace {
    /// Positions along an axis: `y[.., i, ..] = i`.
    #[track_caller]
    pub fn iota(&self, dtype: DType, shape: &[usize], axis: usize) -> Tensor<'_> {
        self.apply1(
            Iota {
                ty: Type::new(dtype, shape),
                axis,
            },
            &[],
        )
    }
}
