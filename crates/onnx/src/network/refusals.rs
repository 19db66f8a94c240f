//! Files that are no classifiers of images, or cannot be trained.

use lessen_base::Result;

use super::axes;
use crate::element::Element;
use crate::import::{gives_positions, operator};
use crate::model::Model;
use crate::proto::{Dimension, ValueInfoProto};

/// Channels of images: grey ones, and colours.
const CHANNELS: [usize; 2] = [1, 3];

/// Checks that a file reads one batch of images and gives one row of numbers for each image.
///
/// # Errors
/// Other inputs and outputs.
pub(super) fn check_values(model: &Model) -> Result<()> {
    let [input] = &model.inputs[..] else {
        let names: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
        return Err(model.error(&format!(
            "it has {} inputs ({}), and a classifier of images has one, (N, channels, height, width); name such a file",
            names.len(),
            names.join(", ")
        )));
    };
    let name = &input.name;
    let wanted = "a classifier of images reads floats of the extents (N, channels, height, width); name such a file";
    let element = element(input);
    let Some([_, channels, height, width]) = axes(input) else {
        return Err(model.error(&format!("its input `{name}` is {}, and {wanted}", shown(input))));
    };
    match element {
        Some(Element::F64) => {
            return Err(model.error(&format!(
                "its input `{name}` is float64, and networks are trained in float32; export it in float32"
            )));
        }
        Some(element) if element.is_float() => {}
        _ => return Err(model.error(&format!("its input `{name}` is {}, and {wanted}", shown(input)))),
    }
    match channels {
        Some(channels) if !CHANNELS.contains(&channels) => {
            let is_last =
                height.is_none_or(|height| height > 3) && width.is_some_and(|width| CHANNELS.contains(&width));
            let remedy = if is_last {
                "export it with the channels before height and width"
            } else {
                "name a classifier of images"
            };
            return Err(model.error(&format!(
                "its input `{name}` has {channels} channels, and images have 1 or 3; {remedy}"
            )));
        }
        Some(_) => {}
        None => {
            return Err(model.error(&format!(
                "its input `{name}` does not say the number of channels; export it with a fixed one"
            )));
        }
    }
    let [output] = &model.outputs[..] else {
        let names: Vec<&str> = model.outputs.iter().map(|output| output.name.as_str()).collect();
        return Err(model.error(&format!(
            "it has {} outputs ({}), and a classifier of images has one, the logits (N, classes); name such a file",
            names.len(),
            names.join(", ")
        )));
    };
    let rank = output
        .r#type
        .as_ref()
        .and_then(|ty| Some(ty.tensor_type.as_ref()?.shape.as_ref()?.dim.len()));
    match rank {
        Some(rank) if rank != 2 && rank != 0 => Err(model.error(&format!(
            "its output `{}` is {}, and a classifier of images gives logits of the extents (N, classes); name such a file",
            output.name,
            shown(output)
        ))),
        _ => Ok(()),
    }
}

/// Checks that the nodes at these places can be trained, as far as their operators say.
///
/// # Errors
/// Quantized weights, and operators that are not traced or have no derivative; the sentence names all of them.
pub(super) fn check_nodes(model: &Model, places: &[usize]) -> Result<()> {
    let (mut quantized, mut unknown) = (Vec::new(), Vec::new());
    for node in places.iter().map(|place| &model.nodes[*place]) {
        let name = &node.proto.op_type;
        let shown = match node.proto.domain.as_str() {
            "" | "ai.onnx" => name.clone(),
            domain => format!("{name} of {domain}"),
        };
        if is_quantized(name) {
            quantized.push(shown);
        } else if operator(node).is_err() || gives_positions(node) || !node.captured.is_empty() {
            unknown.push(shown);
        } else if model.version(node) != model.opset(&node.proto.domain).unwrap_or(1) {
            return Err(model.error(&format!(
                "the node {} is of a function with another version of the operators, which is not trained; export it without \
                 functions",
                node.shown()
            )));
        }
    }
    for names in [&mut quantized, &mut unknown] {
        names.sort_unstable();
        names.dedup();
    }
    if !quantized.is_empty() {
        return Err(model.error(&format!(
            "its weights are quantized integers ({}), which are not trained; export it with float32 weights",
            quantized.join(", ")
        )));
    }
    match &unknown[..] {
        [] => Ok(()),
        [only] => Err(model.error(&format!(
            "the operator {only} is not traced, so the network cannot be trained; export it without it"
        ))),
        all => Err(model.error(&format!(
            "the operators {} are not traced, so the network cannot be trained; export it without them",
            all.join(", ")
        ))),
    }
}

/// Whether an operator computes with quantized integers.
fn is_quantized(operator: &str) -> bool {
    operator.to_ascii_lowercase().contains("quantize")
        || operator.starts_with("QLinear")
        || operator.ends_with("Integer")
        || operator.ends_with("NBits")
}

/// The sentence about a network that cannot be traced, for a reason.
pub(super) fn untraced(model: &Model, why: &str) -> String {
    let batch = model.inputs.first().and_then(|input| axes(input)?[0]);
    match batch {
        Some(batch) => format!(
            "it is made for batches of {batch}, and does not go with others, since {why}; export it with a free first axis"
        ),
        None => format!("it cannot be trained, since {why}"),
    }
}

fn element(value: &ValueInfoProto) -> Option<Element> {
    Element::of(value.r#type.as_ref()?.tensor_type.as_ref()?.elem_type)
}

/// A type in words, such as `int64 (batch, 128)`.
fn shown(value: &ValueInfoProto) -> String {
    let tensor = value.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let element = element(value).map_or("no array of numbers".to_string(), |element| element.to_string());
    let Some(shape) = tensor.and_then(|tensor| tensor.shape.as_ref()) else {
        return element;
    };
    let extent = |dim: &crate::proto::DimensionProto| match &dim.value {
        Some(Dimension::Value(extent)) => extent.to_string(),
        Some(Dimension::Param(name)) => name.clone(),
        None => "?".to_string(),
    };
    let extents: Vec<String> = shape.dim.iter().map(extent).collect();
    format!("{element} ({})", extents.join(", "))
}
