//! States in the host's memory.

use lessen_device::{Host, HostArray};
use lessen_graph::Type;
use std::io::{self, Write};
use std::ops::Range;

/// Elements that are converted at once.
const BLOCK: usize = 1 << 14;

/// A state by name: the optimizer's, or one that the model function declared beside its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct StateArray {
    /// Name of the state, as files have it.
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

    /// Writes the elements' bytes, little-endian.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_le(self.data.host(), out)
    }
}

/// Writes the elements' bytes, little-endian.
pub(crate) fn write_le(host: Host<'_>, out: &mut dyn Write) -> io::Result<()> {
    fn blocks<T: Copy, const N: usize>(elements: &[T], bytes: fn(T) -> [u8; N], out: &mut dyn Write) -> io::Result<()> {
        let mut block: Vec<[u8; N]> = Vec::with_capacity(BLOCK.min(elements.len()));
        for chunk in elements.chunks(BLOCK) {
            block.clear();
            block.extend(chunk.iter().map(|&element| bytes(element)));
            out.write_all(block.as_flattened())?;
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

/// Some of the elements of an array.
pub(crate) fn part_of(data: Host<'_>, elements: Range<usize>) -> Host<'_> {
    match data {
        Host::F32(x) => Host::F32(&x[elements]),
        Host::F64(x) => Host::F64(&x[elements]),
        Host::BF16(x) => Host::BF16(&x[elements]),
        Host::I32(x) => Host::I32(&x[elements]),
        Host::U32(x) => Host::U32(&x[elements]),
        Host::U8(x) => Host::U8(&x[elements]),
        Host::Bool(x) => Host::Bool(&x[elements]),
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
