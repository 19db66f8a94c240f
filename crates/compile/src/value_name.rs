//! Names of values for people.

use lessen_graph::{Graph, Phase, ValueId};

/// A value's name for people, and the phase that defines it.
pub(crate) fn describe(graph: &Graph, value: ValueId) -> (String, Phase) {
    match graph.producer(value) {
        Some(id) => {
            let node = &graph.nodes[id.index()];
            let name = node.op.name();
            let name = if node.scope.is_empty() {
                name.to_string()
            } else {
                format!("{} {name}", node.scope)
            };
            (name, node.phase)
        }
        None => (
            graph.input(value).map(|i| i.name.clone()).unwrap_or_default(),
            Phase::Forward,
        ),
    }
}
