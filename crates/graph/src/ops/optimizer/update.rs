//! Type rules that the updates of parameters share.

use lessen_base::{Error, Result};

use crate::ops::rules::{arity, float};
use crate::types::Type;

/// Checks that a parameter, its gradient and its optimizer state are of one float type.
pub(crate) fn check_update(tensors: &[Type]) -> Result<()> {
    float(&tensors[0])?;
    match tensors.iter().find(|t| **t != tensors[0]) {
        Some(t) => Err(Error::user(format!(
            "a parameter {} cannot be updated with {t}",
            tensors[0]
        ))),
        None => Ok(()),
    }
}

/// Checks the scalars that an update is told.
pub(crate) fn check_scalars(scalars: &[Type]) -> Result<()> {
    match scalars.iter().find(|t| **t != Type::f32(&[])) {
        Some(t) => Err(Error::user(format!(
            "the learning rate and the step count must be f32[], not {t}"
        ))),
        None => Ok(()),
    }
}

/// The types of an update's results, for its type rule: of all `tensors` but the gradient, beside which it is told some
/// scalars.
pub(crate) fn updated(inputs: &[Type], tensors: usize, scalars: usize) -> Result<Vec<Type>> {
    arity(inputs, tensors + scalars)?;
    check_update(&inputs[..tensors])?;
    check_scalars(&inputs[tensors..])?;
    Ok(vec![inputs[0].clone(); tensors - 1])
}
