//! Operations from outside the workspace, as a user would add them.

use lessen_base::Result;
use lessen_graph::{Array, Attr, Attrs, Op, Tensor, Type};

/// An operation from outside whose decomposition uses another one from outside.
#[derive(PartialEq, Debug)]
pub struct Twice;

impl Op for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(inputs[0].trace().apply(Scaled { by: 2.0 }, inputs))
    }
}

/// An operation from outside with an attribute.
#[derive(PartialEq, Debug)]
pub struct Scaled {
    /// The factor.
    pub by: f64,
}

impl Op for Scaled {
    fn name(&self) -> &'static str {
        "scaled"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().with("by", Attr::Float(self.by))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0] * self.by])
    }
}

/// An operation from outside without a decomposition.
#[derive(PartialEq, Debug)]
pub struct Opaque;

impl Op for Opaque {
    fn name(&self) -> &'static str {
        "opaque"
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![inputs[0].clone()]
    }
}
