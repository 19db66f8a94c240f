//! Nodes and initializers that a converted model has and the original model lacks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lessen_base::Result;
use lessen_rewrite::Parameter;
use prost::Message;

use crate::element::Element;
use crate::proto::{NodeProto, StringStringEntryProto};
use crate::tensor::Tensor;

/// The elements of a changed initializer, computed when they are written.
pub(crate) type Fill<'a> = Box<dyn Fn() -> Result<Parameter<f32>> + 'a>;

/// An initializer whose elements change.
pub(crate) struct ChangedTensor<'a> {
    pub shape: Vec<usize>,
    pub element: Element,
    pub fill: Fill<'a>,
}

/// The changes of a model.
#[derive(Default)]
pub(crate) struct Edits<'a> {
    /// Nodes that vanish, by their positions.
    pub removed: BTreeSet<usize>,
    /// Nodes that replace the node at a position, in order.
    pub replaced: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes in front of the node at a position.
    pub before: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes after the node at a position.
    pub behind: BTreeMap<usize, Vec<NodeProto>>,
    /// Nodes in front of all.
    pub front: Vec<NodeProto>,
    /// New names of inputs, by position of the node and of the input.
    pub renamed: BTreeMap<(usize, usize), String>,
    /// Values that new nodes give, so that each is given once.
    pub made: BTreeSet<String>,
    /// Initializers with other elements, by name; initializers for constant nodes, which vanish, are new.
    pub changed: HashMap<String, ChangedTensor<'a>>,
    /// New initializers.
    pub added: Vec<Tensor>,
    /// Initializers that nothing reads any more.
    pub dropped: BTreeSet<String>,
    /// Whether values have other extents.
    pub has_other_extents: bool,
    /// Entries of the model's metadata.
    pub metadata: Vec<StringStringEntryProto>,
}

impl Edits<'_> {
    /// Whether types of values may differ from what the model says.
    pub fn drops_types(&self) -> bool {
        self.has_other_extents
    }

    /// The nodes that stand at the position of a node of the model, if they differ from it.
    pub fn nodes_at(&self, position: usize, node: &NodeProto) -> Option<Vec<NodeProto>> {
        let is_same = !self.replaced.contains_key(&position)
            && !self.removed.contains(&position)
            && !self.before.contains_key(&position)
            && !self.behind.contains_key(&position)
            && self
                .renamed
                .range((position, 0)..=(position, usize::MAX))
                .next()
                .is_none();
        (!is_same).then(|| self.all_at(position, node))
    }

    /// The nodes that stand at the position of a node of the model.
    pub fn all_at(&self, position: usize, node: &NodeProto) -> Vec<NodeProto> {
        let mut nodes = match self.replaced.get(&position) {
            Some(nodes) => nodes.clone(),
            None if self.removed.contains(&position) => Vec::new(),
            None => {
                let mut node = node.clone();
                let renamed = self.renamed.range((position, 0)..=(position, usize::MAX));
                renamed.for_each(|((_, input), name)| node.input[*input].clone_from(name));
                vec![node]
            }
        };
        let before = self.before.get(&position).into_iter().flatten().cloned();
        nodes.splice(0..0, before);
        nodes.extend(self.behind.get(&position).into_iter().flatten().cloned());
        nodes
    }
}

/// A node without attributes.
pub(crate) fn node(op_type: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|input| input.to_string()).collect(),
        output: vec![output.to_string()],
        name: name.to_string(),
        op_type: op_type.to_string(),
        ..NodeProto::default()
    }
}

/// The bytes of a message as a field of this number.
pub(crate) fn field(number: u32, message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::wire::head(number, message.encoded_len() as u64, &mut bytes);
    bytes.extend(message.encode_to_vec());
    bytes
}
