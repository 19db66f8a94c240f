//! Mixed precision: products of matrices and convolutions read `bf16` and are added up in `f32`.
//!
//! | what | computed in | kept as |
//! |---|---|---|
//! | products, convolutions: operations with [`of_bf16`](lessen_graph::Op::of_bf16) | `bf16`, sums in `f32` | `bf16` |
//! | norms, softmax, activations, losses, reductions, random numbers | `f32` | `f32` |
//! | parameters, gradients, moments, updates | `f32` | `f32` |
//!
//! Factors are kept as `bf16`, and so are products of the forward phase, which everything else reads rounded. A factor
//! that was widened from `bf16`, such as a parameter stored in it, is read without the widening. The range of `bf16` is
//! that of `f32`, so no loss is scaled.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_graph::{DType, Graph, Node, Phase, Type, ValueId, ops};

use super::narrow::{view_again, views, widened_from};
use crate::place::{Place, places};
use crate::target::{KernelKind, Target};
use lessen_rewrite::Rewriter;

/// The graph whose products read `bf16`.
pub fn mixed(graph: &Graph, target: &dyn Target) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    let places = places(graph);
    // A value is cast where it is first read: all products read one copy, and backward keeps no other.
    let mut factors: HashMap<ValueId, ValueId> = HashMap::new();
    for node in &graph.nodes {
        let is_narrow = node
            .inputs
            .iter()
            .map(|&input| narrow_base(graph, &places, input).is_some());
        let is_narrow: Vec<bool> = is_narrow.collect();
        let (types, outputs) = (graph.input_types(node), graph.output_types(node));
        let Some(op) = graph.ask(node, &types, &outputs).of_bf16(&is_narrow) else {
            rewriter.copy(node);
            continue;
        };
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for &input in &node.inputs {
            let narrow = match factors.get(&input) {
                Some(&narrow) => narrow,
                None => match narrow_base(graph, &places, input) {
                    Some(narrow) => {
                        let (from, nodes) = (rewriter.get(narrow), views(graph, places[input.index()].base, input));
                        view_again(graph, &mut rewriter, &nodes, from, node)
                    }
                    None => {
                        let wide = rewriter.get(input);
                        cast(&mut rewriter, wide, DType::BF16, node)
                    }
                },
            };
            factors.insert(input, narrow);
            inputs.push(narrow);
        }
        let rounds = node.phase == Phase::Forward && rounds_itself(graph, node, target);
        let op = if rounds { node.op.clone() } else { op };
        let products = rewriter.push(op, &inputs, node.phase, &node.scope);
        for (&old, mut new) in node.outputs.iter().zip(products) {
            if node.phase == Phase::Forward {
                if !rounds {
                    new = cast(&mut rewriter, new, DType::BF16, node);
                }
                new = cast(&mut rewriter, new, DType::F32, node);
            }
            rewriter.set(old, new);
        }
    }
    rewriter.finish()
}

/// The value that the base of a value is widened from.
fn narrow_base(graph: &Graph, places: &[Place], value: ValueId) -> Option<ValueId> {
    widened_from(graph, places[value.index()].base)
}

/// Whether a node's own operation has a kernel that takes `bf16` and rounds its results to it.
fn rounds_itself(graph: &Graph, node: &Node, target: &dyn Target) -> bool {
    let narrow = |mut types: Vec<Type>| {
        types.iter_mut().for_each(|ty| ty.dtype = DType::BF16);
        types
    };
    let (inputs, outputs) = (narrow(graph.input_types(node)), narrow(graph.output_types(node)));
    node.op.infer_checked(&inputs).is_ok_and(|found| found == outputs)
        && target.lower(node.op.as_ref(), &inputs, &outputs).kind != KernelKind::Reference
}

/// Casts a value of the new graph in the phase and scope of a node.
fn cast(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType, at: &Node) -> ValueId {
    rewriter.push(Arc::new(ops::Cast { dtype }), &[value], at.phase, &at.scope)[0]
}
