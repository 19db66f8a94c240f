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
    let graph = plan.graph();
    let nodes = plan.steps().get(step).into_iter().flat_map(|step| &step.nodes);
    let mut nodes = nodes.map(|id| &graph.nodes[id.index()]);
    let reads = |node: &&Node| {
        let input = graph
            .ask(node, &graph.input_types(node), &graph.output_types(node))
            .index_input();
        input.is_some_and(|input| input.limit == limit)
    };
    match nodes.find(reads) {
        Some(node) => index_error_of_node(graph, node, index, limit),
        None => sentence("the step", index, "", limit),
    }
}

/// The error of an index that is not below `limit` and that a node of a graph reads.
pub(crate) fn index_error_of_node(graph: &Graph, node: &Node, index: i64, limit: usize) -> Error {
    let gap = if node.scope.is_empty() { "" } else { " " };
    let input = graph
        .ask(node, &graph.input_types(node), &graph.output_types(node))
        .index_input();
    let names = input.map(|input| inputs_of(graph, node.inputs[input.input]));
    let names: Vec<String> = names.into_iter().flatten().take(NAMED).collect();
    let of = if names.is_empty() {
        String::new()
    } else {
        format!(" that is computed from `{}`", names.join("` and `"))
    };
    sentence(&format!("`{}{gap}{}`", node.scope, node.op.name()), index, &of, limit)
}

fn sentence(reader: &str, index: i64, of: &str, limit: usize) -> Error {
    Error::user(format!(
        "{reader} reads the index {index}{of}, but indices there must be at least 0 and below {limit}; no state has \
         been updated"
    ))
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
