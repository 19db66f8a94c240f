//! A file of a classifier of images, and which of its initializers are parameters.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use lessen_base::Result;

use super::tracer::{BATCH_NORM, NORM_INPUTS};
use super::{Network, contents, gradients, refusals};
use crate::edit::unused;
use crate::element::Element;
use crate::model::Model;
use crate::proto::NodeProto;
use crate::tensor::{Elements, Tensor};

/// Operators whose float initializers are weights wherever they stand: layers.
const LAYERS: [&str; 16] = [
    BATCH_NORM,
    "Conv",
    "ConvTranspose",
    "Einsum",
    "GRU",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LSTM",
    "LayerNormalization",
    "MatMul",
    "PRelu",
    "RMSNormalization",
    "RNN",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
];

/// Operators whose float initializers are weights once the images have been through a layer: biases, scales of layers,
/// tables of positions. Before, they are the normalization of pixels.
const TERMS: [&str; 5] = ["Add", "Concat", "Div", "Mul", "Sub"];

/// Operators whose results say sizes alone, so that they do not depend on the pixels.
const SIZES: [&str; 2] = ["Shape", "Size"];

/// Operators that turn logits into probabilities, over which a cross entropy computes the same.
const PROBABILITIES: [&str; 2] = ["Softmax", "LogSoftmax"];

/// A file of a classifier of images.
#[derive(Debug)]
pub struct NetworkFile {
    network: Network,
    model: Model,
    weights: HashMap<String, Tensor>,
    remarks: Vec<String>,
}

impl NetworkFile {
    /// Opens a file. A parameter whose name `is_taken` has another one, `file.` and its own.
    ///
    /// # Errors
    /// A file that cannot be read or lacks the file of its elements, is no classifier of images, or has operators that
    /// are not trained.
    pub fn open(path: &Path, is_taken: &dyn Fn(&str) -> bool) -> Result<NetworkFile> {
        let model = Model::open_to_run(path)?;
        refusals::check_values(&model)?;
        let mut draft = Draft::of(&model, is_taken);
        let mut remarks: Vec<String> = draft.without_probabilities().into_iter().collect();
        refusals::check_nodes(&model, &draft.live())?;
        draft.claim_weights()?;
        for own in &draft.claims {
            if let Elements::There(elsewhere) = &own.tensor.elements {
                elsewhere.open(path)?;
            }
        }
        let live = draft.live();
        remarks.extend(draft.remarks(&live));
        let Draft {
            nodes, output, claims, ..
        } = draft;
        let parameters: Vec<(&str, &[usize])> = claims.iter().map(|own| (&*own.name, &*own.tensor.shape)).collect();
        let nodes: Vec<&NodeProto> = live.into_iter().map(|place| &nodes[place]).collect();
        let bytes = contents::bytes(&model, &nodes, &output, &parameters)?;
        let network = Network::read(bytes.into(), path)?;
        gradients::check(&network)?;
        let weights = claims.into_iter().map(|own| (own.name, own.tensor)).collect();
        Ok(NetworkFile {
            network,
            model,
            weights,
            remarks,
        })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network, without the elements of its parameters.
    pub fn into_network(self) -> Network {
        self.network
    }

    /// What differs from the file in training, and what the file leaves open, a sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The extents of the initializer of a parameter, if there is one.
    pub fn shape(&self, parameter: &str) -> Option<&[usize]> {
        self.weights.get(parameter).map(|tensor| tensor.shape.as_slice())
    }

    /// Shows the elements of a parameter to `visit`, some after others.
    ///
    /// # Errors
    /// A parameter that the file does not have, a file that cannot be read, and the errors of `visit`.
    pub fn visit(&self, parameter: &str, visit: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let Some(tensor) = self.weights.get(parameter) else {
            return Err(self.model.error(&format!("it has no initializer `{parameter}`")));
        };
        let element = tensor.element;
        tensor.for_each_block(&self.model.source, &mut |bytes| {
            let elements = bytes.chunks_exact(element.bytes());
            visit(&elements.map(|bytes| element.read(bytes) as f32).collect::<Vec<f32>>())
        })
    }
}

/// An initializer that is a parameter.
struct Claim {
    name: String,
    /// The value of the file that nodes read it by.
    value: String,
    tensor: Tensor,
    /// Whether it is a running statistic, which belongs to one norm alone.
    is_statistic: bool,
    /// Whether it is a term of an elementwise operator, which may be a constant as well as a bias.
    is_term: bool,
}

/// The nodes of a network while its parameters are found.
struct Draft<'m> {
    model: &'m Model,
    nodes: Vec<NodeProto>,
    /// The value of the logits.
    output: String,
    producers: HashMap<String, usize>,
    claims: Vec<Claim>,
    /// Names that no parameter can have.
    is_taken: &'m dyn Fn(&str) -> bool,
    /// Names that no further parameter can have.
    taken: HashSet<String>,
    /// The names of all values.
    names: HashSet<String>,
}

impl<'m> Draft<'m> {
    fn of(model: &'m Model, is_taken: &'m dyn Fn(&str) -> bool) -> Draft<'m> {
        let nodes: Vec<NodeProto> = model.nodes.iter().map(|node| node.proto.clone()).collect();
        let outputs = nodes.iter().enumerate();
        let outputs = outputs.flat_map(|(place, node)| node.output.iter().map(move |name| (name.clone(), place)));
        let names = nodes.iter().flat_map(|node| node.input.iter().chain(&node.output));
        Draft {
            model,
            names: names.cloned().collect(),
            output: model.outputs.first().map(|own| own.name.clone()).unwrap_or_default(),
            producers: outputs.filter(|(name, _)| !name.is_empty()).collect(),
            nodes,
            claims: Vec::new(),
            is_taken,
            taken: HashSet::new(),
        }
    }

    /// Takes functions off the output that turn logits into probabilities.
    fn without_probabilities(&mut self) -> Option<String> {
        let (mut output, mut taken_off) = (self.output.clone(), None);
        while let Some(node) = self.producers.get(&output).map(|place| &self.nodes[*place]) {
            let is_probability = PROBABILITIES.contains(&node.op_type.as_str());
            if !is_probability && node.op_type != "Identity" {
                break;
            }
            let Some(input) = node.input.first() else { break };
            output.clone_from(input);
            if is_probability {
                taken_off = Some(node.op_type.clone());
                self.output.clone_from(&output);
            }
        }
        taken_off.map(|operator| format!("its last {operator} is taken off: the loss is computed from the logits"))
    }

    /// The places of the nodes that the output depends on, in order. What gives a parameter is not among them.
    fn live(&self) -> Vec<usize> {
        let claimed: HashSet<&str> = self.claims.iter().map(|own| own.name.as_str()).collect();
        let mut wanted = HashSet::from([self.output.as_str()]);
        let mut places = Vec::new();
        for (place, node) in self.nodes.iter().enumerate().rev() {
            let is_wanted = |name: &String| wanted.contains(name.as_str()) && !claimed.contains(name.as_str());
            if node.output.iter().any(is_wanted) {
                wanted.extend(node.input.iter().map(String::as_str));
                places.push(place);
            }
        }
        places.reverse();
        places
    }

    /// The number of inputs of nodes at these places that read a value.
    fn readers(&self, places: &[usize], name: &str) -> usize {
        let inputs = places.iter().flat_map(|place| &self.nodes[*place].input);
        inputs.filter(|read| *read == name).count()
    }

    /// Finds the parameters. A value of each name becomes one parameter; an `Identity` of an initializer is one of its
    /// own, since exporters store equal tensors once.
    ///
    /// # Errors
    /// Statistics of a norm that are computed.
    fn claim_weights(&mut self) -> Result<()> {
        let images = self
            .model
            .inputs
            .first()
            .map(|own| own.name.clone())
            .unwrap_or_default();
        let mut dependent = HashSet::from([images]);
        let mut layered: HashSet<String> = HashSet::new();
        for place in self.live() {
            let node = &self.nodes[place];
            let (operator, inputs) = (node.op_type.clone(), node.input.clone());
            if SIZES.contains(&operator.as_str()) || !inputs.iter().any(|name| dependent.contains(name)) {
                continue;
            }
            let is_layer = LAYERS.contains(&operator.as_str());
            let is_after = inputs.iter().any(|name| layered.contains(name));
            let outputs = node.output.clone();
            if is_layer || is_after {
                layered.extend(outputs.iter().cloned());
            }
            dependent.extend(outputs);
            let has_weights = is_layer || (is_after && TERMS.contains(&operator.as_str()));
            if !has_weights {
                continue;
            }
            for (input, name) in inputs.iter().enumerate() {
                if name.is_empty() || dependent.contains(name) {
                    continue;
                }
                if operator == BATCH_NORM && NORM_INPUTS[2..].contains(&input) {
                    self.claim_statistic(place, input)?;
                } else {
                    self.claim(place, input, !is_layer);
                }
            }
        }
        Ok(())
    }

    /// Makes parameters of what an input of a node is computed from.
    fn claim(&mut self, place: usize, input: usize, is_term: bool) {
        let mut open = vec![(place, input)];
        let mut seen = HashSet::new();
        while let Some((place, input)) = open.pop() {
            let name = self.nodes[place].input[input].clone();
            if let Some(tensor) = self.stored(&name) {
                if is_weight(&tensor) {
                    let mut own = self.claims.iter().filter(|own| own.value == name && !own.is_statistic);
                    let own = own.next().map(|own| own.name.clone());
                    let own = own.unwrap_or_else(|| self.add(&name, tensor, [false, is_term]));
                    self.nodes[place].input[input] = own;
                }
            } else if let Some(&producer) = self.producers.get(&name).filter(|place| seen.insert(**place)) {
                let inputs = &self.nodes[producer].input;
                let named = inputs.iter().enumerate().filter(|(_, name)| !name.is_empty());
                open.extend(named.map(|(input, _)| (producer, input)));
            }
        }
    }

    /// Makes a running statistic of an input of a norm, whatever else reads it.
    fn claim_statistic(&mut self, place: usize, input: usize) -> Result<()> {
        let name = self.nodes[place].input[input].clone();
        let Some(tensor) = self.stored(&name).filter(|tensor| tensor.element.is_float()) else {
            let sentence = format!(
                "the statistics of the node {} are computed",
                self.model.nodes[place].shown()
            );
            return Err(self
                .model
                .error(&format!("{sentence}, which is not trained; export it with stored ones")));
        };
        // What else reads the value, other than norms as statistics of their own, goes on to read what the file has.
        let is_other = |node: &NodeProto| {
            let mut inputs = node.input.iter().enumerate().filter(|(_, read)| **read == name);
            inputs.any(|(input, _)| node.op_type != BATCH_NORM || !NORM_INPUTS[2..].contains(&input))
        };
        if self.nodes.iter().any(is_other) {
            self.taken.insert(name.clone());
        }
        self.nodes[place].input[input] = self.add(&name, tensor, [true, false]);
        Ok(())
    }

    /// Adds a parameter; its name, which is like the wanted one.
    fn add(&mut self, wanted: &str, tensor: Tensor, [is_statistic, is_term]: [bool; 2]) -> String {
        let is_free = self.taken.insert(wanted.to_string());
        let name = if (self.is_taken)(wanted) {
            unused(&format!("file.{wanted}"), &self.names)
        } else if is_free {
            wanted.to_string()
        } else {
            unused(wanted, &self.names)
        };
        self.names.insert(name.clone());
        self.claims.push(Claim {
            name: name.clone(),
            value: wanted.to_string(),
            tensor,
            is_statistic,
            is_term,
        });
        name
    }

    /// The tensor in the file that a value is: an initializer, a constant, or an `Identity` of one.
    fn stored(&self, name: &str) -> Option<Tensor> {
        let mut name = name;
        loop {
            if let Some(tensor) = self.model.initializers.get(name) {
                return Some(tensor.clone());
            }
            let node = &self.nodes[*self.producers.get(name)?];
            match node.op_type.as_str() {
                "Identity" => name = node.input.first()?,
                "Constant" => {
                    let value = node.attribute.iter().find(|own| own.name == "value")?;
                    return Tensor::of(value.t.as_ref()?).ok().flatten();
                }
                _ => return None,
            }
        }
    }

    /// What differs from the file, or is left open by it.
    fn remarks(&self, live: &[usize]) -> Vec<String> {
        let readers = |name: &str| self.readers(live, name);
        let mut remarks = Vec::new();
        let tied: Vec<&str> = self
            .claims
            .iter()
            .map(|own| own.name.as_str())
            .filter(|name| readers(name) > 1)
            .collect();
        if let Some(first) = tied.first() {
            remarks.push(format!(
                "{} of its initializers are read by several nodes and are trained as one, such as {first}",
                tied.len()
            ));
        }
        let mut terms = self.claims.iter().filter(|own| own.is_term);
        if let Some(first) = terms.next() {
            remarks.push(format!(
                "{} of its parameters are terms of sums and products, such as {}; train.freeze keeps those that are constants",
                1 + terms.count(),
                first.name
            ));
        }
        let claimed: Vec<&str> = self.claims.iter().map(|own| own.name.as_str()).collect();
        let constants = self.model.initializers.values();
        let mut constants: Vec<&str> = constants
            .filter(|tensor| is_weight(tensor) && !claimed.contains(&tensor.name.as_str()) && readers(&tensor.name) > 0)
            .map(|tensor| tensor.name.as_str())
            .collect();
        constants.sort_unstable();
        if let Some(first) = constants.first() {
            remarks.push(format!(
                "{} of its initializers are no weights of layers and stay as they are, such as {first}",
                constants.len()
            ));
        }
        let narrow = |own: &&Claim| matches!(own.tensor.element, Element::F16 | Element::BF16);
        if let Some(first) = self.claims.iter().find(narrow) {
            remarks.push(format!(
                "its weights are {}, and are trained as float32",
                first.tensor.element
            ));
        }
        remarks
    }
}

/// Whether a tensor can be a parameter: single numbers are settings.
fn is_weight(tensor: &Tensor) -> bool {
    tensor.element.is_float() && tensor.numel() > 1
}
