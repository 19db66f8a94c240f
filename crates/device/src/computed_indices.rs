//! The error of an index that a run has computed and that is not valid.

use std::collections::BTreeSet;

use lessen_base::Error;
use lessen_compile::Plan;
use lessen_graph::{Def, Graph, Node, ValueId};

/// Most inputs that an error names.
const NAMED: usize = 3;

/// The error of an index that is not below `limit` and that an operation of a step of a plan reads. It names the
/// operation, and the inputs that the index is computed from.
pub fn computed_index_error(plan: &Plan, step: usize, index: i64, limit: usize) -> Error {
    let (who, of) = reader(plan, step, limit).unwrap_or(("the step".to_string(), String::new()));
    Error::user(format!(
        "{who} reads the index {index}{of}, but indices there must be at least 0 and below {limit}; no state has been updated"
    ))
}

/// The operation of a step that reads indices below this limit, and the inputs that they are computed from.
fn reader(plan: &Plan, step: usize, limit: usize) -> Option<(String, String)> {
    let graph = plan.graph();
    let nodes = plan.steps().get(step)?.nodes.iter().map(|id| &graph.nodes[id.index()]);
    let reads = |node: &Node| {
        node.op
            .index_input(&graph.input_types(node))
            .filter(|index| index.limit == limit)
    };
    let (node, index) = nodes.filter_map(|node| Some((node, reads(node)?))).next()?;
    let gap = if node.scope.is_empty() { "" } else { " " };
    let mut names: Vec<String> = inputs_of(graph, node.inputs[index.input]).into_iter().collect();
    names.truncate(NAMED);
    let of = match names.is_empty() {
        true => String::new(),
        false => format!(" that is computed from `{}`", names.join("` and `")),
    };
    Some((format!("`{}{gap}{}`", node.scope, node.op.name()), of))
}

/// The names of the inputs that a value is computed from.
fn inputs_of(graph: &Graph, value: ValueId) -> BTreeSet<String> {
    let (mut names, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        match (graph.producer(value), graph.values[value.index()].def) {
            (Some(node), _) => open.extend(&graph.nodes[node.index()].inputs),
            (None, Def::Input(input)) => drop(names.insert(graph.inputs[input].name.clone())),
            (None, Def::Node(..)) => {}
        }
    }
    names
}
