//! The bytes of a file.

use std::io::{self, Write};
use std::path::Path;

use lessen_base::{Error, Result, atomic};
use prost::Message;

use super::extent::Extent;
use super::writer::{Elements, Initializer};
use crate::edit::field;
use crate::model::number;
use crate::proto::{
    Dimension, DimensionProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::wire::{head, varint};

/// Offsets of elements in the file beside a model are multiples of this.
const ALIGNMENT: u64 = 4096;

/// An input or output: name, element type and extents.
pub(super) type Shown = (String, i32, Vec<Extent>);

/// What a file holds.
pub(super) struct Contents<'a> {
    pub name: &'a str,
    pub opset: i64,
    pub dimensions: &'a [&'a str],
    pub metadata: &'a [(String, String)],
    pub nodes: &'a [NodeProto],
    pub initializers: &'a [Initializer],
    pub inputs: &'a [Shown],
    pub outputs: &'a [Shown],
}

/// Fields of the schema's messages that this crate does not read.
mod own_number {
    pub(super) const MODEL_IR_VERSION: u32 = 1;
    pub(super) const MODEL_PRODUCER: u32 = 2;
    pub(super) const MODEL_PRODUCER_VERSION: u32 = 3;
    pub(super) const GRAPH_NAME: u32 = 2;
    pub(super) const TENSOR_RAW_DATA: u32 = 9;
}

/// The version of the file format that goes with a version of the operators.
fn format_version(opset: i64) -> u64 {
    match opset {
        ..=18 => 8,
        19..=20 => 9,
        21..=22 => 10,
        _ => 11,
    }
}

impl Initializer {
    fn bytes(&self) -> u64 {
        match &self.elements {
            Elements::Held(bytes) => bytes.len() as u64,
            Elements::Parameter { .. } => 4 * self.shape.iter().product::<usize>() as u64,
        }
    }

    fn write(&self, parameter: &dyn Fn(&str) -> Result<Vec<f32>>, out: &mut dyn Write) -> io::Result<()> {
        match &self.elements {
            Elements::Held(bytes) => out.write_all(bytes),
            Elements::Parameter { name, transposed } => {
                let values = parameter(name).map_err(io::Error::other)?;
                if values.len() != self.shape.iter().product::<usize>() {
                    let error = Error::internal(format!("the parameter `{name}` has another size"));
                    return Err(io::Error::other(error));
                }
                let columns = if *transposed { self.shape[0] } else { 1 };
                let rows = values.len() / columns.max(1);
                let mut bytes = Vec::with_capacity(4 * rows.max(1 << 10));
                for column in 0..columns {
                    bytes.clear();
                    let own = (0..rows).map(|row| values[row * columns + column]);
                    own.for_each(|value| bytes.extend(value.to_le_bytes()));
                    out.write_all(&bytes)?;
                }
                Ok(())
            }
        }
    }

    /// The message without elements, which are at an offset in another file where one is given.
    fn message(&self, beside: Option<(&str, u64)>) -> TensorProto {
        let mut message = TensorProto {
            dims: self.shape.iter().map(|extent| *extent as i64).collect(),
            data_type: self.element,
            name: self.name.clone(),
            ..TensorProto::default()
        };
        if let Some((location, offset)) = beside {
            let entry = |key: &str, value: String| StringStringEntryProto {
                key: key.to_string(),
                value,
            };
            message.data_location = 1;
            message.external_data = vec![
                entry("location", location.to_string()),
                entry("offset", offset.to_string()),
                entry("length", self.bytes().to_string()),
            ];
        }
        message
    }
}

/// Writes a file, and one for its elements beside it where they take more than `most_bytes`.
///
/// # Errors
/// A parameter that cannot be read, a file that cannot be written.
pub(super) fn write(
    contents: &Contents<'_>,
    path: &Path,
    most_bytes: u64,
    parameter: &dyn Fn(&str) -> Result<Vec<f32>>,
) -> Result<()> {
    let elements: u64 = contents.initializers.iter().map(Initializer::bytes).sum();
    let location = format!("{}.data", path.file_name().unwrap_or_default().to_string_lossy());
    let is_beside = elements > most_bytes;
    let mut pieces: Vec<(Vec<u8>, Option<&Initializer>)> = Vec::new();
    let mut graph = Vec::new();
    for node in contents.nodes {
        graph.extend(field(number::GRAPH_NODES, node));
    }
    head(own_number::GRAPH_NAME, contents.name.len() as u64, &mut graph);
    graph.extend(contents.name.as_bytes());
    let mut offsets = Vec::new();
    let mut offset = 0u64;
    for initializer in contents.initializers {
        // Small tensors, such as shapes, stay in the file: readers look at them before they open the other one.
        let moves = is_beside && initializer.bytes() >= 1024;
        if moves {
            offset = offset.next_multiple_of(ALIGNMENT);
            let message = initializer.message(Some((&location, offset)));
            graph.extend(field(number::GRAPH_INITIALIZERS, &message));
            offsets.push((offset, initializer));
            offset += initializer.bytes();
        } else {
            let mut message = initializer.message(None).encode_to_vec();
            head(own_number::TENSOR_RAW_DATA, initializer.bytes(), &mut message);
            let len = message.len() as u64 + initializer.bytes();
            head(number::GRAPH_INITIALIZERS, len, &mut graph);
            graph.extend(message);
            pieces.push((std::mem::take(&mut graph), Some(initializer)));
        }
    }
    for (shown, number) in [(contents.inputs, 11), (contents.outputs, 12)] {
        for value in shown {
            graph.extend(field(number, &value_info(value, contents.dimensions)));
        }
    }
    pieces.push((graph, None));
    let graph_bytes: u64 = pieces
        .iter()
        .map(|(bytes, initializer)| bytes.len() as u64 + initializer.map_or(0, Initializer::bytes))
        .sum();
    let mut front = Vec::new();
    varint(u64::from(own_number::MODEL_IR_VERSION) << 3, &mut front);
    varint(format_version(contents.opset), &mut front);
    for (number, value) in [
        (own_number::MODEL_PRODUCER, "lessen"),
        (own_number::MODEL_PRODUCER_VERSION, env!("CARGO_PKG_VERSION")),
    ] {
        head(number, value.len() as u64, &mut front);
        front.extend(value.as_bytes());
    }
    let opset = OperatorSetIdProto {
        version: contents.opset,
        ..OperatorSetIdProto::default()
    };
    front.extend(field(number::MODEL_OPSETS, &opset));
    for (key, value) in contents.metadata {
        let entry = StringStringEntryProto {
            key: key.clone(),
            value: value.clone(),
        };
        front.extend(field(number::MODEL_METADATA, &entry));
    }
    head(number::MODEL_GRAPH, graph_bytes, &mut front);
    if is_beside {
        atomic::write_with(&path.with_file_name(&location), |out| {
            let mut at = 0u64;
            for (offset, initializer) in &offsets {
                out.write_all(&vec![0; (offset - at) as usize])?;
                initializer.write(parameter, out)?;
                at = offset + initializer.bytes();
            }
            Ok(())
        })?;
    }
    atomic::write_with(path, |out| {
        out.write_all(&front)?;
        for (bytes, initializer) in &pieces {
            out.write_all(bytes)?;
            if let Some(initializer) = initializer {
                initializer.write(parameter, out)?;
            }
        }
        Ok(())
    })
}

fn value_info((name, element, shape): &Shown, dimensions: &[&str]) -> ValueInfoProto {
    let dim = |extent: &Extent| {
        let value = match (extent.constant(), extent.dimension()) {
            (Some(size), _) => Some(Dimension::Value(size)),
            (None, Some(dimension)) => Some(Dimension::Param(dimensions[dimension].to_string())),
            (None, None) => None,
        };
        DimensionProto { value }
    };
    ValueInfoProto {
        name: name.clone(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: *element,
                shape: Some(TensorShapeProto {
                    dim: shape.iter().map(dim).collect(),
                }),
            }),
            ..TypeProto::default()
        }),
    }
}
