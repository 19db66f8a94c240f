//! Python's own operators on extents and lists.

use lessen_base::Result;

use crate::call::{Call, Operators};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("add", |call| arithmetic(call, |a, b| a + b)),
    ("and", |call| truth(call, |a, b| a != 0.0 && b != 0.0)),
    ("eq", |call| truth(call, |a, b| a == b)),
    ("floordiv", |call| arithmetic(call, |a, b| (a / b).floor())),
    ("ge", |call| truth(call, |a, b| a >= b)),
    ("getitem", item),
    ("gt", |call| truth(call, |a, b| a > b)),
    ("le", |call| truth(call, |a, b| a <= b)),
    ("lt", |call| truth(call, |a, b| a < b)),
    ("max", |call| arithmetic(call, f64::max)),
    ("min", |call| arithmetic(call, f64::min)),
    ("mod", |call| arithmetic(call, |a, b| a - b * (a / b).floor())),
    ("mul", |call| arithmetic(call, |a, b| a * b)),
    ("ne", |call| truth(call, |a, b| a != b)),
    ("neg", |call| arithmetic(call, |a, _| -a)),
    ("not", |call| truth(call, |a, _| a == 0.0)),
    ("or", |call| truth(call, |a, b| a != 0.0 || b != 0.0)),
    ("pow", |call| arithmetic(call, f64::powf)),
    ("sub", |call| arithmetic(call, |a, b| a - b)),
    ("sum", sum),
    ("sqrt", |call| Ok(Value::Float(call.float("a", 0.0)?.sqrt()))),
    ("float", |call| Ok(Value::Float(call.float("a", 0.0)?))),
    ("int", |call| Ok(Value::Int(call.float("a", 0.0)? as i64))),
    ("truediv", |call| {
        let (a, b) = (call.float("a", 0.0)?, call.float("b", 1.0)?);
        Ok(Value::Float(a / b))
    }),
];

/// A function of one or two numbers, whole where both are.
fn arithmetic(call: &mut Call<'_, '_>, f: impl FnOnce(f64, f64) -> f64) -> Result<Value> {
    let is_float = |value: Value| matches!(value, Value::Float(_));
    let is_float = is_float(call.value("a")) || is_float(call.value("b"));
    let result = f(call.float("a", 0.0)?, call.float("b", 0.0)?);
    Ok(if is_float {
        Value::Float(result)
    } else {
        Value::Int(result as i64)
    })
}

fn truth(call: &mut Call<'_, '_>, f: impl FnOnce(f64, f64) -> bool) -> Result<Value> {
    Ok(Value::Bool(f(call.float("a", 0.0)?, call.float("b", 0.0)?)))
}

fn sum(call: &mut Call<'_, '_>) -> Result<Value> {
    let numbers = call.ints("a")?.unwrap_or_default();
    Ok(Value::Int(numbers.iter().sum()))
}

fn item(call: &mut Call<'_, '_>) -> Result<Value> {
    let position = call.size("b", 0)?;
    match call.value("a") {
        Value::List(values) if position < values.len() => Ok(values[position].clone()),
        // What is not computed here is not read where the operator was traced.
        _ => Ok(Value::Absent),
    }
}
