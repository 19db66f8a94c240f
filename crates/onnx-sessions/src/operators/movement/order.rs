//! Operators that order elements along an axis, or sum them up one by one.

use std::borrow::Cow;
use std::cmp::Ordering;

use lessen_base::Result;

use super::elements::ascending;
use super::extents::product;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "TopK", top_k),
    ("", "ArgMax", arg_max),
    ("", "ArgMin", arg_min),
    ("", "CumSum", cumulative_sum),
    ("", "CumProd", cumulative_product),
];

/// The lanes of an array along an axis: the first place of each, and the number and step of its elements.
struct Lanes {
    len: usize,
    step: usize,
    count: usize,
}

impl Lanes {
    fn of(shape: &[usize], axis: usize) -> Lanes {
        let step = product(&shape[axis + 1..]);
        let is_empty = shape.contains(&0);
        Lanes {
            len: shape[axis],
            step,
            count: if is_empty {
                0
            } else {
                product(&shape[..axis]).saturating_mul(step)
            },
        }
    }

    /// The first place of each lane, in the order of the other axes.
    fn first(&self) -> impl Iterator<Item = usize> {
        let (len, step) = (self.len, self.step.max(1));
        (0..self.count).map(move |lane| lane / step * step * len + lane % step)
    }
}

/// Numbers in types that have an order and hold all others exactly.
enum Ordered<'d> {
    Integers(&'d [i64]),
    Unsigned(&'d [u64]),
    Others(Cow<'d, [f64]>),
}

impl<'d> Ordered<'d> {
    fn of(call: &HostCall<'_>, data: &'d Data) -> Result<Ordered<'d>> {
        Ok(match data {
            Data::Bool(_) | Data::Text(_) | Data::Narrow(_) => {
                return call.refused("truth values and texts have no order here");
            }
            Data::I64(v) => Ordered::Integers(v),
            Data::U64(v) => Ordered::Unsigned(v),
            Data::F64(v) => Ordered::Others(Cow::Borrowed(v)),
            others => Ordered::Others(Cow::Owned(others.to_f64())),
        })
    }
}

fn top_k(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.axis(call.int("axis", -1), data.rank())?;
    let k = match call.integers_of("k", 1)? {
        Some(_) if call.opset >= 10 => call.integers(1)?.first().copied(),
        _ => call.attribute("k").map(|k| k.i),
    };
    let extent = data.shape()[axis];
    let Some(k) = k.and_then(|k| usize::try_from(k).ok()).filter(|k| *k <= extent) else {
        return call.refused(format!("its k is not between 0 and the axis's extent {extent}"));
    };
    let is_largest = call.int("largest", 1) != 0;
    let mut shape = data.shape().to_vec();
    shape[axis] = k;
    let lanes = Lanes::of(data.shape(), axis);
    let (places, indices) = match Ordered::of(call, data.data())? {
        Ordered::Integers(v) => first_of_lanes(v, &lanes, k, is_largest),
        Ordered::Unsigned(v) => first_of_lanes(v, &lanes, k, is_largest),
        Ordered::Others(v) => first_of_lanes(&v, &lanes, k, is_largest),
    };
    Ok(vec![
        HostTensor::new(&shape, data.data().at(places.into_iter()))?.into(),
        HostTensor::new(&shape, indices)?.into(),
    ])
}

/// The places of the `k` first elements of each lane in descending or ascending order, and their indices in the lane.
fn first_of_lanes<T: PartialOrd>(all: &[T], lanes: &Lanes, k: usize, is_largest: bool) -> (Vec<usize>, Vec<i64>) {
    let mut places = vec![0; lanes.count * k];
    let mut indices = vec![0; lanes.count * k];
    let mut order: Vec<usize> = Vec::with_capacity(lanes.len);
    for (lane, first) in lanes.first().enumerate() {
        let at = |index: usize| &all[first + index * lanes.step];
        let compare = |a: &usize, b: &usize| {
            let by_value = match is_largest {
                true => ascending(at(*b), at(*a)),
                false => ascending(at(*a), at(*b)),
            };
            by_value.then(a.cmp(b))
        };
        order.clear();
        order.extend(0..lanes.len);
        if k > 0 && k < order.len() {
            order.select_nth_unstable_by(k - 1, compare);
        }
        order.truncate(k);
        order.sort_unstable_by(compare);
        let to = lane / lanes.step * lanes.step * k + lane % lanes.step;
        for (number, index) in order.iter().enumerate() {
            places[to + number * lanes.step] = first + index * lanes.step;
            indices[to + number * lanes.step] = *index as i64;
        }
    }
    (places, indices)
}

fn arg_max(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    arg(call, Ordering::Greater)
}

fn arg_min(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    arg(call, Ordering::Less)
}

/// The index of the best element of each lane: NaN, or the one that has this order to all others.
fn arg(call: &HostCall<'_>, best: Ordering) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axis = call.axis(call.int("axis", 0), data.rank())?;
    let takes_last = call.int("select_last_index", 0) != 0;
    let lanes = Lanes::of(data.shape(), axis);
    if lanes.len == 0 {
        return call.refused("an axis without elements has no best one");
    }
    let indices = match Ordered::of(call, data.data())? {
        Ordered::Integers(v) => best_of_lanes(v, &lanes, best, takes_last),
        Ordered::Unsigned(v) => best_of_lanes(v, &lanes, best, takes_last),
        Ordered::Others(v) => best_of_lanes(&v, &lanes, best, takes_last),
    };
    let mut shape = data.shape().to_vec();
    if call.int("keepdims", 1) != 0 {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
    }
    one(HostTensor::new(&shape, indices)?)
}

/// The index of the best element of each lane.
fn best_of_lanes<T: Number>(all: &[T], lanes: &Lanes, best: Ordering, takes_last: bool) -> Vec<i64> {
    let of_lane = |first: usize| {
        let mut chosen = 0;
        for index in 1..lanes.len {
            let (new, old) = (all[first + index * lanes.step], all[first + chosen * lanes.step]);
            let order = match (new.is_nan(), old.is_nan()) {
                (true, false) => best,
                (false, true) => best.reverse(),
                _ => ascending(&new, &old),
            };
            if order == best || (takes_last && order == Ordering::Equal) {
                chosen = index;
            }
        }
        chosen as i64
    };
    lanes.first().map(of_lane).collect()
}

fn cumulative_sum(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    cumulative(call, 0.0, |a, b| a + b, i64::wrapping_add)
}

fn cumulative_product(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    cumulative(call, 1.0, |a, b| a * b, i64::wrapping_mul)
}

/// What becomes of the elements of each lane so far, from the neutral number on. Floats are summed up in `f64`, of
/// integers the low bits are kept.
fn cumulative(
    call: &HostCall<'_>,
    neutral: f64,
    of_floats: fn(f64, f64) -> f64,
    of_integers: fn(i64, i64) -> i64,
) -> Result<Vec<HostValue>> {
    let data = call.tensor(0)?;
    let axes = call.integers(1)?;
    let &[axis] = &axes[..] else {
        return call.refused("its axis is not one number");
    };
    let axis = call.axis(axis, data.rank())?;
    let lanes = Lanes::of(data.shape(), axis);
    let (is_exclusive, is_reverse) = (call.int("exclusive", 0) != 0, call.int("reverse", 0) != 0);
    let run = Run {
        lanes,
        is_exclusive,
        is_reverse,
    };
    let out = match data.element() {
        Some(element) if element.is_float() => {
            Data::from(run.over(data.data().to_f64(), neutral, of_floats)).cast(element)
        }
        Some(element @ (Element::Int(_) | Element::Unsigned(_))) => match data.data().cast(Element::Int(8)) {
            Data::I64(all) => Data::from(run.over(all, neutral as i64, of_integers)).cast(element),
            other => other,
        },
        _ => return call.refused("truth values and texts have no sums"),
    };
    one(HostTensor::new(data.shape(), out)?)
}

/// How elements of lanes are summed up.
struct Run {
    lanes: Lanes,
    /// Whether an element itself is left out.
    is_exclusive: bool,
    /// Whether it begins at the end.
    is_reverse: bool,
}

impl Run {
    /// What becomes of the elements so far.
    fn over<T: Copy>(&self, mut all: Vec<T>, neutral: T, of: fn(T, T) -> T) -> Vec<T> {
        let lanes = &self.lanes;
        for first in lanes.first() {
            let mut sum = neutral;
            for number in 0..lanes.len {
                let index = if self.is_reverse {
                    lanes.len - 1 - number
                } else {
                    number
                };
                let at = first + index * lanes.step;
                let before = sum;
                sum = of(sum, all[at]);
                all[at] = if self.is_exclusive { before } else { sum };
            }
        }
        all
    }
}
