//! Shapes, dtypes, and operators without effect here.

use lessen_base::Result;
use lessen_graph::ops::shape::broadcast::common_shape;
use lessen_graph::{DType, Tensor, numel};

use crate::call::{Call, Operators, one, several};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("_assert_async", nothing),
    ("_assert_scalar", nothing),
    ("_assert_tensor_metadata", nothing),
    ("_shape_as_tensor", |call| {
        let shape: Vec<f64> = call.x()?.shape().into_iter().map(|extent| extent as f64).collect();
        let ty = lessen_graph::Type::new(DType::I32, &[shape.len()]);
        one(call.trace().constant(lessen_graph::Array::new(ty, shape)))
    }),
    ("_to_copy", to),
    ("alias", same),
    ("broadcast_tensors", broadcast_tensors),
    ("broadcast_to", expand),
    ("clone", same),
    ("contiguous", same),
    ("copy", |call| {
        let (x, source) = (call.x()?, call.tensor("src")?);
        one(source.cast(x.dtype()).broadcast_to(&x.shape()))
    }),
    ("detach", |call| one(call.x()?.stop_gradient())),
    ("expand", expand),
    ("expand_as", |call| {
        let (x, shape) = (call.x()?, call.tensor("other")?.shape());
        one(widened(call, x, shape))
    }),
    ("flatten", flatten),
    ("item", |call| {
        let x = call.x()?;
        let number = call.item(x)?;
        Ok(match x.dtype() {
            DType::Bool => Value::Bool(number != 0.0),
            dtype if dtype.is_float() => Value::Float(number),
            _ => Value::Int(number as i64),
        })
    }),
    ("lift_fresh_copy", same),
    ("numel", |call| Ok(Value::Int(call.x()?.ty().numel() as i64))),
    ("requires_grad", same),
    ("ravel", |call| {
        let x = call.x()?;
        one(x.reshape(&[x.ty().numel()]))
    }),
    ("reshape", reshape),
    ("reshape_as", |call| {
        one(call.x()?.reshape(&call.tensor("other")?.shape()))
    }),
    ("squeeze", squeeze),
    ("sym_constrain_range", nothing),
    ("sym_constrain_range_for_size", nothing),
    ("sym_numel", |call| Ok(Value::Int(call.x()?.ty().numel() as i64))),
    ("sym_size", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        Ok(Value::Int(x.shape()[axis] as i64))
    }),
    ("to", to),
    ("type_as", |call| one(call.x()?.cast(call.tensor("other")?.dtype()))),
    ("unflatten", unflatten),
    ("unsqueeze", unsqueeze),
    ("view", reshape),
    ("view_as", |call| one(call.x()?.reshape(&call.tensor("other")?.shape()))),
];

fn nothing(_: &mut Call<'_, '_>) -> Result<Value> {
    Ok(Value::Absent)
}

fn same(call: &mut Call<'_, '_>) -> Result<Value> {
    one(call.x()?)
}

/// A conversion to a dtype, or only to a device or layout.
fn to(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let dtype = call.dtype("dtype").or_else(|| call.dtype("other"));
    let y = dtype.map_or(x, |dtype| x.cast(dtype));
    if x.dtype() == DType::Bool && y.id() != x.id() {
        call.surroundings.masks.changed(x, y, Some);
    }
    one(y)
}

/// A view; one extent may follow from the others.
pub fn shaped(call: &Call<'_, '_>, x: Tensor, extents: &[i64]) -> Result<Tensor> {
    let others: i64 = extents.iter().filter(|extent| **extent >= 0).product();
    let open = if others > 0 { x.ty().numel() as i64 / others } else { 0 };
    let shape = extents
        .iter()
        .map(|&extent| if extent < 0 { open } else { extent } as usize);
    let shape: Vec<usize> = shape.collect();
    if numel(&shape) != x.ty().numel() {
        return call.lacks(&format!(
            "a view of {} as {extents:?}, which has other elements",
            x.ty()
        ));
    }
    Ok(reshaped(x, &shape))
}

/// A reshape; the same tensor where its shape does not change.
fn reshaped(x: Tensor, shape: &[usize]) -> Tensor {
    if x.shape() == shape { x } else { x.reshape(shape) }
}

fn reshape(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    if let Some(dtype) = call.dtype("dtype") {
        return if dtype == x.dtype() {
            one(x)
        } else {
            call.lacks("bits of numbers of one dtype as another one")
        };
    }
    let extents = call.ints(if call.has("size") { "size" } else { "shape" })?;
    let y = shaped(call, x, &extents.unwrap_or_default())?;
    one(y)
}

fn flatten(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let shape = x.shape();
    if shape.is_empty() {
        return one(x.reshape(&[1]));
    }
    let (start, end) = (
        call.axis("start_dim", 0, shape.len())?,
        call.axis("end_dim", -1, shape.len())?,
    );
    let merged = numel(&shape[start..=end.max(start)]);
    one(reshaped(x, &[&shape[..start], &[merged], &shape[end + 1..]].concat()))
}

fn unflatten(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let axis = call.axis("dim", 0, x.rank())?;
    let sizes = call.ints("sizes")?.unwrap_or_default();
    let shape: Vec<i64> = x.shape().into_iter().map(|extent| extent as i64).collect();
    let extents = [&shape[..axis], &sizes, &shape[axis + 1..]].concat();
    one(shaped(call, x, &extents)?)
}

fn unsqueeze(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let axis = call.axis("dim", 0, x.rank() + 1)?;
    let y = x.unsqueeze(axis as isize);
    if x.dtype() == DType::Bool {
        // Parts may have fewer axes in front.
        let from_end = x.rank() - axis;
        call.surroundings.masks.changed(x, y, |part| {
            part.rank().checked_sub(from_end).map(|at| part.unsqueeze(at as isize))
        });
    }
    one(y)
}

fn squeeze(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let shape = x.shape();
    let axes = call.axes("dim", shape.len())?;
    let kept = (0..shape.len()).filter(|axis| shape[*axis] != 1 || !axes.contains(axis));
    let kept: Vec<usize> = kept.map(|axis| shape[axis]).collect();
    one(reshaped(x, &kept))
}

/// Wider copies; an extent of -1 stays.
fn expand(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let (extents, shape) = (call.ints("size")?.unwrap_or_default(), x.shape());
    let Some(lead) = extents.len().checked_sub(shape.len()) else {
        return call.lacks("an expansion to fewer axes");
    };
    let own = extents
        .iter()
        .enumerate()
        .map(|(axis, &extent)| match usize::try_from(extent) {
            Ok(extent) => extent,
            Err(_) => axis.checked_sub(lead).map_or(1, |axis| shape[axis]),
        });
    let wanted: Vec<usize> = own.collect();
    one(widened(call, x, wanted))
}

/// Tensors as copies of their common shape.
fn broadcast_tensors(call: &mut Call<'_, '_>) -> Result<Value> {
    let tensors = call.tensors("tensors")?;
    let mut shape = Vec::new();
    for tensor in &tensors {
        match common_shape(&shape, &tensor.shape()) {
            Some(common) => shape = common,
            None => return call.lacks("tensors of these shapes together"),
        }
    }
    let wide: Vec<Tensor> = tensors
        .into_iter()
        .map(|tensor| widened(call, tensor, shape.clone()))
        .collect();
    several(wide)
}

fn widened(call: &mut Call<'_, '_>, x: Tensor, shape: Vec<usize>) -> Tensor {
    let y = x.broadcast_to(&shape);
    if x.dtype() == DType::Bool && y.id() != x.id() {
        call.surroundings.masks.changed(x, y, Some);
    }
    y
}
