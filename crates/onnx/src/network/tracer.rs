//! The graph of a network for a batch of images.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_graph::{Tensor, TraceRef};

use super::{Network, NetworkNorm, NetworkParameter, NetworkParts};
use crate::import::{Call, MOST_KNOWN, Memo, Value, image_of, known, operator, restored};
use crate::model::Node;

/// The operator that normalizes by statistics of the batch in training.
pub(super) const BATCH_NORM: &str = "BatchNormalization";

/// The operator that drops values in training.
pub(super) const DROPOUT: &str = "Dropout";

/// The probability of a dropout that names none.
const DROPPED: f64 = 0.5;

/// The inputs of a batch normalization after its images: scale, shift, mean and variance.
pub(super) const NORM_INPUTS: [usize; 4] = [1, 2, 3, 4];

/// Traces a network; see [`Network::trace`]. Without a number of classes it has those of its file.
pub(super) fn traced(
    network: &Network,
    parts: &dyn NetworkParts,
    images: Tensor,
    classes: Option<usize>,
) -> Result<Tensor> {
    let model = &network.model;
    let by_name = network.parameters.iter().map(|own| (own.name.as_str(), own));
    let mut tracer = Tracer {
        network,
        parts,
        trace: images.trace(),
        classes,
        parameters: by_name.collect(),
        values: HashMap::new(),
        memo: Memo::default(),
    };
    if let Some(input) = model.inputs.first() {
        tracer.values.insert(&input.name, Value::Traced(restored(images, 4)));
    }
    for node in &model.nodes {
        let outputs = tracer.node(node).map_err(|error| {
            let why = error.message();
            Error::user(format!("the node {} is not traced ({why})", node.shown()))
        })?;
        let named = node.proto.output.iter().zip(outputs);
        tracer.values.extend(named.map(|(name, value)| (name.as_str(), value)));
    }
    let logits = model
        .outputs
        .first()
        .and_then(|output| tracer.values.remove(&*output.name));
    match logits {
        Some(Value::Traced(logits)) if logits.dtype().is_float() => Ok(logits),
        _ => Err(Error::user("its output does not depend on the images")),
    }
}

struct Tracer<'n, 'p> {
    network: &'n Network,
    parts: &'p dyn NetworkParts,
    trace: TraceRef,
    /// The number of classes; none for that of the file.
    classes: Option<usize>,
    parameters: HashMap<&'n str, &'n NetworkParameter>,
    values: HashMap<&'n str, Value>,
    memo: Memo<'n>,
}

impl<'n> Tracer<'n, '_> {
    /// The outputs of a node, in order.
    fn node(&mut self, node: &'n Node) -> Result<Vec<Value>> {
        let operator = operator(node)?;
        let mut inputs = Vec::with_capacity(node.proto.input.len());
        for position in 0..node.proto.input.len() {
            let value = node.input(position).map(|name| self.value(name)).transpose()?;
            inputs.push(value);
        }
        let (model, trace) = (&self.network.model, self.trace);
        let opset = model.version(node);
        let computed = self.memo.computed(node, (opset, operator), &inputs, &model.source)?;
        if let Some((outputs, _)) = computed {
            return Ok(outputs.into_iter().map(Value::Known).collect());
        }
        let _inside = trace.enter_scope(&scope_of(node));
        let parts = self.parts;
        let mut call = Call {
            node,
            opset,
            trace,
            inputs,
            constants: None,
            held: None,
            codes: None,
            moves_elements: false,
            elements: &[],
            fixed: None,
            source: &model.source,
        };
        trace.attempt_described(|| match node.proto.op_type.as_str() {
            BATCH_NORM => batch_norm(parts, &mut call),
            DROPOUT => dropout(parts, &mut call),
            _ => operator(&mut call),
        })?
    }

    /// A value that a node reads.
    fn value(&mut self, name: &'n str) -> Result<Value> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        let value = match self.parameters.get(name) {
            Some(parameter) => {
                let shape = match self.classes {
                    Some(classes) => self.network.shape_of(parameter, classes),
                    None => parameter.shape.clone(),
                };
                Value::Traced(self.parts.parameter(parameter, &shape))
            }
            None => self.constant(name)?,
        };
        self.values.insert(name, value.clone());
        Ok(value)
    }

    /// An initializer that is no parameter.
    fn constant(&self, name: &str) -> Result<Value> {
        let model = &self.network.model;
        match model.initializers.get(name) {
            Some(tensor) if !tensor.element.is_traced() => Err(Error::user(format!(
                "`{name}` has the type {}, which is not traced",
                tensor.element
            ))),
            Some(tensor) if tensor.numel() <= MOST_KNOWN => Ok(Value::known(known(tensor, &model.source)?)),
            Some(_) => Err(Error::user(format!("the constant `{name}` is too large"))),
            None => Err(Error::user(format!("`{name}` is not known"))),
        }
    }
}

/// The scope of the values of a node: its name, or that of its first output.
fn scope_of(node: &Node) -> String {
    let own = Some(&node.proto.name).filter(|name| !name.is_empty());
    own.or(node.proto.output.first()).cloned().unwrap_or_default()
}

/// Batch normalization, whose channels are moved to the last axis and back.
fn batch_norm(parts: &dyn NetworkParts, call: &mut Call<'_>) -> Result<Vec<Value>> {
    if call.int("spatial", 1) == 0 {
        return call.unknown("a norm with statistics of each pixel");
    }
    let x = call.tensor(0)?;
    let mut parameters = Vec::with_capacity(NORM_INPUTS.len());
    for input in NORM_INPUTS {
        parameters.push(call.tensor(input)?);
    }
    let Ok(parameters) = <[Tensor; 4]>::try_from(parameters) else {
        return call.unknown("a norm without its statistics");
    };
    let kept = call.float("momentum", 0.9);
    let norm = NetworkNorm {
        eps: call.float("epsilon", 1e-5),
        // The file has the share that stays, in single precision.
        momentum: ((1.0 - kept) * 1e9).round() / 1e9,
    };
    let apply = |x: Tensor| parts.batch_norm(x, parameters, norm);
    let y = match (image_of(x), x.rank()) {
        (Some(image), _) => image.map(apply),
        (None, 2) => apply(x),
        (None, 3) => apply(x.permute(&[0, 2, 1])).permute(&[0, 2, 1]),
        (None, 4) => restored(apply(x.permute(&[0, 2, 3, 1])), 4),
        _ => return call.unknown("a norm of other than up to two axes"),
    };
    Ok(vec![Value::Traced(y)])
}

/// Dropout, whatever the file says of training.
fn dropout(parts: &dyn NetworkParts, call: &mut Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let probability = if call.has(1) {
        match call.known(1).and_then(|array| array.data.first().copied()) {
            Some(probability) => probability,
            None => return call.unknown("a dropout whose probability is computed"),
        }
    } else {
        call.float("ratio", DROPPED)
    };
    if !(0.0..1.0).contains(&probability) {
        return call.unknown("a dropout of everything");
    }
    Ok(vec![Value::Traced(parts.dropout(x, probability))])
}
