//! The values and nodes of a model that stand for values and nodes of its graph.

use std::collections::HashMap;

use lessen_graph::{Graph, NodeId, ValueId};

use lessen_onnx::Imported;
use lessen_onnx::Model;

/// The model's side of a graph.
pub(super) struct Names<'m> {
    /// For each value of the graph its names in the model, in the order in which they are defined.
    names: HashMap<ValueId, Vec<&'m str>>,
    /// The value of the graph for each name that has one.
    values: HashMap<&'m str, ValueId>,
    /// For each node of the graph the node of the model that it is of.
    nodes: HashMap<NodeId, usize>,
    /// The node of the model that defines a name.
    definitions: HashMap<&'m str, usize>,
}

impl<'m> Names<'m> {
    /// The names of a graph, to whose values `map` leads from values of the imported one.
    pub fn of(model: &'m Model, imported: &Imported, graph: &Graph, map: &[Option<ValueId>]) -> Names<'m> {
        let mut names: HashMap<ValueId, Vec<&'m str>> = HashMap::new();
        let mut values = HashMap::new();
        let initializers = model.initializers.keys().map(String::as_str);
        let given = model.inputs.iter().map(|input| input.name.as_str());
        let computed = model
            .nodes
            .iter()
            .flat_map(|node| node.proto.output.iter().map(String::as_str));
        for name in initializers.chain(given).chain(computed) {
            let value = imported.values.get(name).and_then(|value| map[value.index()]);
            if let Some(value) = value {
                names.entry(value).or_default().push(name);
                values.insert(name, value);
            }
        }
        let mut nodes = HashMap::new();
        for (i, node) in imported.graph.nodes.iter().enumerate() {
            let Some(position) = imported.node(NodeId(i as u32)) else {
                continue;
            };
            for output in &node.outputs {
                if let Some(new) = map[output.index()].and_then(|value| graph.producer(value)) {
                    nodes.insert(new, position);
                }
            }
        }
        let defined = model.nodes.iter().enumerate();
        let definitions = defined.flat_map(|(i, node)| node.proto.output.iter().map(move |name| (name.as_str(), i)));
        Names {
            names,
            values,
            nodes,
            definitions: definitions.filter(|(name, _)| !name.is_empty()).collect(),
        }
    }

    /// The names of a value.
    pub fn all(&self, value: ValueId) -> &[&'m str] {
        self.names.get(&value).map_or(&[], |names| names)
    }

    /// The value of the graph that a name stands for.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.get(name).copied()
    }

    /// The first name of a value.
    pub fn first(&self, value: ValueId) -> Option<&'m str> {
        self.all(value).first().copied()
    }

    /// The node of the model that a node of the graph is of.
    pub fn node(&self, node: NodeId) -> Option<usize> {
        self.nodes.get(&node).copied()
    }

    /// The node of the model that defines a name; none for initializers and inputs.
    pub fn definition(&self, name: &str) -> Option<usize> {
        self.definitions.get(name).copied()
    }
}
