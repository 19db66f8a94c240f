//! Replaces patterns of primitive operations by one operation each.

use lessen_graph::{Graph, Node, ValueId};

use crate::rewriter::Rewriter;

/// A pattern that was found: its operation computes the result of a node.
pub(super) trait Pattern {
    /// The values that the operation reads.
    fn inputs(&self) -> Vec<ValueId>;

    /// Writes the operation in place of the node. Returns the new value.
    fn write(&self, rewriter: &mut Rewriter<'_>, graph: &Graph, node: &Node) -> ValueId;
}

/// Replaces each node that ends a pattern by the pattern's operation, and drops nodes that nothing reads any more.
/// Returns the new graph and, for each old value that is still there, the new one.
pub(super) fn replaced<P: Pattern>(graph: &Graph, find: impl Fn(&Node) -> Option<P>) -> (Graph, Vec<Option<ValueId>>) {
    let found: Vec<Option<P>> = graph.nodes.iter().map(find).collect();
    let is_live = live(graph, &found);
    let mut rewriter = Rewriter::new(graph);
    for (node, found) in graph.nodes.iter().zip(&found) {
        if !node.outputs.iter().any(|v| is_live[v.index()]) {
            continue;
        }
        match found {
            Some(pattern) => {
                let y = pattern.write(&mut rewriter, graph, node);
                rewriter.set(node.outputs[0], y);
            }
            None => rewriter.copy(node),
        }
    }
    let values = (0..graph.values.len()).map(|i| ValueId(i as u32));
    let map = values
        .map(|value| rewriter.has(value).then(|| rewriter.get(value)))
        .collect();
    (rewriter.finish(), map)
}

/// For each value whether a result depends on it after patterns are replaced.
fn live<P: Pattern>(graph: &Graph, found: &[Option<P>]) -> Vec<bool> {
    let mut is_live = vec![false; graph.values.len()];
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().flat_map(|assign| [assign.target, assign.value]);
    outputs.chain(assigned).for_each(|value| is_live[value.index()] = true);
    for (node, found) in graph.nodes.iter().zip(found).rev() {
        if !node.outputs.iter().any(|v| is_live[v.index()]) {
            continue;
        }
        match found {
            Some(pattern) => pattern.inputs().iter().for_each(|v| is_live[v.index()] = true),
            None => node.inputs.iter().for_each(|v| is_live[v.index()] = true),
        }
    }
    is_live
}
