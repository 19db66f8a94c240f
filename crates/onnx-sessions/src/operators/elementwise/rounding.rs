//! Rounding, and questions about floats.

use lessen_base::Result;

use super::functions::floats;
use super::operands::unary;
use lessen_onnx::host::{HostCall, HostOperators, HostValue, Number};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Ceil", |call| floats(call, f64::ceil)),
    ("", "Floor", |call| floats(call, f64::floor)),
    ("", "IsInf", is_infinite),
    ("", "IsNaN", |call| unary!(call, each_float, |x| x.is_nan())),
    ("", "Round", |call| floats(call, f64::round_ties_even)),
];

fn is_infinite(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (negative, positive) = (call.int("detect_negative", 1) != 0, call.int("detect_positive", 1) != 0);
    unary!(call, each_float, |x| match x.to_f64() {
        f64::INFINITY => positive,
        f64::NEG_INFINITY => negative,
        _ => false,
    })
}
