//! Graphs inside of nodes with names of their own: a branch in place of the node that chooses it, the body of a loop.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};

use lessen_onnx::Node;
use lessen_onnx::host::HostTensor;
use lessen_onnx::names::OwnName;
use lessen_onnx::order::captured;
use lessen_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};

/// A graph inside of a node, all of whose names are its own in the graph around it.
pub(super) struct Inner {
    pub nodes: Vec<Arc<Node>>,
    pub initializers: Vec<(String, HostTensor)>,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

impl Inner {
    /// The graph in an attribute of a node.
    ///
    /// # Errors
    /// A node without this graph, an initializer that cannot be read.
    pub(super) fn of(node: &Node, attribute: &str) -> Result<Inner> {
        let Some(graph) = node.attribute(attribute).and_then(|attribute| attribute.g.as_ref()) else {
            return Err(Error::user(format!("the node {} has no {attribute}", node.shown())));
        };
        let own = node.proto.output.iter().find(|output| !output.is_empty());
        let output = own.map_or("", String::as_str);
        let named = |value: &str| {
            let branch = attribute;
            OwnName::InBranch { output, branch, value }.to_string()
        };
        let mut names = HashMap::new();
        let defined = graph.node.iter().flat_map(|inner| &inner.output);
        let defined = defined.chain(graph.initializer.iter().map(|tensor| &tensor.name));
        let defined = defined.chain(graph.input.iter().map(|input| &input.name));
        for inner in defined.filter(|inner| !inner.is_empty()) {
            names.insert(inner.clone(), named(inner));
        }
        let mut initializers = Vec::with_capacity(graph.initializer.len());
        for tensor in &graph.initializer {
            initializers.push((renamed(&tensor.name, &names), HostTensor::of_message(tensor)?));
        }
        let all = |values: &[ValueInfoProto]| values.iter().map(|value| renamed(&value.name, &names)).collect();
        Ok(Inner {
            nodes: graph
                .node
                .iter()
                .map(|inner| of_proto(renamed_node(inner, &names), node))
                .collect(),
            initializers,
            inputs: all(&graph.input),
            outputs: all(&graph.output),
        })
    }
}

/// The nodes of the branch that a node chooses, and its initializers. Nodes that give the branch's outputs the names of
/// the node's come last.
///
/// # Errors
/// A node without branches, or a branch with another number of outputs.
pub(super) fn inlined(node: &Node, condition: bool) -> Result<Inner> {
    let name = if condition { "then_branch" } else { "else_branch" };
    let mut branch = Inner::of(node, name)?;
    if branch.outputs.len() < node.proto.output.len() {
        return Err(Error::user(format!(
            "the {name} of the node {} has too few outputs",
            node.shown()
        )));
    }
    for (inner, outer) in branch.outputs.iter().zip(&node.proto.output) {
        if !outer.is_empty() {
            branch.nodes.push(identity(inner, outer, node));
        }
    }
    Ok(branch)
}

/// A node of the graph around another node that gives a value a second name.
pub(super) fn identity(from: &str, to: &str, around: &Node) -> Arc<Node> {
    of_proto(
        NodeProto {
            input: vec![from.to_string()],
            output: vec![to.to_string()],
            name: to.to_string(),
            op_type: "Identity".to_string(),
            ..NodeProto::default()
        },
        around,
    )
}

/// A node of a graph inside of another node.
pub(super) fn of_proto(proto: NodeProto, call: &Node) -> Arc<Node> {
    Arc::new(Node {
        captured: captured(&proto),
        proto,
        span: call.span,
        opsets: call.opsets.clone(),
    })
}

fn renamed(name: &str, names: &HashMap<String, String>) -> String {
    names.get(name).map_or_else(|| name.to_string(), Clone::clone)
}

/// A node whose names, and those that graphs inside of it read from around them, are renamed.
fn renamed_node(node: &NodeProto, names: &HashMap<String, String>) -> NodeProto {
    let mut node = node.clone();
    let own = node.input.iter_mut().chain(&mut node.output);
    own.for_each(|name| *name = renamed(name, names));
    for attribute in &mut node.attribute {
        let graphs = attribute.g.iter_mut().chain(&mut attribute.graphs);
        graphs.for_each(|graph| *graph = renamed_graph(graph, names));
    }
    node
}

/// A graph whose names from around it are renamed.
fn renamed_graph(graph: &GraphProto, names: &HashMap<String, String>) -> GraphProto {
    let mut around = names.clone();
    let own = graph.node.iter().flat_map(|node| &node.output);
    let own = own.chain(graph.input.iter().map(|input| &input.name));
    own.chain(graph.initializer.iter().map(|tensor| &tensor.name))
        .for_each(|name| {
            around.remove(name);
        });
    let mut graph = graph.clone();
    graph.node = graph.node.iter().map(|node| renamed_node(node, &around)).collect();
    for output in &mut graph.output {
        output.name = renamed(&output.name, &around);
    }
    graph
}
