//! Norms with fixed statistics become part of the convolutions before them.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::Result;

use super::constants::bytes;
use lessen_onnx::Element;
use lessen_onnx::host::{Data, HostTensor, HostValue};
use lessen_onnx::names::OwnName;
use lessen_onnx::{Model, Node};

/// The nodes of a model and new weights by name.
type Folded = (Vec<Arc<Node>>, HashMap<String, HostValue>);

/// The nodes of a model, where norms are folded, and the new weights by name.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn folded(model: &Model) -> Result<Folded> {
    let mut reads: HashMap<&str, usize> = HashMap::new();
    for name in model.nodes.iter().flat_map(Node::reads) {
        *reads.entry(name).or_default() += 1;
    }
    for output in &model.outputs {
        *reads.entry(&output.name).or_default() += 1;
    }
    let mut nodes: Vec<Option<Arc<Node>>> = Vec::with_capacity(model.nodes.len());
    let mut constants = HashMap::new();
    // The places of convolutions by the names of their results.
    let mut convolutions: HashMap<&str, usize> = HashMap::new();
    for node in &model.nodes {
        let is =
            |operator: &str| node.proto.op_type == operator && matches!(node.proto.domain.as_str(), "" | "ai.onnx");
        if is("Conv")
            && let Some(output) = node.proto.output.first()
        {
            convolutions.insert(output, nodes.len());
        }
        if is("BatchNormalization")
            && let Some(input) = node.input(0)
            && reads.get(input) == Some(&1)
            && let Some(&place) = convolutions.get(input)
            && let Some(convolution) = nodes[place].clone()
            && let Some(both) = merged(model, &convolution, node, &mut constants)?
        {
            nodes[place] = None;
            nodes.push(Some(Arc::new(both)));
            continue;
        }
        nodes.push(Some(Arc::new(node.clone())));
    }
    Ok((nodes.into_iter().flatten().collect(), constants))
}

/// A convolution with the norm after it; none where a parameter is not fixed or not in single precision.
fn merged(
    model: &Model,
    convolution: &Node,
    norm: &Node,
    constants: &mut HashMap<String, HostValue>,
) -> Result<Option<Node>> {
    let int = |name: &str, default: i64| norm.attribute(name).map_or(default, |attribute| attribute.i);
    let more = norm.proto.output.iter().skip(1).any(|name| !name.is_empty());
    if more || int("training_mode", 0) != 0 || int("spatial", 1) == 0 {
        return Ok(None);
    }
    let read = |node: &Node, input: usize| -> Result<Option<Vec<f32>>> {
        let Some(name) = node.input(input) else { return Ok(None) };
        let is_given = model.inputs.iter().any(|input| input.name == name);
        let Some(tensor) = model.initializers.get(name).filter(|_| !is_given) else {
            return Ok(None);
        };
        if tensor.element != Element::F32 {
            return Ok(None);
        }
        match Data::of_bytes(tensor.element, &bytes(model, tensor)?) {
            Data::F32(v) => Ok(Some(v)),
            _ => Ok(None),
        }
    };
    let has_bias = convolution.input(2).is_some();
    let (Some(weight), bias) = (read(convolution, 1)?, read(convolution, 2)?) else {
        return Ok(None);
    };
    let (Some(scale), Some(shift), Some(mean), Some(variance)) =
        (read(norm, 1)?, read(norm, 2)?, read(norm, 3)?, read(norm, 4)?)
    else {
        return Ok(None);
    };
    let channels = scale.len();
    let shape = convolution
        .input(1)
        .and_then(|name| model.initializers.get(name))
        .map(|tensor| tensor.shape.clone());
    let Some(shape) = shape.filter(|shape| shape.first() == Some(&channels)) else {
        return Ok(None);
    };
    let fits = [&shift, &mean, &variance].iter().all(|row| row.len() == channels);
    if !fits || channels == 0 || bias.is_none() == has_bias || bias.as_ref().is_some_and(|row| row.len() != channels) {
        return Ok(None);
    }
    let eps = f64::from(norm.attribute("epsilon").map_or(1e-5, |attribute| attribute.f));
    let factor = |c: usize| f64::from(scale[c]) / (f64::from(variance[c]) + eps).sqrt();
    let each = weight.len() / channels;
    let new = weight
        .iter()
        .enumerate()
        .map(|(i, x)| (f64::from(*x) * factor(i / each.max(1))) as f32);
    let new: Vec<f32> = new.collect();
    let row = (0..channels).map(|c| {
        let before = bias.as_ref().map_or(0.0, |row| f64::from(row[c]));
        ((before - f64::from(mean[c])) * factor(c) + f64::from(shift[c])) as f32
    });
    let row: Vec<f32> = row.collect();
    let Some(output) = norm.proto.output.first() else {
        return Ok(None);
    };
    let mut both = convolution.clone();
    let names = ["weight", "bias"].map(|part| OwnName::Folded(part, output).to_string());
    both.proto.input.truncate(1);
    both.proto.input.extend(names.iter().cloned());
    both.proto.output = vec![output.clone()];
    let [weight_name, bias_name] = names;
    constants.insert(weight_name, HostTensor::new(&shape, new)?.into());
    constants.insert(bias_name, HostTensor::vector(row).into());
    Ok(Some(both))
}
