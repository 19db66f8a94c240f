//! Resizing of images as sums of elements by their positions.

use lessen_base::Result;
use lessen_graph::{Array, DType, Tensor, Type};

use super::Value;
use super::call::{Call, Operators, one};
use super::layout::{Image, image_of};
use super::movement::taken;
use crate::host::{HostCall, NoBodies, Resizing, Taps};

pub(crate) const OPERATORS: Operators = &[("Resize", resize), ("Upsample", resize)];

/// The most elements that an element of the result is a sum of, along an axis.
const MOST_TAPS: usize = 8;

fn resize(call: &mut Call<'_>) -> Result<Vec<Value>> {
    // Extents of channels are in sizes, which a converter that shortens channels would have to change.
    if call.fixed.is_none() {
        return call.unknown("resizing in a file that is not run");
    }
    let x = call.tensor(0)?;
    let mut inputs = vec![None];
    for input in 1..call.inputs.len() {
        let given = call.has(input).then(|| call.host(input)).transpose()?;
        inputs.push(given);
    }
    let host = HostCall {
        node: &call.node.proto,
        opset: call.opset,
        inputs,
        bodies: &NoBodies,
    };
    let Some(taps) = Resizing::of(&host, &x.shape())?.taps() else {
        return call.unknown("a value for elements outside of the input");
    };
    if taps
        .iter()
        .flat_map(|(_, taps)| taps)
        .any(|taps| taps.len() > MOST_TAPS)
    {
        return call.unknown("a sum of so many elements");
    }
    let Some(image) = image_of(x) else {
        return one(taps.iter().fold(x, |x, (axis, taps)| along(call, x, *axis, taps)));
    };
    if let Some(rows) = nearest_rows(image, &taps) {
        let [n, h, w, c] = extents(image, &taps);
        let shape = image.tensor.shape();
        let table = image.tensor.reshape(&[shape[..3].iter().product(), c]);
        let ids = call.constant(Array::new(Type::new(DType::I32, &[rows.len()]), rows));
        return one(image.map(|_| table.gather(ids).reshape(&[n, h, w, c])));
    }
    let resized = taps
        .iter()
        .fold(image.tensor, |x, (axis, taps)| along(call, x, image.axis(*axis), taps));
    one(image.map(|_| resized))
}

/// A value whose elements along an axis are sums of those of `x`.
fn along(call: &mut Call<'_>, x: Tensor, axis: usize, taps: &[Taps]) -> Tensor {
    let count = taps.iter().map(Vec::len).max().unwrap_or(0);
    let mut shape = vec![1; x.rank()];
    shape[axis] = taps.len();
    let terms = (0..count).map(|number| {
        let of = |taps: &Taps| taps.get(number).copied().unwrap_or((0, 0.0));
        let positions = taps.iter().map(|taps| of(taps).0 as f64).collect();
        let term = taken(call, x, axis, positions);
        let factors: Vec<f64> = taps.iter().map(|taps| of(taps).1).collect();
        if factors.iter().all(|factor| *factor == 1.0) {
            return term;
        }
        term * call.constant(Array::new(Type::new(x.dtype(), &shape), factors))
    });
    terms.reduce(|sum, term| sum + term).unwrap_or(x)
}

/// The extents of a resized image.
fn extents(image: Image, taps: &[(usize, Vec<Taps>)]) -> [usize; 4] {
    let mut extents = [1; 4];
    extents.copy_from_slice(&image.tensor.shape());
    for (axis, taps) in taps {
        extents[image.axis(*axis)] = taps.len();
    }
    extents
}

/// The pixel of the image that each pixel of the result is; none where pixels are sums, or channels change.
fn nearest_rows(image: Image, taps: &[(usize, Vec<Taps>)]) -> Option<Vec<f64>> {
    let is_nearest = |taps: &Taps| matches!(taps[..], [(_, 1.0)]);
    let pixels = |axis: &usize| (1..3).contains(&image.axis(*axis));
    if !taps
        .iter()
        .all(|(axis, taps)| pixels(axis) && taps.iter().all(is_nearest))
    {
        return None;
    }
    let shape = image.tensor.shape();
    let sources = |own: usize| -> Vec<usize> {
        let changed = taps.iter().find(|(axis, _)| image.axis(*axis) == own);
        match changed {
            Some((_, taps)) => taps.iter().map(|taps| taps[0].0).collect(),
            None => (0..shape[own]).collect(),
        }
    };
    let (rows, columns) = (sources(1), sources(2));
    let mut all = Vec::with_capacity(shape[0] * rows.len() * columns.len());
    for n in 0..shape[0] {
        for row in &rows {
            let first = (n * shape[1] + row) * shape[2];
            all.extend(columns.iter().map(|column| (first + column) as f64));
        }
    }
    Some(all)
}
