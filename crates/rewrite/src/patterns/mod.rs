//! Patterns: norms, attention and GELU that an imported graph computes by primitive operations become one operation
//! each, which devices compute faster.

mod attention;
mod gelu;
mod mean_squares;
mod norm_parts;
mod norms;
mod replace;

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::{Array, Graph, InputKind, ValueId};

use gelu::recognize_gelu;
use mean_squares::recognize_mean_squares;

use crate::rewriter::Rewriter;

pub use attention::recognize_attention;
pub use norm_parts::known_numbers;
pub use norms::recognize_norms;

/// Replaces the patterns in the graph of an imported model, and drops states that nothing reads any more. `constants`
/// holds the elements of states that never change, such as masks, by name.
pub fn recognize(graph: &Graph, constants: &HashMap<String, Arc<Array>>) -> Graph {
    let known: HashMap<ValueId, &Array> = graph
        .inputs
        .iter()
        .filter_map(|input| Some((input.value, constants.get(&input.name)?.as_ref())))
        .collect();
    let graph = recognize_attention(graph, &known);
    without_unread_states(&recognize_gelu(&recognize_mean_squares(&recognize_norms(&graph).0)))
}

/// The graph without states that nothing reads.
fn without_unread_states(graph: &Graph) -> Graph {
    let mut is_read = vec![false; graph.values.len()];
    let by_nodes = graph.nodes.iter().flat_map(|node| node.inputs.iter().copied());
    let outputs = graph.outputs.iter().map(|output| output.value);
    let assigned = graph.assigns.iter().flat_map(|assign| [assign.target, assign.value]);
    let all = by_nodes.chain(outputs).chain(assigned);
    all.for_each(|value| is_read[value.index()] = true);
    let mut rewriter = Rewriter::without_inputs(graph);
    for input in &graph.inputs {
        if input.kind == InputKind::Data || is_read[input.value.index()] {
            rewriter.input(&input.name, input.kind, input.value);
        }
    }
    graph.nodes.iter().for_each(|node| rewriter.copy(node));
    rewriter.finish()
}
