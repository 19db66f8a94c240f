//! Maxima, averages and norms of windows. A window is reduced axis by axis.

use lessen_base::Result;

use super::windows::{Windows, bounded, by_axis};
use crate::operators::real::{Real, in_real};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "MaxPool", max_pool),
    ("", "AveragePool", average_pool),
    ("", "LpPool", lp_pool),
];

/// The windows of a node for an image `[N, C, ...]`, and the extents of its result.
fn pooled(call: &HostCall<'_>, shape: &[usize]) -> Result<(Windows, Vec<usize>)> {
    if shape.len() < 3 {
        return call.refused(format!("an array of {shape:?} is no image"));
    }
    let count = shape.len() - 2;
    if call.ints("kernel_shape").is_none_or(|kernel| kernel.is_empty()) {
        return call.refused("it has no kernel_shape");
    }
    let kernel = by_axis(call, "kernel_shape", count, 1, 1)?;
    let windows = Windows::of(call, &shape[2..], &kernel, true)?;
    let mut result = shape[..2].to_vec();
    result.extend(&windows.positions);
    bounded(call, &result)?;
    // The extents between two axes of `fold_all`.
    let mut partly = shape.to_vec();
    for axis in (2..shape.len()).rev() {
        partly[axis] = result[axis];
        bounded(call, &partly)?;
    }
    Ok((windows, result))
}

/// Combines the elements of each window along an axis: the first one is copied, and others are combined with it; where
/// there is none the result is `none`.
fn fold<T: Copy>(
    windows: &Windows,
    axis: usize,
    x: &[T],
    inner: usize,
    none: T,
    combine: impl Fn(&mut T, T),
) -> Vec<T> {
    let (extent, positions) = (windows.image[axis], windows.positions[axis]);
    let ranges: Vec<(usize, usize)> = (0..positions)
        .map(|position| {
            let range = windows.within(axis, position);
            let first = windows.place(axis, position, range.start);
            (usize::try_from(first).unwrap_or(0), range.len())
        })
        .collect();
    let step = windows.dilations[axis];
    let outer = x.len() / (extent * inner).max(1);
    let mut y = vec![none; outer * positions * inner];
    for part in 0..outer {
        let x = &x[part * extent * inner..][..extent * inner];
        let y = &mut y[part * positions * inner..][..positions * inner];
        for (y, (first, count)) in y.chunks_exact_mut(inner.max(1)).zip(&ranges) {
            for tap in 0..*count {
                let line = &x[(first + tap * step) * inner..][..inner];
                if tap == 0 {
                    y.copy_from_slice(line);
                } else {
                    y.iter_mut().zip(line).for_each(|(y, x)| combine(y, *x));
                }
            }
        }
    }
    y
}

/// Combines the elements of each window along all axes, the last axis first, so that of equal elements the one with the
/// least index comes first.
fn fold_all<T: Copy>(windows: &Windows, mut x: Vec<T>, none: T, combine: impl Fn(&mut T, T)) -> Vec<T> {
    let mut inner = 1;
    for axis in (0..windows.image.len()).rev() {
        x = fold(windows, axis, &x, inner, none, &combine);
        inner *= windows.positions[axis];
    }
    x
}

/// `MaxPool(X)`; its second output are places in the input, counted over all axes.
fn max_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let (windows, shape) = pooled(call, x.shape())?;
    if !call.wants(1) {
        let y: Data = each_number!(x.data(), v => maxima(&windows, v).into(), else {
            return call.refused("its input 0 has no numbers");
        });
        return one(HostTensor::new(&shape, y)?);
    }
    let mut places = each_number!(x.data(), v => places_of_maxima(&windows, v), else {
        return call.refused("its input 0 has no numbers");
    });
    let least = each_number!(x.data(), v => least_of(v).into(), else Data::I64(Vec::new()));
    let mut found = x.data().clone();
    found.extend(&least);
    // A window without elements has the least number, which is the last one here.
    let y = found.at(places.iter().map(|place| usize::try_from(*place).unwrap_or(x.len())));
    match call.int("storage_order", 0) {
        0 => {}
        1 => {
            let size = windows.image_len()?.max(1);
            places
                .iter_mut()
                .for_each(|place| *place = column_major(*place, &windows.image, size));
        }
        other => return call.refused(format!("its storage_order is {other}")),
    }
    Ok(vec![
        HostTensor::new(&shape, y)?.into(),
        HostTensor::new(&shape, places)?.into(),
    ])
}

fn is_better<T: Number>(best: T, other: T) -> bool {
    other > best || (other.is_nan() && !best.is_nan())
}

fn maxima<T: Number>(windows: &Windows, x: &[T]) -> Vec<T> {
    fold_all(windows, x.to_vec(), T::LEAST, |best, other| {
        if is_better(*best, other) {
            *best = other;
        }
    })
}

/// The places of the maxima; -1 where a window has no elements.
fn places_of_maxima<T: Number>(windows: &Windows, x: &[T]) -> Vec<i64> {
    fold_all(windows, (0..x.len() as i64).collect(), -1, |best, other| {
        if *best < 0 || (other >= 0 && is_better(x[*best as usize], x[other as usize])) {
            *best = other;
        }
    })
}

fn least_of<T: Number>(_like: &[T]) -> Vec<T> {
    vec![T::LEAST]
}

/// A place where the first spatial axis is the quickest instead of the last.
fn column_major(at: i64, image: &[usize], size: usize) -> i64 {
    let Ok(at) = usize::try_from(at) else {
        return at;
    };
    let mut rest = at % size;
    let mut strides = image.iter().scan(1, |size, extent| {
        let stride = *size;
        *size *= extent;
        Some(stride)
    });
    let strides: Vec<usize> = strides.by_ref().collect();
    let mut place = at - rest;
    for (extent, stride) in image.iter().zip(strides).rev() {
        place += rest % extent * stride;
        rest /= extent;
    }
    place as i64
}

fn average_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, average_pool_of)
}

/// `AveragePool(X)`.
fn average_pool_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let (shape, y) = averages(call, x.shape(), R::elements(x.data()).into_owned())?;
    match x.element() {
        Some(element) => one(HostTensor::new(&shape, R::store(y, element))?),
        None => call.refused("its input 0 has no floats"),
    }
}

/// The averages of windows: of the elements in the image, or with `count_include_pad` of the padding too.
pub(super) fn averages<R: Real>(call: &HostCall<'_>, shape: &[usize], x: Vec<R>) -> Result<(Vec<usize>, Vec<R>)> {
    let (windows, result) = pooled(call, shape)?;
    let mut y = fold_all(&windows, x, R::ZERO, |sum, x| *sum += x);
    let with_pads = call.int("count_include_pad", 0) != 0;
    let mut counts = vec![1.0];
    for (axis, positions) in windows.positions.iter().enumerate() {
        let along = (0..*positions).map(|position| counted(&windows, axis, position, with_pads) as f64);
        let along: Vec<f64> = along.collect();
        counts = counts
            .iter()
            .flat_map(|before| along.iter().map(move |count| before * count))
            .collect();
    }
    for line in y.chunks_mut(counts.len().max(1)) {
        for (y, count) in line.iter_mut().zip(&counts) {
            *y = *y / R::of_f64(*count);
        }
    }
    Ok((result, y))
}

/// How many elements of a window count along an axis.
fn counted(windows: &Windows, axis: usize, position: usize, with_pads: bool) -> usize {
    if !with_pads {
        return windows.within(axis, position).len();
    }
    let end = windows.image[axis] as i64 + windows.pads[axis].1;
    let start = windows.place(axis, position, 0);
    let dilation = windows.dilations[axis] as i64;
    let room = (end - start + dilation - 1).div_euclid(dilation);
    room.clamp(0, windows.kernel[axis] as i64) as usize
}

fn lp_pool(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    in_real!(call, 0, lp_pool_of)
}

/// `LpPool(X)`: the root of the sum of powers.
fn lp_pool_of<R: Real>(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let (windows, shape) = pooled(call, x.shape())?;
    let p = exponent(call)?;
    let powers = R::elements(x.data()).iter().map(|x| power(*x, p)).collect();
    let mut y = fold_all(&windows, powers, R::ZERO, |sum, x| *sum += x);
    y.iter_mut().for_each(|y| *y = root(*y, p));
    match x.element() {
        Some(element) => one(HostTensor::new(&shape, R::store(y, element))?),
        None => call.refused("its input 0 has no floats"),
    }
}

/// The attribute `p`, a float in the first version.
pub(super) fn exponent(call: &HostCall<'_>) -> Result<f64> {
    let p = match call.opset {
        ..2 => call.float("p", 2.0),
        _ => call.int("p", 2) as f64,
    };
    if p > 0.0 {
        Ok(p)
    } else {
        call.refused(format!("its p is {p}"))
    }
}

/// `|x|^p`.
pub(super) fn power<R: Real>(x: R, p: f64) -> R {
    if p == 1.0 {
        x.abs()
    } else if p == 2.0 {
        x * x
    } else {
        x.abs().powf(R::of_f64(p))
    }
}

/// `x^(1/p)`.
pub(super) fn root<R: Real>(x: R, p: f64) -> R {
    if p == 1.0 {
        x
    } else if p == 2.0 {
        x.sqrt()
    } else {
        x.powf(R::of_f64(1.0 / p))
    }
}
