//! Greatest and least numbers, sums and means of any number of arrays.

use std::sync::Arc;

use lessen_base::Result;

use super::operands::{Pair, alike, no_type, same};
use crate::operators::broadcast::Broadcast;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, each_wide, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Max", |call| extreme(call, true)),
    ("", "Mean", |call| total(call, true)),
    ("", "Min", |call| extreme(call, false)),
    ("", "Sum", |call| total(call, false)),
];

/// The greatest or the least numbers; NaN where there is one.
fn extreme(call: &HostCall<'_>, greatest: bool) -> Result<Vec<HostValue>> {
    let mut all = call.tensor(0)?.clone();
    for input in 1..call.inputs.len() {
        all = {
            let next = call.tensor(input)?;
            let both = Broadcast::of([all.shape(), next.shape()])?;
            let pair = Pair { a: &all, b: next, both };
            let [a, b] = pair.numbers(call)?;
            let data: Data = each_wide!(&*a, a => {
                pair.both.map(a, same(call, a, &b)?, |x, y| further(*x, *y, greatest)).into()
            }, else return no_type(call, &all));
            Arc::new(pair.result(data)?)
        };
    }
    each_number!(all.data(), _v => Ok(vec![HostValue::Tensor(all)]), else no_type(call, &all))
}

/// The greater or the lesser of two numbers; NaN where one is.
fn further<T: Number>(x: T, y: T, greatest: bool) -> T {
    let keeps = if greatest { x >= y } else { x <= y };
    if keeps || x.is_nan() { x } else { y }
}

/// The sum or the mean; of 16-bit floats in `f32`, rounded once.
fn total(call: &HostCall<'_>, is_mean: bool) -> Result<Vec<HostValue>> {
    let first = call.tensor(0)?;
    let Some(element) = first.element().filter(|element| element.is_float()) else {
        return no_type(call, first);
    };
    let wide = if element == Element::F64 {
        Element::F64
    } else {
        Element::F32
    };
    let widened = |tensor: &HostTensor| HostTensor::new(tensor.shape(), tensor.data().cast(wide));
    let mut all = widened(first)?;
    for input in 1..call.inputs.len() {
        let next = call.tensor(input)?;
        alike(call, first, next)?;
        let next = widened(next)?;
        let both = Broadcast::of([all.shape(), next.shape()])?;
        let data: Data = match (all.data(), next.data()) {
            (Data::F32(a), Data::F32(b)) => both.map(a, b, |x, y| x + y).into(),
            (Data::F64(a), Data::F64(b)) => both.map(a, b, |x, y| x + y).into(),
            _ => return no_type(call, &next),
        };
        all = HostTensor::new(both.shape(), data)?;
    }
    let count = call.inputs.len() as f64;
    let data: Data = match is_mean {
        true => Data::of_f64(wide, all.data().to_f64().into_iter().map(|sum| sum / count)),
        false => all.data().clone(),
    };
    one(HostTensor::new(all.shape(), data.cast(element))?)
}
