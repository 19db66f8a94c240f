//! Sums, means, extrema and spreads over axes; running sums.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, concat};

use crate::call::{Call, Operators, one, several};
use crate::images::{image_of, own_axis};
use crate::value::Value;

pub const OPERATORS: Operators = &[
    ("amax", |call| reduced(call, |x, axes| x.max_axes(axes))),
    ("amin", |call| reduced(call, |x, axes| x.min_axes(axes))),
    ("argmax", |call| position(call, true)),
    ("argmin", |call| position(call, false)),
    ("count_nonzero", |call| {
        let x = call.x()?;
        let axes = call.axes("dim", x.rank())?;
        one(x.cast(DType::Bool).cast(DType::F32).sum_axes(&axes).cast(DType::I32))
    }),
    ("cumprod", |call| running(call, Tensor::cumprod)),
    ("cumsum", |call| running(call, Tensor::cumsum)),
    ("diff", diff),
    ("frobenius_norm", norm),
    ("linalg_matrix_norm", |call| match call.text("ord").as_deref() {
        Some("fro") => reduced(call, |x, axes| root((x * x).sum_axes(axes))),
        _ => call.lacks("matrix norms other than Frobenius'"),
    }),
    ("linalg_norm", norm),
    ("linalg_vector_norm", norm),
    ("logsumexp", |call| {
        reduced(call, |x, axes| {
            let mut shape = x.shape();
            axes.iter().for_each(|axis| shape[*axis] = 1);
            let most = x.max_axes(axes).stop_gradient();
            (x - most.reshape(&shape)).exp().sum_axes(axes).log() + most
        })
    }),
    ("max", |call| extremum(call, true)),
    ("mean", |call| reduced(call, |x, axes| x.mean_axes(axes))),
    ("min", |call| extremum(call, false)),
    ("norm", norm),
    ("prod", prod),
    ("std", |call| spread(call, Tensor::sqrt)),
    ("std_mean", |call| spread_and_mean(call, Tensor::sqrt)),
    ("sum", |call| {
        let is_whole = !call.x()?.dtype().is_float() && !call.has("dtype");
        let sum = reduced(call, |x, axes| x.sum_axes(axes))?;
        match sum {
            Value::Tensor(sum) if is_whole => one(sum.cast(DType::I32)),
            sum => Ok(sum),
        }
    }),
    ("var", |call| spread(call, |x| x)),
    ("var_mean", |call| spread_and_mean(call, |x| x)),
];

/// A reduction over the axes `dim` by a function that takes them away.
pub fn reduced(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, &[usize]) -> Tensor) -> Result<Value> {
    let x = call.x()?;
    let axes = call.axes("dim", x.rank())?;
    let wide = if x.dtype().is_float() { x } else { x.cast(DType::F64) };
    let dtype = call
        .dtype("dtype")
        .unwrap_or(if x.dtype().is_float() { x.dtype() } else { DType::F32 });
    // Without the channels, or with them alone, the axes that are left have one order.
    let left = (1..x.rank()).filter(|axis| !axes.contains(axis)).count();
    let keeps_order = left <= 1 || axes.contains(&1);
    let y = match image_of(wide).filter(|_| keeps_order) {
        Some(image) => {
            let mut own: Vec<usize> = axes.iter().map(|axis| own_axis(*axis, x.rank())).collect();
            own.sort_unstable();
            f(image, &own)
        }
        None if axes.is_empty() => f(wide.reshape(&[1]), &[0]),
        None => f(wide, &axes),
    };
    let mut shape = x.shape();
    axes.iter().for_each(|axis| shape[*axis] = 1);
    let y = y.cast(dtype);
    one(if call.truth("keepdim") { y.reshape(&shape) } else { y })
}

/// The position of the largest or smallest element, of an axis or of all elements.
fn position(call: &mut Call<'_, '_>, is_most: bool) -> Result<Value> {
    let x = call.x()?;
    let x = if x.dtype() == DType::Bool {
        x.cast(DType::I32)
    } else {
        x
    };
    let find = |x: Tensor, axis: usize| {
        if is_most {
            x.argmax(axis as isize)
        } else {
            x.argmin(axis as isize)
        }
    };
    if !call.has("dim") {
        return one(find(x.reshape(&[x.ty().numel()]), 0));
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let y = find(x, axis);
    one(if call.truth("keepdim") {
        y.unsqueeze(axis as isize)
    } else {
        y
    })
}

/// The larger of two, the largest of all, or the largest along an axis with its position.
fn extremum(call: &mut Call<'_, '_>, is_most: bool) -> Result<Value> {
    if call.has("other") {
        let take = if is_most { Tensor::maximum } else { Tensor::minimum };
        return super::elementwise::binary(call, take);
    }
    let x = call.x()?;
    if !call.has("dim") {
        let y = reduced(
            call,
            |x, axes| if is_most { x.max_axes(axes) } else { x.min_axes(axes) },
        )?;
        let Value::Tensor(y) = y else { return Ok(y) };
        return one(y.cast(x.dtype()));
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let x = if x.dtype() == DType::Bool {
        x.cast(DType::I32)
    } else {
        x
    };
    let found = if is_most {
        x.argmax(axis as isize)
    } else {
        x.argmin(axis as isize)
    };
    let positions = found.unsqueeze(axis as isize);
    let values = x.take_along(axis as isize, positions);
    if call.truth("keepdim") {
        return several([values, positions]);
    }
    several([values.reshape(&found.shape()), found])
}

/// A running sum or product along an axis.
fn running(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor, isize) -> Tensor) -> Result<Value> {
    let x = call.x()?;
    let x = if x.dtype() == DType::Bool {
        x.cast(DType::I32)
    } else {
        x
    };
    let x = call.dtype("dtype").map_or(x, |dtype| x.cast(dtype));
    if x.rank() == 0 {
        return one(x);
    }
    let axis = call.axis("dim", 0, x.rank())?;
    one(f(x, axis as isize))
}

/// Differences of neighbours along an axis, with more elements before and after where they are given.
fn diff(call: &mut Call<'_, '_>) -> Result<Value> {
    let mut x = call.x()?;
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let (before, after) = (call.optional("prepend")?, call.optional("append")?);
    let parts: Vec<Tensor> = before
        .into_iter()
        .chain([x])
        .chain(after)
        .map(|part| part.cast(x.dtype()))
        .collect();
    if parts.len() > 1 {
        x = concat(&parts, axis);
    }
    for _ in 0..call.size("n", 1)? {
        let count = x.dim(axis).saturating_sub(1);
        let (a, b) = (x.slice(axis, 0, count), x.slice(axis, 1, count));
        x = if x.dtype() == DType::Bool {
            b.cast(DType::I32).ne(a.cast(DType::I32))
        } else {
            b - a
        };
    }
    one(x)
}

/// A root whose derivative at 0 is 0, as that of PyTorch's norms.
fn root(x: Tensor) -> Tensor {
    let is_zero = x.eq(x.scalar_like(0.0));
    is_zero.select(x.scalar_like(0.0), is_zero.select(x.scalar_like(1.0), x).sqrt())
}

/// The norm of vectors along axes.
fn norm(call: &mut Call<'_, '_>) -> Result<Value> {
    let order = call.float(if call.has("ord") { "ord" } else { "p" }, 2.0)?;
    reduced(call, |x, axes| match order {
        2.0 => root((x * x).sum_axes(axes)),
        1.0 => x.abs().sum_axes(axes),
        f64::INFINITY => x.abs().max_axes(axes),
        order => x
            .abs()
            .pow(x.scalar_like(order))
            .sum_axes(axes)
            .pow(x.scalar_like(1.0 / order)),
    })
}

/// Products along one axis.
fn prod(call: &mut Call<'_, '_>) -> Result<Value> {
    reduced(call, |x, axes| match axes {
        [axis] => {
            let (axis, last) = (*axis as isize, x.dim(*axis as isize).saturating_sub(1));
            let mut shape = x.shape();
            shape.remove(axis as usize);
            x.cumprod(axis).slice(axis, last, 1).reshape(&shape)
        }
        _ => {
            let count = x.ty().numel();
            x.reshape(&[count])
                .cumprod(0)
                .slice(0, count.saturating_sub(1), 1)
                .reshape(&[])
        }
    })
}

/// The divisor of a variance is the number of elements less `correction`.
fn variance(x: Tensor, axes: &[usize], correction: f64) -> Tensor {
    let mut shape = x.shape();
    let count: usize = axes.iter().map(|axis| shape[*axis]).product();
    axes.iter().for_each(|axis| shape[*axis] = 1);
    let centred = x - x.mean_axes(axes).reshape(&shape);
    (centred * centred).sum_axes(axes) / (count as f64 - correction).max(0.0)
}

fn correction(call: &mut Call<'_, '_>) -> Result<f64> {
    match call.value("unbiased") {
        Value::Bool(unbiased) => Ok(f64::from(u8::from(unbiased))),
        _ => call.float("correction", 1.0),
    }
}

fn spread(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor) -> Tensor) -> Result<Value> {
    let correction = correction(call)?;
    reduced(call, |x, axes| f(variance(x, axes, correction)))
}

fn spread_and_mean(call: &mut Call<'_, '_>, f: impl FnOnce(Tensor) -> Tensor) -> Result<Value> {
    let spread = spread(call, f)?;
    let mean = reduced(call, |x, axes| x.mean_axes(axes))?;
    Ok(Value::List(vec![spread, mean]))
}
