//! Norms of the last axes, of one axis, and of chosen axes.

use lessen_base::Result;

use super::sizes::{around, places, spread};
use super::softmax::for_each_line;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::Element;
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "LayerNormalization", layer_norm),
    ("", "RMSNormalization", rms_norm),
    ("", "SimplifiedLayerNormalization", rms_norm),
    ("com.microsoft", "SimplifiedLayerNormalization", rms_norm),
    ("", "LpNormalization", lp_norm),
    ("", "MeanVarianceNormalization", mean_variance_norm),
];

fn layer_norm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, last_axes(call, tensor, true))
}

fn rms_norm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    in_reals!(tensor, last_axes(call, tensor, false))
}

/// The element type of statistics, from `stash_type`.
fn stash_type(call: &HostCall<'_>) -> Result<Element> {
    match call.int("stash_type", 1) {
        1 => Ok(Element::F32),
        11 => Ok(Element::F64),
        other => call.refused(format!("its stash_type {other} is not known, only 1 and 11")),
    }
}

/// Normalizes the axes from the attribute `axis` on.
fn last_axes<R: Real>(call: &HostCall<'_>, tensor: &HostTensor, is_centered: bool) -> Result<Vec<HostValue>> {
    let axis = call.axis(call.int("axis", -1), tensor.rank())?;
    let stash = stash_type(call)?;
    let shape = tensor.shape();
    let (outer, extent, inner) = around(shape, axis);
    let length = extent.saturating_mul(inner);
    let mut x = R::read(tensor)?.into_owned();
    let epsilon = R::of_f64(call.float("epsilon", 1e-5));
    let mut statistics = Vec::new();
    if !x.is_empty() {
        statistics = x
            .chunks_exact_mut(length)
            .map(|line| normalize(line, is_centered, epsilon))
            .collect();
    } else if outer > 0 && shape[..axis].iter().all(|extent| *extent > 0) {
        return call.refused("it has no elements to normalize");
    }
    let scale = call.tensor(1)?;
    modulate(&mut x, shape, length, scale, |x, scale| x * scale)?;
    if let Some(shift) = call.optional(2)?.filter(|_| is_centered) {
        modulate(&mut x, shape, length, shift, |x, shift| x + shift)?;
    }
    let element = if is_centered {
        float_of(tensor)?
    } else {
        float_of(scale)?
    };
    let mut outputs = vec![rounded(shape, x, element)?.into()];
    let mut kept = shape[..axis].to_vec();
    kept.resize(shape.len(), 1);
    let (means, inverses): (Vec<R>, Vec<R>) = statistics.into_iter().unzip();
    if is_centered {
        outputs.push(rounded(&kept, means, stash)?.into());
    }
    outputs.push(rounded(&kept, inverses, stash)?.into());
    Ok(outputs)
}

/// Normalizes a line and returns what was its mean and the inverse of its deviation, or of its root mean square.
pub(super) fn normalize<R: Real>(line: &mut [R], is_centered: bool, epsilon: R) -> (R, R) {
    let count = line.len() as f64;
    let mean = if is_centered {
        R::of_f64(line.iter().fold(0.0, |sum, x| sum + x.to_f64()) / count)
    } else {
        R::ZERO
    };
    line.iter_mut().for_each(|x| *x = *x - mean);
    let square = line.iter().fold(0.0, |sum, x| sum + x.to_f64() * x.to_f64()) / count;
    let inverse = R::ONE / (R::of_f64(square) + epsilon).sqrt();
    line.iter_mut().for_each(|x| *x = *x * inverse);
    (mean, inverse)
}

/// Combines each element of an array with that of a smaller one, which broadcasts to it; lines have `length` elements.
///
/// # Errors
/// Extents that do not fit, other elements than floats.
pub(super) fn modulate<R: Real>(
    x: &mut [R],
    shape: &[usize],
    length: usize,
    by: &HostTensor,
    of: impl Fn(R, R) -> R,
) -> Result<()> {
    let elements = R::read(by)?;
    let is_line = by.len() == length
        && by.shape().iter().skip_while(|extent| **extent == 1).eq({
            let tail = shape.len().saturating_sub(by.rank());
            shape[tail..].iter().skip_while(|extent| **extent == 1)
        });
    if is_line && length > 0 {
        for line in x.chunks_exact_mut(length) {
            line.iter_mut().zip(&elements[..]).for_each(|(x, by)| *x = of(*x, *by));
        }
    } else {
        let all = spread(&elements, by.shape(), shape)?;
        x.iter_mut().zip(all).for_each(|(x, by)| *x = of(*x, by));
    }
    Ok(())
}

fn lp_norm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    fn of<R: Real>(call: &HostCall<'_>, tensor: &HostTensor) -> Result<Vec<HostValue>> {
        let line: fn(&mut [R]) = match call.int("p", 2) {
            1 => |line| divide(line, line.iter().fold(0.0, |sum, x| sum + x.to_f64().abs())),
            2 => |line| {
                divide(
                    line,
                    line.iter().fold(0.0, |sum, x| sum + x.to_f64() * x.to_f64()).sqrt(),
                )
            },
            p => return call.refused(format!("its norm of order {p} is not known, only 1 and 2")),
        };
        let axis = call.axis(call.int("axis", -1), tensor.rank())?;
        let (_, length, inner) = around(tensor.shape(), axis);
        let mut all = R::read(tensor)?.into_owned();
        for_each_line(&mut all, length, inner, line);
        one(rounded(tensor.shape(), all, float_of(tensor)?)?)
    }
    let tensor = call.tensor(0)?;
    in_reals!(tensor, of(call, tensor))
}

/// Divides a line by its norm; a line of norm nought is nought.
fn divide<R: Real>(line: &mut [R], norm: f64) {
    let norm = if norm == 0.0 { R::ONE } else { R::of_f64(norm) };
    line.iter_mut().for_each(|x| *x = *x / norm);
}

fn mean_variance_norm(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    /// Added to the deviation.
    const EPSILON: f64 = 1e-9;
    let tensor = call.tensor(0)?;
    if let Some(name) = ["across_channels", "normalize_variance"]
        .iter()
        .find(|name| call.attribute(name).is_some())
    {
        return call.refused(format!("its attribute {name} is not known"));
    }
    let axes = call.axes(&call.ints("axes").unwrap_or_else(|| vec![0, 2, 3]), tensor.rank())?;
    let shape = tensor.shape();
    let kept: Vec<usize> = (0..shape.len())
        .map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] })
        .collect();
    let element = float_of(tensor)?;
    let mut all = f64::read(tensor)?.into_owned();
    let places = places(&kept, shape)?;
    if all.is_empty() {
        return one(HostTensor::new(shape, tensor.data().clone())?);
    }
    let groups = kept.iter().product();
    let count = (all.len() / groups) as f64;
    let mut means = vec![0.0; groups];
    all.iter()
        .zip(&places)
        .for_each(|(x, place)| means[*place] += x / count);
    let mut squares = vec![0.0; groups];
    for (x, place) in all.iter_mut().zip(&places) {
        *x -= means[*place];
        squares[*place] += *x * *x / count;
    }
    all.iter_mut()
        .zip(&places)
        .for_each(|(x, place)| *x /= squares[*place].sqrt() + EPSILON);
    one(rounded(shape, all, element)?)
}
