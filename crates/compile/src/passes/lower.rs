//! Lowering: an operation that the device has no kernels for runs as its decomposition.

use lessen_graph::{Graph, InputKind, Op, Tensor, Trace, ValueId};

/// Replaces operations that are not supported by their decompositions, down to supported ones. One without a decomposition
/// stays, for the device's reference evaluation.
pub fn lower(graph: &Graph, supported: &dyn Fn(&dyn Op) -> bool) -> Graph {
    let mut graph = graph.clone();
    // A decomposition may use other operations that are not supported.
    while let Some(lower) = lower_once(&graph, supported) {
        graph = lower;
    }
    graph
}

/// One level of decompositions; none where nothing was replaced.
fn lower_once(graph: &Graph, supported: &dyn Fn(&dyn Op) -> bool) -> Option<Graph> {
    if graph.nodes.iter().all(|n| supported(n.op.as_ref())) {
        return None;
    }
    let trace = Trace::beside(graph);
    let mut map: Vec<Option<Tensor<'_>>> = vec![None; graph.values.len()];
    for input in &graph.inputs {
        let ty = graph.ty(input.value);
        map[input.value.index()] = Some(match input.kind {
            InputKind::Data => trace.input(&input.name, ty.dtype, &ty.shape),
            InputKind::State => trace.state(&input.name, ty.dtype, &ty.shape),
        });
    }
    let mut changed = false;
    for node in &graph.nodes {
        let inputs: Vec<Tensor<'_>> = node
            .inputs
            .iter()
            .map(|v| map[v.index()].expect("defined"))
            .collect();
        let outputs = trace.in_phase(node.phase, || {
            trace.in_scope(&node.scope, || {
                if !supported(node.op.as_ref())
                    && let Some(outputs) = node.op.decompose(&inputs)
                {
                    changed = true;
                    return outputs;
                }
                trace.apply_shared(node.op.clone(), &inputs)
            })
        });
        for (&old, new) in node.outputs.iter().zip(outputs) {
            map[old.index()] = Some(new);
        }
    }
    for output in &graph.outputs {
        trace.output(&output.name, map[output.value.index()].expect("defined"));
    }
    for assign in &graph.assigns {
        let value = |v: ValueId| map[v.index()].expect("defined");
        trace.assign(value(assign.target), value(assign.value));
    }
    drop(map);
    changed.then(|| trace.finish())
}
