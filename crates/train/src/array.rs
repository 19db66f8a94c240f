//! Arrays that the host owns, of every dtype: what a checkpoint holds of a state.

use lessen_compile::Host;
use lessen_graph::{DType, Type};
use std::borrow::Cow;
use std::io::{self, Write};

/// Elements that are converted at once.
const BLOCK: usize = 1 << 14;

/// A dense row-major array in the host's memory.
#[derive(Clone, PartialEq, Debug)]
pub enum HostArray {
    /// `f32` elements.
    F32(Vec<f32>),
    /// `f64` elements.
    F64(Vec<f64>),
    /// `bf16` elements, as their bits.
    BF16(Vec<u16>),
    /// `i32` elements.
    I32(Vec<i32>),
    /// `u32` elements.
    U32(Vec<u32>),
    /// `u8` elements.
    U8(Vec<u8>),
    /// Booleans, 0 or 1.
    Bool(Vec<u8>),
}

impl HostArray {
    /// The array as devices take it.
    pub fn host(&self) -> Host<'_> {
        match self {
            HostArray::F32(x) => Host::F32(x),
            HostArray::F64(x) => Host::F64(x),
            HostArray::BF16(x) => Host::BF16(x),
            HostArray::I32(x) => Host::I32(x),
            HostArray::U32(x) => Host::U32(x),
            HostArray::U8(x) => Host::U8(x),
            HostArray::Bool(x) => Host::Bool(x),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.host().dtype()
    }

    /// The elements of an `f32` array; none for another dtype.
    pub fn as_f32(&self) -> Option<&[f32]> {
        self.host().as_f32()
    }

    /// The elements' bytes, little-endian.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            HostArray::F32(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            HostArray::F64(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            HostArray::BF16(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            HostArray::I32(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            HostArray::U32(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            HostArray::U8(x) | HostArray::Bool(x) => x.clone(),
        }
    }

    /// An array from its elements' bytes, little-endian. Bytes behind the last whole element are left out.
    pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> HostArray {
        fn elements<const N: usize, T>(bytes: &[u8], one: fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|&bytes| one(bytes)).collect()
        }
        match dtype {
            DType::F32 => HostArray::F32(elements(bytes, f32::from_le_bytes)),
            DType::F64 => HostArray::F64(elements(bytes, f64::from_le_bytes)),
            DType::BF16 => HostArray::BF16(elements(bytes, u16::from_le_bytes)),
            DType::I32 => HostArray::I32(elements(bytes, i32::from_le_bytes)),
            DType::U32 => HostArray::U32(elements(bytes, u32::from_le_bytes)),
            DType::U8 => HostArray::U8(bytes.to_vec()),
            DType::Bool => HostArray::Bool(bytes.to_vec()),
        }
    }
}

impl From<Host<'_>> for HostArray {
    fn from(host: Host<'_>) -> HostArray {
        match host {
            Host::F32(x) => HostArray::F32(x.to_vec()),
            Host::F64(x) => HostArray::F64(x.to_vec()),
            Host::BF16(x) => HostArray::BF16(x.to_vec()),
            Host::I32(x) => HostArray::I32(x.to_vec()),
            Host::U32(x) => HostArray::U32(x.to_vec()),
            Host::U8(x) => HostArray::U8(x.to_vec()),
            Host::Bool(x) => HostArray::Bool(x.to_vec()),
        }
    }
}

/// A state by name: the optimizer's, or one that the model function declared beside its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct StateArray {
    /// Name of the state.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub data: HostArray,
}

impl StateArray {
    /// Dtype and shape.
    pub fn ty(&self) -> Type {
        Type::new(self.data.dtype(), &self.shape)
    }
}

/// The elements as `f32`, rounded where that has fewer digits.
pub(crate) fn as_f32(host: Host<'_>) -> Cow<'_, [f32]> {
    match host.as_f32() {
        Some(elements) => Cow::Borrowed(elements),
        None => host.elements().map(|element| element as f32).collect(),
    }
}

/// Writes the elements' bytes, little-endian.
pub(crate) fn write_le(host: Host<'_>, out: &mut dyn Write) -> io::Result<()> {
    fn blocks<T: Copy, const N: usize>(elements: &[T], bytes: fn(T) -> [u8; N], out: &mut dyn Write) -> io::Result<()> {
        let mut block = Vec::with_capacity(N * BLOCK.min(elements.len()));
        for chunk in elements.chunks(BLOCK) {
            block.clear();
            block.extend(chunk.iter().flat_map(|&element| bytes(element)));
            out.write_all(&block)?;
        }
        Ok(())
    }
    match host {
        Host::F32(x) => blocks(x, f32::to_le_bytes, out),
        Host::F64(x) => blocks(x, f64::to_le_bytes, out),
        Host::BF16(x) => blocks(x, u16::to_le_bytes, out),
        Host::I32(x) => blocks(x, i32::to_le_bytes, out),
        Host::U32(x) => blocks(x, u32::to_le_bytes, out),
        Host::U8(x) | Host::Bool(x) => out.write_all(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_survives_its_bytes() {
        for array in [
            HostArray::F32(vec![0.1, -0.0, f32::MIN_POSITIVE / 2.0]),
            HostArray::F64(vec![0.1, f64::MAX]),
            HostArray::BF16(vec![1, u16::MAX - 1]),
            HostArray::I32(vec![i32::MIN, -1, 7]),
            HostArray::U32(vec![u32::MAX, 3]),
            HostArray::U8(vec![0, 255, 128]),
            HostArray::Bool(vec![0, 1, 1]),
        ] {
            let bytes = array.to_le_bytes();
            assert_eq!(HostArray::from_le_bytes(array.dtype(), &bytes), array);
            assert_eq!(HostArray::from(array.host()), array);
            let mut written = Vec::new();
            write_le(array.host(), &mut written).unwrap();
            assert_eq!(written, bytes);
        }
    }
}
