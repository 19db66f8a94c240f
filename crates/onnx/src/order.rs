//! The order of nodes, and the names that graphs inside of nodes read from around them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use lessen_base::{Error, Result};

use crate::proto::{AttributeProto, AttributeType, GraphProto, NodeProto, SparseTensorProto};

/// The most graphs within each other.
const MOST_NESTED: usize = 32;

/// The positions of nodes, each after the nodes that it reads; nodes in such an order keep it.
///
/// # Errors
/// The position of a node on a circle.
pub(crate) fn order(nodes: &[(&NodeProto, &[String])]) -> std::result::Result<Vec<usize>, usize> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (position, (node, _)) in nodes.iter().enumerate() {
        let outputs = node.output.iter().filter(|name| !name.is_empty());
        producers.extend(outputs.map(|name| (name.as_str(), position)));
    }
    let mut readers = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0usize; nodes.len()];
    for (position, (node, captured)) in nodes.iter().enumerate() {
        for name in node.input.iter().chain(*captured).filter(|name| !name.is_empty()) {
            if let Some(&producer) = producers.get(name.as_str()) {
                readers[producer].push(position);
                missing[position] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    ready.extend((0..nodes.len()).filter(|position| missing[*position] == 0).map(Reverse));
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some(Reverse(position)) = ready.pop() {
        sorted.push(position);
        for &reader in &readers[position] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    let Some(mut position) = missing.iter().position(|missing| *missing > 0) else {
        return Ok(sorted);
    };
    // What is not ready waits for another such node, so a walk back ends up on a circle.
    for _ in 0..nodes.len() {
        let (node, captured) = nodes[position];
        let mut before = node
            .input
            .iter()
            .chain(captured)
            .filter_map(|name| producers.get(name.as_str()));
        position = *before.find(|before| missing[**before] > 0).unwrap_or(&position);
    }
    Err(position)
}

/// Orders the nodes of the graphs inside of a node, whose sparse initializers become nodes.
///
/// # Errors
/// Nodes that form a circle, too many graphs within each other.
pub(crate) fn order_graphs(node: &mut NodeProto) -> Result<()> {
    order_graphs_at(node, 1)
}

fn order_graphs_at(node: &mut NodeProto, depth: usize) -> Result<()> {
    for graph in node.attribute.iter_mut().flat_map(graphs_mut) {
        if depth > MOST_NESTED {
            return Err(Error::user(format!(
                "more than {MOST_NESTED} of its graphs are within each other"
            )));
        }
        for tensor in std::mem::take(&mut graph.sparse_initializer) {
            let name = tensor.values.as_ref().map_or("", |values| &values.name).to_string();
            graph.node.push(sparse_constant(&name, tensor));
        }
        for inner in &mut graph.node {
            order_graphs_at(inner, depth + 1)?;
        }
        let captured: Vec<Vec<String>> = graph.node.iter().map(captured).collect();
        let nodes: Vec<(&NodeProto, &[String])> = graph
            .node
            .iter()
            .zip(&captured)
            .map(|(node, captured)| (node, &captured[..]))
            .collect();
        let sorted = order(&nodes).map_err(|position| {
            let node = &graph.node[position];
            let output = node.output.first().map_or("", String::as_str);
            Error::user(format!(
                "the node {} `{output}` inside it reads what follows from it",
                node.op_type
            ))
        })?;
        let mut nodes: Vec<Option<NodeProto>> = std::mem::take(&mut graph.node).into_iter().map(Some).collect();
        graph.node = sorted
            .into_iter()
            .filter_map(|position| nodes[position].take())
            .collect();
    }
    Ok(())
}

/// A node that gives a constant.
pub(crate) fn constant(name: &str, value: AttributeProto) -> NodeProto {
    NodeProto {
        op_type: "Constant".to_string(),
        output: vec![name.to_string()],
        attribute: vec![value],
        ..NodeProto::default()
    }
}

/// A node that gives a tensor which says only the elements that are not nought.
pub(crate) fn sparse_constant(name: &str, tensor: SparseTensorProto) -> NodeProto {
    let value = AttributeProto {
        name: "sparse_value".to_string(),
        r#type: AttributeType::SparseTensor.into(),
        sparse_tensor: Some(tensor),
        ..AttributeProto::default()
    };
    constant(name, value)
}

/// The names that the graphs in a node's attributes read from around it, each once.
pub fn captured(node: &NodeProto) -> Vec<String> {
    let mut names = BTreeSet::new();
    graphs(node).for_each(|graph| free(graph, &mut names));
    names.into_iter().map(String::from).collect()
}

/// Adds the names that a graph reads and does not define.
fn free<'g>(graph: &'g GraphProto, names: &mut BTreeSet<&'g str>) {
    let own: HashSet<&str> = defined(graph).collect();
    let mut read = BTreeSet::new();
    for node in &graph.node {
        read.extend(node.input.iter().map(String::as_str));
        graphs(node).for_each(|inner| free(inner, &mut read));
    }
    read.extend(graph.output.iter().map(|output| output.name.as_str()));
    names.extend(read.into_iter().filter(|name| !name.is_empty() && !own.contains(name)));
}

/// The names that a graph defines.
pub(crate) fn defined(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let sparse = graph
        .sparse_initializer
        .iter()
        .filter_map(|tensor| tensor.values.as_ref());
    let tensors = graph
        .initializer
        .iter()
        .chain(sparse)
        .map(|tensor| tensor.name.as_str());
    let outputs = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    let inputs = graph.input.iter().map(|input| input.name.as_str());
    inputs.chain(tensors).chain(outputs)
}

/// The graphs in a node's attributes.
pub fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute
        .iter()
        .flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

/// Calls `each` with every graph in a node's attributes, and in the nodes of those graphs.
pub(crate) fn each_graph(node: &NodeProto, each: &mut dyn FnMut(&GraphProto)) {
    let mut open: Vec<&NodeProto> = vec![node];
    while let Some(node) = open.pop() {
        for attribute in &node.attribute {
            for graph in attribute.g.iter().chain(&attribute.graphs) {
                each(graph);
                open.extend(&graph.node);
            }
        }
    }
}

/// The graphs of an attribute, to change them.
pub(crate) fn graphs_mut(attribute: &mut AttributeProto) -> impl Iterator<Item = &mut GraphProto> {
    attribute.g.iter_mut().chain(&mut attribute.graphs)
}
