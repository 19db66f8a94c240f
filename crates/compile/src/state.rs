//! State writes: new values that overwrite old ones in place.
//!
//! The update of a parameter writes into the parameter's own memory once all other readers of the old value have run.
//! Each reader of the old value gets an edge to the updating node.
//!
//! Nodes that check computed indices run before every write in place, so that a run with a wrong index changes no
//! state.

use std::collections::HashSet;

use lessen_graph::{Assign, Graph, NodeId, ValueId};

use crate::indices::{IndexSource, IndexUse};
use crate::node_types::NodeTypes;
use crate::order::Order;
use crate::place::Place;

/// How the assignments of a graph are carried out.
pub(crate) struct StateWrites {
    /// Pairs of a value and the state whose memory it is written into.
    pub in_place: Vec<(ValueId, ValueId)>,
    /// Assignments that copy after the last plan step.
    pub copies: Vec<Assign>,
    /// Pairs of nodes: the second one runs in a later plan step than the first.
    pub after: Vec<(NodeId, NodeId)>,
}

/// The facts of a graph that decide about its assignments.
struct Writers<'a> {
    graph: &'a Graph,
    places: &'a [Place],
    types: &'a NodeTypes,
    /// For each assigned state the nodes that read it.
    readers: Vec<Vec<NodeId>>,
    /// Nodes that check computed indices.
    checks: Vec<NodeId>,
    /// Bases of the graph's outputs.
    outputs: HashSet<ValueId>,
    /// Values that are written over a state.
    written: HashSet<ValueId>,
    order: Order,
}

/// Decides for each assignment whether it is written in place. Takes near-linear time in the graph.
pub(crate) fn state_writes(graph: &Graph, places: &[Place], indices: &[IndexUse], types: &NodeTypes) -> StateWrites {
    let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); graph.values.len()];
    let mut is_target = vec![false; graph.values.len()];
    (graph.assigns.iter()).for_each(|assign| is_target[assign.target.index()] = true);
    for (i, node) in graph.nodes.iter().enumerate() {
        for input in &node.inputs {
            let base = places[input.index()].base.index();
            let id = NodeId(i as u32);
            if is_target[base] && readers[base].last() != Some(&id) {
                readers[base].push(id);
            }
        }
    }
    let edges = graph.nodes.iter().enumerate().flat_map(|(i, node)| {
        let producers = node.inputs.iter().filter_map(|&v| graph.producer(v));
        producers.map(move |p| (p.index(), i))
    });
    let mut writers = Writers {
        graph,
        places,
        types,
        readers,
        checks: (indices.iter())
            .filter_map(|index| match index.source {
                IndexSource::Computed(node) => Some(node),
                _ => None,
            })
            .collect(),
        outputs: (graph.outputs.iter().map(|o| places[o.value.index()].base)).collect(),
        written: HashSet::new(),
        order: Order::new(graph.nodes.len(), edges),
    };
    let mut writes = StateWrites {
        in_place: Vec::new(),
        copies: Vec::new(),
        after: Vec::new(),
    };
    for assign in &graph.assigns {
        match writers.writer(assign) {
            Some(node) => {
                writes.in_place.push((assign.value, assign.target));
                let before = writers.before(assign, node);
                writes.after.extend(before.map(|first| (first, node)));
            }
            None => writes.copies.push(*assign),
        }
    }
    writes
}

impl Writers<'_> {
    /// The nodes that must run before `writer` writes an assigned value in place.
    fn before(&self, assign: &Assign, writer: NodeId) -> impl Iterator<Item = NodeId> {
        let readers = &self.readers[assign.target.index()];
        let all = readers.iter().chain(&self.checks).copied();
        all.filter(move |&node| node != writer)
    }

    /// The node that writes an assigned value into its state's memory, if that is possible.
    fn writer(&mut self, assign: &Assign) -> Option<NodeId> {
        let (graph, places) = (self.graph, self.places);
        let id = graph.producer(assign.value)?;
        let node = &graph.nodes[id.index()];
        let own = places[assign.value.index()].base == assign.value && !node.inputs.is_empty();
        if !own
            || self.outputs.contains(&assign.target)
            || self.written.contains(&assign.value)
            || self.checks.contains(&id)
        {
            return None;
        }
        let (inputs, outputs) = self.types.of_node(id.index());
        let k = (node.outputs.iter().position(|&v| v == assign.value)).expect("the producer's output");
        for (i, &input) in node.inputs.iter().enumerate() {
            let place = &places[input.index()];
            if place.base == assign.target {
                let whole = place.layout.offset == 0
                    && place.layout.is_dense(&inputs[i].shape)
                    && inputs[i].numel() == graph.ty(assign.target).numel();
                if !whole || !graph.ask(node, inputs, outputs).in_place(i, k) {
                    return None;
                }
            }
        }
        // A reader of the old value that depends on the update would see the new one. A check that depends on the
        // update would come too late.
        let others: Vec<usize> = self.before(assign, id).map(|node| node.index()).collect();
        self.order.add(&others, id.index()).then(|| {
            self.written.insert(assign.value);
            id
        })
    }
}
