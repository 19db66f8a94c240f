//! The floats that operators on images compute in: 16-bit floats in single precision, rounded once at the end.

use std::borrow::Cow;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use half::{bf16, f16};

use lessen_onnx::Element;
use lessen_onnx::host::{Data, Float};

/// A float to compute in.
pub(super) trait Real:
    Float
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// The elements, borrowed where they have this type.
    fn elements(data: &Data) -> Cow<'_, [Self]>;
    /// Results as elements of a type, each rounded once.
    fn data(all: Vec<Self>, element: Element) -> Data;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The power.
    fn powf(self, exponent: Self) -> Self;
    /// The greatest integer that is no greater.
    fn floor(self) -> Self;
    /// The greater of two numbers; NaN if one is.
    fn greater(self, other: Self) -> Self {
        if other > self || other.is_nan() { other } else { self }
    }
}

macro_rules! real {
    ($type:ident, $own:ident, $other:ident) => {
        impl Real for $type {
            fn elements(data: &Data) -> Cow<'_, [Self]> {
                match data {
                    Data::$own(v) => Cow::Borrowed(v),
                    Data::$other(v) => Cow::Owned(v.iter().map(|x| *x as $type).collect()),
                    Data::F16(v) => Cow::Owned(v.iter().map(|x| $type::from(*x)).collect()),
                    Data::BF16(v) => Cow::Owned(v.iter().map(|x| $type::from(*x)).collect()),
                    other => Cow::Owned(other.to_f64().into_iter().map(|x| x as $type).collect()),
                }
            }

            fn data(all: Vec<Self>, element: Element) -> Data {
                match element {
                    Element::F16 => all.into_iter().map(half_of).collect::<Vec<f16>>().into(),
                    Element::BF16 => all.into_iter().map(brain_of).collect::<Vec<bf16>>().into(),
                    _ => match Data::from(all) {
                        same if same.element() == Some(element) => same,
                        all => Data::of_f64(element, all.to_f64().into_iter()),
                    },
                }
            }

            fn abs(self) -> Self {
                $type::abs(self)
            }

            fn sqrt(self) -> Self {
                $type::sqrt(self)
            }

            fn powf(self, exponent: Self) -> Self {
                $type::powf(self, exponent)
            }

            fn floor(self) -> Self {
                $type::floor(self)
            }
        }
    };
}

real!(f32, F32, F64);
real!(f64, F64, F32);

fn half_of(x: impl Into<f64>) -> f16 {
    f16::from_f64(x.into())
}

fn brain_of(x: impl Into<f64>) -> bf16 {
    bf16::from_f64(x.into())
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
pub(super) use in_real;
