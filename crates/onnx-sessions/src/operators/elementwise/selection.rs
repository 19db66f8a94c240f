//! Elements of one array or another, bounded elements, and values as they are.

use lessen_base::Result;

use super::operands::{alike, no_type, same};
use crate::operators::broadcast::Broadcast;
use lessen_onnx::Element;
use lessen_onnx::host::{
    Cell, Data, HostCall, HostOperators, HostTensor, HostValue, Number, Typed, each_number, moved, one,
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
    alike(call, a, b)?;
    let data = moved!(a.data(), x => chosen(&all, truth, x, b.data()));
    one(HostTensor::new(all.shape(), data)?)
}

fn chosen<T: Cell>(all: &Broadcast<3>, truth: &[bool], x: &[T], y: &Data) -> Vec<T> {
    let y = T::of(y).unwrap_or_default();
    all.map(truth, x, y, |truth, x, y| if *truth { x } else { y }.clone())
}

/// Elements within bounds: of the lower one first, then of the upper one. The bounds are attributes before version 11,
/// inputs from then on; those that are absent are the least and the greatest finite number of the type.
fn clip(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let most = match tensor.element() {
        Some(Element::F16) => half::f16::MAX.to_f64(),
        Some(Element::BF16) => half::bf16::MAX.to_f64(),
        Some(Element::F32) => f32::MAX.into(),
        Some(Element::F64) => f64::MAX,
        _ => f64::INFINITY,
    };
    let data: Data = each_number!(tensor.data(), all => {
        let (low, high) = (bound(call, all, (1, "min", -most))?, bound(call, all, (2, "max", most))?);
        all.iter().map(|x| within(*x, low, high)).collect::<Vec<_>>().into()
    }, else return no_type(call, tensor));
    one(HostTensor::new(tensor.shape(), data)?)
}

/// A number within bounds. NaN stays, and bounds nothing.
fn within<T: Number>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// A bound: an input, an attribute or a default.
fn bound<T: Number + Typed>(
    call: &HostCall<'_>,
    like: &[T],
    (input, attribute, default): (usize, &str, f64),
) -> Result<T> {
    if call.opset < 11 {
        let number = call
            .attribute(attribute)
            .map_or(default, |attribute| attribute.f.into());
        return Ok(T::of_f64(number));
    }
    let Some(tensor) = call.optional(input)? else {
        return Ok(T::of_f64(default));
    };
    match same(call, like, tensor.data())? {
        [bound] => Ok(*bound),
        all => call.refused(format!("its bound {attribute} is {} numbers", all.len())),
    }
}
