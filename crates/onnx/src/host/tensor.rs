//! Arrays in memory, and lists of them.

use std::sync::Arc;

use lessen_base::{Error, Result};

use super::data::Data;
use crate::element::Element;

/// An array in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    shape: Vec<usize>,
    data: Data,
}

/// What a name of a model stands for while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum HostValue {
    /// An array.
    Tensor(Arc<HostTensor>),
    /// A list of arrays or lists.
    Sequence(Arc<Vec<HostValue>>),
    /// An optional value that is absent.
    Absent,
}

impl HostTensor {
    /// The array of these elements.
    ///
    /// # Errors
    /// Another number of elements than the extents have.
    pub fn new(shape: &[usize], data: impl Into<Data>) -> Result<HostTensor> {
        HostTensor::of_data(shape, data.into())
    }

    fn of_data(shape: &[usize], data: Data) -> Result<HostTensor> {
        if numel(shape)? == data.len() {
            Ok(HostTensor {
                shape: shape.to_vec(),
                data,
            })
        } else {
            Err(Error::user(format!(
                "an array of extents {shape:?} cannot have {} elements",
                data.len()
            )))
        }
    }

    /// The array of the elements in these bytes of a file.
    ///
    /// # Errors
    /// Another number of elements than the extents have.
    pub fn of_bytes(shape: &[usize], element: Element, bytes: &[u8]) -> Result<HostTensor> {
        let data = Data::of_bytes(element, bytes);
        let data = match element {
            // The last byte may be padded.
            Element::Narrow(narrow) if narrow.bytes(numel(shape)? as u64) == bytes.len() as u64 => {
                data.truncated(numel(shape)?)
            }
            _ => data,
        };
        HostTensor::new(shape, data)
    }

    /// A single number.
    pub fn scalar<T>(number: T) -> HostTensor
    where
        Data: From<Vec<T>>,
    {
        HostTensor {
            shape: Vec::new(),
            data: vec![number].into(),
        }
    }

    /// A list of numbers.
    pub fn vector<T>(numbers: Vec<T>) -> HostTensor
    where
        Data: From<Vec<T>>,
    {
        HostTensor {
            shape: vec![numbers.len()],
            data: numbers.into(),
        }
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The elements, in the order of their indices.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The type of the elements; none for texts.
    pub fn element(&self) -> Option<Element> {
        self.data.element()
    }

    /// The same elements with other extents.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<HostTensor> {
        HostTensor::new(shape, self.data.clone())
    }

    /// The elements as integers where they are integers or truth values.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.data.integers()
    }
}

impl HostValue {
    /// The array; none for a list and an absent value.
    pub fn tensor(&self) -> Option<&Arc<HostTensor>> {
        match self {
            HostValue::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<HostTensor> for HostValue {
    fn from(tensor: HostTensor) -> HostValue {
        HostValue::Tensor(Arc::new(tensor))
    }
}

/// The number of elements of an array with these extents.
///
/// # Errors
/// More than a machine can have.
pub fn numel(shape: &[usize]) -> Result<usize> {
    /// Most elements of an array.
    const MOST: usize = 1 << 40;
    let count = if shape.contains(&0) {
        Some(0)
    } else {
        shape
            .iter()
            .try_fold(1usize, |count, extent| count.checked_mul(*extent))
    };
    count
        .filter(|count| *count <= MOST)
        .ok_or_else(|| Error::user(format!("an array of extents {shape:?} is larger than any memory")))
}
