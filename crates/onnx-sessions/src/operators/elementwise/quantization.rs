//! Numbers as small integers or narrow floats, and back: `y = x / scale + zero point`, rounded to even and bounded by
//! the type.

use lessen_base::Result;
use lessen_graph::ops::QuantizeByRange;

use super::cast::narrowing;
use super::grain::Grain;
use super::operands::no_type;
use lessen_onnx::Element;
use lessen_onnx::Narrow;
use lessen_onnx::host::cast_by;
use lessen_onnx::host::{Data, Float, HostCall, HostOperators, HostTensor, HostValue, Typed, each_float, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "DequantizeLinear", dequantize),
    ("", "DynamicQuantizeLinear", quantize_by_range),
    ("", "QuantizeLinear", quantize),
];

fn quantize(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let zero = call.optional(2)?.map(|zero| &**zero);
    let grain = Grain::of(call, x.shape(), scale, zero)?;
    let to = quantized_type(call, zero)?;
    // Divides in the type of the scales, or in the one that an attribute names.
    let precision = match call.int("precision", 0) {
        0 => scale.element(),
        number => Some(call.element(number)?),
    };
    let Some(precision) = precision.filter(|element| element.is_float()) else {
        return no_type(call, scale);
    };
    if !x
        .element()
        .is_some_and(|element| element.is_float() || element == Element::Int(4))
    {
        return no_type(call, x);
    }
    let scales = scale.data().cast(precision);
    let mut all = each_float!(&x.data().cast(precision), x => quotients(x, &scales, &grain),
        else return no_type(call, x));
    let zeros = zero.map(|zero| zero.data().to_f64()).unwrap_or_default();
    match range(to) {
        Some((least, most)) => grain.for_each(|place, at| {
            let y = all[place].round_ties_even() + zeros.get(at).unwrap_or(&0.0);
            all[place] = if y.is_nan() { least } else { y.clamp(least, most) };
        }),
        None if zeros.iter().any(|zero| *zero != 0.0) => {
            return call.refused("its zero point is not zero, but a float");
        }
        None => {}
    }
    one(HostTensor::new(x.shape(), cast_by(&all.into(), to, narrowing(call)?))?)
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
        return call.refused(format!(
            "its attribute output_dtype is {named}, but its zero point is {own}"
        ));
    }
    match own.or(named).unwrap_or(Element::Unsigned(1)) {
        to if range(to).is_some() => Ok(to),
        to @ Element::Narrow(narrow) if narrow != Narrow::E8M0 => Ok(to),
        to => call.refused(format!("it cannot make elements of the type {to}")),
    }
}

/// The least and the greatest integer of a type that elements can get; none of others.
fn range(element: Element) -> Option<(f64, f64)> {
    match element {
        Element::Int(1) => Some((i8::MIN.into(), i8::MAX.into())),
        Element::Int(2) => Some((i16::MIN.into(), i16::MAX.into())),
        Element::Unsigned(1) => Some((0.0, u8::MAX.into())),
        Element::Unsigned(2) => Some((0.0, u16::MAX.into())),
        Element::Narrow(narrow) => narrow.range().map(|(least, most)| (least.into(), most.into())),
        _ => None,
    }
}

/// The quotients by scales, rounded as their type does it.
fn quotients<T: Float + Typed>(x: &[T], scales: &Data, grain: &Grain) -> Vec<f64> {
    let mut all = Vec::with_capacity(x.len());
    let scales = T::of(scales).unwrap_or_default();
    grain.for_each(|place, at| all.push(x[place].over(scales[at]).unwrap_or_default().to_f64()));
    all
}

/// `(x - zero point) * scale`, in `f32` and rounded once.
fn dequantize(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let zero = call.optional(2)?.map(|zero| &**zero);
    let grain = Grain::of(call, x.shape(), scale, zero)?;
    let to = match call.int("output_dtype", 0) {
        0 => scale.element(),
        number => Some(call.element(number)?),
    };
    let is_power = scale.element() == Some(Element::Narrow(Narrow::E8M0));
    let Some(to) = to.filter(|to| to.is_float() && (is_power || scale.element().is_some_and(Element::is_float))) else {
        return no_type(call, scale);
    };
    let is_quantized = match x.element() {
        Some(Element::Int(4)) => true,
        Some(Element::Narrow(narrow)) => narrow != Narrow::E8M0,
        element => element.is_some_and(|element| range(element).is_some()),
    };
    if !is_quantized {
        return no_type(call, x);
    }
    if zero.is_some_and(|zero| zero.element() != x.element()) {
        return call.refused("its zero point has another type than its elements");
    }
    let singles = |data: &Data| match data.cast(Element::F32) {
        Data::F32(all) => all,
        _ => Vec::new(),
    };
    let (mut all, scales) = (singles(x.data()), singles(scale.data()));
    let zeros = zero.map(|zero| singles(zero.data())).unwrap_or_default();
    grain.for_each(|place, at| all[place] = (all[place] - zeros.get(at).unwrap_or(&0.0)) * scales[at]);
    one(HostTensor::new(x.shape(), Data::from(all).cast(to))?)
}

/// Bytes by the range of the elements and zero, with that scale and zero point.
fn quantize_by_range(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let tensor = call.tensor(0)?;
    let Data::F32(x) = tensor.data() else {
        return no_type(call, tensor);
    };
    let (codes, scale, zero) = QuantizeByRange::codes(x);
    Ok(vec![
        HostTensor::new(tensor.shape(), codes)?.into(),
        HostTensor::scalar(scale).into(),
        HostTensor::scalar(zero).into(),
    ])
}
