//! Arrays, sequences and optional values in files of their own, as ONNX writes the data of its tests.

use std::sync::Arc;

use lessen_base::{Error, Result};
use prost::Message;

use super::data::Data;
use super::tensor::{HostTensor, HostValue};
use crate::proto::{OptionalProto, SequenceProto, TensorProto, TypeProto};
use crate::tensor::{Elements, Tensor};

/// The element type of texts in the schema.
pub const TEXT: i32 = 8;

/// The most sequences within each other.
const MOST_NESTED: usize = 8;

impl HostTensor {
    /// The array of a message whose elements are in it.
    ///
    /// # Errors
    /// A type that is not known, another number of elements than the extents have, elements in another file.
    pub fn of_message(message: &TensorProto) -> Result<HostTensor> {
        if message.data_type == TEXT {
            let texts = message.string_data.iter().map(|text| String::from_utf8(text.clone()));
            let texts: Vec<String> = texts
                .collect::<std::result::Result<_, _>>()
                .map_err(|_| Error::user(format!("a text of the tensor `{}` is not UTF-8", message.name)))?;
            let extents = message.dims.iter().map(|&extent| usize::try_from(extent).ok());
            let Some(shape) = extents.collect::<Option<Vec<usize>>>() else {
                return Err(Error::user(format!(
                    "the tensor `{}` has a negative extent",
                    message.name
                )));
            };
            return HostTensor::new(&shape, texts);
        }
        let Some(tensor) = Tensor::of(message)? else {
            return Err(Error::user(format!(
                "the tensor `{}` has the type {} of ONNX, which is not known",
                message.name, message.data_type
            )));
        };
        match &tensor.elements {
            Elements::Held(bytes) => HostTensor::of_bytes(&tensor.shape, tensor.element, bytes),
            _ => Err(Error::user(format!(
                "the elements of the tensor `{}` are in another file",
                message.name
            ))),
        }
    }

    /// The message of the array, with a name.
    pub fn to_message(&self, name: &str) -> TensorProto {
        let mut message = TensorProto {
            name: name.to_string(),
            dims: self.shape().iter().map(|extent| *extent as i64).collect(),
            ..TensorProto::default()
        };
        match (self.data(), self.element()) {
            (Data::Text(texts), _) => {
                message.data_type = TEXT;
                message.string_data = texts.iter().map(|text| text.clone().into_bytes()).collect();
            }
            (_, Some(element)) => {
                message.data_type = element.data_type();
                message.raw_data = self.data().to_bytes();
            }
            (_, None) => {}
        }
        message
    }
}

impl HostValue {
    /// The value in the bytes of a file, which has this type.
    ///
    /// # Errors
    /// Bytes that are no such value.
    pub fn of_file(bytes: &[u8], ty: &TypeProto) -> Result<HostValue> {
        let damaged = |_| Error::user("it is no value of the type that the model declares");
        if ty.sequence_type.is_some() {
            return sequence(&SequenceProto::decode(bytes).map_err(damaged)?, 0);
        }
        if ty.optional_type.is_some() {
            let optional = OptionalProto::decode(bytes).map_err(damaged)?;
            return match (&optional.tensor_value, &optional.sequence_value) {
                (Some(tensor), _) => HostTensor::of_message(tensor).map(HostValue::from),
                (None, Some(own)) => sequence(own, 0),
                (None, None) => Ok(HostValue::Absent),
            };
        }
        let tensor = TensorProto::decode(bytes).map_err(damaged)?;
        HostTensor::of_message(&tensor).map(HostValue::from)
    }

    /// The bytes of a file with the value: a tensor or a sequence, or an optional value where `is_optional`.
    pub fn to_file(&self, name: &str, is_optional: bool) -> Vec<u8> {
        let optional = |elem_type, tensor_value, sequence_value| OptionalProto {
            name: name.to_string(),
            elem_type,
            tensor_value,
            sequence_value,
        };
        match self {
            HostValue::Tensor(tensor) if is_optional => optional(1, Some(tensor.to_message("")), None).encode_to_vec(),
            HostValue::Tensor(tensor) => tensor.to_message(name).encode_to_vec(),
            HostValue::Sequence(all) if is_optional => {
                optional(3, None, Some(sequence_message(all, ""))).encode_to_vec()
            }
            HostValue::Sequence(all) => sequence_message(all, name).encode_to_vec(),
            HostValue::Absent => optional(0, None, None).encode_to_vec(),
        }
    }
}

fn sequence(message: &SequenceProto, depth: usize) -> Result<HostValue> {
    if depth > MOST_NESTED {
        return Err(Error::user(format!(
            "it has more than {MOST_NESTED} sequences within each other"
        )));
    }
    let tensors = message
        .tensor_values
        .iter()
        .map(|tensor| Ok(HostTensor::of_message(tensor)?.into()));
    let sequences = message.sequence_values.iter().map(|inner| sequence(inner, depth + 1));
    let all: Vec<HostValue> = tensors.chain(sequences).collect::<Result<_>>()?;
    Ok(HostValue::Sequence(Arc::new(all)))
}

fn sequence_message(all: &[HostValue], name: &str) -> SequenceProto {
    let mut message = SequenceProto {
        name: name.to_string(),
        elem_type: 1,
        ..SequenceProto::default()
    };
    for value in all {
        match value {
            HostValue::Tensor(tensor) => message.tensor_values.push(tensor.to_message("")),
            HostValue::Sequence(inner) => {
                message.elem_type = 3;
                message.sequence_values.push(sequence_message(inner, ""));
            }
            HostValue::Absent => {}
        }
    }
    message
}
