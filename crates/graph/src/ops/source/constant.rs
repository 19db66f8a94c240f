//! Constant: given elements.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::attrs::{Attr, Attrs};
use crate::builder::GraphBuilder;
use crate::graph::ValueId;
use crate::named::Named;
use crate::op::Op;
use crate::ops::rules::arity;
use crate::size::checked_numel;
use crate::tensor::Tensor;
use crate::trace::TraceRef;
use crate::types::Type;

/// Given elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Constant {
    /// Type and elements.
    pub array: Arc<Array>,
}

impl Named for Constant {
    const NAME: &'static str = "constant";

    fn to_attrs(&self) -> Attrs {
        Attrs::of_type(&self.array.ty).with("data", Attr::Floats(self.array.data.clone()))
    }

    fn from_attrs(attrs: &Attrs) -> Result<Constant> {
        let (ty, data) = (attrs.ty()?, attrs.floats("data")?);
        if data.len() != ty.numel() {
            return Err(Error::user(format!(
                "{ty} needs {} elements, attribute `data` has {}",
                ty.numel(),
                data.len()
            )));
        }
        Ok(Constant {
            array: Arc::new(Array { ty, data }),
        })
    }
}

impl Op for Constant {
    named!();

    facts! {
        no_derivative;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 0)?;
        let Array { ty, data } = &*self.array;
        if checked_numel(&ty.shape) != Some(data.len()) {
            return Err(Error::user(format!("{ty} does not have {} elements", data.len())));
        }
        ty.check_holds(data)?;
        Ok(vec![ty.clone()])
    }

    fn eval(&self, _: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![(*self.array).clone()]
    }
}

impl GraphBuilder {
    /// A value with given elements.
    ///
    /// # Errors
    /// If the dtype cannot hold one of the elements, or their number is not the type's.
    pub fn constant(&mut self, array: Array) -> Result<ValueId> {
        let array = Arc::new(array);
        Ok(self.push(Arc::new(Constant { array }), &[])?[0])
    }
}

impl TraceRef {
    /// A tensor with given elements.
    ///
    /// # Panics
    /// If the dtype cannot hold one of them: a fraction in whole numbers.
    #[track_caller]
    pub fn constant(&self, array: Array) -> Tensor {
        let array = Arc::new(array);
        self.apply1(Constant { array }, &[])
    }
}
