//! Operators that move elements: orders of axes, parts, copies.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, concat};

use crate::call::{Call, Operators, one};
use crate::images::{along, channels_last_order, image_of};
use crate::value::Value;
use crate::window::{Window, taken};

pub const OPERATORS: Operators = &[
    ("adjoint", matrices_turned),
    ("diagonal", diagonal),
    ("flip", flip),
    ("movedim", |call| {
        let x = call.x()?;
        let (from, to) = (
            call.ints("source")?.unwrap_or_default(),
            call.ints("destination")?.unwrap_or_default(),
        );
        let mut order: Vec<Option<usize>> = vec![None; x.rank()];
        let mut left: Vec<usize> = (0..x.rank()).collect();
        for (from, to) in from.iter().zip(&to) {
            let (from, to) = (call.axis_of(*from, x.rank())?, call.axis_of(*to, x.rank())?);
            order[to] = Some(from);
            left.retain(|axis| *axis != from);
        }
        let mut left = left.into_iter();
        let order: Vec<usize> = order
            .into_iter()
            .map(|own| own.or_else(|| left.next()).unwrap_or(0))
            .collect();
        one(permuted(x, &order))
    }),
    ("matrix_H", matrices_turned),
    ("mH", matrices_turned),
    ("mT", matrices_turned),
    ("narrow", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let (start, length) = (call.int("start", 0)?, call.size("length", 1)?);
        let start = if start < 0 {
            start + x.shape()[axis] as i64
        } else {
            start
        };
        one(window(call, x, axis, (start as usize, length), false))
    }),
    ("numpy_T", |call| {
        let x = call.x()?;
        let order: Vec<usize> = (0..x.rank()).rev().collect();
        one(permuted(x, &order))
    }),
    ("permute", |call| {
        let x = call.x()?;
        let order = call.ints("dims")?.unwrap_or_default();
        let order = order
            .iter()
            .map(|axis| call.axis_of(*axis, x.rank()))
            .collect::<Result<Vec<usize>>>()?;
        one(permuted(x, &order))
    }),
    ("pixel_shuffle", pixel_shuffle),
    ("pixel_unshuffle", pixel_unshuffle),
    ("repeat", |call| {
        let x = call.x()?;
        let repeats = call.sizes("repeats")?;
        one(tiled(x, &repeats))
    }),
    ("repeat_interleave", repeat_interleave),
    ("roll", roll),
    ("rot90", |call| {
        call.lacks("rotations of images by rot90; use transpose and flip")
    }),
    ("select", |call| {
        let x = call.x()?;
        let axis = call.axis("dim", 0, x.rank())?;
        let at = call.int("index", 0)?;
        let at = if at < 0 { at + x.shape()[axis] as i64 } else { at };
        one(window(call, x, axis, (at as usize, 1), true))
    }),
    ("slice", slice),
    ("swapaxes", transpose),
    ("swapdims", transpose),
    ("t", |call| {
        let x = call.x()?;
        one(if x.rank() < 2 { x } else { x.transpose(0, 1) })
    }),
    ("tile", |call| {
        let x = call.x()?;
        let repeats = call.sizes("dims")?;
        let more = x.rank().saturating_sub(repeats.len());
        one(tiled(x, &[vec![1; more], repeats].concat()))
    }),
    ("transpose", transpose),
    ("tril", |call| triangle(call, true)),
    ("triu", |call| triangle(call, false)),
    ("unfold", unfold),
];

/// Another order of axes; that of an image is left out where it meets its inverse.
fn permuted(x: Tensor, order: &[usize]) -> Tensor {
    match image_of(x) {
        Some(image) if order == channels_last_order(x.rank()) => image,
        _ if order.iter().enumerate().all(|(axis, from)| axis == *from) => x,
        _ => x.permute(order),
    }
}

fn transpose(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let names = if call.has("dim0") {
        ["dim0", "dim1"]
    } else {
        ["axis0", "axis1"]
    };
    let (a, b) = (call.axis(names[0], 0, x.rank())?, call.axis(names[1], 1, x.rank())?);
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if !order.is_empty() {
        order.swap(a, b);
    }
    one(permuted(x, &order))
}

fn matrices_turned(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    one(x.transpose(-1, -2))
}

/// A range of an axis, or the position of one, which the tracer remembers.
fn window(
    call: &mut Call<'_, '_>,
    x: Tensor,
    axis: usize,
    (start, length): (usize, usize),
    is_selected: bool,
) -> Tensor {
    let mut shape = x.shape();
    call.surroundings.window = Some(Window {
        axis,
        start,
        length,
        step: 1,
        is_selected,
    });
    let part = if length == shape[axis] {
        x
    } else {
        along(x, axis, |x, axis| x.slice(axis, start, length))
    };
    if !is_selected {
        return part;
    }
    shape.remove(axis);
    part.reshape(&shape)
}

/// A range of an axis, in steps.
fn slice(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let axis = call.axis("dim", 0, x.rank())?;
    let extent = x.shape()[axis] as i64;
    let own = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
    let start = own(call.int("start", 0)?).clamp(0, extent);
    let end = own(call.int("end", i64::MAX >> 10)?).clamp(start, extent);
    let step = call.size("step", 1)?.max(1);
    let (start, length) = (start as usize, (end - start) as usize);
    if step == 1 {
        return one(window(call, x, axis, (start, length), false));
    }
    let whole = along(x, axis, |x, axis| x.slice(axis, start, length));
    call.surroundings.window = Some(Window {
        axis,
        start,
        length: length.div_ceil(step),
        step,
        is_selected: false,
    });
    if length.is_multiple_of(step) {
        return one(along(whole, axis, |x, axis| {
            let (mut shape, at) = (x.shape(), axis as usize);
            shape.splice(at..=at, [length / step, step]);
            let first = x.reshape(&shape).slice(axis + 1, 0, 1);
            shape.remove(at + 1);
            first.reshape(&shape)
        }));
    }
    let positions: Vec<usize> = (0..length).step_by(step).collect();
    one(along(whole, axis, |x, axis| taken(x, axis as usize, &positions)))
}

/// Copies side by side along each axis; there may be more axes than those of the tensor.
fn tiled(x: Tensor, repeats: &[usize]) -> Tensor {
    let mut shape = vec![1; repeats.len().saturating_sub(x.rank())];
    shape.extend(x.shape());
    let interleave = |f: &dyn Fn(usize) -> [usize; 2]| (0..shape.len()).flat_map(f).collect::<Vec<usize>>();
    let apart = interleave(&|axis| [1, shape[axis]]);
    let wide = interleave(&|axis| [repeats[axis], shape[axis]]);
    let merged: Vec<usize> = (0..shape.len()).map(|axis| repeats[axis] * shape[axis]).collect();
    x.reshape(&apart).broadcast_to(&wide).reshape(&merged)
}

/// Each element several times, one after another.
fn repeat_interleave(call: &mut Call<'_, '_>) -> Result<Value> {
    let mut x = call.x()?;
    let Some(count) = call.value("repeats").number() else {
        return call.lacks("copies of elements in numbers that depend on the batch");
    };
    let count = count as usize;
    let axis = if call.has("dim") {
        call.axis("dim", 0, x.rank())?
    } else {
        x = x.reshape(&[x.ty().numel()]);
        0
    };
    let mut shape = x.shape();
    shape.insert(axis + 1, count);
    let wide = x.unsqueeze(axis as isize + 1).broadcast_to(&shape);
    shape.remove(axis + 1);
    shape[axis] *= count;
    one(wide.reshape(&shape))
}

fn roll(call: &mut Call<'_, '_>) -> Result<Value> {
    let mut x = call.x()?;
    let shape = x.shape();
    let shifts = call.ints("shifts")?.unwrap_or_default();
    let axes = call.ints("dims")?.filter(|axes| !axes.is_empty());
    if axes.is_none() {
        x = x.reshape(&[x.ty().numel()]);
    }
    for (shift, axis) in shifts.iter().zip(axes.unwrap_or_else(|| vec![0])) {
        let axis = call.axis_of(axis, x.rank())?;
        let extent = x.shape()[axis];
        let shift = shift.rem_euclid(extent.max(1) as i64) as usize;
        if shift > 0 {
            x = along(x, axis, |x, axis| {
                let parts = [x.slice(axis, extent - shift, shift), x.slice(axis, 0, extent - shift)];
                concat(&parts, axis)
            });
        }
    }
    one(x.reshape(&shape))
}

fn flip(call: &mut Call<'_, '_>) -> Result<Value> {
    let mut x = call.x()?;
    for axis in call.ints("dims")?.unwrap_or_default() {
        let axis = call.axis_of(axis, x.rank())?;
        let positions: Vec<usize> = (0..x.shape()[axis]).rev().collect();
        x = taken(x, axis, &positions);
    }
    one(x)
}

/// The part of the last two axes below or above a diagonal.
fn triangle(call: &mut Call<'_, '_>, is_lower: bool) -> Result<Value> {
    let x = call.x()?;
    let diagonal = call.int("diagonal", 0)?;
    let shape = x.shape();
    let [row, column] = [0, 1].map(|axis| call.trace().iota(DType::I32, &shape[shape.len() - 2..], axis));
    let edge = row + diagonal as i32;
    let kept = if is_lower { column.le(edge) } else { column.ge(edge) };
    if x.dtype() == DType::Bool {
        let y = x.and(kept);
        call.surroundings.masks.joined(x, kept, y);
        return one(y);
    }
    one(kept.select(x, x.scalar_like(0.0)))
}

/// The diagonal of the last two axes of a square.
fn diagonal(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let rank = x.rank();
    let axes = [call.axis("dim1", 0, rank)?, call.axis("dim2", 1, rank)?];
    if call.int("offset", 0)? != 0 {
        return call.lacks("a diagonal beside the main one");
    }
    let mut order: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    order.extend(axes);
    let x = x.permute(&order);
    let shape = x.shape();
    let (rows, columns) = (shape[rank - 2], shape[rank - 1]);
    let flat = x.reshape(&[&shape[..rank - 2], &[rows * columns]].concat());
    let positions: Vec<usize> = (0..rows.min(columns)).map(|at| at * (columns + 1)).collect();
    one(taken(flat, rank - 2, &positions))
}

fn pixel_shuffle(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, b) = (call.x()?, call.size("upscale_factor", 1)?);
    let [n, c, h, w] = x.shape()[..] else {
        return call.lacks("a pixel shuffle of other than images");
    };
    let d = c / (b * b);
    let y = x.reshape(&[n, d, b, b, h, w]).permute(&[0, 1, 4, 2, 5, 3]);
    one(y.reshape(&[n, d, h * b, w * b]))
}

fn pixel_unshuffle(call: &mut Call<'_, '_>) -> Result<Value> {
    let (x, b) = (call.x()?, call.size("downscale_factor", 1)?);
    let [n, c, h, w] = x.shape()[..] else {
        return call.lacks("a pixel shuffle of other than images");
    };
    let y = x.reshape(&[n, c, h / b, b, w / b, b]).permute(&[0, 1, 3, 5, 2, 4]);
    one(y.reshape(&[n, c * b * b, h / b, w / b]))
}

/// Windows along an axis, whose elements are a last axis.
fn unfold(call: &mut Call<'_, '_>) -> Result<Value> {
    let x = call.x()?;
    let axis = call.axis("dimension", 0, x.rank())?;
    let (size, step) = (call.size("size", 1)?, call.size("step", 1)?.max(1));
    let windows = (x.shape()[axis].saturating_sub(size)) / step + 1;
    let positions: Vec<usize> = (0..windows)
        .flat_map(|window| (0..size).map(move |tap| window * step + tap))
        .collect();
    let mut shape = x.shape();
    shape.splice(axis..=axis, [windows, size]);
    let apart = taken(x, axis, &positions).reshape(&shape);
    let order = (0..shape.len()).filter(|own| *own != axis + 1).chain([axis + 1]);
    one(apart.permute(&order.collect::<Vec<usize>>()))
}
