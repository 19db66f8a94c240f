//! The floats that operators compute in: 16-bit floats and `f32` in `f32`, `f64` in itself.

use std::borrow::Cow;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use half::{bf16, f16};
use lessen_base::{Error, Result};

use lessen_onnx::Element;
use lessen_onnx::host::{Data, Float, HostTensor};

/// A float that is computed with.
pub(crate) trait Real:
    Float
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// e to this power.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// The power.
    fn powf(self, exponent: Self) -> Self;
    /// The greatest integer that is no greater.
    fn floor(self) -> Self;
    /// The greater of two numbers; NaN if one is.
    fn greater(self, other: Self) -> Self {
        if other > self || other.is_nan() { other } else { self }
    }
    /// The elements of floats in this type; none of other elements.
    fn view(data: &Data) -> Option<Cow<'_, [Self]>>;
    /// The elements in this type.
    fn elements(data: &Data) -> Cow<'_, [Self]> {
        Self::view(data).unwrap_or_else(|| data.to_f64().into_iter().map(Self::of_f64).collect())
    }
    /// Results as elements of a type, each rounded once.
    fn store(all: Vec<Self>, element: Element) -> Data;

    /// The elements of an array of floats.
    ///
    /// # Errors
    /// An array of other elements.
    fn read(tensor: &HostTensor) -> Result<Cow<'_, [Self]>> {
        Self::view(tensor.data()).ok_or_else(no_floats)
    }
}

fn no_floats() -> Error {
    Error::user("one of its inputs has no floats")
}

macro_rules! reals {
    ($($type:ident, $variant:ident, $other:ident, $of_half:ident);+ $(;)?) => { $(
        impl Real for $type {
            fn exp(self) -> Self { $type::exp(self) }
            fn ln(self) -> Self { $type::ln(self) }
            fn sqrt(self) -> Self { $type::sqrt(self) }
            fn tanh(self) -> Self { $type::tanh(self) }
            fn abs(self) -> Self { $type::abs(self) }
            fn powf(self, exponent: Self) -> Self { $type::powf(self, exponent) }
            fn floor(self) -> Self { $type::floor(self) }

            fn view(data: &Data) -> Option<Cow<'_, [Self]>> {
                Some(match data {
                    Data::$variant(v) => Cow::Borrowed(v),
                    Data::F16(v) => Cow::Owned(v.iter().map(|x| $type::from(*x)).collect()),
                    Data::BF16(v) => Cow::Owned(v.iter().map(|x| $type::from(*x)).collect()),
                    Data::$other(v) => Cow::Owned(v.iter().map(|x| *x as $type).collect()),
                    _ => return None,
                })
            }

            fn store(all: Vec<Self>, element: Element) -> Data {
                match element {
                    Element::F16 => all.into_iter().map(f16::$of_half).collect::<Vec<_>>().into(),
                    Element::BF16 => all.into_iter().map(bf16::$of_half).collect::<Vec<_>>().into(),
                    Element::F32 => all.into_iter().map(|x| x as f32).collect::<Vec<_>>().into(),
                    Element::F64 => all.into_iter().map(f64::from).collect::<Vec<_>>().into(),
                    _ => Data::of_f64(element, all.into_iter().map(f64::from)),
                }
            }
        }
    )+ };
}

reals! {
    f32, F32, F64, from_f32;
    f64, F64, F32, from_f64;
}

/// Calls a function of a call in the float that computes an input's elements: `in_real!(call, input, function)`.
macro_rules! in_real {
    ($call:expr, $input:expr, $function:ident) => {
        match $call.tensor($input)?.element() {
            Some(lessen_onnx::Element::F64) => $function::<f64>($call),
            Some(element) if element.is_float() => $function::<f32>($call),
            _ => $call.refused(format!("its input {} has no floats", $input)),
        }
    };
}
pub(crate) use in_real;

/// Calls a function of a [`Real`] in the type that an array's floats are computed in; other elements are refused.
macro_rules! in_reals {
    ($tensor:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $tensor.element() {
            Some(lessen_onnx::Element::F64) => $function::<f64>($($argument),*),
            Some(element) if element.is_float() => $function::<f32>($($argument),*),
            _ => Err(lessen_base::Error::user("its first input has no floats")),
        }
    };
}
pub(crate) use in_reals;

/// The element type of an array of floats.
///
/// # Errors
/// An array of other elements.
pub(crate) fn float_of(tensor: &HostTensor) -> Result<Element> {
    tensor
        .element()
        .filter(|element| element.is_float())
        .ok_or_else(no_floats)
}

/// The array of computed floats, rounded to an element type.
///
/// # Errors
/// Another number of elements than the extents have.
pub(crate) fn rounded<R: Real>(shape: &[usize], all: Vec<R>, element: Element) -> Result<HostTensor> {
    HostTensor::new(shape, R::store(all, element))
}
