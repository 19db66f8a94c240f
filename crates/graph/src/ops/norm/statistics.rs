//! Type rules that normalizations with parameters and statistics of rows share.

use lessen_base::{Error, Result};

use crate::ops::rules::{float_rows, lead};
use crate::types::Type;

/// Checks that the parameters are vectors of the last axis and of its dtype.
pub(crate) fn check_parameters(x: &Type, parameters: &[Type]) -> Result<()> {
    float_rows(x)?;
    let expected = Type::new(x.dtype, &[x.last()]);
    match parameters.iter().find(|p| **p != expected) {
        Some(p) => Err(Error::user(format!(
            "the parameters for rows of {x} must be {expected}, not {p}"
        ))),
        None => Ok(()),
    }
}

/// Checks that the statistics have one element for each row, and that the cotangent has the type of `x`.
pub(crate) fn check_backward(x: &Type, statistics: &[Type], dy: &Type) -> Result<()> {
    let expected = statistics_type(x);
    if let Some(s) = statistics.iter().find(|s| **s != expected) {
        return Err(Error::user(format!(
            "the statistics of {x} must be {expected}, not {s}"
        )));
    }
    if dy == x {
        Ok(())
    } else {
        Err(Error::user(format!("the cotangent of {x} has type {dy}")))
    }
}

/// The type of a number for each row.
pub(crate) fn statistics_type(x: &Type) -> Type {
    Type::new(x.dtype.accumulator(), lead(x))
}
