//! Type rules that normalizations with parameters and statistics of rows share.

use lessen_base::{Error, Result};

use crate::ops::rules::{arity, float_rows, lead};
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

/// The type rule of a norm with a scale and a statistic, inputs `x` and `gamma`.
pub(crate) fn scaled(inputs: &[Type]) -> Result<Vec<Type>> {
    arity(inputs, 2)?;
    check_parameters(&inputs[0], &inputs[1..])?;
    Ok(vec![inputs[0].clone(), statistics_type(&inputs[0])])
}

/// The type rule of the derivative of a norm with a scale and a statistic, inputs `x` or `y`, `gamma`, `rstd` and `dy`.
pub(crate) fn scaled_backward(inputs: &[Type]) -> Result<Vec<Type>> {
    arity(inputs, 4)?;
    check_parameters(&inputs[0], &inputs[1..2])?;
    check_backward(&inputs[0], &inputs[2..3], &inputs[3])?;
    Ok(inputs[..2].to_vec())
}
