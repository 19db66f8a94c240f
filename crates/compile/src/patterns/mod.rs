//! Operations that a graph from outside has in primitive ones: norms, attention, GELU. A device computes them faster as one.

mod attention;
mod gelu;
mod mean_squares;
mod norms;
mod replace;
mod runs;

use std::collections::HashMap;

use lessen_graph::{Array, Graph, ValueId};

use gelu::recognize_gelu;
use mean_squares::recognize_mean_squares;

pub use attention::recognize_attention;
pub use norms::recognize_norms;

/// The graph of a model from outside with its operations in place of primitive ones. `constants` holds the elements of
/// states that never change, such as masks, by name.
pub fn recognize(graph: &Graph, constants: &HashMap<String, Array>) -> Graph {
    let known: HashMap<ValueId, &Array> = graph
        .inputs
        .iter()
        .filter_map(|input| Some((input.value, constants.get(&input.name)?)))
        .collect();
    let graph = recognize_attention(graph, &known);
    recognize_gelu(&recognize_mean_squares(&recognize_norms(&graph).0))
}
