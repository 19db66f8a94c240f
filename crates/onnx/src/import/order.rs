//! Operators that compare the numbers along an axis.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use super::Value;
use super::call::{Call, Operators, one};

/// Operators whose results are positions alone.
pub(crate) const POSITIONS: Operators = &[
    ("ArgMax", |call| extremum(call, Tensor::argmax)),
    ("ArgMin", |call| extremum(call, Tensor::argmin)),
];

pub(crate) const OPERATORS: Operators = &[("TopK", top_k)];

/// An input of floats or `i32`, and an axis of it.
fn ordered(call: &mut Call<'_>, default: i64) -> Result<(Tensor, isize)> {
    if call.held.is_some() {
        return call.unknown("an order in a program, whose positions hold fewer numbers than those of files,");
    }
    let x = call.tensor(0)?;
    let axis = call.axis(call.int("axis", default), x.rank())? as isize;
    if !(x.dtype().is_float() || x.dtype() == DType::I32) {
        return call.unknown("an order of truth values and short integers");
    }
    Ok((x, axis))
}

fn extremum(call: &mut Call<'_>, f: impl Fn(Tensor, isize) -> Tensor) -> Result<Vec<Value>> {
    let (x, axis) = ordered(call, 0)?;
    if call.int("select_last_index", 0) != 0 {
        return call.unknown("the last of equal extrema");
    }
    if x.dim(axis) == 0 {
        return call.unknown("an extremum of no numbers");
    }
    let y = f(x, axis);
    one(if call.int("keepdims", 1) != 0 {
        y.unsqueeze(axis)
    } else {
        y
    })
}

/// The largest or smallest numbers along an axis, and their positions.
fn top_k(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let (x, axis) = ordered(call, -1)?;
    let k = match call.opset {
        ..10 => Some(call.int("k", 0)),
        _ => call.integers(1)?.first().copied(),
    };
    let k = k.and_then(|k| usize::try_from(k).ok()).filter(|k| *k <= x.dim(axis));
    let Some(k) = k else {
        return call.unknown("more numbers than the axis has");
    };
    let (values, positions) = x.topk(k, axis, call.int("largest", 1) != 0);
    Ok(vec![Value::Traced(values), Value::Traced(positions)])
}
