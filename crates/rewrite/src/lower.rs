//! Lowering: an operation that the device has no kernels for runs as its decomposition.

use lessen_graph::{Graph, Op};

/// Replaces operations that are not supported by their decompositions, down to supported ones; see
/// [`lessen_graph::lower`]. One without a decomposition stays, for the device's reference evaluation.
pub fn lower(graph: &Graph, supported: &dyn Fn(&dyn Op) -> bool) -> Graph {
    lessen_graph::lower(graph, supported).into_owned()
}
