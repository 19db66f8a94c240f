//! Writes a model with its changes. What does not change is copied byte by byte from the file, in blocks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result, atomic};
use prost::Message;

use crate::edit::{ChangedTensor, Edits, field};
use crate::element::Element;
use crate::model::{Model, name_of, number};
use crate::proto::{
    Dimension, DimensionProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use crate::tensor::{Elements, Tensor};
use crate::wire::{Field, Source, Span, head};

/// The most bytes of a message: what the readers of the format take.
const MOST: u64 = i32::MAX as u64;

/// Offsets of elements in the file beside a model are multiples of this.
const ALIGNMENT: u64 = 4096;

/// A part of the new file.
enum Piece<'a> {
    Copied(Span),
    Bytes(Vec<u8>),
    Elements(&'a ChangedTensor<'a>),
    Stored(&'a Tensor),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Piece::Copied(span) => span.len,
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Elements(changed) => bytes_of(changed),
            Piece::Stored(tensor) => tensor.bytes(),
        }
    }

    fn write(&self, source: &Source, out: &mut dyn Write) -> Result<()> {
        let write = |out: &mut dyn Write, bytes: &[u8]| out.write_all(bytes).map_err(writing);
        match self {
            Piece::Bytes(bytes) => write(out, bytes),
            Piece::Copied(span) => copy(source, *span, out),
            Piece::Stored(tensor) => tensor.for_each_block(source, &mut |bytes| write(out, bytes)),
            Piece::Elements(changed) => {
                let filled = (changed.fill)()?;
                let mut bytes = Vec::new();
                for block in filled.chunks(1 << 16) {
                    bytes.clear();
                    block
                        .iter()
                        .for_each(|x| changed.element.write((*x).into(), &mut bytes));
                    write(out, &bytes)?;
                }
                Ok(())
            }
        }
    }
}

/// Bytes of the elements of a changed initializer.
fn bytes_of(changed: &ChangedTensor<'_>) -> u64 {
    changed.shape.iter().product::<usize>() as u64 * changed.element.bytes() as u64
}

/// An error of writing, which the caller gives a place.
fn writing(error: io::Error) -> Error {
    Error::user(format!(
        "it cannot be written ({error}); check the disk and the permissions"
    ))
}

fn copy(source: &Source, span: Span, out: &mut dyn Write) -> Result<()> {
    const BLOCK: u64 = 1 << 20;
    let mut buffer = vec![0; span.len.min(BLOCK) as usize];
    let mut at = span.start;
    while at < span.end() {
        let len = (span.end() - at).min(BLOCK) as usize;
        source.read_into(at, &mut buffer[..len])?;
        out.write_all(&buffer[..len]).map_err(writing)?;
        at += len as u64;
    }
    Ok(())
}

/// The new file, and the file of elements beside it.
#[derive(Default)]
struct Pieces<'a> {
    graph: Vec<Piece<'a>>,
    beside: Vec<Piece<'a>>,
    beside_bytes: u64,
}

/// The name of the file of elements beside a model.
pub fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.data"))
}

/// Writes a model with changes to `path`, and elements of another file to one beside it. The bytes that were
/// written.
///
/// # Errors
/// A file that cannot be read or written; a model that takes more than 2 GiB without its elements.
pub(crate) fn write(model: &Model, edits: &Edits<'_>, path: &Path) -> Result<u64> {
    let data = beside(path);
    let beside = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_external = |tensor: &Tensor| matches!(tensor.elements, Elements::There(_));
    let moves_elements = model.initializers.values().any(is_external);
    let beside = moves_elements.then_some(beside.as_str());
    let nodes = model.graph_fields.iter();
    let nodes = nodes.filter(|entry| entry.number == number::GRAPH_NODES).count();
    if nodes != model.nodes.len() {
        return Err(Error::internal(
            "a model whose functions are written out is no longer its file",
        ));
    }
    let mut pieces = Pieces::default();
    let mut position = 0;
    let front = edits
        .front
        .iter()
        .map(|node| Piece::Bytes(field(number::GRAPH_NODES, node)));
    pieces.graph.extend(front);
    for entry in &model.graph_fields {
        pieces.add(model, edits, entry, &mut position, beside)?;
    }
    for tensor in &edits.added {
        pieces
            .graph
            .push(Piece::Bytes(field(number::GRAPH_INITIALIZERS, &message(tensor))));
    }
    let mut new: Vec<(&String, &ChangedTensor<'_>)> = edits.changed.iter().collect();
    new.retain(|(name, changed)| changed.beside.is_some() || !model.initializers.contains_key(*name));
    new.sort_by_key(|(name, _)| *name);
    for (name, changed) in &new {
        let original = model.initializers.get(*name);
        let beside = beside.filter(|_| original.is_some_and(is_external));
        pieces.changed(changed.beside.as_ref().unwrap_or(name), changed, beside);
    }
    // Before version 4 of the format every initializer is an input as well.
    if model.format_version() < 4 {
        let added = edits
            .added
            .iter()
            .map(|tensor| (&tensor.name, &tensor.shape, tensor.element));
        let new = new.iter().map(|(name, changed)| {
            let name = changed.beside.as_ref().unwrap_or(name);
            (name, &changed.shape, changed.element)
        });
        let inputs = added
            .chain(new)
            .map(|(name, shape, element)| input(name, shape, element));
        let inputs = inputs.map(|input| Piece::Bytes(field(number::GRAPH_INPUTS, &input)));
        pieces.graph.extend(inputs);
    }
    let graph_bytes: u64 = pieces.graph.iter().map(Piece::len).sum();
    if graph_bytes > MOST {
        let sentence = format!(
            "the converted model takes {graph_bytes} bytes, more than a file can hold; store its elements \
                                in another file"
        );
        return Err(model.error(&sentence));
    }
    let rest = others(model);
    let mut tag = Vec::new();
    head(number::MODEL_GRAPH, graph_bytes, &mut tag);
    let written = |result: Result<()>| result.map_err(io::Error::other);
    if !pieces.beside.is_empty() {
        atomic::write_with(&data, |out| {
            pieces
                .beside
                .iter()
                .try_for_each(|piece| written(piece.write(&model.source, out)))
        })?;
    }
    atomic::write_with(path, |out| {
        for piece in &rest {
            written(piece.write(&model.source, out))?;
        }
        out.write_all(&tag)?;
        pieces
            .graph
            .iter()
            .try_for_each(|piece| written(piece.write(&model.source, out)))
    })?;
    let others = tag.len() as u64 + rest.iter().map(Piece::len).sum::<u64>();
    Ok(graph_bytes + pieces.beside_bytes + others)
}

/// The fields of the model but its graph.
fn others<'a>(model: &Model) -> Vec<Piece<'a>> {
    let others = model.fields.iter().filter(|entry| entry.number != number::MODEL_GRAPH);
    others.map(|entry| Piece::Copied(entry.whole)).collect()
}

impl<'a> Pieces<'a> {
    /// Adds a field of the graph as it is now.
    fn add(
        &mut self,
        model: &'a Model,
        edits: &'a Edits<'_>,
        entry: &Field,
        position: &mut usize,
        beside: Option<&str>,
    ) -> Result<()> {
        let copied = Piece::Copied(entry.whole);
        match (entry.number, entry.bytes()) {
            (number::GRAPH_NODES, Some(span)) => {
                // The nodes of the file, in an order in which they can be computed.
                let node = &model.nodes[*position];
                match edits.nodes_at(*position, &node.proto) {
                    Some(nodes) => {
                        let nodes = nodes.iter().map(|node| Piece::Bytes(field(number::GRAPH_NODES, node)));
                        self.graph.extend(nodes);
                    }
                    None if node.span == span => self.graph.push(copied),
                    None => {
                        let mut start = Vec::new();
                        head(number::GRAPH_NODES, node.span.len, &mut start);
                        self.graph.extend([Piece::Bytes(start), Piece::Copied(node.span)]);
                    }
                }
                *position += 1;
            }
            (number::GRAPH_INITIALIZERS, Some(span)) => match Tensor::read(&model.source, span)? {
                Some(tensor) if edits.dropped.contains(&tensor.name) => {}
                Some(tensor) => match (changed_in_place(edits, &tensor.name), &tensor.elements) {
                    (Some(changed), elements) => {
                        let is_beside = matches!(elements, Elements::There(_));
                        self.changed(&tensor.name, changed, beside.filter(|_| is_beside));
                    }
                    (None, Elements::There(_)) => {
                        let stored = &model.initializers[&tensor.name];
                        self.beside(stored, Piece::Stored(stored), beside.unwrap_or_default());
                    }
                    (None, _) => self.graph.push(copied),
                },
                None => self.graph.push(copied),
            },
            // Readers infer the types of values with other extents again.
            (number::GRAPH_VALUES, Some(span)) if !edits.retyped.is_empty() => {
                let name = name_of(&model.source, span, 1)?;
                if !name.is_some_and(|name| edits.retyped.contains(&name)) {
                    self.graph.push(copied);
                }
            }
            // Old files list initializers among the inputs.
            (number::GRAPH_INPUTS, Some(span)) => {
                let name = name_of(&model.source, span, 1)?.unwrap_or_default();
                match changed_in_place(edits, &name) {
                    Some(changed) if model.initializers.contains_key(&name) => {
                        let input = input(&name, &changed.shape, changed.element);
                        self.graph.push(Piece::Bytes(field(number::GRAPH_INPUTS, &input)));
                    }
                    _ if edits.dropped.contains(&name) => {}
                    _ => self.graph.push(copied),
                }
            }
            _ => self.graph.push(copied),
        }
        Ok(())
    }

    /// Adds an initializer with other elements, in the file or beside it.
    fn changed(&mut self, name: &str, changed: &'a ChangedTensor<'_>, beside: Option<&str>) {
        let stands_for = Tensor {
            name: name.to_string(),
            shape: changed.shape.clone(),
            element: changed.element,
            elements: Elements::Held(Vec::new()),
        };
        if let Some(beside) = beside {
            return self.beside(&stands_for, Piece::Elements(changed), beside);
        }
        let message = message(&stands_for);
        let mut raw = Vec::new();
        head(9, bytes_of(changed), &mut raw);
        let mut start = Vec::new();
        let len = message.encoded_len() as u64 + raw.len() as u64 + bytes_of(changed);
        head(number::GRAPH_INITIALIZERS, len, &mut start);
        start.extend(message.encode_to_vec());
        start.extend(raw);
        self.graph.push(Piece::Bytes(start));
        self.graph.push(Piece::Elements(changed));
    }

    /// Adds an initializer whose elements are in the file beside the model.
    fn beside(&mut self, tensor: &Tensor, elements: Piece<'a>, file: &str) {
        let gap = self.beside_bytes.next_multiple_of(ALIGNMENT) - self.beside_bytes;
        if gap > 0 {
            self.beside.push(Piece::Bytes(vec![0; gap as usize]));
        }
        let offset = self.beside_bytes + gap;
        self.beside_bytes = offset + elements.len();
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: key.to_string(),
            value,
        };
        let message = TensorProto {
            external_data: vec![
                entry("location", file.to_string()),
                entry("offset", offset.to_string()),
                entry("length", elements.len().to_string()),
            ],
            data_location: 1,
            ..message(tensor)
        };
        self.graph
            .push(Piece::Bytes(field(number::GRAPH_INITIALIZERS, &message)));
        self.beside.push(elements);
    }
}

/// The change of an initializer that keeps its name.
fn changed_in_place<'a>(edits: &'a Edits<'a>, name: &str) -> Option<&'a ChangedTensor<'a>> {
    edits.changed.get(name).filter(|changed| changed.beside.is_none())
}

/// An initializer as an input.
fn input(name: &str, shape: &[usize], element: Element) -> ValueInfoProto {
    let dim = |extent: &usize| DimensionProto {
        value: Some(Dimension::Value(*extent as i64)),
    };
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: element.data_type(),
                shape: Some(TensorShapeProto {
                    dim: shape.iter().map(dim).collect(),
                }),
            }),
            ..TypeProto::default()
        }),
    }
}

/// A tensor as a message, with the elements that it holds.
fn message(tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: tensor.shape.iter().map(|extent| *extent as i64).collect(),
        data_type: tensor.element.data_type(),
        name: tensor.name.clone(),
        raw_data: match &tensor.elements {
            Elements::Held(bytes) => bytes.clone(),
            _ => Vec::new(),
        },
        ..TensorProto::default()
    }
}
