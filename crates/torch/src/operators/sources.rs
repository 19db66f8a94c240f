//! Tensors of given elements.

use lessen_base::Result;
use lessen_graph::{Array, DType, Tensor, Type};

use crate::call::{Call, Operators, one};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("arange", arange),
    ("empty", |call| sized(call, 0.0)),
    ("empty_like", |call| like(call, 0.0)),
    ("eye", eye),
    ("fill", |call| {
        let value = call.float("value", 0.0)?;
        like(call, value)
    }),
    ("full", |call| {
        let value = call.float("fill_value", 0.0)?;
        sized(call, value)
    }),
    ("full_like", |call| {
        let value = call.float("fill_value", 0.0)?;
        like(call, value)
    }),
    ("linspace", linspace),
    ("new_empty", |call| sized(call, 0.0)),
    ("new_full", |call| {
        let value = call.float("fill_value", 0.0)?;
        sized(call, value)
    }),
    ("new_ones", |call| sized(call, 1.0)),
    ("new_zeros", |call| sized(call, 0.0)),
    ("ones", |call| sized(call, 1.0)),
    ("ones_like", |call| like(call, 1.0)),
    ("scalar_tensor", |call| {
        let value = call.tensor("s")?;
        one(call.dtype("dtype").map_or(value, |dtype| value.cast(dtype)))
    }),
    ("zero", |call| like(call, 0.0)),
    ("zeros", |call| sized(call, 0.0)),
    ("zeros_like", |call| like(call, 0.0)),
];

/// The dtype of a new tensor: the one that is asked for, that of a number, or `f32`.
fn dtype(call: &Call<'_, '_>) -> DType {
    let of_number = match call.value("fill_value") {
        Value::Int(_) => DType::I32,
        Value::Bool(_) => DType::Bool,
        _ => DType::F32,
    };
    let own = call.dtype("dtype").or_else(|| call.dtype("self"));
    own.unwrap_or(of_number)
}

/// A tensor of a shape with equal elements.
fn sized(call: &mut Call<'_, '_>, value: f64) -> Result<Value> {
    let dtype = dtype(call);
    let shape = call.sizes("size")?;
    one(call.trace().full(dtype, &shape, dtype.round(value)))
}

/// A tensor of the shape of another one with equal elements.
fn like(call: &mut Call<'_, '_>, value: f64) -> Result<Value> {
    let x = call.x()?;
    let dtype = call.dtype("dtype").unwrap_or(x.dtype());
    one(call.trace().full(dtype, &x.shape(), dtype.round(value)))
}

/// Positions from a start to an end in steps.
fn arange(call: &mut Call<'_, '_>) -> Result<Value> {
    let is_float = ["start", "end", "step"]
        .iter()
        .any(|name| matches!(call.value(name), Value::Float(_)));
    let dtype = call
        .dtype("dtype")
        .unwrap_or(if is_float { DType::F32 } else { DType::I32 });
    let (start, step) = (call.float("start", 0.0)?, call.float("step", 1.0)?);
    let count = ((call.float("end", 0.0)? - start) / step).ceil().max(0.0) as usize;
    if (start, step) == (0.0, 1.0) && count > 0 {
        return one(call.trace().iota(dtype, &[count], 0));
    }
    one(numbers(
        call,
        dtype,
        (0..count).map(|i| start + i as f64 * step).collect(),
    ))
}

fn numbers(call: &Call<'_, '_>, dtype: DType, data: Vec<f64>) -> Tensor {
    let data: Vec<f64> = data.into_iter().map(|x| dtype.round(x)).collect();
    call.trace().constant(Array::new(Type::new(dtype, &[data.len()]), data))
}

fn linspace(call: &mut Call<'_, '_>) -> Result<Value> {
    let (start, end, steps) = (
        call.float("start", 0.0)?,
        call.float("end", 1.0)?,
        call.size("steps", 100)?,
    );
    let step = (end - start) / steps.saturating_sub(1).max(1) as f64;
    let dtype = call.dtype("dtype").unwrap_or(DType::F32);
    one(numbers(
        call,
        dtype,
        (0..steps).map(|i| start + i as f64 * step).collect(),
    ))
}

fn eye(call: &mut Call<'_, '_>) -> Result<Value> {
    let rows = call.size("n", 0)?;
    let shape = [rows, call.size("m", rows)?];
    let dtype = call.dtype("dtype").unwrap_or(DType::F32);
    let [row, column] = [0, 1].map(|axis| call.trace().iota(DType::I32, &shape, axis));
    one(row.eq(column).cast(dtype))
}
