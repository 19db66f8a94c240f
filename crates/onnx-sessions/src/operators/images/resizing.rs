//! Resizing of arrays along their axes.

use lessen_base::Result;

use super::windows::bounded;
use crate::operators::real::Real;
use lessen_onnx::Element;
use lessen_onnx::host::Resizing;
use lessen_onnx::host::coordinates::{Axis, Mapping, Mode, Rules, Taps};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, moved, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Resize", resized), ("", "Upsample", resized)];

/// The input with other extents.
fn resized(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let x = call.tensor(0)?;
    let resizing = Resizing::of(call, x.shape())?;
    let Resizing { axes, rules } = &resizing;
    let shape: Vec<usize> = axes.iter().map(|axis| axis.output).collect();
    let order = resizing.order();
    let mut partly = x.shape().to_vec();
    for axis in &order {
        partly[*axis] = axes[*axis].output;
        bounded(call, &partly)?;
    }
    let mut y = match rules.mode {
        Mode::Nearest(nearest) => moved!(x.data(), v => {
            let mut extents = x.shape().to_vec();
            let mut y = v.to_vec();
            for axis in &order {
                let at = axes[*axis];
                let sources: Vec<usize> = (0..at.output).map(|i| at.nearest(rules.mapping, nearest, i)).collect();
                y = picked(&y, &extents, *axis, &sources);
                extents[*axis] = at.output;
            }
            y
        }),
        _ => match x.element() {
            Some(Element::Bool) | None => return call.refused("its input 0 has no numbers"),
            Some(element) if rules.antialias && !element.is_float() => {
                return call.refused("its antialias is for floats");
            }
            Some(element) if element != Element::F64 && element.bytes() <= if element.is_float() { 4 } else { 2 } => {
                mixed::<f32>(x, axes, &order, rules, element)
            }
            Some(element) => mixed::<f64>(x, axes, &order, rules, element),
        },
    };
    if rules.mapping == Mapping::CropAndResize && !y.is_empty() {
        let value = call.float("extrapolation_value", 0.0);
        let outside: Vec<Vec<bool>> = axes
            .iter()
            .map(|axis| (0..axis.output).map(|i| axis.is_outside(rules.mapping, i)).collect())
            .collect();
        let is_outside = |mut place: usize| {
            axes.iter().zip(&outside).rev().any(|(axis, outside)| {
                let at = place % axis.output;
                place /= axis.output;
                outside[at]
            })
        };
        each_number!(&mut y, all => fill(all, is_outside, value), else {
            return call.refused("its extrapolation_value is for numbers");
        });
    }
    one(HostTensor::new(&shape, y)?)
}

/// Sets the elements at some places.
fn fill<T: Number>(all: &mut [T], is_chosen: impl Fn(usize) -> bool, value: f64) {
    for (place, x) in all.iter_mut().enumerate() {
        if is_chosen(place) {
            *x = T::of_f64(value);
        }
    }
}

/// The lines before and after an axis.
fn around(extents: &[usize], axis: usize) -> (usize, usize) {
    (extents[..axis].iter().product(), extents[axis + 1..].iter().product())
}

/// Elements along an axis, by their places.
fn picked<T: Clone>(x: &[T], extents: &[usize], axis: usize, sources: &[usize]) -> Vec<T> {
    let (outer, inner) = around(extents, axis);
    let extent = extents[axis];
    let mut y = Vec::with_capacity(outer * sources.len() * inner);
    if extent == 0 {
        return y;
    }
    for part in 0..outer {
        for source in sources {
            y.extend_from_slice(&x[(part * extent + source) * inner..][..inner]);
        }
    }
    y
}

/// Weighted sums of elements along axes.
fn mixed<R: Real>(x: &HostTensor, axes: &[Axis], order: &[usize], rules: &Rules, element: Element) -> Data {
    let mut extents = x.shape().to_vec();
    let mut y = R::elements(x.data()).into_owned();
    for axis in order {
        let at = axes[*axis];
        let taps: Vec<Taps> = (0..at.output).map(|i| at.taps(rules, i)).collect();
        let (outer, inner) = around(&extents, *axis);
        let mut sums = vec![R::ZERO; outer * at.output * inner];
        if !y.is_empty() && !sums.is_empty() {
            for (part, sums) in sums.chunks_exact_mut(at.output * inner).enumerate() {
                let x = &y[part * at.input * inner..][..at.input * inner];
                for (sums, taps) in sums.chunks_exact_mut(inner).zip(&taps) {
                    for (source, factor) in taps {
                        let factor = R::of_f64(*factor);
                        let line = &x[source * inner..][..inner];
                        sums.iter_mut().zip(line).for_each(|(sum, x)| *sum += factor * *x);
                    }
                }
            }
        }
        y = sums;
        extents[*axis] = at.output;
    }
    R::store(y, element)
}
