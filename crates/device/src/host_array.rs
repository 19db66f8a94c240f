//! Arrays that the host owns, of every dtype.

use lessen_graph::{DType, bf16_bits};

use lessen_graph::Host;

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

    /// Numbers in a dtype: floats are rounded, integers must fit, and a number other than zero is true.
    pub fn of(dtype: DType, numbers: &[f64]) -> HostArray {
        let numbers = numbers.iter().copied();
        match dtype {
            DType::F32 => HostArray::F32(numbers.map(|x| x as f32).collect()),
            DType::F64 => HostArray::F64(numbers.collect()),
            DType::BF16 => HostArray::BF16(numbers.map(|x| bf16_bits(x as f32)).collect()),
            DType::I32 => HostArray::I32(numbers.map(|x| x as i32).collect()),
            DType::U32 => HostArray::U32(numbers.map(|x| x as u32).collect()),
            DType::U8 => HostArray::U8(numbers.map(|x| x as u8).collect()),
            DType::Bool => HostArray::Bool(numbers.map(|x| u8::from(x != 0.0)).collect()),
        }
    }

    /// Zeros; none where the memory does not hold them.
    pub fn zeros(dtype: DType, numel: usize) -> Option<HostArray> {
        fn zeros<T: Clone + Default>(numel: usize) -> Option<Vec<T>> {
            let mut zeros = Vec::new();
            zeros.try_reserve_exact(numel).ok()?;
            zeros.resize(numel, T::default());
            Some(zeros)
        }
        Some(match dtype {
            DType::F32 => HostArray::F32(zeros(numel)?),
            DType::F64 => HostArray::F64(zeros(numel)?),
            DType::BF16 => HostArray::BF16(zeros(numel)?),
            DType::I32 => HostArray::I32(zeros(numel)?),
            DType::U32 => HostArray::U32(zeros(numel)?),
            DType::U8 => HostArray::U8(zeros(numel)?),
            DType::Bool => HostArray::Bool(zeros(numel)?),
        })
    }

    /// Copies an array of the same dtype over the elements from number `first` on.
    ///
    /// # Panics
    /// If the dtypes differ or the elements do not suffice.
    pub fn write(&mut self, first: usize, from: Host<'_>) {
        fn copy<T: Copy>(to: &mut [T], first: usize, from: &[T]) {
            to[first..first + from.len()].copy_from_slice(from);
        }
        match (self, from) {
            (HostArray::F32(to), Host::F32(from)) => copy(to, first, from),
            (HostArray::F64(to), Host::F64(from)) => copy(to, first, from),
            (HostArray::BF16(to), Host::BF16(from)) => copy(to, first, from),
            (HostArray::I32(to), Host::I32(from)) => copy(to, first, from),
            (HostArray::U32(to), Host::U32(from)) => copy(to, first, from),
            (HostArray::U8(to), Host::U8(from)) | (HostArray::Bool(to), Host::Bool(from)) => copy(to, first, from),
            (to, from) => panic!("{} is copied over {}", from.dtype().name(), to.dtype().name()),
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.host().len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// An array from its elements' bytes, little-endian. Bytes after the last whole element are left out.
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
