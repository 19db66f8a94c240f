//! The weights of a model that become integers, and why others do not.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::{Graph, Node, ValueId, ops};
use lessen_nn::checkpoint::Integers;
use lessen_nn::{Model, ParamSpec};

use crate::logits_graph::{logits_graph, states_graph};

/// The weights of a model with at least two axes.
pub(super) struct Weights {
    /// The names of those that become integers.
    pub chosen: BTreeSet<String>,
    /// All others by name, and why they stay as they are.
    pub left: BTreeMap<String, String>,
}

/// What reads a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// Products of rows with it, as a matrix.
    Products,
    /// Convolutions, as their kernels, or products with it as a matrix whose rows are kernels.
    Convolutions,
    /// Something else, too.
    Others,
}

impl Weights {
    /// Weights that products read as a matrix, or convolutions as kernels, and nothing else reads, become integers of
    /// 8 bits; matrices alone become integers of 4 bits.
    pub(super) fn of(model: &Model, integers: Integers) -> Weights {
        Weights::of_graph(&logits_graph(model), model.parameters(), integers)
    }

    /// [`Weights::of`] a model of which only the states are asked.
    pub(super) fn of_states(model: &Model, integers: Integers) -> Weights {
        Weights::of_graph(&states_graph(model), model.parameters_of_states(), integers)
    }

    fn of_graph(graph: &Graph, parameters: Vec<ParamSpec>, integers: Integers) -> Weights {
        let readers = graph.readers();
        let states: BTreeMap<&str, ValueId> = graph
            .inputs
            .iter()
            .map(|input| (input.name.as_str(), input.value))
            .collect();
        let mut weights = Weights {
            chosen: BTreeSet::new(),
            left: BTreeMap::new(),
        };
        for param in parameters.into_iter().filter(|param| param.shape.len() > 1) {
            let found = states.get(param.name.as_str());
            let found = found.map_or(Readers::Others, |value| readers_of(graph, &readers, *value));
            let reason = match (found, integers) {
                (Readers::Products, _) | (Readers::Convolutions, Integers::Eight) => {
                    weights.chosen.insert(param.name);
                    continue;
                }
                (Readers::Convolutions, Integers::Four { .. }) => "kernels have no integers of 4 bits",
                (Readers::Others, _) => "it is not read by products with rows or by convolutions alone",
            };
            weights.left.insert(param.name, reason.to_string());
        }
        weights
    }

    /// Leaves weights as they are that `stays` gives a reason for.
    pub(super) fn leave(&mut self, stays: impl Fn(&str) -> Option<String>) {
        for name in std::mem::take(&mut self.chosen) {
            match stays(&name) {
                Some(reason) => drop(self.left.insert(name, reason)),
                None => drop(self.chosen.insert(name)),
            }
        }
    }
}

/// What reads a value.
fn readers_of(graph: &Graph, readers: &[Vec<lessen_graph::NodeId>], value: ValueId) -> Readers {
    let nodes = |value: ValueId| readers[value.index()].iter().map(|id| &graph.nodes[id.index()]);
    let is_product = |value: ValueId, node: &Node| {
        let matmul = node.op.downcast_ref::<ops::MatMul>();
        let [a, b] = node.inputs[..] else { return false };
        b == value && matmul.is_some_and(|op| op.is_linear(graph.ty(a), graph.ty(b)))
    };
    let are_products = |value: ValueId| {
        let mut all = nodes(value).peekable();
        all.peek().is_some() && all.all(|node| is_product(value, node))
    };
    let is_convolution = |node: &Node| {
        let is_kernel = node.op.is::<ops::Conv2d>() && node.inputs[1] == value && node.inputs[0] != value;
        is_kernel || (node.op.is::<ops::Reshape>() && are_products(node.outputs[0]))
    };
    let shape = &graph.ty(value).shape;
    let mut all = nodes(value).peekable();
    if shape.len() == 2 && are_products(value) {
        Readers::Products
    } else if shape.len() == 4 && all.peek().is_some() && all.all(is_convolution) {
        Readers::Convolutions
    } else {
        Readers::Others
    }
}
