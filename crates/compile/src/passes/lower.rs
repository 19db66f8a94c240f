//! Lowering: an operation that is not one of the standard ones runs as its decomposition.

use std::collections::HashSet;

use lessen_graph::{Graph, Registry, Tensor, Trace};

/// Replaces operations from outside by their decompositions, down to standard operations. One without a decomposition
/// stays, for the device's fallback.
pub fn lower(graph: &Graph) -> Graph {
    let registry = Registry::standard();
    let standard: HashSet<&str> = registry.names().into_iter().collect();
    if graph.nodes.iter().all(|n| standard.contains(n.op.name())) {
        return graph.clone();
    }
    let trace = Trace::beside(graph);
    let mut map: Vec<Option<Tensor<'_>>> = vec![None; graph.values.len()];
    for input in &graph.inputs {
        let ty = graph.ty(input.value);
        map[input.value.index()] = Some(match input.kind {
            lessen_graph::InputKind::Data => trace.input(&input.name, ty.dtype, &ty.shape),
            lessen_graph::InputKind::State => trace.state(&input.name, ty.dtype, &ty.shape),
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
                if !standard.contains(node.op.name())
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
        let value = |v: lessen_graph::ValueId| map[v.index()].expect("defined");
        trace.assign(value(assign.target), value(assign.value));
    }
    drop(map);
    let lowered = trace.finish();
    // A decomposition may use other operations from outside.
    if changed { lower(&lowered) } else { lowered }
}
