//! Elements in other types.

use lessen_base::Result;

use super::texts;
use crate::element::Element;
use crate::host::{Data, HostCall, HostOperators, HostTensor, HostValue, Number, each_number, one};

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
    let tensor = call.tensor(0)?;
    let data = match (tensor.data(), to) {
        (Data::Text(_), TEXT) => tensor.data().clone(),
        (data, TEXT) => texts::written(data),
        (Data::Text(all), _) => texts::read(call, all, call.element(to)?)?,
        (data, _) => cast(data, call.element(to)?),
    };
    one(HostTensor::new(tensor.shape(), data)?)
}

fn cast_like(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (tensor, like) = (call.tensor(0)?, call.tensor(1)?);
    let data = match (tensor.data(), like.element()) {
        (Data::Text(_), None) => tensor.data().clone(),
        (data, None) => texts::written(data),
        (Data::Text(all), Some(element)) => texts::read(call, all, element)?,
        (data, Some(element)) => cast(data, element),
    };
    one(HostTensor::new(tensor.shape(), data)?)
}

/// Numbers and truth values in another type: floats round to even, integers wrap, and of floats they cut fractions off;
/// every number but zero is true. There are none of texts.
pub(crate) fn cast(data: &Data, to: Element) -> Data {
    match data {
        Data::Bool(all) => {
            let all: Vec<u8> = all.iter().map(|x| u8::from(*x)).collect();
            converted(&all, to)
        }
        other => each_number!(other, all => converted(all, to), else Vec::<bool>::new().into()),
    }
}

fn converted<S: Number>(all: &[S], to: Element) -> Data {
    fn each<S: Number, T: Number>(all: &[S]) -> Data
    where
        Data: From<Vec<T>>,
    {
        all.iter().map(|x| number::<S, T>(*x)).collect::<Vec<T>>().into()
    }
    use half::{bf16, f16};
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
