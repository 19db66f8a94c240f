//! Common subexpressions: of nodes with the same operation, attributes and inputs the first one serves all.
//!
//! Only within one phase: a node that the backward phase repeats is a recomputation, whose purpose is that the forward
//! value need not be kept.

use std::collections::HashMap;

use lessen_graph::Graph;

use crate::rewrite::Rewriter;

/// Merges equal nodes of the same phase.
pub fn eliminate_common_subexpressions(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    let mut seen: HashMap<String, Vec<lessen_graph::ValueId>> = HashMap::new();
    for node in &graph.nodes {
        let mut key = format!("{:?} {}", node.phase, node.op.name());
        for (name, attr) in &node.op.attrs().0 {
            key.push_str(&format!(" {name}={attr}"));
        }
        for &input in &node.inputs {
            key.push_str(&format!(" %{}", rewriter.get(input).0));
        }
        if let Some(outputs) = seen.get(&key) {
            for (&old, &new) in node.outputs.iter().zip(outputs) {
                rewriter.set(old, new);
            }
        } else {
            rewriter.copy(node);
            seen.insert(key, node.outputs.iter().map(|&v| rewriter.get(v)).collect());
        }
    }
    rewriter.finish(graph)
}
