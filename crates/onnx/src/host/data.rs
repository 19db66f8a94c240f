//! Elements of arrays in memory.

use bytemuck::cast_vec;
use half::{bf16, f16};

use super::narrow_numbers::NarrowNumbers;
use crate::element::Element;

/// The elements of an array, in the order of their indices.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Truth values.
    Bool(Vec<bool>),
    /// Signed integers of 8 bits.
    I8(Vec<i8>),
    /// Signed integers of 16 bits.
    I16(Vec<i16>),
    /// Signed integers of 32 bits.
    I32(Vec<i32>),
    /// Signed integers of 64 bits.
    I64(Vec<i64>),
    /// Unsigned integers of 8 bits.
    U8(Vec<u8>),
    /// Unsigned integers of 16 bits.
    U16(Vec<u16>),
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Unsigned integers of 64 bits.
    U64(Vec<u64>),
    /// IEEE 754 half precision.
    F16(Vec<f16>),
    /// The upper half of single precision.
    BF16(Vec<bf16>),
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Texts.
    Text(Vec<String>),
    /// Numbers of at most eight bits.
    Narrow(NarrowNumbers),
}

/// Matches data of any number, `bool` and text left to `else`: `each_number!(data, v => expression, else expression)`.
/// `v` is the vector of elements.
#[macro_export]
macro_rules! each_number {
    ($data:expr, $v:ident => $body:expr, else $other:expr) => {
        match $data {
            $crate::host::Data::F16($v) => $body,
            $crate::host::Data::BF16($v) => $body,
            wide => $crate::host::each_wide!(wide, $v => $body, else $other),
        }
    };
}
pub use each_number;

/// Matches data of any number but floats of 16 bits, which are computed in `f32`.
#[macro_export]
macro_rules! each_wide {
    ($data:expr, $v:ident => $body:expr, else $other:expr) => {
        match $data {
            $crate::host::Data::F32($v) => $body,
            $crate::host::Data::F64($v) => $body,
            integers => $crate::host::each_integer!(integers, $v => $body, else $other),
        }
    };
}
pub use each_wide;

/// Matches data of any integer.
#[macro_export]
macro_rules! each_integer {
    ($data:expr, $v:ident => $body:expr, else $other:expr) => {
        match $data {
            $crate::host::Data::I8($v) => $body,
            $crate::host::Data::I16($v) => $body,
            $crate::host::Data::I32($v) => $body,
            $crate::host::Data::I64($v) => $body,
            $crate::host::Data::U8($v) => $body,
            $crate::host::Data::U16($v) => $body,
            $crate::host::Data::U32($v) => $body,
            $crate::host::Data::U64($v) => $body,
            _ => $other,
        }
    };
}
pub use each_integer;

/// Matches data of any float.
#[macro_export]
macro_rules! each_float {
    ($data:expr, $v:ident => $body:expr, else $other:expr) => {
        match $data {
            $crate::host::Data::F16($v) => $body,
            $crate::host::Data::BF16($v) => $body,
            $crate::host::Data::F32($v) => $body,
            $crate::host::Data::F64($v) => $body,
            _ => $other,
        }
    };
}
pub use each_float;

macro_rules! from_vectors {
    ($($type:ty => $variant:ident),+ $(,)?) => { $(
        impl From<Vec<$type>> for Data {
            fn from(all: Vec<$type>) -> Data {
                Data::$variant(all)
            }
        }
    )+ };
}

from_vectors! {
    bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, String => Text,
}

impl Data {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::Bool(v) => v.len(),
            Data::Text(v) => v.len(),
            Data::Narrow(v) => v.bits().len(),
            numbers => each_number!(numbers, v => v.len(), else 0),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements; none for texts.
    pub fn element(&self) -> Option<Element> {
        Some(match self {
            Data::Bool(_) => Element::Bool,
            Data::I8(_) => Element::Int(1),
            Data::I16(_) => Element::Int(2),
            Data::I32(_) => Element::Int(4),
            Data::I64(_) => Element::Int(8),
            Data::U8(_) => Element::Unsigned(1),
            Data::U16(_) => Element::Unsigned(2),
            Data::U32(_) => Element::Unsigned(4),
            Data::U64(_) => Element::Unsigned(8),
            Data::F16(_) => Element::F16,
            Data::BF16(_) => Element::BF16,
            Data::F32(_) => Element::F32,
            Data::F64(_) => Element::F64,
            Data::Text(_) => return None,
            Data::Narrow(v) => Element::Narrow(v.narrow()),
        })
    }

    /// Elements of a type from their little-endian bytes; narrow ones share bytes, and those that pad the last one are
    /// elements, too.
    pub fn of_bytes(element: Element, bytes: &[u8]) -> Data {
        match element {
            Element::Bool => Data::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
            Element::Int(1) => Data::I8(cast_vec(bytes.to_vec())),
            Element::Int(2) => Data::I16(cast_vec(of_le_bytes(bytes, u16::from_le_bytes))),
            Element::Int(4) => Data::I32(cast_vec(of_le_bytes(bytes, u32::from_le_bytes))),
            Element::Int(_) => Data::I64(cast_vec(of_le_bytes(bytes, u64::from_le_bytes))),
            Element::Unsigned(1) => Data::U8(bytes.to_vec()),
            Element::Unsigned(2) => Data::U16(of_le_bytes(bytes, u16::from_le_bytes)),
            Element::Unsigned(4) => Data::U32(of_le_bytes(bytes, u32::from_le_bytes)),
            Element::Unsigned(_) => Data::U64(of_le_bytes(bytes, u64::from_le_bytes)),
            Element::F16 => Data::F16(cast_vec(of_le_bytes(bytes, u16::from_le_bytes))),
            Element::BF16 => Data::BF16(cast_vec(of_le_bytes(bytes, u16::from_le_bytes))),
            Element::F32 => Data::F32(cast_vec(of_le_bytes(bytes, u32::from_le_bytes))),
            Element::F64 => Data::F64(cast_vec(of_le_bytes(bytes, u64::from_le_bytes))),
            Element::Narrow(narrow) => Data::Narrow(NarrowNumbers::new(narrow, narrow.unpacked(bytes))),
        }
    }

    /// The first elements.
    pub fn truncated(mut self, count: usize) -> Data {
        match &mut self {
            Data::Bool(v) => v.truncate(count),
            Data::Text(v) => v.truncate(count),
            Data::Narrow(v) => v.bits_mut().truncate(count),
            numbers => each_number!(numbers, v => v.truncate(count), else ()),
        }
        self
    }

    /// The elements as floats; of texts none.
    pub fn to_f64(&self) -> Vec<f64> {
        use super::Number;
        match self {
            Data::Bool(v) => v.iter().map(|x| f64::from(u8::from(*x))).collect(),
            Data::Narrow(v) => v.to_f64(),
            other => each_number!(other, v => v.iter().map(|x| x.to_f64()).collect(), else Vec::new()),
        }
    }

    /// The elements as integers where they are integers or truth values; those beyond 2^63 become the greatest one.
    pub fn integers(&self) -> Option<Vec<i64>> {
        use super::Number;
        match self {
            Data::Bool(v) => Some(v.iter().map(|x| i64::from(*x)).collect()),
            Data::U64(v) => Some(v.iter().map(|x| i64::try_from(*x).unwrap_or(i64::MAX)).collect()),
            Data::Narrow(v) if v.narrow().range().is_some() => Some(v.to_f64().into_iter().map(|x| x as i64).collect()),
            numbers => each_integer!(numbers, v => Some(v.iter().map(|x| x.to_i128() as i64).collect()), else None),
        }
    }
}

fn of_le_bytes<T, const N: usize>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| of(*chunk)).collect()
}
