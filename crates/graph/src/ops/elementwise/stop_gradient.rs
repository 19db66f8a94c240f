//! Gradients that end: `y = x`, of which no derivative is taken.

use lessen_base::Result;

use crate::array::Array;
use crate::op::{Fold, Op};
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::Type;

/// `y = x`, of any dtype, whose derivative counts as 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StopGradient;

named!("stop_gradient": StopGradient {});

impl Op for StopGradient {
    named!();

    facts! {
        no_derivative;
        elementwise;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        Ok(inputs.to_vec())
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        vec![inputs[0].clone()]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        Some(vec![inputs[0].identity()])
    }

    fn fold(&self, _: &[Option<f64>], _: &[Type], _: &[Type]) -> Fold {
        Fold::Input(0)
    }
}

impl Tensor {
    /// The same value, through which no gradient passes.
    #[track_caller]
    pub fn stop_gradient(self) -> Tensor {
        self.trace().apply1(StopGradient, &[self])
    }
}
