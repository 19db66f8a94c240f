//! Lowering: operations as their decompositions. The evaluator and every compiled program lower a graph through this
//! one function, so that both draw the same random numbers.

use std::borrow::Cow;

use crate::graph::{Graph, InputKind, Node, ValueId};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::trace::Trace;

/// Replaces operations that are not supported by their decompositions, down to supported operations. An operation
/// without a decomposition stays. Random numbers that a decomposition draws come from streams after the streams of the
/// graph, in the order of the nodes.
///
/// An operation whose decomposition gives other types than its type rule stays, too; see [`Graph::check_answers`].
pub fn lower<'a>(graph: &'a Graph, supported: &dyn Fn(&dyn Op) -> bool) -> Cow<'a, Graph> {
    let mut lowered = Cow::Borrowed(graph);
    let mut streams = None;
    // A decomposition may use other operations that are not supported.
    while lowered.nodes.iter().any(|n| !supported(n.op.as_ref())) {
        let streams = streams.get_or_insert_with(|| graph.next_stream());
        let (next, changed) = lower_once(&lowered, supported, streams);
        if !changed {
            break;
        }
        lowered = Cow::Owned(next);
    }
    lowered
}

/// One level of decompositions, and whether there was any. Draws from streams `streams` on.
fn lower_once(graph: &Graph, supported: &dyn Fn(&dyn Op) -> bool, streams: &mut u32) -> (Graph, bool) {
    let trace = Trace::from_stream(*streams);
    let mut changed = false;
    let mut map: Vec<Option<Tensor>> = vec![None; graph.values.len()];
    for input in &graph.inputs {
        let ty = graph.ty(input.value);
        map[input.value.index()] = Some(match input.kind {
            InputKind::Data => trace.input(&input.name, ty.dtype, &ty.shape),
            InputKind::State => trace.state(&input.name, ty.dtype, &ty.shape),
        });
    }
    for node in &graph.nodes {
        let inputs: Vec<Tensor> = node
            .inputs
            .iter()
            .map(|v| map[v.index()].expect("defined before use"))
            .collect();
        trace.set_scope(node.scope.clone());
        let outputs = trace.in_phase(node.phase, || {
            if !supported(node.op.as_ref())
                && let Some(outputs) = decomposed(graph, node, &inputs)
            {
                changed = true;
                return outputs;
            }
            trace.apply_shared(node.op.clone(), &inputs)
        });
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
    *streams = trace.streams();
    let mut lowered = trace.finish();
    lowered.faults = graph.faults.clone();
    (lowered, changed)
}

/// The outputs of a node's decomposition.
fn decomposed(graph: &Graph, node: &Node, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let (types, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &types, &outputs).decompose(inputs)
}
