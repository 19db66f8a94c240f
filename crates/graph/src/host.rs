//! Arrays in the host's memory, as they pass between a program and a device.

use crate::types::DType;

/// A dense row-major array in the host's memory. Slices, vectors and arrays of numbers become one by `into()`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Host<'a> {
    /// `f32` elements.
    F32(&'a [f32]),
    /// `f64` elements.
    F64(&'a [f64]),
    /// `bf16` elements, as their bits.
    BF16(&'a [u16]),
    /// `i32` elements.
    I32(&'a [i32]),
    /// `u32` elements.
    U32(&'a [u32]),
    /// `u8` elements.
    U8(&'a [u8]),
    /// Booleans, 0 or 1; made of `bool` with [`Host::from`].
    Bool(&'a [u8]),
}

impl<'a> Host<'a> {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Host::F32(_) => DType::F32,
            Host::F64(_) => DType::F64,
            Host::BF16(_) => DType::BF16,
            Host::I32(_) => DType::I32,
            Host::U32(_) => DType::U32,
            Host::U8(_) => DType::U8,
            Host::Bool(_) => DType::Bool,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Host::F32(x) => x.len(),
            Host::F64(x) => x.len(),
            Host::BF16(x) => x.len(),
            Host::I32(x) => x.len(),
            Host::U32(x) => x.len(),
            Host::U8(x) | Host::Bool(x) => x.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of an `f32` array; none for another dtype.
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        match *self {
            Host::F32(x) => Some(x),
            _ => None,
        }
    }

    /// Iterates over the elements as `f64`, which represents all of them exactly.
    pub fn elements(self) -> impl Iterator<Item = f64> + 'a {
        (0..self.len()).map(move |i| match self {
            Host::F32(x) => f64::from(x[i]),
            Host::F64(x) => x[i],
            Host::BF16(x) => f64::from(f32::from_bits(u32::from(x[i]) << 16)),
            Host::I32(x) => f64::from(x[i]),
            Host::U32(x) => f64::from(x[i]),
            Host::U8(x) | Host::Bool(x) => f64::from(x[i]),
        })
    }
}

/// Host arrays of slices, vectors and arrays, without a copy.
macro_rules! from_elements {
    ($($element:ty => $host:expr),* $(,)?) => {$(
        impl<'a> From<&'a [$element]> for Host<'a> {
            fn from(elements: &'a [$element]) -> Host<'a> {
                let host: fn(&'a [$element]) -> Host<'a> = $host;
                host(elements)
            }
        }

        impl<'a> From<&'a Vec<$element>> for Host<'a> {
            fn from(elements: &'a Vec<$element>) -> Host<'a> {
                Host::from(elements.as_slice())
            }
        }

        impl<'a, const N: usize> From<&'a [$element; N]> for Host<'a> {
            fn from(elements: &'a [$element; N]) -> Host<'a> {
                Host::from(elements.as_slice())
            }
        }
    )*};
}

from_elements! {
    f32 => Host::F32,
    f64 => Host::F64,
    i32 => Host::I32,
    u32 => Host::U32,
    u8 => Host::U8,
    bool => |elements| Host::Bool(bytemuck::cast_slice(elements)),
}
