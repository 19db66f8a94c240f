//! Common subexpressions: of nodes with the same operation, attributes and inputs the first one serves all.
//!
//! Only within one phase: a node that the backward phase repeats is a recomputation, whose purpose is that the forward
//! value need not be kept.

use std::collections::HashMap;

use lessen_graph::Graph;
use lessen_graph::ops::Constant;

use crate::rewrite::Rewriter;

/// The most elements by which constants are compared; longer ones are the same only where they share their array.
const LONGEST_CONSTANT: usize = 64;

/// Merges equal nodes of the same phase.
pub fn eliminate_common_subexpressions(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    let mut seen: HashMap<String, Vec<lessen_graph::ValueId>> = HashMap::new();
    for node in &graph.nodes {
        let mut key = format!("{:?} {}", node.phase, node.op.name());
        match node.op.as_ref().downcast_ref::<Constant>() {
            Some(constant) if constant.array.data.len() > LONGEST_CONSTANT => {
                key.push_str(&format!(" {:p}", constant.array));
            }
            _ => {
                for (name, attr) in &node.op.attrs().0 {
                    key.push_str(&format!(" {name}={attr}"));
                }
            }
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
