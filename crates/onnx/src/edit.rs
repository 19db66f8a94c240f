//! Nodes and initializers that a converted model has and the original model lacks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lessen_base::Result;
use prost::Message;

use crate::element::Element;
use crate::model::Model;
use crate::order::each_graph;
use crate::proto::NodeProto;
use crate::tensor::Tensor;

/// The elements of a changed initializer, computed when they are written.
pub type Fill<'a> = Box<dyn Fn() -> Result<Vec<f32>> + 'a>;

/// An initializer whose elements change.
pub struct ChangedTensor<'a> {
    pub shape: Vec<usize>,
    pub element: Element,
    pub fill: Fill<'a>,
    /// Its new name, where the original one stays as well.
    pub beside: Option<String>,
}

/// The changes of a model.
#[derive(Default)]
pub struct Edits<'a> {
    /// Nodes that vanish, by their positions.
    pub removed: BTreeSet<usize>,
    /// Nodes that replace the node at a position, in order.
    pub replaced: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes in front of the node at a position.
    pub before: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes after the node at a position.
    pub after: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes in front of all.
    pub front: Vec<NodeProto>,
    /// New names of inputs, by position of the node and of the input.
    pub renamed: BTreeMap<(usize, usize), String>,
    /// New names of outputs, by position of the node and of the output.
    pub renamed_outputs: BTreeMap<(usize, usize), String>,
    /// Initializers with other elements, by name; initializers for constant nodes, which vanish, are new.
    pub changed: HashMap<String, ChangedTensor<'a>>,
    /// New initializers.
    pub added: Vec<Tensor>,
    /// Initializers that nothing reads any more.
    pub dropped: BTreeSet<String>,
    /// Values whose types, as the file says them, do not hold any more.
    pub retyped: HashSet<String>,
    /// Names of values that are there, in the model and the graphs inside it.
    taken: HashSet<String>,
}

impl Edits<'_> {
    /// No changes of a model.
    pub fn of(model: &Model) -> Edits<'static> {
        Edits {
            taken: model.names(),
            ..Edits::default()
        }
    }

    /// A name of a new value: the wanted one, or that with a number where it is taken.
    pub fn name(&mut self, wanted: &str) -> String {
        let name = unused(wanted, &self.taken);
        self.taken.insert(name.clone());
        name
    }

    /// Adds an initializer under a name like its own, which it returns.
    pub fn add(&mut self, mut tensor: Tensor) -> String {
        tensor.name = self.name(&tensor.name);
        let name = tensor.name.clone();
        self.added.push(tensor);
        name
    }

    /// The nodes that stand at the position of a node of the model, if they differ from it.
    pub fn nodes_at(&self, position: usize, node: &NodeProto) -> Option<Vec<NodeProto>> {
        let has_other_names = |names: &BTreeMap<(usize, usize), String>| {
            names.range((position, 0)..=(position, usize::MAX)).next().is_some()
        };
        let is_same = !self.replaced.contains_key(&position)
            && !self.removed.contains(&position)
            && !self.before.contains_key(&position)
            && !self.after.contains_key(&position)
            && !has_other_names(&self.renamed)
            && !has_other_names(&self.renamed_outputs);
        (!is_same).then(|| self.all_at(position, node))
    }

    /// The nodes that stand at the position of a node of the model.
    pub fn all_at(&self, position: usize, node: &NodeProto) -> Vec<NodeProto> {
        let mut nodes = match self.replaced.get(&position) {
            Some(nodes) => nodes.clone(),
            None if self.removed.contains(&position) => Vec::new(),
            None => vec![self.with_other_names(position, node)],
        };
        let before = self.before.get(&position).into_iter().flatten().cloned();
        nodes.splice(0..0, before);
        nodes.extend(self.after.get(&position).into_iter().flatten().cloned());
        nodes
    }

    /// The node at a position with the new names of its inputs and outputs.
    pub fn with_other_names(&self, position: usize, node: &NodeProto) -> NodeProto {
        let mut node = node.clone();
        let all = (position, 0)..=(position, usize::MAX);
        for ((_, input), name) in self.renamed.range(all.clone()) {
            node.input[*input].clone_from(name);
        }
        for ((_, output), name) in self.renamed_outputs.range(all) {
            node.output[*output].clone_from(name);
        }
        node
    }

    /// Gives new nodes names that no other node has.
    pub fn name_nodes(&mut self, model: &Model) {
        let mut taken = HashSet::new();
        for (position, node) in model.nodes.iter().enumerate() {
            if !self.replaced.contains_key(&position) {
                taken.insert(node.proto.name.clone());
            }
            each_graph(&node.proto, &mut |graph| {
                taken.extend(graph.node.iter().map(|node| node.name.clone()));
            });
        }
        for node in self.new_nodes().filter(|node| !node.name.is_empty()) {
            node.name = unused(&node.name, &taken);
            taken.insert(node.name.clone());
        }
    }

    /// All nodes that are not the model's own.
    pub fn new_nodes(&mut self) -> impl Iterator<Item = &mut NodeProto> {
        let positions = [&mut self.before, &mut self.replaced, &mut self.after];
        let placed = positions.into_iter().flat_map(|nodes| nodes.values_mut().flatten());
        self.front.iter_mut().chain(placed)
    }
}

/// The wanted name, or that with the least number from 2 on that makes it unused.
pub fn unused(wanted: &str, taken: &HashSet<String>) -> String {
    if !taken.contains(wanted) {
        return wanted.to_string();
    }
    let numbered = (2..).map(|number: u64| format!("{wanted}_{number}"));
    let mut free = numbered.filter(|name| !taken.contains(name));
    free.next().unwrap_or_default()
}

/// A node without attributes.
pub fn node(op_type: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|input| input.to_string()).collect(),
        output: vec![output.to_string()],
        name: name.to_string(),
        op_type: op_type.to_string(),
        ..NodeProto::default()
    }
}

/// The bytes of a message as a field of this number.
pub fn field(number: u32, message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::wire::head(number, message.encoded_len() as u64, &mut bytes);
    bytes.extend(message.encode_to_vec());
    bytes
}
