//! Tensors of a model, whose elements stay in the file until they are read.

use lessen_base::{Error, Result};
use prost::Message;

use crate::element::Element;
use crate::external::External;
use crate::proto::{StringStringEntryProto, TensorProto};
use crate::wire::{Field, Payload, Source, Span};

/// Numbers of the fields of a tensor in the schema.
mod number {
    pub const DIMS: u32 = 1;
    pub const DATA_TYPE: u32 = 2;
    pub const FLOATS: u32 = 4;
    pub const INT32S: u32 = 5;
    pub const INT64S: u32 = 7;
    pub const NAME: u32 = 8;
    pub const RAW: u32 = 9;
    pub const DOUBLES: u32 = 10;
    pub const UINT64S: u32 = 11;
    pub const EXTERNAL: u32 = 13;
    pub const LOCATION: u32 = 14;
}

/// Where a tensor's elements are.
#[derive(Clone, PartialEq, Debug)]
pub enum Elements {
    /// In the model's file, in little-endian order.
    Here(Span),
    /// In another file.
    There(External),
    /// In memory, in little-endian order.
    Held(Vec<u8>),
}

/// A tensor: an initializer, or the value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Name; empty for an attribute's value.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Element type.
    pub element: Element,
    /// Where the elements are.
    pub elements: Elements,
}

impl Tensor {
    /// Reads the tensor in a span, without its elements where these are in one piece. None for elements of a type that
    /// has no [`Element`].
    ///
    /// # Errors
    /// A sentence that names the tensor and what is wrong: fields, extents, the number of bytes.
    pub fn read(source: &Source, span: Span) -> Result<Option<Tensor>> {
        let mut parts = Parts::default();
        for field in source.fields(span)? {
            parts.add(source, field)?;
        }
        let name = parts.name;
        let shape = extents(&name, &parts.dims)?;
        let Some(element) = Element::of(parts.data_type) else {
            return Ok(None);
        };
        let bytes = bytes_of(&name, &shape, element)?;
        let elements = if parts.is_external {
            Elements::There(External::of(&name, &parts.external, bytes)?)
        } else if let Some(span) = parts.raw {
            Elements::Here(span)
        } else if let (Some(span), None) = (parts.floats, &parts.numbers) {
            Elements::Here(span)
        } else {
            Elements::Held(held(element, &parts.numbers.unwrap_or_default()))
        };
        let found = match &elements {
            Elements::Here(span) => span.len,
            Elements::There(external) => external.span.len,
            Elements::Held(bytes) => bytes.len() as u64,
        };
        if found != bytes {
            return Err(Error::user(format!(
                "the tensor `{name}` of extents {shape:?} takes {bytes} bytes, but {found} are there; export the model again"
            )));
        }
        Ok(Some(Tensor {
            name,
            shape,
            element,
            elements,
        }))
    }

    /// The tensor of a message in memory, such as an attribute's value.
    ///
    /// # Errors
    /// As for [`Tensor::read`].
    pub fn of(message: &TensorProto) -> Result<Option<Tensor>> {
        let name = message.name.clone();
        let shape = extents(&name, &message.dims)?;
        let Some(element) = Element::of(message.data_type) else {
            return Ok(None);
        };
        let bytes = bytes_of(&name, &shape, element)?;
        let elements = if message.data_location == 1 {
            Elements::There(External::of(&name, &message.external_data, bytes)?)
        } else if !message.raw_data.is_empty() {
            Elements::Held(message.raw_data.clone())
        } else {
            let mut numbers: Vec<i64> = message.int64_data.clone();
            numbers.extend(message.int32_data.iter().map(|number| i64::from(*number)));
            let mut held = held(element, &numbers);
            message.float_data.iter().for_each(|x| held.extend(x.to_le_bytes()));
            message.double_data.iter().for_each(|x| held.extend(x.to_le_bytes()));
            let bits = |x: &u64| x.to_le_bytes().into_iter().take(element.bytes());
            held.extend(message.uint64_data.iter().flat_map(bits));
            Elements::Held(held)
        };
        if let Elements::Held(held) = &elements
            && held.len() as u64 != bytes
        {
            return Err(Error::user(format!(
                "a tensor of extents {shape:?} takes {bytes} bytes, but {} are there; export the model again",
                held.len()
            )));
        }
        Ok(Some(Tensor {
            name,
            shape,
            element,
            elements,
        }))
    }

    /// A tensor of the elements in `data`.
    pub fn held(name: &str, shape: &[usize], element: Element, data: &[f64]) -> Tensor {
        let mut held = Vec::with_capacity(data.len() * element.bytes());
        data.iter().for_each(|x| element.write(*x, &mut held));
        Tensor {
            name: name.to_string(),
            shape: shape.to_vec(),
            element,
            elements: Elements::Held(held),
        }
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.element.bytes_of(self.numel() as u64).unwrap_or(u64::MAX)
    }

    /// Calls `each` with the bytes of the elements, block by block.
    ///
    /// # Errors
    /// The errors of `each`; a file that cannot be read.
    pub fn for_each_block(&self, model: &Source, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        /// Bytes of a chunk: a multiple of the size of every element.
        const BLOCK: u64 = 1 << 20;
        let opened;
        let (source, span) = match &self.elements {
            Elements::Held(bytes) => return each(bytes),
            Elements::Here(span) => (model, *span),
            Elements::There(external) => {
                opened = external.open(model.path())?;
                (&opened, external.span)
            }
        };
        let mut buffer = vec![0; span.len.min(BLOCK) as usize];
        let mut at = span.start;
        while at < span.end() {
            let len = (span.end() - at).min(BLOCK) as usize;
            source.read_into(at, &mut buffer[..len])?;
            each(&buffer[..len])?;
            at += len as u64;
        }
        Ok(())
    }

    /// All elements, each as `of` makes it of its number.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn elements<T>(&self, model: &Source, of: impl Fn(f64) -> T) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let element = self.element;
        self.for_each_block(model, &mut |bytes| {
            // Elements of that number are there, as the first block shows.
            all.reserve_exact(self.numel() - all.len());
            all.extend(bytes.chunks_exact(element.bytes()).map(|bytes| of(element.read(bytes))));
            Ok(())
        })?;
        Ok(all)
    }

    /// All elements as integers.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn integers(&self, model: &Source) -> Result<Vec<i64>> {
        let mut all = Vec::new();
        let element = self.element;
        self.for_each_block(model, &mut |bytes| {
            all.extend(bytes.chunks_exact(element.bytes()).map(|bytes| element.read_i64(bytes)));
            Ok(())
        })?;
        Ok(all)
    }
}

/// The fields of a tensor that are read.
#[derive(Default)]
struct Parts {
    name: String,
    dims: Vec<i64>,
    data_type: i32,
    raw: Option<Span>,
    /// Floats or doubles in one piece.
    floats: Option<Span>,
    /// Numbers of other fields.
    numbers: Option<Vec<i64>>,
    external: Vec<StringStringEntryProto>,
    is_external: bool,
}

impl Parts {
    fn add(&mut self, source: &Source, field: Field) -> Result<()> {
        let at = field.whole.start;
        let damaged = |what: &str| source.damaged(at, what);
        match (field.number, field.payload) {
            (number::DIMS, _) => self.dims.extend(integers(source, field)?),
            (number::DATA_TYPE, Payload::Number(number)) => self.data_type = number as i32,
            (number::NAME, Payload::Bytes(span)) => {
                let text = String::from_utf8(source.read(span)?);
                self.name = text.map_err(|_| damaged("the name of a tensor is no text"))?;
            }
            (number::RAW, Payload::Bytes(span)) => self.raw = Some(span),
            (number::FLOATS | number::DOUBLES, Payload::Bytes(span)) if self.floats.is_none() => {
                self.floats = Some(span)
            }
            (number::FLOATS | number::DOUBLES, _) => {
                return Err(damaged("the elements of a tensor are in several pieces"));
            }
            (number::INT32S | number::INT64S | number::UINT64S, _) => {
                self.numbers.get_or_insert_default().extend(integers(source, field)?);
            }
            (number::EXTERNAL, Payload::Bytes(span)) => {
                let entry = StringStringEntryProto::decode(&source.read(span)?[..]);
                self.external
                    .push(entry.map_err(|_| damaged("a tensor names no other file"))?);
            }
            (number::LOCATION, Payload::Number(number)) => self.is_external = number == 1,
            _ => {}
        }
        Ok(())
    }
}

/// The integers of a field: one, or packed ones.
fn integers(source: &Source, field: Field) -> Result<Vec<i64>> {
    let span = match field.payload {
        Payload::Number(number) => return Ok(vec![number as i64]),
        Payload::Bytes(span) => span,
    };
    let mut bytes = &source.read(span)?[..];
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let number = prost::encoding::decode_varint(&mut bytes);
        numbers.push(number.map_err(|_| source.damaged(span.start, "a number has no end"))? as i64);
    }
    Ok(numbers)
}

/// Numbers as bytes of elements; 16-bit floats are there by their bits.
fn held(element: Element, numbers: &[i64]) -> Vec<u8> {
    let bits = |number: &i64| number.to_le_bytes().into_iter().take(element.bytes());
    match element {
        Element::F32 | Element::F64 => Vec::new(),
        _ => numbers.iter().flat_map(bits).collect(),
    }
}

/// Extents as sizes.
fn extents(name: &str, dims: &[i64]) -> Result<Vec<usize>> {
    let sizes: Option<Vec<usize>> = dims.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    sizes.ok_or_else(|| {
        Error::user(format!(
            "the tensor `{name}` has the extents {dims:?}, one of which is negative; export the model again"
        ))
    })
}

/// The bytes of a tensor's elements, below 2^48.
fn bytes_of(name: &str, shape: &[usize], element: Element) -> Result<u64> {
    let count = shape.iter().try_fold(1u64, |count, &n| count.checked_mul(n as u64));
    let bytes = count.and_then(|count| element.bytes_of(count));
    bytes.filter(|bytes| *bytes < 1 << 48).ok_or_else(|| {
        Error::user(format!(
            "the tensor `{name}` has the extents {shape:?}, which no memory holds; export the model again"
        ))
    })
}
