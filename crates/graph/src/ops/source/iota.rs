//! Iota: positions along an axis.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::{AttrValue, Named};
use crate::op::Op;
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::trace::TraceRef;
use crate::types::{DType, Type};

/// Positions: `y[.., i, ..] = i`, the index along one axis, as a number of the dtype.
#[derive(Clone, PartialEq, Debug)]
pub struct Iota {
    /// Dtype and shape.
    pub ty: Type,
    /// The axis that counts.
    pub axis: usize,
}

impl Named for Iota {
    const NAME: &'static str = "iota";

    fn to_attrs(&self) -> Attrs {
        Attrs::of_type(&self.ty).with("axis", self.axis.to_attr())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Iota> {
        Ok(Iota {
            ty: attrs.ty()?,
            axis: attrs.size("axis")?,
        })
    }
}

impl Op for Iota {
    named!();

    facts! {
        no_derivative;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        self.ty.check_size()?;
        let fits = |extent: &usize| self.ty.dtype.holds(extent.saturating_sub(1) as f64);
        if !self.ty.shape.get(self.axis).is_some_and(fits) || self.ty.dtype == DType::Bool {
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
}

impl TraceRef {
    /// Positions along an axis: `y[.., i, ..] = i`.
    #[track_caller]
    pub fn iota(&self, dtype: DType, shape: &[usize], axis: usize) -> Tensor {
        self.apply1(
            Iota {
                ty: Type::new(dtype, shape),
                axis,
            },
            &[],
        )
    }
}
