//! Dead code: removes nodes that no output and no assignment depends on.

use lessen_graph::{Graph, ValueId};

use crate::rewriter::Rewriter;

/// Removes every node that no output and no assignment depends on. All inputs stay.
pub fn eliminate_dead_code(graph: &Graph) -> Graph {
    compacted(graph).unwrap_or_else(|| graph.clone())
}

/// As [`eliminate_dead_code`], of a graph that is not needed any more: it comes back as it is where no node is dead.
pub fn without_dead_code(graph: Graph) -> Graph {
    compacted(&graph).unwrap_or(graph)
}

/// The graph without dead nodes; none where that is the graph itself.
fn compacted(graph: &Graph) -> Option<Graph> {
    let keep = live_nodes(graph);
    if keep.iter().all(|keep| *keep) && is_compact(graph) {
        return None;
    }
    let mut rewriter = Rewriter::new(graph);
    for (node, keep) in graph.nodes.iter().zip(keep) {
        if keep {
            rewriter.copy(node);
        }
    }
    Some(rewriter.finish())
}

/// For each node whether an output or an assignment depends on it.
fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.values.len()];
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().map(|assign| assign.value);
    outputs.chain(assigned).for_each(|value| live[value.index()] = true);
    let mut keep = vec![false; graph.nodes.len()];
    for (keep, node) in keep.iter_mut().zip(&graph.nodes).rev() {
        if node.outputs.iter().any(|v| live[v.index()]) {
            *keep = true;
            node.inputs.iter().for_each(|v| live[v.index()] = true);
        }
    }
    keep
}

/// Whether values are numbered as a rewriter numbers them: inputs first, then the outputs of nodes, in order.
fn is_compact(graph: &Graph) -> bool {
    let inputs = graph.inputs.iter().map(|input| input.value);
    let outputs = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    inputs.chain(outputs).eq((0..graph.values.len() as u32).map(ValueId))
}
