//! Full: one number everywhere.

use std::sync::Arc;

use lessen_base::Result;

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::attrs::{Attr, Attrs};
use crate::named::Named;
use crate::op::{Fold, Op};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::trace::TraceRef;
use crate::types::{DType, Type};

/// `y[i] = value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Full {
    /// Dtype and shape.
    pub ty: Type,
    /// The number; a whole one for integers, 0 or 1 for booleans.
    pub value: f64,
}

impl Named for Full {
    const NAME: &'static str = "full";

    fn to_attrs(&self) -> Attrs {
        Attrs::of_type(&self.ty).with("value", Attr::Float(self.value))
    }

    fn from_attrs(attrs: &Attrs) -> Result<Full> {
        Ok(Full {
            ty: attrs.ty()?,
            value: attrs.float("value")?,
        })
    }
}

impl Op for Full {
    named!();

    facts! {
        no_derivative;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        self.ty.check_size()?;
        self.ty.check_holds(&[self.value])?;
        Ok(vec![self.ty.clone()])
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![Array::full(self.ty.clone(), self.value)]
    }

    fn along(&self, _: AlongQuery<'_>) -> Along {
        Along::Constant
    }

    fn with_extent(&self, axis: usize, extent: usize) -> Option<Arc<dyn Op>> {
        let mut ty = self.ty.clone();
        ty.shape[axis] = extent;
        Some(Arc::new(Full { ty, ..self.clone() }))
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        Fold::Splat(self.ty.dtype.round(self.value))
    }
}

impl TraceRef {
    /// A tensor filled with one value.
    ///
    /// # Panics
    /// If the dtype cannot hold the value: a fraction in whole numbers.
    #[track_caller]
    pub fn full(&self, dtype: DType, shape: &[usize], value: f64) -> Tensor {
        let ty = Type::new(dtype, shape);
        self.apply1(Full { ty, value }, &[])
    }
}

impl Tensor {
    /// A scalar constant of the same dtype.
    ///
    /// # Panics
    /// If the dtype cannot hold the value: a fraction in whole numbers.
    #[track_caller]
    pub fn scalar_like(self, value: f64) -> Tensor {
        self.trace().full(self.dtype(), &[], value)
    }

    /// A tensor of the same type filled with one value.
    ///
    /// # Panics
    /// If the dtype cannot hold the value: a fraction in whole numbers.
    #[track_caller]
    pub fn full_like(self, value: f64) -> Tensor {
        self.trace().full(self.dtype(), &self.shape(), value)
    }
}
