//! Functions of floats. 16-bit floats and `f32` are computed in `f64` and rounded once.

use lessen_base::Result;
use lessen_graph::ops::unary::erf;

use super::operands::unary;
use crate::host::{Float, HostCall, HostOperators, HostValue, Number};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Acos", |call| floats(call, f64::acos)),
    ("", "Acosh", |call| floats(call, f64::acosh)),
    ("", "Asin", |call| floats(call, f64::asin)),
    ("", "Asinh", |call| floats(call, f64::asinh)),
    ("", "Atan", |call| floats(call, f64::atan)),
    ("", "Atanh", |call| floats(call, f64::atanh)),
    ("", "Cos", |call| floats(call, f64::cos)),
    ("", "Cosh", |call| floats(call, f64::cosh)),
    ("", "Erf", |call| floats(call, erf)),
    ("", "Exp", |call| floats(call, f64::exp)),
    ("", "Log", |call| floats(call, f64::ln)),
    ("", "Reciprocal", |call| floats(call, f64::recip)),
    ("", "Sin", |call| floats(call, f64::sin)),
    ("", "Sinh", |call| floats(call, f64::sinh)),
    ("", "Sqrt", |call| floats(call, f64::sqrt)),
    ("", "Tan", |call| floats(call, f64::tan)),
    ("", "Tanh", |call| floats(call, f64::tanh)),
];

/// A function of each float.
pub(super) fn floats(call: &HostCall<'_>, f: impl Fn(f64) -> f64) -> Result<Vec<HostValue>> {
    unary!(call, each_float, |x| rounded(x, f(x.to_f64())))
}

/// A result in the type of an element.
fn rounded<T: Float>(_like: T, result: f64) -> T {
    T::of_f64(result)
}
