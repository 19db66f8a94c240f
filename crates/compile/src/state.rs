//! State: which new values are written straight over the old ones.
//!
//! The update of a parameter may take the parameter's own memory once nobody reads the old value any more. That is an
//! edge from every other reader to the node that updates, and nobody has to remember it.

use lessen_graph::{Assign, Graph, NodeId, ValueId};

use crate::layout::Place;

/// How assignments happen.
pub(crate) struct StateWrites {
    /// Values that are written over the state they are assigned to.
    pub in_place: Vec<(ValueId, ValueId)>,
    /// Assignments that copy at the end of the run.
    pub copies: Vec<Assign>,
    /// Pairs of nodes of which the second must run after the first, and not in the same step.
    pub after: Vec<(NodeId, NodeId)>,
}

/// Decides for every assignment.
pub(crate) fn state_writes(graph: &Graph, places: &[Place]) -> StateWrites {
    let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); graph.values.len()];
    for (i, node) in graph.nodes.iter().enumerate() {
        for input in &node.inputs {
            readers[places[input.index()].base.index()].push(NodeId(i as u32));
        }
    }
    let mut writes = StateWrites {
        in_place: Vec::new(),
        copies: Vec::new(),
        after: Vec::new(),
    };
    for assign in &graph.assigns {
        match writer(graph, places, &readers, assign, &writes) {
            Some(node) => {
                writes.in_place.push((assign.value, assign.target));
                let others = readers[assign.target.index()].iter().filter(|&&r| r != node);
                writes.after.extend(others.map(|&r| (r, node)));
            }
            None => writes.copies.push(*assign),
        }
    }
    writes
}

/// The node that can write an assigned value over its state.
fn writer(
    graph: &Graph,
    places: &[Place],
    readers: &[Vec<NodeId>],
    assign: &Assign,
    writes: &StateWrites,
) -> Option<NodeId> {
    let node_id = graph.producer(assign.value)?;
    let node = &graph.nodes[node_id.index()];
    let own = places[assign.value.index()].base == assign.value && !node.inputs.is_empty();
    let output_is_old = graph
        .outputs
        .iter()
        .any(|o| places[o.value.index()].base == assign.target);
    if !own || output_is_old || writes.in_place.iter().any(|(v, _)| *v == assign.value) {
        return None;
    }
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    let k = node
        .outputs
        .iter()
        .position(|&v| v == assign.value)
        .expect("the producer's output");
    for (i, &input) in node.inputs.iter().enumerate() {
        let place = &places[input.index()];
        if place.base == assign.target {
            let whole = place.layout.offset == 0
                && place.layout.is_dense(&graph.ty(input).shape)
                && graph.ty(input).numel() == graph.ty(assign.target).numel();
            if !whole || !node.op.in_place(i, k, &inputs, &outputs) {
                return None;
            }
        }
    }
    // A reader of the old value that can only run after the update, because it needs its result or waits for another
    // update that does, would never see the old value.
    let later = follows(graph, readers, &writes.after, node_id);
    let old = &readers[assign.target.index()];
    if old.iter().any(|&r| r != node_id && later[r.index()]) {
        None
    } else {
        Some(node_id)
    }
}

/// Which nodes cannot run before a node has run: those that read its results, and those that must run after a reader.
fn follows(graph: &Graph, readers: &[Vec<NodeId>], after: &[(NodeId, NodeId)], node: NodeId) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    found[node.index()] = true;
    let mut open = vec![node];
    while let Some(id) = open.pop() {
        let results = &graph.nodes[id.index()].outputs;
        let reading = results.iter().flat_map(|v| &readers[v.index()]).copied();
        let waiting = after
            .iter()
            .filter(|(first, _)| *first == id)
            .map(|(_, second)| *second);
        for next in reading.chain(waiting) {
            if !found[next.index()] {
                found[next.index()] = true;
                open.push(next);
            }
        }
    }
    found
}
