//! Pooling over whole images, and the inverse of pooling.

use lessen_base::Result;

use super::pooling::{exponent, power, root};
use super::windows::{bounded, by_axis, explicit_pads};
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::numel;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, moved, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "GlobalMaxPool", global_max_pool),
    ("", "GlobalAveragePool", global_average_pool),
    ("", "GlobalLpPool", global_lp_pool),
    ("", "MaxUnpool", max_unpool),
];

/// The elements of an image `[N, C, ...]`, and the extents of the result.
fn global(call: &HostCall<'_>) -> Result<(usize, Vec<usize>)> {
    let shape = call.tensor(0)?.shape();
    if shape.len() < 2 {
        return call.refused(format!("an array of {shape:?} is no image"));
    }
    let mut result = shape[..2].to_vec();
    result.resize(shape.len(), 1);
    match numel(&shape[2..])? {
        0 => call.refused(format!("an image of {shape:?} has no elements")),
        size => Ok((size, result)),
    }
}

/// `GlobalMaxPool(X)`.
fn global_max_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    fn maxima<T: Number>(x: &[T], size: usize) -> Data
    where
        Data: From<Vec<T>>,
    {
        let greater = |a: T, b: T| if b > a || b.is_nan() { b } else { a };
        let images = x.chunks_exact(size);
        images
            .map(|image| image.iter().copied().fold(T::LEAST, greater))
            .collect::<Vec<T>>()
            .into()
    }
    let (size, shape) = global(call)?;
    let y = each_number!(call.tensor(0)?.data(), v => maxima(v, size), else {
        return call.refused("its input 0 has no numbers");
    });
    one(HostTensor::new(&shape, y)?)
}

fn global_average_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, global_average_pool_of)
}

/// `GlobalAveragePool(X)`.
fn global_average_pool_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    by_image(call, |image: &[R]| {
        let sum: f64 = image.iter().map(|x| x.to_f64()).sum();
        R::of_f64(sum / image.len() as f64)
    })
}

fn global_lp_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, global_lp_pool_of)
}

/// `GlobalLpPool(X)`.
fn global_lp_pool_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let p = exponent(call)?;
    by_image(call, |image: &[R]| {
        let sum = image.iter().fold(R::ZERO, |sum, x| sum + power(*x, p));
        root(sum, p)
    })
}

/// One number of each image.
fn by_image<R: Real>(call: &HostCall<'_>, number: impl Fn(&[R]) -> R) -> Result<Vec<HostValue>> {
    let (size, shape) = global(call)?;
    let x = call.tensor(0)?;
    let y = R::elements(x.data()).chunks_exact(size).map(number).collect();
    match x.element() {
        Some(element) => one(HostTensor::new(&shape, R::store(y, element))?),
        None => call.refused("its input 0 has no floats"),
    }
}

/// `MaxUnpool(X, I, output_shape)`: elements go to their places, which count in the output that the windows ask for;
/// a larger output has more zeros at the end of its axes.
fn max_unpool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, places) = (call.tensor(0)?, call.integers(1)?);
    let shape = x.shape();
    if shape.len() < 3 || call.tensor(1)?.shape() != shape {
        return call.refused(format!(
            "its places of {:?} do not fit an image of {shape:?}",
            call.tensor(1)?.shape()
        ));
    }
    let count = shape.len() - 2;
    let kernel = by_axis(call, "kernel_shape", count, 1, 0)?;
    let strides = by_axis(call, "strides", count, 1, 1)?;
    let pads = explicit_pads(call, count)?;
    let mut inner = shape[..2].to_vec();
    for axis in 0..count {
        let extent = i64::try_from(shape[axis + 2]).ok().filter(|extent| *extent <= 1 << 30);
        let full = extent.map(|extent| (extent - 1) * strides[axis] as i64 + kernel[axis] as i64);
        let padded = full.map(|full| full - pads[axis].0 - pads[axis].1);
        match padded.and_then(|extent| usize::try_from(extent).ok()) {
            Some(extent) => inner.push(extent),
            None => return call.refused("its output would have no elements"),
        }
    }
    let mut outer = inner.clone();
    if call.has(2) {
        let given = call.integers(2)?;
        let given: Option<Vec<usize>> = given.into_iter().map(|n| usize::try_from(n).ok()).collect();
        outer = match given {
            Some(given) if given.len() == inner.len() && given.iter().zip(&inner).all(|(a, b)| a >= b) => given,
            Some(given) => return call.refused(format!("its output_shape {given:?} is less than {inner:?}")),
            None => return call.refused("its output_shape has negative extents"),
        };
    }
    let (size, total) = (bounded(call, &inner)?, bounded(call, &outer)?);
    let mut targets = Vec::with_capacity(places.len());
    for place in places {
        match usize::try_from(place).ok().filter(|place| *place < size) {
            Some(place) => targets.push(widened(place, &inner, &outer)),
            None => return call.refused(format!("the place {place} is not in an output of {inner:?}")),
        }
    }
    let y = moved!(x.data(), v => put(v, &targets, total));
    one(HostTensor::new(&outer, y)?)
}

/// Elements at their places among others that are zero.
fn put<T: Clone + Default>(x: &[T], places: &[usize], total: usize) -> Vec<T> {
    let mut y = vec![T::default(); total];
    for (place, x) in places.iter().zip(x) {
        y[*place] = x.clone();
    }
    y
}

/// A place of an array as the place with the same indices in a larger one.
fn widened(mut place: usize, from: &[usize], to: &[usize]) -> usize {
    let (mut result, mut stride) = (0, 1);
    for (from, to) in from.iter().zip(to).rev() {
        result += place % from * stride;
        place /= from;
        stride *= to;
    }
    result
}
