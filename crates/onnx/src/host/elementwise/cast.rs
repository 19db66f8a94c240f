//! Elements in other types.

use half::{bf16, f16};
use lessen_base::Result;

use super::texts;
use crate::element::Element;
use crate::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, one};
use crate::narrow::{Narrow, Narrowing, Powers};

pub(crate) const OPERATORS: HostOperators = &[("", "Cast", cast_to), ("", "CastLike", cast_like)];

/// The number of texts in the schema.
const TEXT: i64 = 8;

fn cast_to(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let to = match call.text("to").filter(|name| !name.is_empty()) {
        // Version 1 names the type.
        Some(name) => match texts::data_type(&name) {
            Some(number) => number,
            None => return call.refused(format!("the type {name} of ONNX is not known")),
        },
        None => call.int("to", 0),
    };
    let element = if to == TEXT { None } else { Some(call.element(to)?) };
    one(changed(call, call.tensor(0)?, element)?)
}

fn cast_like(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    one(changed(call, call.tensor(0)?, call.tensor(1)?.element())?)
}

/// An array in another type; none is text.
fn changed(call: &HostCall<'_>, tensor: &HostTensor, to: Option<Element>) -> Result<HostTensor> {
    let data = match (tensor.data(), to) {
        (Data::Text(_), None) => tensor.data().clone(),
        (data, None) => texts::written(data),
        (Data::Text(all), Some(element)) => texts::read(call, all, element)?,
        (data, Some(element)) => cast_by(data, element, narrowing(call)?),
    };
    HostTensor::new(tensor.shape(), data)
}

/// How the attributes say that numbers become narrow floats.
///
/// # Errors
/// A mode that is not known.
pub(super) fn narrowing(call: &HostCall<'_>) -> Result<Narrowing> {
    let powers = match call.text("round_mode").as_deref() {
        None | Some("up") => Powers::Up,
        Some("down") => Powers::Down,
        Some("nearest") => Powers::Nearest,
        Some(other) => return call.refused(format!("its round_mode {other} is not known")),
    };
    Ok(Narrowing {
        saturates: call.int("saturate", 1) != 0,
        powers,
    })
}

/// Numbers and truth values in another type: floats round to even, integers wrap, and of floats they cut fractions off;
/// every number but zero is true. There are none of texts.
pub(crate) fn cast(data: &Data, to: Element) -> Data {
    cast_by(data, to, Narrowing::default())
}

/// The same, where numbers become narrow floats in a given way.
pub(super) fn cast_by(data: &Data, to: Element, how: Narrowing) -> Data {
    match data {
        Data::Bool(all) => {
            let all: Vec<u8> = all.iter().map(|x| u8::from(*x)).collect();
            converted(&all, to, how)
        }
        // Narrow numbers are exact in double precision.
        other => each_number!(other, all => converted(all, to, how), else converted(&other.to_f64(), to, how)),
    }
}

fn converted<S: Number>(all: &[S], to: Element, how: Narrowing) -> Data {
    fn each<S: Number, T: Number>(all: &[S]) -> Data
    where
        Data: From<Vec<T>>,
    {
        all.iter().map(|x| number::<S, T>(*x)).collect::<Vec<T>>().into()
    }
    match to {
        Element::Bool => all.iter().map(|x| *x != S::ZERO).collect::<Vec<bool>>().into(),
        Element::Int(1) => each::<S, i8>(all),
        Element::Int(2) => each::<S, i16>(all),
        Element::Int(4) => each::<S, i32>(all),
        Element::Int(_) => each::<S, i64>(all),
        Element::Unsigned(1) => each::<S, u8>(all),
        Element::Unsigned(2) => each::<S, u16>(all),
        Element::Unsigned(4) => each::<S, u32>(all),
        Element::Unsigned(_) => each::<S, u64>(all),
        Element::F16 => each::<S, f16>(all),
        Element::BF16 => each::<S, bf16>(all),
        Element::F32 => each::<S, f32>(all),
        Element::F64 => each::<S, f64>(all),
        Element::Narrow(narrow) => Data::narrow(narrow, all.iter().map(|x| narrowed(*x, narrow, how))),
    }
}

/// A number in another type.
fn number<S: Number, T: Number>(x: S) -> T {
    if S::IS_FLOAT {
        T::cut(x.to_f64())
    } else {
        T::of_i128(x.to_i128())
    }
}

/// The bits of a number in a narrow type; integers wrap.
fn narrowed<S: Number>(x: S, to: Narrow, how: Narrowing) -> u8 {
    match (to.range(), S::IS_FLOAT) {
        (Some(_), true) => to.write(i32::cut(x.to_f64()).into(), how),
        (Some(_), false) => to.write(f64::from(x.to_i128() as u8), how),
        (None, _) => to.write(x.to_f64(), how),
    }
}
