//! Operators that cut arrays and join them.

use lessen_base::Result;

use super::elements::{alike, cells};
use super::extents::{axes_or_all, bounded, extents, product};
use super::walk::Walk;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, moved, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Slice", slice), ("", "Split", split), ("", "Concat", concat)];

fn slice(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let (Some(starts), Some(ends)) = (call.integers_of("starts", 1)?, call.integers_of("ends", 2)?) else {
        return call.refused("it has no starts and ends");
    };
    let axes = match call.integers_of("axes", 3)? {
        Some(axes) => axes,
        None => (0..starts.len() as i64).collect(),
    };
    let strides = match call.optional(4)? {
        Some(_) => call.integers(4)?,
        None => vec![1; starts.len()],
    };
    if [ends.len(), axes.len(), strides.len()] != [starts.len(); 3] {
        return call.refused("its starts, ends, axes and steps are not equally many");
    }
    let mut walk = Walk::over(data.shape());
    for (i, axis) in axes_or_all(call, Some(axes), data.rank())?.into_iter().enumerate() {
        let extent = data.shape()[axis];
        let Some((first, count)) = cut(starts[i], ends[i], strides[i], extent) else {
            return call.refused("one of its steps is 0");
        };
        walk.shape[axis] = count;
        if count > 0 {
            walk.start = walk
                .start
                .saturating_add(first.saturating_mul(walk.steps[axis] as usize));
        }
        walk.steps[axis] = if count > 1 {
            walk.steps[axis].saturating_mul(strides[i] as isize)
        } else {
            0
        };
    }
    one(HostTensor::new(&walk.shape, walk.copy(data.data()))?)
}

/// The first index and the number of indices from `start` to `end` in steps; none for steps of 0.
fn cut(start: i64, end: i64, step: i64, extent: usize) -> Option<(usize, usize)> {
    let n = extent as i64;
    let from_front = |index: i64| if index < 0 { index.saturating_add(n) } else { index };
    let (start, end) = (from_front(start), from_front(end));
    let (first, span) = match step.signum() {
        0 => return None,
        _ if n == 0 => (0, 0),
        1 => {
            let first = start.clamp(0, n);
            (first, end.clamp(0, n) - first)
        }
        _ => {
            let first = start.clamp(0, n - 1);
            (first, first - end.clamp(-1, n - 1))
        }
    };
    let count = (span.max(0) as u64).div_ceil(step.unsigned_abs());
    Some((first as usize, count as usize))
}

/// The part of an array from `first` on along an axis.
pub(super) fn part(data: &HostTensor, axis: usize, first: usize, len: usize) -> Result<HostTensor> {
    let mut walk = Walk::over(data.shape());
    walk.shape[axis] = len;
    walk.start = first.saturating_mul(walk.steps[axis] as usize);
    HostTensor::new(&walk.shape, walk.copy(data.data()))
}

/// The parts of an array along an axis.
///
/// # Errors
/// Parts that do not make up the axis.
pub(super) fn parts(call: &HostCall<'_>, data: &HostTensor, axis: usize, lens: &[usize]) -> Result<Vec<HostTensor>> {
    let extent = data.shape()[axis];
    if lens.iter().try_fold(0usize, |sum, len| sum.checked_add(*len)) != Some(extent) {
        return call.refused(format!("parts of {lens:?} do not make up an axis of extent {extent}"));
    }
    let mut first = 0;
    let each = lens.iter().map(|&len| {
        let part = part(data, axis, first, len);
        first += len;
        part
    });
    each.collect()
}

fn split(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.axis(call.int("axis", 0), data.rank())?;
    let extent = data.shape()[axis];
    let lens = match call.integers_of("split", 1)? {
        Some(lens) => extents(call, &lens)?,
        None => {
            let outputs = call.node.output.len();
            let count = call.int("num_outputs", outputs as i64);
            if count != outputs as i64 || outputs == 0 {
                return call.refused(format!("it has {outputs} outputs, but is split into {count}"));
            }
            let len = extent.div_ceil(outputs);
            match extent.checked_sub(len.saturating_mul(outputs - 1)) {
                Some(last) if call.opset >= 18 || last == len => {
                    let equal = std::iter::repeat_n(len, outputs - 1);
                    equal.chain([last]).collect()
                }
                _ => return call.refused(format!("an axis of extent {extent} has no {outputs} equal parts")),
            }
        }
    };
    let parts = parts(call, data, axis, &lens)?;
    Ok(parts.into_iter().map(HostValue::from).collect())
}

fn concat(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let inputs: Vec<&HostTensor> = (0..call.inputs.len())
        .map(|input| call.tensor(input).map(|tensor| &**tensor))
        .collect::<Result<_>>()?;
    let axis = match call.attribute("axis") {
        Some(axis) => axis.i,
        None if call.opset < 4 => 1,
        None => return call.refused("it has no axis"),
    };
    one(joined(call, &inputs, axis)?)
}

/// The arrays one after another along an axis.
///
/// # Errors
/// No array, and those whose types or other extents differ.
pub(super) fn joined(call: &HostCall<'_>, inputs: &[&HostTensor], axis: i64) -> Result<HostTensor> {
    let Some(first) = inputs.first() else {
        return call.refused("it joins nothing");
    };
    let axis = call.axis(axis, first.rank())?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for input in inputs {
        let is_alike = input.rank() == first.rank()
            && (0..shape.len()).all(|other| other == axis || input.shape()[other] == shape[other]);
        if !is_alike {
            return call.refused(format!(
                "extents {:?} and {:?} differ in more than axis {axis}",
                first.shape(),
                input.shape()
            ));
        }
        shape[axis] = shape[axis].saturating_add(input.shape()[axis]);
    }
    let mut count = 0;
    for input in inputs {
        count = bounded(call, &shape, input.data())?;
    }
    for input in inputs {
        alike(call, first, input)?;
    }
    let data = moved!(first.data(), v => {
        let sources = inputs.iter().map(|input| (cells(v, input.data()), product(&input.shape()[axis..])));
        let sources: Vec<_> = sources.collect();
        let mut out = Vec::with_capacity(count);
        let rows = if count == 0 { 0 } else { product(&shape[..axis]) };
        for row in 0..rows {
            for (source, len) in &sources {
                out.extend_from_slice(&source[row * len..][..*len]);
            }
        }
        out
    });
    HostTensor::new(&shape, data)
}
