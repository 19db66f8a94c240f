//! Lowering: the meaning of operations from outside in terms of standard ones. The evaluator and every compiled program
//! lower a graph through this one function, so that both draw the same random numbers.

use std::borrow::Cow;

use crate::graph::{Graph, InputKind, ValueId};
use crate::trace::{Tensor, Trace};

/// Replaces operations from outside by their decompositions, down to standard operations. One without a decomposition
/// stays. Random numbers that a decomposition draws come from streams after those of the graph, in the order of the nodes.
pub fn lower(graph: &Graph) -> Cow<'_, Graph> {
    let mut lowered = Cow::Borrowed(graph);
    // A decomposition may use other operations from outside.
    while let Some(next) = lower_once(&lowered) {
        lowered = Cow::Owned(next);
    }
    lowered
}

/// One level of lowering; none if no node has a decomposition to be replaced by.
fn lower_once(graph: &Graph) -> Option<Graph> {
    if graph.nodes.iter().all(|n| n.op.is_standard()) {
        return None;
    }
    let trace = Trace::beside(graph);
    let mut changed = false;
    let mut map: Vec<Option<Tensor<'_>>> = vec![None; graph.values.len()];
    for input in &graph.inputs {
        let ty = graph.ty(input.value);
        map[input.value.index()] = Some(match input.kind {
            InputKind::Data => trace.input(&input.name, ty.dtype, &ty.shape),
            InputKind::State => trace.state(&input.name, ty.dtype, &ty.shape),
        });
    }
    for node in &graph.nodes {
        let inputs: Vec<Tensor<'_>> = node
            .inputs
            .iter()
            .map(|v| map[v.index()].expect("defined before use"))
            .collect();
        trace.set_scope(node.scope.clone());
        let outputs = trace.in_phase(node.phase, || {
            let simpler = if node.op.is_standard() {
                None
            } else {
                node.op.decompose(&inputs)
            };
            changed |= simpler.is_some();
            simpler.unwrap_or_else(|| trace.apply_shared(node.op.clone(), &inputs))
        });
        let promised = node.outputs.iter().map(|&v| graph.ty(v).clone());
        assert!(
            promised.eq(outputs.iter().map(|y| y.ty())),
            "the decomposition of `{}` gives other types than its type rule",
            node.op.name()
        );
        for (&old, new) in node.outputs.iter().zip(outputs) {
            map[old.index()] = Some(new);
        }
    }
    let new = |v: ValueId| map[v.index()].expect("defined");
    for output in &graph.outputs {
        trace.output(&output.name, new(output.value));
    }
    for assign in &graph.assigns {
        trace.assign(new(assign.target), new(assign.value));
    }
    drop(map);
    changed.then(|| trace.finish())
}
