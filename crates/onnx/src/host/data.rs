//! Elements of arrays in memory.

use half::{bf16, f16};

use super::narrow_number::NarrowNumber;
use crate::element::Element;
use crate::narrow::{Narrow, Narrowing};

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
    /// Floats of 8 bits with 4 for the exponent.
    E4M3(Vec<NarrowNumber<17>>),
    /// The same with one zero.
    E4M3Uz(Vec<NarrowNumber<18>>),
    /// Floats of 8 bits with 5 for the exponent.
    E5M2(Vec<NarrowNumber<19>>),
    /// The same with one zero.
    E5M2Uz(Vec<NarrowNumber<20>>),
    /// Unsigned integers of 4 bits.
    U4(Vec<NarrowNumber<21>>),
    /// Signed integers of 4 bits.
    I4(Vec<NarrowNumber<22>>),
    /// Floats of 4 bits.
    E2M1(Vec<NarrowNumber<23>>),
    /// Powers of two by exponents of 8 bits.
    E8M0(Vec<NarrowNumber<24>>),
    /// Unsigned integers of 2 bits.
    U2(Vec<NarrowNumber<25>>),
    /// Signed integers of 2 bits.
    I2(Vec<NarrowNumber<26>>),
}

/// Matches data of any number, `bool` and text left to `else`: `each_number!(data, v => expression, else expression)`.
/// `v` is the vector of elements.
macro_rules! each_number {
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
            $crate::host::Data::F16($v) => $body,
            $crate::host::Data::BF16($v) => $body,
            $crate::host::Data::F32($v) => $body,
            $crate::host::Data::F64($v) => $body,
            _ => $other,
        }
    };
}
pub(crate) use each_number;

/// Matches data of any integer.
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
pub(crate) use each_integer;

/// Matches data of any float.
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
pub(crate) use each_float;

/// Matches data of any narrow type.
macro_rules! each_narrow {
    ($data:expr, $v:ident => $body:expr, else $other:expr) => {
        match $data {
            $crate::host::Data::E4M3($v) => $body,
            $crate::host::Data::E4M3Uz($v) => $body,
            $crate::host::Data::E5M2($v) => $body,
            $crate::host::Data::E5M2Uz($v) => $body,
            $crate::host::Data::U4($v) => $body,
            $crate::host::Data::I4($v) => $body,
            $crate::host::Data::E2M1($v) => $body,
            $crate::host::Data::E8M0($v) => $body,
            $crate::host::Data::U2($v) => $body,
            $crate::host::Data::I2($v) => $body,
            _ => $other,
        }
    };
}

/// Matches data of any type, such as to move elements: `each_type!(data, v => expression)`.
macro_rules! each_type {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            $crate::host::Data::Bool($v) => $body,
            $crate::host::Data::I8($v) => $body,
            $crate::host::Data::I16($v) => $body,
            $crate::host::Data::I32($v) => $body,
            $crate::host::Data::I64($v) => $body,
            $crate::host::Data::U8($v) => $body,
            $crate::host::Data::U16($v) => $body,
            $crate::host::Data::U32($v) => $body,
            $crate::host::Data::U64($v) => $body,
            $crate::host::Data::F16($v) => $body,
            $crate::host::Data::BF16($v) => $body,
            $crate::host::Data::F32($v) => $body,
            $crate::host::Data::F64($v) => $body,
            $crate::host::Data::Text($v) => $body,
            $crate::host::Data::E4M3($v) => $body,
            $crate::host::Data::E4M3Uz($v) => $body,
            $crate::host::Data::E5M2($v) => $body,
            $crate::host::Data::E5M2Uz($v) => $body,
            $crate::host::Data::U4($v) => $body,
            $crate::host::Data::I4($v) => $body,
            $crate::host::Data::E2M1($v) => $body,
            $crate::host::Data::E8M0($v) => $body,
            $crate::host::Data::U2($v) => $body,
            $crate::host::Data::I2($v) => $body,
        }
    };
}
pub(crate) use each_type;

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
    NarrowNumber<17> => E4M3, NarrowNumber<18> => E4M3Uz, NarrowNumber<19> => E5M2, NarrowNumber<20> => E5M2Uz,
    NarrowNumber<21> => U4, NarrowNumber<22> => I4, NarrowNumber<23> => E2M1, NarrowNumber<24> => E8M0,
    NarrowNumber<25> => U2, NarrowNumber<26> => I2,
}

impl Data {
    /// The number of elements.
    pub fn len(&self) -> usize {
        each_type!(self, v => v.len())
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
            other => each_narrow!(other, v => return Some(element_of(v)), else return None),
        })
    }

    /// Elements of a type from their little-endian bytes; narrow ones share bytes, and those that pad the last one are
    /// elements, too.
    pub fn of_bytes(element: Element, bytes: &[u8]) -> Data {
        macro_rules! read {
            ($type:ty) => {
                bytes
                    .chunks_exact(size_of::<$type>())
                    .map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap_or_default()))
                    .collect::<Vec<$type>>()
                    .into()
            };
        }
        match element {
            Element::Bool => bytes.iter().map(|byte| *byte != 0).collect::<Vec<bool>>().into(),
            Element::Int(1) => read!(i8),
            Element::Int(2) => read!(i16),
            Element::Int(4) => read!(i32),
            Element::Int(_) => read!(i64),
            Element::Unsigned(1) => read!(u8),
            Element::Unsigned(2) => read!(u16),
            Element::Unsigned(4) => read!(u32),
            Element::Unsigned(_) => read!(u64),
            Element::F16 => read!(f16),
            Element::BF16 => read!(bf16),
            Element::F32 => read!(f32),
            Element::F64 => read!(f64),
            Element::Narrow(narrow) => Data::narrow(narrow, narrow.unpacked(bytes).into_iter()),
        }
    }

    /// Elements of a narrow type by their bits.
    pub(crate) fn narrow(narrow: Narrow, bits: impl Iterator<Item = u8>) -> Data {
        fn all<const TYPE: i32>(bits: impl Iterator<Item = u8>) -> Vec<NarrowNumber<TYPE>> {
            bits.map(NarrowNumber).collect()
        }
        match narrow {
            Narrow::E4M3 => all::<17>(bits).into(),
            Narrow::E4M3Uz => all::<18>(bits).into(),
            Narrow::E5M2 => all::<19>(bits).into(),
            Narrow::E5M2Uz => all::<20>(bits).into(),
            Narrow::U4 => all::<21>(bits).into(),
            Narrow::I4 => all::<22>(bits).into(),
            Narrow::E2M1 => all::<23>(bits).into(),
            Narrow::E8M0 => all::<24>(bits).into(),
            Narrow::U2 => all::<25>(bits).into(),
            Narrow::I2 => all::<26>(bits).into(),
        }
    }

    /// The first elements.
    pub(crate) fn truncated(mut self, count: usize) -> Data {
        each_type!(&mut self, v => v.truncate(count));
        self
    }

    /// The elements in little-endian order, narrow ones in as few bytes as they need; of texts none.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Data::Bool(v) => v.iter().map(|x| u8::from(*x)).collect(),
            other => each_number!(other, v => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                else each_narrow!(other, v => packed(v), else Vec::new())),
        }
    }

    /// Elements of a type from floats, each the nearest one; a truth value is whether a number is not zero.
    pub fn of_f64(element: Element, all: impl Iterator<Item = f64>) -> Data {
        use super::Number;
        match element {
            Element::Bool => all.map(|x| x != 0.0).collect::<Vec<bool>>().into(),
            Element::Int(1) => all.map(i8::of_f64).collect::<Vec<_>>().into(),
            Element::Int(2) => all.map(i16::of_f64).collect::<Vec<_>>().into(),
            Element::Int(4) => all.map(i32::of_f64).collect::<Vec<_>>().into(),
            Element::Int(_) => all.map(i64::of_f64).collect::<Vec<_>>().into(),
            Element::Unsigned(1) => all.map(u8::of_f64).collect::<Vec<_>>().into(),
            Element::Unsigned(2) => all.map(u16::of_f64).collect::<Vec<_>>().into(),
            Element::Unsigned(4) => all.map(u32::of_f64).collect::<Vec<_>>().into(),
            Element::Unsigned(_) => all.map(u64::of_f64).collect::<Vec<_>>().into(),
            Element::F16 => all.map(f16::from_f64).collect::<Vec<_>>().into(),
            Element::BF16 => all.map(bf16::from_f64).collect::<Vec<_>>().into(),
            Element::F32 => all.map(|x| x as f32).collect::<Vec<_>>().into(),
            Element::F64 => all.collect::<Vec<_>>().into(),
            Element::Narrow(narrow) => Data::narrow(narrow, all.map(|x| narrow.write(x, Narrowing::default()))),
        }
    }

    /// The elements as floats; of texts none.
    pub fn to_f64(&self) -> Vec<f64> {
        use super::Number;
        match self {
            Data::Bool(v) => v.iter().map(|x| f64::from(u8::from(*x))).collect(),
            other => each_number!(other, v => v.iter().map(|x| x.to_f64()).collect(),
                else each_narrow!(other, v => v.iter().map(|x| x.to_f64()).collect(), else Vec::new())),
        }
    }

    /// The elements at some places, which must be there.
    pub fn at(&self, places: impl Iterator<Item = usize>) -> Data {
        each_type!(self, v => places.map(|place| Clone::clone(&v[place])).collect::<Vec<_>>().into())
    }
}

fn element_of<const TYPE: i32>(_: &[NarrowNumber<TYPE>]) -> Element {
    Element::Narrow(NarrowNumber::<TYPE>::KIND)
}

fn packed<const TYPE: i32>(all: &[NarrowNumber<TYPE>]) -> Vec<u8> {
    NarrowNumber::<TYPE>::KIND.packed(all.iter().map(|x| x.0))
}
