//! Identity: `y = x`. It keeps two uses of a value apart.

use lessen_base::Result;

use crate::along::{Along, AlongQuery};
use crate::array::Array;
use crate::inverse::Inverse;
use crate::op::{Fold, Op, Vjp};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y = x`, of any dtype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Identity;

named!("identity": Identity {});

impl Op for Identity {
    named!();

    facts! { elementwise; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![inputs[0].clone()]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![cx.cotangents[0]]
    }

    fn along(&self, query: AlongQuery<'_>) -> Along {
        query.same_axis()
    }

    fn inverse(&self, _: usize, _: &[Type]) -> Option<Inverse> {
        Some(Inverse::exact(Identity))
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        Fold::Input(0)
    }
}

impl Tensor {
    /// The same value as a new value of the graph.
    #[track_caller]
    pub fn identity(self) -> Tensor {
        self.trace().apply1(Identity, &[self])
    }
}
