//! Dead code: nodes that no output and no assignment depends on go away.

use lessen_graph::Graph;

use crate::rewriter::Rewriter;

/// Removes every node that no output and no assignment depends on. All inputs stay.
pub fn eliminate_dead_code(graph: &Graph) -> Graph {
    let mut live = vec![false; graph.values.len()];
    for value in graph
        .outputs
        .iter()
        .map(|o| o.value)
        .chain(graph.assigns.iter().map(|a| a.value))
    {
        live[value.index()] = true;
    }
    let mut keep = vec![false; graph.nodes.len()];
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        if node.outputs.iter().any(|v| live[v.index()]) {
            keep[i] = true;
            for input in &node.inputs {
                live[input.index()] = true;
            }
        }
    }
    let mut rewriter = Rewriter::new(graph);
    for (node, keep) in graph.nodes.iter().zip(keep) {
        if keep {
            rewriter.copy(node);
        }
    }
    rewriter.finish(graph)
}
