//! The bytes of a network's file: nodes and constants, and parameters as inputs.

use std::collections::HashSet;

use lessen_base::Result;

use crate::edit::field;
use crate::element::Element;
use crate::model::{Model, number};
use crate::proto::{
    Dimension, DimensionProto, NodeProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::tensor::Tensor;
use crate::wire::{head, varint};

/// The version of the format, the first one in which inputs and initializers are apart being 4.
const FORMAT: u64 = 8;

/// The bytes of the file of a network with these nodes of a model, this output and these parameters.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn bytes(
    model: &Model,
    nodes: &[&NodeProto],
    output: &str,
    parameters: &[(&str, &[usize])],
) -> Result<Vec<u8>> {
    let mut graph = Vec::new();
    let mut read: HashSet<&str> = HashSet::new();
    for node in nodes {
        read.extend(node.input.iter().map(String::as_str));
        graph.extend(field(number::GRAPH_NODES, &complete(model, node)?));
    }
    let name = "network";
    head(number::GRAPH_NAME, name.len() as u64, &mut graph);
    graph.extend(name.as_bytes());
    let is_parameter: HashSet<&str> = parameters.iter().map(|(name, _)| *name).collect();
    let constants = model.initializers.values();
    let mut constants: Vec<&Tensor> = constants
        .filter(|tensor| read.contains(tensor.name.as_str()) && !is_parameter.contains(tensor.name.as_str()))
        .collect();
    constants.sort_unstable_by_key(|tensor| &tensor.name);
    for tensor in constants {
        graph.extend(field(number::GRAPH_INITIALIZERS, &stored(model, tensor)?));
    }
    for input in &model.inputs {
        graph.extend(field(number::GRAPH_INPUTS, input));
    }
    for (name, shape) in parameters {
        graph.extend(field(number::GRAPH_INPUTS, &value(name, Some(shape))));
    }
    graph.extend(field(number::GRAPH_OUTPUTS, &value(output, None)));
    let mut bytes = Vec::new();
    varint(u64::from(number::MODEL_VERSION) << 3, &mut bytes);
    varint(FORMAT, &mut bytes);
    for opset in &model.opsets {
        bytes.extend(field(number::MODEL_OPSETS, opset));
    }
    head(number::MODEL_GRAPH, graph.len() as u64, &mut bytes);
    bytes.extend(graph);
    Ok(bytes)
}

/// A node whose tensors are in no other file.
fn complete(model: &Model, node: &NodeProto) -> Result<NodeProto> {
    let mut node = node.clone();
    for message in node.attribute.iter_mut().filter_map(|attribute| attribute.t.as_mut()) {
        let is_elsewhere = message.data_location == 1;
        if let Some(tensor) = Tensor::of(message)?.filter(|_| is_elsewhere) {
            *message = stored(model, &tensor)?;
        }
    }
    Ok(node)
}

/// A tensor with its elements.
fn stored(model: &Model, tensor: &Tensor) -> Result<TensorProto> {
    let mut raw_data = Vec::new();
    tensor.for_each_block(&model.source, &mut |bytes| {
        raw_data.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(TensorProto {
        dims: tensor.shape.iter().map(|extent| *extent as i64).collect(),
        data_type: tensor.element.data_type(),
        name: tensor.name.clone(),
        raw_data,
        ..TensorProto::default()
    })
}

/// A value `f32` of these extents; none where they are not known.
fn value(name: &str, shape: Option<&[usize]>) -> ValueInfoProto {
    let dim = |extent: &usize| DimensionProto {
        value: Some(Dimension::Value(*extent as i64)),
    };
    let shape = shape.map(|shape| TensorShapeProto {
        dim: shape.iter().map(dim).collect(),
    });
    ValueInfoProto {
        name: name.to_string(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: Element::F32.data_type(),
                shape,
            }),
            ..TypeProto::default()
        }),
    }
}
