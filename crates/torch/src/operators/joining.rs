//! Tensors side by side, and parts of one.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, concat};

use crate::call::{Call, Operators, one, several};
use crate::images::{channels_first, image_of, own_axis};
use crate::value::{Value, promoted};

pub const OPERATORS: Operators = &[
    ("cat", cat),
    ("chunk", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let (chunks, extent) = (call.size("chunks", 1)?.max(1), x.shape()[axis]);
        let each = extent.div_ceil(chunks).max(1);
        several(parts(x, axis, &equal(extent, each)))
    }),
    ("concat", cat),
    ("concatenate", cat),
    ("hstack", |call| {
        let tensors = alike(call.tensors("tensors")?);
        let axis = isize::from(tensors.first().is_some_and(|tensor| tensor.rank() > 1));
        one(concat(&tensors, axis))
    }),
    ("meshgrid", meshgrid),
    ("split", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let each = call.size("split_size", 1)?.max(1);
        several(parts(x, axis, &equal(x.shape()[axis], each)))
    }),
    ("split_with_sizes", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let sizes = call.sizes("split_sizes")?;
        several(parts(x, axis, &sizes))
    }),
    ("stack", |call| {
        let tensors = alike(call.tensors("tensors")?);
        let rank = tensors.first().map_or(0, |tensor| tensor.rank());
        let axis = call.axis("dim", 0, rank + 1)?;
        one(lessen_graph::stack(&tensors, axis as isize))
    }),
    ("tensor_split", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let (count, extent) = (call.size("sections", 1)?.max(1), x.shape()[axis]);
        let sizes = (0..count).map(|i| extent / count + usize::from(i < extent % count));
        several(parts(x, axis, &sizes.collect::<Vec<usize>>()))
    }),
    ("vstack", |call| {
        let rows = |x: Tensor| {
            if x.rank() < 2 {
                x.reshape(&[1, x.ty().numel()])
            } else {
                x
            }
        };
        let tensors: Vec<Tensor> = alike(call.tensors("tensors")?).into_iter().map(rows).collect();
        one(concat(&tensors, 0))
    }),
    ("unbind", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let mut shape = x.shape();
        let count = shape.remove(axis);
        let parts = parts(x, axis, &vec![1; count]);
        several(parts.into_iter().map(|part| part.reshape(&shape)))
    }),
];

/// Sizes of parts of `each` elements of which the last may be smaller.
fn equal(extent: usize, each: usize) -> Vec<usize> {
    (0..extent.div_ceil(each))
        .map(|i| each.min(extent - i * each))
        .collect()
}

fn parts(x: Tensor, axis: usize, sizes: &[usize]) -> Vec<Tensor> {
    match image_of(x) {
        Some(image) => {
            let parts = image.split(own_axis(axis, x.rank()) as isize, sizes);
            parts.into_iter().map(channels_first).collect()
        }
        None => x.split(axis as isize, sizes),
    }
}

/// Tensors in their common dtype.
fn alike(tensors: Vec<Tensor>) -> Vec<Tensor> {
    let dtype = tensors
        .iter()
        .copied()
        .reduce(|a, b| if promoted(a, b) == a.dtype() { a } else { b });
    let dtype = dtype.map_or(DType::F32, |tensor| tensor.dtype());
    tensors.into_iter().map(|tensor| tensor.cast(dtype)).collect()
}

fn cat(call: &mut Call<'_, '_>) -> Result<Value> {
    let all = alike(call.tensors("tensors")?);
    let shown: Vec<Tensor> = all.iter().copied().filter(|part| part.ty().numel() > 0).collect();
    let rank = shown.first().map_or(1, |part| part.rank());
    let axis = call.axis("dim", 0, rank)?;
    let images: Option<Vec<Tensor>> = shown.iter().map(|part| image_of(*part)).collect();
    match (&shown[..], images) {
        ([], _) => all
            .first()
            .map_or_else(|| call.lacks("a concatenation of nothing"), |first| one(*first)),
        ([only], _) => one(*only),
        (_, Some(images)) => one(channels_first(concat(&images, own_axis(axis, rank) as isize))),
        _ => one(concat(&shown, axis as isize)),
    }
}

fn meshgrid(call: &mut Call<'_, '_>) -> Result<Value> {
    let all = call.tensors("tensors")?;
    let swaps = call.text("indexing").as_deref() == Some("xy") && all.len() > 1;
    let place = |i: usize| if swaps && i < 2 { 1 - i } else { i };
    let mut shape = vec![1; all.len()];
    all.iter()
        .enumerate()
        .for_each(|(i, part)| shape[place(i)] = part.ty().numel());
    several(all.iter().enumerate().map(|(i, part)| {
        let mut own = vec![1; all.len()];
        own[place(i)] = part.ty().numel();
        part.reshape(&own).broadcast_to(&shape)
    }))
}
