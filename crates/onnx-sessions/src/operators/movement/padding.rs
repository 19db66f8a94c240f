//! Operators that add and cut margins.

use lessen_base::Result;

use super::elements::{alike, cells};
use super::extents::{axes_or_all, bounded, extents, product, steps};
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, moved, one};

pub(crate) const OPERATORS: HostOperators = &[("", "Pad", pad), ("", "CenterCropPad", center_crop_pad)];

/// What a margin holds.
#[derive(Clone, Copy, PartialEq)]
enum Margin {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

impl Margin {
    fn of(call: &HostCall<'_>) -> Result<Margin> {
        Ok(match call.text("mode").as_deref() {
            None | Some("constant") => Margin::Constant,
            Some("reflect") => Margin::Reflect,
            Some("edge") => Margin::Edge,
            Some("wrap") => Margin::Wrap,
            Some(mode) => return call.refused(format!("the mode {mode} is not known")),
        })
    }

    /// The index among `len` elements that a place before or after them copies; none in a constant margin.
    fn index(self, at: i64, len: i64) -> Option<i64> {
        if (0..len).contains(&at) {
            return Some(at);
        }
        match self {
            Margin::Constant => None,
            Margin::Edge => Some(at.clamp(0, len - 1)),
            Margin::Wrap => Some(at.rem_euclid(len)),
            Margin::Reflect if len == 1 => Some(0),
            Margin::Reflect => {
                let period = 2 * (len - 1);
                let at = at.rem_euclid(period);
                Some(at.min(period - at))
            }
        }
    }
}

fn pad(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let margin = Margin::of(call)?;
    let name = if call.opset < 2 { "paddings" } else { "pads" };
    let Some(pads) = call.integers_of(name, 1)? else {
        return call.refused("it has no pads");
    };
    let axes = match call.optional(3)? {
        Some(_) => Some(call.integers(3)?),
        None => None,
    };
    let axes = axes_or_all(call, axes, data.rank())?;
    if pads.len() != 2 * axes.len() {
        return call.refused(format!("it has {} pads for {} axes", pads.len(), axes.len()));
    }
    let mut margins = vec![(0, 0); data.rank()];
    for (i, axis) in axes.iter().enumerate() {
        margins[*axis] = (pads[i], pads[axes.len() + i]);
    }
    let constant = match call.optional(2)? {
        Some(constant) if constant.len() == 1 => Some(HostTensor::clone(constant)),
        Some(_) => return call.refused("its constant is not one element"),
        None => match (call.attribute("value"), data.element()) {
            (Some(value), Some(element)) => {
                let value = Data::of_f64(element, std::iter::once(f64::from(value.f)));
                Some(HostTensor::new(&[], value)?)
            }
            _ => None,
        },
    };
    padded(call, data, &margins, margin, constant.as_ref())
}

fn center_crop_pad(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axes = axes_or_all(call, call.ints("axes"), data.rank())?;
    let target = extents(call, &call.integers(1)?)?;
    if target.len() != axes.len() {
        return call.refused(format!("it has {} extents for {} axes", target.len(), axes.len()));
    }
    let mut margins = vec![(0, 0); data.rank()];
    for (axis, target) in axes.into_iter().zip(target) {
        let (target, extent) = (target as i64, data.shape()[axis] as i64);
        let missing = target - extent;
        let before = missing / 2;
        margins[axis] = (before, missing - before);
    }
    padded(call, data, &margins, Margin::Constant, None)
}

/// The array with margins before and after each axis; negative ones are cut off first.
fn padded(
    call: &HostCall<'_>,
    data: &HostTensor,
    margins: &[(i64, i64)],
    margin: Margin,
    constant: Option<&HostTensor>,
) -> Result<Vec<HostValue>> {
    let mut shape = Vec::with_capacity(data.rank());
    for (&(before, after), &extent) in margins.iter().zip(data.shape()) {
        let len = (extent as i64)
            .checked_add(before)
            .and_then(|len| len.checked_add(after));
        let kept = (extent as i64)
            .saturating_add(before.min(0))
            .saturating_add(after.min(0));
        match len.and_then(|len| usize::try_from(len).ok()) {
            Some(0) if kept <= 0 => shape.push(0),
            Some(len) if kept > 0 || (kept == 0 && margin == Margin::Constant) => shape.push(len),
            _ => {
                return call.refused(format!(
                    "pads of {before} and {after} do not fit an axis of extent {extent}"
                ));
            }
        }
    }
    let count = bounded(call, &shape, data.data())?;
    if count == 0 {
        return one(HostTensor::new(&shape, data.data().at(std::iter::empty()))?);
    }
    let mut axes = Vec::new();
    let mut start = Some(0);
    for (axis, step) in steps(data.shape()).into_iter().enumerate() {
        let (before, after) = margins[axis];
        let first = before.min(0).unsigned_abs() as usize;
        let kept = data.shape()[axis] as i64 + before.min(0) + after.min(0);
        let place = |index: i64| {
            let index = margin.index(index - before.max(0), kept)?;
            Some((first + index as usize) * step)
        };
        if shape[axis] == 1 {
            start = start.zip(place(0)).map(|(start, place)| start + place);
        } else {
            axes.push((0..shape[axis] as i64).map(place).collect::<Vec<Option<usize>>>());
        }
    }
    if let Some(constant) = constant {
        alike(call, data, constant)?;
    }
    let data = moved!(data.data(), v => {
        let given = constant.and_then(|constant| cells(v, constant.data()).first().cloned());
        let fill = given.unwrap_or_default();
        match start {
            Some(start) => with_margins(v, &axes, start, &fill, count),
            None => vec![fill; count],
        }
    });
    one(HostTensor::new(&shape, data)?)
}

/// The elements at the sums of one place of each axis, and `fill` where an axis has none.
fn with_margins<T: Clone>(all: &[T], axes: &[Vec<Option<usize>>], start: usize, fill: &T, count: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(count);
    let Some((last, outer)) = axes.split_last() else {
        return vec![all[start].clone()];
    };
    let rows = product(&outer.iter().map(Vec::len).collect::<Vec<usize>>());
    let mut index = vec![0; outer.len()];
    for _ in 0..rows {
        let mut places = outer.iter().zip(&index).map(|(axis, index)| axis[*index]);
        let row = places.try_fold(start, |sum, place| Some(sum + place?));
        match row {
            Some(row) => out.extend(last.iter().map(|place| match place {
                Some(place) => all[row + place].clone(),
                None => fill.clone(),
            })),
            None => out.extend(std::iter::repeat_n(fill, last.len()).cloned()),
        }
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < outer[axis].len() {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}
