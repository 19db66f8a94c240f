//! Operators that move elements: shapes, orders of axes, parts.

use lessen_base::Result;
use lessen_graph::{Array, DType, Tensor, Type, concat, numel};

use super::Value;
use super::call::{Call, Operators, one};
use super::layout::{Image, image_of};

/// Operators whose results have elements of their inputs alone.
pub(crate) const OPERATORS: Operators = &[
    ("Concat", joined),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Reshape", reshape),
    ("Slice", slice),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Unsqueeze", unsqueeze),
];

/// Operators that add elements.
pub(crate) const ADDING: Operators = &[("Pad", pad)];

fn joined(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let mut parts = Vec::with_capacity(call.inputs.len());
    for input in 0..call.inputs.len() {
        parts.push(call.tensor(input)?);
    }
    let Some(first) = parts.first() else {
        return call.unknown("a concatenation of nothing");
    };
    let axis = call.axis(call.int("axis", 0), first.rank())?;
    // A part without elements has no place of its own.
    let shown: Vec<Tensor> = parts.iter().copied().filter(|part| part.ty().numel() > 0).collect();
    match shown[..] {
        [] => one(parts[0]),
        [only] => one(only),
        _ => {
            let images: Option<Vec<Image>> = shown.iter().map(|part| image_of(*part)).collect();
            match images {
                Some(images) => {
                    let parts: Vec<Tensor> = images.iter().map(|image| image.tensor).collect();
                    one(images[0].map(|_| concat(&parts, images[0].axis(axis) as isize)))
                }
                None => one(concat(&shown, axis as isize)),
            }
        }
    }
}

fn expand(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let Some(shape) = sizes(&call.integers(1)?) else {
        return call.unknown("a shape with a negative extent");
    };
    match lessen_graph::ops::shape::broadcast::common_shape(&x.shape(), &shape) {
        Some(shape) => one(x.broadcast_to(&shape)),
        None => call.unknown("an expansion to another shape"),
    }
}

/// Extents as sizes.
fn sizes(extents: &[i64]) -> Option<Vec<usize>> {
    extents.iter().map(|&extent| usize::try_from(extent).ok()).collect()
}

fn flatten(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let (axis, shape) = (call.int("axis", 1), x.shape());
    let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
    match usize::try_from(at).ok().filter(|at| *at <= shape.len()) {
        Some(at) => one(x.reshape(&[numel(&shape[..at]), numel(&shape[at..])])),
        None => call.unknown("an axis beyond the value's"),
    }
}

fn pad(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let mut x = call.tensor(0)?;
    let is_constant = matches!(call.text("mode").as_deref(), None | Some("constant"));
    let Some(pads) = call.integers_of("pads", 1)?.filter(|_| is_constant && !call.has(3)) else {
        return call.unknown("padding of this kind");
    };
    let value = if call.has(2) {
        call.known(2).and_then(|array| array.data.first().copied())
    } else {
        Some(call.float("value", 0.0))
    };
    let (Some(value), Some(pads)) = (value, sizes(&pads).filter(|pads| pads.len() == 2 * x.rank())) else {
        return call.unknown("padding that is computed or negative");
    };
    let rank = x.rank();
    for axis in (0..rank).filter(|axis| pads[*axis] + pads[axis + rank] > 0) {
        let (before, after) = (pads[axis], pads[axis + rank]);
        x = match image_of(x) {
            Some(image) => image.map(|x| x.pad(image.axis(axis) as isize, before, after, value)),
            None => x.pad(axis as isize, before, after, value),
        };
    }
    one(x)
}

/// A shape may leave extents as they are (0) and one to follow from the others (-1).
fn reshape(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let extents = if call.has(1) {
        call.integers(1)?
    } else {
        call.ints("shape").unwrap_or_default()
    };
    let keeps_zeros = call.int("allowzero", 0) == 0;
    let from = x.shape();
    let mut shape = Vec::with_capacity(extents.len());
    let mut open = None;
    for (axis, &extent) in extents.iter().enumerate() {
        match extent {
            -1 if open.is_none() => {
                open = Some(axis);
                shape.push(1);
            }
            0 if keeps_zeros => match from.get(axis) {
                Some(&extent) => shape.push(extent),
                None => return call.unknown("a shape that keeps an axis that is not there"),
            },
            extent => match usize::try_from(extent) {
                Ok(extent) => shape.push(extent),
                Err(_) => return call.unknown("a shape with a negative extent"),
            },
        }
    }
    if let Some(axis) = open {
        let others = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        match others.filter(|others| *others > 0) {
            Some(others) => shape[axis] = numel(&from) / others,
            None => return call.unknown("a shape that does not say an extent"),
        }
    }
    one(x.reshape(&shape))
}

/// Ranges of axes. Steps other than 1 take positions one by one.
fn slice(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let mut x = call.tensor(0)?;
    let (Some(starts), Some(ends)) = (call.integers_of("starts", 1)?, call.integers_of("ends", 2)?) else {
        return call.unknown("a slice without its range");
    };
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = call.integers_of("axes", 3)?.unwrap_or(all);
    let steps = if call.has(4) {
        call.integers(4)?
    } else {
        vec![1; starts.len()]
    };
    if [ends.len(), axes.len(), steps.len()]
        .iter()
        .any(|len| *len != starts.len())
    {
        return call.unknown("a slice whose ranges differ in number");
    }
    for i in 0..starts.len() {
        let axis = call.axis(axes[i], x.rank())?;
        let extent = x.shape()[axis] as i64;
        let from_end = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
        if steps[i] > 0 {
            let start = from_end(starts[i]).clamp(0, extent);
            let end = from_end(ends[i]).clamp(start, extent);
            let (start, len) = (start as usize, (end - start) as usize);
            x = match image_of(x) {
                Some(image) => image.map(|x| x.slice(image.axis(axis) as isize, start, len)),
                None => x.slice(axis as isize, start, len),
            };
            if steps[i] > 1 {
                let positions = (0..len).step_by(steps[i] as usize).map(|at| at as f64).collect();
                x = taken(call, x, axis, positions);
            }
        } else if steps[i] < 0 {
            let (mut at, end) = (from_end(starts[i]).min(extent - 1), from_end(ends[i]).max(-1));
            let mut positions = Vec::new();
            while at > end && at >= 0 {
                positions.push(at as f64);
                at = at.saturating_add(steps[i]);
            }
            x = taken(call, x, axis, positions);
        } else {
            return call.unknown("a slice with a step of 0");
        }
    }
    one(x)
}

/// The elements at positions of an axis.
pub(super) fn taken(call: &mut Call<'_>, x: Tensor, axis: usize, positions: Vec<f64>) -> Tensor {
    let ids = Array::new(Type::new(DType::I32, &[positions.len()]), positions);
    x.take(axis as isize, call.constant(ids))
}

/// The order of axes that brings one to the front.
pub(super) fn front(rank: usize, axis: usize) -> Vec<usize> {
    let mut there: Vec<usize> = (0..rank).collect();
    there.remove(axis);
    there.insert(0, axis);
    there
}

fn split(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let axis = call.axis(call.int("axis", 0), x.rank())?;
    let parts = call.node.proto.output.len().max(1);
    let extent = x.shape()[axis];
    let sizes = match call.integers_of("split", 1)? {
        Some(given) => sizes(&given),
        None => {
            let each = extent.div_ceil(parts);
            let part = |i: usize| extent.saturating_sub(i * each).min(each);
            Some((0..parts).map(part).collect())
        }
    };
    match sizes {
        Some(sizes) => {
            let parts = match image_of(x) {
                Some(image) => {
                    let parts = image.tensor.split(image.axis(axis) as isize, &sizes);
                    parts.into_iter().map(|part| image.map(|_| part)).collect()
                }
                None => x.split(axis as isize, &sizes),
            };
            Ok(parts.into_iter().map(Value::Traced).collect())
        }
        None => call.unknown("a part of negative size"),
    }
}

fn squeeze(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let shape = x.shape();
    let axes = match call.integers_of("axes", 1)? {
        Some(axes) => call.axes(&axes, shape.len())?,
        None => (0..shape.len()).filter(|axis| shape[*axis] == 1).collect(),
    };
    let kept: Vec<usize> = (0..shape.len())
        .filter(|axis| !axes.contains(axis))
        .map(|axis| shape[axis])
        .collect();
    one(x.reshape(&kept))
}

fn tile(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let Some(repeats) = sizes(&call.integers(1)?).filter(|repeats| repeats.len() == x.rank()) else {
        return call.unknown("a number of copies for each axis");
    };
    let shape = x.shape();
    let interleave = |f: &dyn Fn(usize) -> [usize; 2]| (0..shape.len()).flat_map(f).collect::<Vec<usize>>();
    let apart = interleave(&|axis| [1, shape[axis]]);
    let wide = interleave(&|axis| [repeats[axis], shape[axis]]);
    let merged: Vec<usize> = (0..shape.len()).map(|axis| repeats[axis] * shape[axis]).collect();
    one(x.reshape(&apart).broadcast_to(&wide).reshape(&merged))
}

fn transpose(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let rank = x.rank() as i64;
    let order = call.ints("perm").unwrap_or_else(|| (0..rank).rev().collect());
    let order = order
        .iter()
        .map(|axis| call.axis(*axis, x.rank()))
        .collect::<Result<Vec<usize>>>()?;
    match (image_of(x), &x.shape()[..]) {
        (Some(image), _) if order == [0, 2, 3, 1] => one(image.tensor),
        (Some(image), &[n, c, w]) if order == [0, 2, 1] => one(image.tensor.reshape(&[n, w, c])),
        _ => one(x.permute(&order)),
    }
}

fn unsqueeze(call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let Some(axes) = call.integers_of("axes", 1)? else {
        return call.unknown("new axes without a place");
    };
    let mut shape = x.shape();
    for axis in call.axes(&axes, shape.len() + axes.len())? {
        if axis > shape.len() {
            return call.unknown("a new axis beyond the value's");
        }
        shape.insert(axis, 1);
    }
    one(x.reshape(&shape))
}
