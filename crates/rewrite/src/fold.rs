//! Constant folding: a node whose operation knows its result becomes a constant or another value; see
//! [`Op::fold`](lessen_graph::Op::fold). A filled tensor becomes one scalar seen through a broadcast, which takes no
//! memory.

use std::sync::Arc;

use lessen_graph::ops::{Broadcast, Full};
use lessen_graph::{Fold, Graph, Node, Op, Type, ValueId};

use crate::rewriter::Rewriter;

/// Folds constants and neutral elements.
pub fn fold_constants(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    // The number that all elements of a value equal.
    let mut splat: Vec<Option<f64>> = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| splat[v.index()]).collect();
        let outputs = graph.output_types(node);
        match graph.ask(node, &graph.input_types(node), &outputs).fold(&known) {
            Fold::Splat(value) => {
                splat[node.outputs[0].index()] = Some(value);
                let new = filled(&mut rewriter, node, &outputs[0], value);
                rewriter.set(node.outputs[0], new);
            }
            Fold::Input(input) => {
                splat[node.outputs[0].index()] = known[input];
                let new = rewriter.get(node.inputs[input]);
                rewriter.set(node.outputs[0], new);
            }
            Fold::No => rewriter.copy(node),
        }
    }
    rewriter.finish()
}

/// A scalar constant and, where the shape needs it, a broadcast of it.
fn filled(rewriter: &mut Rewriter<'_>, node: &Node, ty: &Type, value: f64) -> ValueId {
    let scalar = Full {
        ty: Type::new(ty.dtype, &[]),
        value,
    };
    let scalar = rewriter.push(Arc::new(scalar), &[], node.phase, &node.scope)[0];
    if ty.shape.is_empty() {
        return scalar;
    }
    let wide: Arc<dyn Op> = Arc::new(Broadcast {
        shape: ty.shape.to_vec(),
    });
    rewriter.push(wide, &[scalar], node.phase, &node.scope)[0]
}
