//! An array in memory.

use half::f16;

use super::dtype::{Dtype, Scalar};

/// An array of numbers in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    shape: Vec<usize>,
    dtype: Dtype,
    /// The elements in little-endian order.
    data: Vec<u8>,
}

impl Array {
    /// An array of these elements.
    ///
    /// # Panics
    /// If there are not as many elements as the shape says.
    pub fn new<T: Scalar>(shape: &[usize], elements: impl IntoIterator<Item = T>) -> Array {
        let count: usize = shape.iter().product();
        let mut data = Vec::with_capacity(count * T::DTYPE.bytes());
        elements.into_iter().for_each(|element| element.write(&mut data));
        Array::of_bytes(shape.to_vec(), T::DTYPE, data)
    }

    /// An array of elements in little-endian order.
    ///
    /// # Panics
    /// If there are not as many bytes as the shape says.
    pub fn of_bytes(shape: Vec<usize>, dtype: Dtype, data: Vec<u8>) -> Array {
        let count: usize = shape.iter().product();
        assert_eq!(data.len(), count * dtype.bytes(), "elements of shape {shape:?}");
        Array { shape, dtype, data }
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The dtype of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The elements as bytes, in little-endian order.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The elements as `f64`; integers beyond 2^53 are rounded.
    pub fn floats(&self) -> impl Iterator<Item = f64> {
        let dtype = self.dtype;
        self.elements().map(move |bytes| match dtype {
            Dtype::Float(2) => f16::from_bits(unsigned(bytes) as u16).to_f64(),
            Dtype::Float(4) => f32::from_bits(unsigned(bytes) as u32).into(),
            Dtype::Float(_) => f64::from_bits(unsigned(bytes)),
            Dtype::Signed(_) => signed(bytes) as f64,
            Dtype::Unsigned(_) | Dtype::Bool => unsigned(bytes) as f64,
        })
    }

    /// The elements as integers; none where they are floats, or one is beyond 2^63.
    pub fn integers(&self) -> Option<Vec<i64>> {
        match self.dtype {
            Dtype::Float(_) => None,
            Dtype::Signed(_) => Some(self.elements().map(signed).collect()),
            Dtype::Unsigned(_) | Dtype::Bool => self.elements().map(|bytes| unsigned(bytes).try_into().ok()).collect(),
        }
    }

    /// The bytes of each element.
    fn elements(&self) -> impl Iterator<Item = &[u8]> {
        self.data.chunks_exact(self.dtype.bytes())
    }
}

/// A number of up to 8 bytes.
fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number of up to 8 bytes with a sign.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    (unsigned(bytes) << unused) as i64 >> unused
}
