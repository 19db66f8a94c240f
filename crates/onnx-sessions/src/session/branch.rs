//! A branch in place of the node that chooses it.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_base::{Error, Result};

use lessen_onnx::Node;
use lessen_onnx::host::HostTensor;
use lessen_onnx::names::OwnName;
use lessen_onnx::order::captured;
use lessen_onnx::proto::{GraphProto, NodeProto};

/// The nodes of a branch and its initializers by name.
type Inlined = (Vec<Arc<Node>>, Vec<(String, HostTensor)>);

/// The nodes of the branch that a node chooses, with names of their own, and its initializers. Nodes that give the
/// branch's outputs the names of the node's come last.
///
/// # Errors
/// A node without branches, or a branch with another number of outputs.
pub(super) fn inlined(node: &Node, condition: bool) -> Result<Inlined> {
    let name = if condition { "then_branch" } else { "else_branch" };
    let Some(graph) = node.attribute(name).and_then(|attribute| attribute.g.as_ref()) else {
        return Err(Error::user(format!("the node {} has no {name}", node.shown())));
    };
    if graph.output.len() < node.proto.output.len() {
        return Err(Error::user(format!(
            "the {name} of the node {} has too few outputs",
            node.shown()
        )));
    }
    let own = node.proto.output.iter().find(|output| !output.is_empty());
    let output = own.map_or("", String::as_str);
    let named = |value: &str| {
        let branch = name;
        OwnName::InBranch { output, branch, value }.to_string()
    };
    let mut names = HashMap::new();
    let defined = graph.node.iter().flat_map(|inner| &inner.output);
    let defined = defined.chain(graph.initializer.iter().map(|tensor| &tensor.name));
    for inner in defined.filter(|inner| !inner.is_empty()) {
        names.insert(inner.clone(), named(inner));
    }
    let mut initializers = Vec::with_capacity(graph.initializer.len());
    for tensor in &graph.initializer {
        initializers.push((renamed(&tensor.name, &names), HostTensor::of_message(tensor)?));
    }
    let mut nodes: Vec<Arc<Node>> = graph
        .node
        .iter()
        .map(|inner| of_proto(renamed_node(inner, &names), node))
        .collect();
    for (inner, outer) in graph.output.iter().zip(&node.proto.output) {
        if !outer.is_empty() {
            nodes.push(of_proto(
                NodeProto {
                    input: vec![renamed(&inner.name, &names)],
                    output: vec![outer.clone()],
                    name: named(&inner.name),
                    op_type: "Identity".to_string(),
                    ..NodeProto::default()
                },
                node,
            ));
        }
    }
    Ok((nodes, initializers))
}

fn of_proto(proto: NodeProto, call: &Node) -> Arc<Node> {
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
