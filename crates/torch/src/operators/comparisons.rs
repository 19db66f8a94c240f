//! Comparisons, truth values, and choices between elements.

use lessen_base::Result;
use lessen_graph::{DType, Tensor};

use crate::call::{Call, Operators, one};
use crate::images::{image_of, through};
use crate::value::{Value, promoted};

pub const OPERATORS: Operators = &[
    ("__and__", and),
    ("__or__", or),
    ("all", |call| reduced(call, true)),
    ("any", |call| reduced(call, false)),
    ("bitwise_and", and),
    ("bitwise_not", not),
    ("bitwise_or", or),
    ("bitwise_xor", |call| compared(call, Tensor::ne)),
    ("eq", |call| compared(call, Tensor::eq)),
    ("ge", |call| compared(call, Tensor::ge)),
    ("gt", |call| compared(call, Tensor::gt)),
    ("isnan", |call| {
        let x = call.float_x()?;
        one(x.ne(x))
    }),
    ("isinf", |call| {
        let x = call.float_x()?;
        one(x.abs().eq(x.scalar_like(f64::INFINITY)))
    }),
    ("isfinite", |call| {
        let x = call.float_x()?;
        one(x.abs().lt(x.scalar_like(f64::INFINITY)))
    }),
    ("le", |call| compared(call, Tensor::le)),
    ("logical_and", and),
    ("logical_not", not),
    ("logical_or", or),
    ("logical_xor", |call| {
        let (a, b) = truths(call)?;
        one(a.ne(b))
    }),
    ("lt", |call| compared(call, Tensor::lt)),
    ("masked_fill", masked_fill),
    ("ne", |call| compared(call, Tensor::ne)),
    ("where", select),
];

/// A comparison; truth values are compared as numbers.
fn compared(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, Tensor) -> Tensor) -> Result<Value> {
    let (a, b) = call.both("self", "other")?;
    if a.dtype() == DType::Bool {
        return one(f(a.cast(DType::I32), b.cast(DType::I32)));
    }
    one(f(a, b))
}

/// Both arguments as truth values.
fn truths(call: &Call<'_, '_>) -> Result<(Tensor, Tensor)> {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    let is_bits = call.node.operator.contains("bitwise") || call.node.operator.contains("__");
    if is_bits && (a.dtype() != DType::Bool || b.dtype() != DType::Bool) {
        return call.lacks("operators on the bits of numbers");
    }
    Ok((a.cast(DType::Bool), b.cast(DType::Bool)))
}

fn and(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = truths(call)?;
    let y = a.and(b);
    call.surroundings.masks.joined(a, b, y);
    one(y)
}

fn or(call: &mut Call<'_, '_>) -> Result<Value> {
    let (a, b) = truths(call)?;
    one(a.select(a.scalar_like(1.0), b))
}

fn not(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    if x.dtype() != DType::Bool && call.node.operator.contains("bitwise") {
        return one(x * -1 - 1);
    }
    let x = x.cast(DType::Bool);
    one(x.select(x.scalar_like(0.0), x.scalar_like(1.0)))
}

/// Whether all or any elements along axes are true.
fn reduced(call: &mut Call<'_, '_>, is_all: bool) -> Result<Value> {
    let x = call.x()?;
    let axes = call.axes("dim", x.rank())?;
    let truths = x.cast(DType::Bool).cast(DType::F32);
    let y = if is_all {
        truths.min_axes(&axes)
    } else {
        truths.max_axes(&axes)
    };
    let mut shape = x.shape();
    axes.iter().for_each(|axis| shape[*axis] = 1);
    let y = y.cast(DType::Bool);
    one(if call.truth("keepdim") { y.reshape(&shape) } else { y })
}

/// A choice whose sides have PyTorch's common dtype.
fn select(call: &mut Call<'_, '_>) -> Result<Value> {
    if !call.has("self") && !call.has("other") {
        return call.lacks("the positions of true elements; keep all elements and multiply by the condition");
    }
    let condition = call.tensor("condition")?.cast(DType::Bool);
    let (a, b) = call.both("self", "other")?;
    let dtype = promoted(a, b);
    one(condition.select(a.cast(dtype), b.cast(dtype)))
}

fn masked_fill(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, mask) = (call.x()?, call.tensor("mask")?.cast(DType::Bool));
    let value = match call.value("value").number() {
        Some(number) => x.scalar_like(x.dtype().round(number)),
        None => call.tensor("value")?.cast(x.dtype()),
    };
    if image_of(x).is_some() && mask.rank() == 0 {
        return one(through(x, |x| mask.select(value, x)));
    }
    one(mask.select(value, x))
}
