//! Elements of one array or another, bounded elements, and values as they are.

use lessen_base::Result;

use super::operands::{no_type, same};
use super::variadic::further;
use crate::host::{
    Broadcast, Data, HostCall, HostOperators, HostTensor, HostValue, Number, Typed, each_number, each_type, one,
};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "Clip", clip),
    ("", "Identity", |call| Ok(vec![call.value(0)?.clone()])),
    ("", "Where", select),
];

/// The elements of the second array where the first one is true, of the third one elsewhere.
fn select(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (condition, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let Data::Bool(truth) = condition.data() else {
        return no_type(call, condition);
    };
    let all = Broadcast::of([condition.shape(), a.shape(), b.shape()])?;
    let data: Data = each_type!(a.data(), x => {
        all.map(truth, x, same(call, x, b)?, |truth, x, y| if *truth { x.clone() } else { y.clone() }).into()
    });
    one(HostTensor::new(all.shape(), data)?)
}

/// Elements within bounds: of the lower one first, then of the upper one. The bounds are attributes before version 11,
/// inputs from then on.
fn clip(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let data: Data = each_number!(tensor.data(), all => {
        let (low, high) = (bound(call, all, 1, "min")?, bound(call, all, 2, "max")?);
        let bounded = |x: &_| {
            let x = low.map_or(*x, |low| further(*x, low, true));
            high.map_or(x, |high| further(x, high, false))
        };
        all.iter().map(bounded).collect::<Vec<_>>().into()
    }, else return no_type(call, tensor));
    one(HostTensor::new(tensor.shape(), data)?)
}

/// A bound, if there is one.
fn bound<T: Number + Typed>(call: &HostCall<'_>, like: &[T], input: usize, attribute: &str) -> Result<Option<T>> {
    if call.opset < 11 {
        return Ok(call.attribute(attribute).map(|attribute| T::of_f64(attribute.f.into())));
    }
    let Some(tensor) = call.optional(input)? else {
        return Ok(None);
    };
    match same(call, like, tensor)? {
        [bound] => Ok(Some(*bound)),
        all => call.refused(format!("its bound {attribute} is {} numbers", all.len())),
    }
}
