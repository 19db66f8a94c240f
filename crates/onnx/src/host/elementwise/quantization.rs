//! Numbers as small integers and back: `y = x / scale + zero point`, rounded to even and bounded by the type.

use lessen_base::Result;

use super::cast::cast;
use super::grain::Grain;
use super::operands::no_type;
use crate::element::Element;
use crate::host::{
    Data, Float, HostCall, HostOperators, HostTensor, HostValue, Integer, Typed, each_float, each_integer, one,
};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "DequantizeLinear", dequantize),
    ("", "DynamicQuantizeLinear", quantize_by_range),
    ("", "QuantizeLinear", quantize),
];

fn quantize(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let zero = call.optional(2)?;
    let grain = Grain::of(call, x.shape(), scale, zero.map(|zero| &**zero))?;
    let to = quantized_type(call, zero.map(|zero| &**zero))?;
    // Divides in the type of the scales, or in the one that an attribute names.
    let precision = match call.int("precision", 0) {
        0 => scale.element().filter(|element| element.is_float()),
        number => Some(call.element(number)?).filter(|element| element.is_float()),
    };
    let Some(precision) = precision else {
        return no_type(call, scale);
    };
    if !matches!(
        x.element(),
        Some(Element::Int(_) | Element::F32 | Element::F16 | Element::BF16 | Element::F64)
    ) {
        return no_type(call, x);
    }
    let quotients = each_float!(&cast(x.data(), precision), x => {
        let scales = cast(scale.data(), precision);
        quotients(x, &scales, &grain)
    }, else return no_type(call, x));
    let empty = Data::of_f64(to, std::iter::empty());
    let data: Data = each_integer!(&empty, like => bounded(like, &quotients, zero.map(|zero| zero.data()), &grain).into(),
        else return no_type(call, zero.unwrap_or(x)));
    one(HostTensor::new(x.shape(), data)?)
}

/// The type that elements get: of the zero point, of an attribute, or bytes.
fn quantized_type(call: &HostCall<'_>, zero: Option<&HostTensor>) -> Result<Element> {
    let named = match call.int("output_dtype", 0) {
        0 => None,
        number => Some(call.element(number)?),
    };
    let own = zero.and_then(HostTensor::element);
    if let (Some(named), Some(own)) = (named, own)
        && named != own
    {
        return call.refused("its attribute output_dtype names another type than its zero point has");
    }
    match own.or(named).unwrap_or(Element::Unsigned(1)) {
        to @ (Element::Int(1 | 2) | Element::Unsigned(1 | 2)) => Ok(to),
        _ => call.refused("it makes elements of a type that is not known"),
    }
}

/// The quotients by scales, rounded as their type does it and then to integers.
fn quotients<T: Float + Typed>(x: &[T], scales: &Data, grain: &Grain) -> Vec<f64> {
    let mut all = Vec::with_capacity(x.len());
    let scales = T::of(scales).unwrap_or_default();
    grain.for_each(|place, at| {
        let quotient = x[place].over(scales[at]).unwrap_or_default();
        all.push(quotient.to_f64().round_ties_even());
    });
    all
}

/// Integers plus zero points as elements of a type; NaN is the least one.
fn bounded<T: Integer + Typed>(_like: &[T], quotients: &[f64], zero: Option<&Data>, grain: &Grain) -> Vec<T> {
    let zeros = zero.and_then(T::of);
    let mut all = Vec::with_capacity(quotients.len());
    grain.for_each(|place, at| {
        let shift = zeros.map_or(0.0, |zeros| zeros[at].to_f64());
        all.push(bound(quotients[place] + shift));
    });
    all
}

/// The nearest integer of a type; NaN is the least one.
fn bound<T: Integer>(x: f64) -> T {
    if x.is_nan() { T::LEAST } else { T::of_f64(x) }
}

/// `(x - zero point) * scale`, in `f32` and rounded once.
fn dequantize(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let zero = call.optional(2)?;
    let grain = Grain::of(call, x.shape(), scale, zero.map(|zero| &**zero))?;
    let to = match call.int("output_dtype", 0) {
        0 => scale.element(),
        number => Some(call.element(number)?),
    };
    let (Some(to), Data::F32(scales)) = (to.filter(|to| to.is_float()), cast(scale.data(), Element::F32)) else {
        return no_type(call, scale);
    };
    if !scale.element().is_some_and(Element::is_float) {
        return no_type(call, scale);
    }
    if zero.is_some_and(|zero| zero.element() != x.element()) {
        return call.refused("its zero point has another type than its elements");
    }
    let all: Vec<f32> = each_integer!(x.data(), all => {
        restored(all, &scales, zero.map(|zero| zero.data()), &grain)
    }, else return no_type(call, x));
    one(HostTensor::new(x.shape(), cast(&all.into(), to))?)
}

fn restored<T: Integer + Typed>(x: &[T], scales: &[f32], zero: Option<&Data>, grain: &Grain) -> Vec<f32> {
    let zeros = zero.and_then(T::of);
    let mut all = Vec::with_capacity(x.len());
    grain.for_each(|place, at| {
        let shift = zeros.map_or(0.0, |zeros| zeros[at].to_f64() as f32);
        all.push((x[place].to_f64() as f32 - shift) * scales[at]);
    });
    all
}

/// Bytes by the range of the elements and zero, with that scale and zero point.
fn quantize_by_range(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let Data::F32(x) = tensor.data() else {
        return no_type(call, tensor);
    };
    let low = x.iter().fold(0f32, |low, x| low.min(*x));
    let high = x.iter().fold(0f32, |high, x| high.max(*x));
    let scale = if low == high { 1.0 } else { (high - low) / 255.0 };
    let zero: u8 = bound((-low / scale).round_ties_even().into());
    let all = x
        .iter()
        .map(|x| bound::<u8>(f64::from((x / scale).round_ties_even()) + f64::from(zero)));
    Ok(vec![
        HostTensor::new(tensor.shape(), all.collect::<Vec<u8>>())?.into(),
        HostTensor::scalar(scale).into(),
        HostTensor::scalar(zero).into(),
    ])
}
