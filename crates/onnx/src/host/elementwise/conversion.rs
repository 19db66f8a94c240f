//! Elements converted to other types.

use half::{bf16, f16};

use crate::element::Element;
use crate::host::{Data, Number, each_number};
use crate::narrow::{Narrow, Narrowing};

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
