//! The updates of a training step that can be placed independently.

use std::collections::{BTreeMap, BTreeSet};

use lessen_graph::{Assign, Graph, Node, Phase, ValueId};

use crate::bytes;
use lessen_rewrite::eliminate_dead_code;

/// An update that runs as a whole: that of a parameter with the states of its optimizer, or of several parameters whose
/// updates depend on each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Names of the states that it assigns.
    pub states: Vec<String>,
    /// Bytes of the assigned states that forward reads, which are parameters.
    pub read: usize,
    /// Bytes of the arrays of forward and backward that it reads, such as the gradient.
    pub gradients: usize,
    /// Bytes of all arrays that it reads or assigns.
    pub touched: usize,
}

/// The updates of a step, in the order of their first assignments.
pub fn updates(graph: &Graph) -> Vec<Update> {
    let graph = eliminate_dead_code(graph);
    let Groups { nodes, assigns } = Groups::of(&graph);
    let large_bytes = |values: BTreeSet<ValueId>| {
        let large = values.into_iter().map(|v| graph.ty(v)).filter(|ty| ty.numel() > 1);
        bytes::sum(large.map(|ty| ty.bytes()))
    };
    let mut read = vec![BTreeSet::new(); assigns.len()];
    for (node, group) in graph.nodes.iter().zip(&nodes) {
        let of_others = |value: &ValueId| match graph.producer(*value) {
            Some(id) => nodes[id.index()].is_none() && !graph.nodes[id.index()].inputs.is_empty(),
            None => false,
        };
        if let Some(group) = group {
            read[*group].extend(node.inputs.iter().copied().filter(of_others));
        }
    }
    let readers = graph.readers();
    let is_read = |target: &ValueId| {
        let mut readers = readers[target.index()].iter();
        readers.any(|id| graph.nodes[id.index()].phase == Phase::Forward)
    };
    let named = |target: &ValueId| graph.input(*target).map(|input| input.name.clone());
    let of_group = |(targets, read): (Vec<ValueId>, BTreeSet<ValueId>)| Update {
        states: targets.iter().filter_map(named).collect(),
        read: large_bytes(targets.iter().copied().filter(is_read).collect()),
        gradients: large_bytes(read.clone()),
        touched: large_bytes(read).saturating_add(large_bytes(targets.into_iter().collect())),
    };
    assigns.into_iter().zip(read).map(of_group).collect()
}

/// The nodes of the update phase that lead to assigned states and depend on one that the phase assigns, and these
/// states, by update. Nodes that depend on gradients alone, such as their norm, belong to no update.
pub(super) struct Groups {
    /// For each node its update.
    pub nodes: Vec<Option<usize>>,
    /// The states that each update assigns.
    pub assigns: Vec<Vec<ValueId>>,
}

impl Groups {
    pub fn of(graph: &Graph) -> Groups {
        let by_update = |assign: &&Assign| {
            let producer = graph.producer(assign.value);
            producer.is_some_and(|id| graph.nodes[id.index()].phase == Phase::Update)
        };
        let of_updates: Vec<&Assign> = graph.assigns.iter().filter(by_update).collect();
        let (mut moves, mut leads) = (vec![false; graph.values.len()], vec![false; graph.values.len()]);
        let mut joined = Joined::new(graph.values.len());
        for assign in &of_updates {
            moves[assign.target.index()] = true;
            leads[assign.value.index()] = true;
            joined.join(assign.target, assign.value);
        }
        let assigned = leads.clone();
        let any = |marks: &[bool], values: &[ValueId]| values.iter().any(|v| marks[v.index()]);
        let is_update = |node: &Node| node.phase == Phase::Update;
        for node in graph.nodes.iter().rev().filter(|node| is_update(node)) {
            if any(&leads, &node.outputs) {
                node.inputs.iter().for_each(|v| leads[v.index()] = true);
            }
        }
        let mut found = vec![false; graph.nodes.len()];
        for (i, node) in graph.nodes.iter().enumerate().filter(|(_, node)| is_update(node)) {
            let depends = any(&moves, &node.inputs) || any(&assigned, &node.outputs);
            if depends && any(&leads, &node.outputs) {
                found[i] = true;
                node.outputs.iter().for_each(|v| moves[v.index()] = true);
                let moved = node.inputs.iter().filter(|v| moves[v.index()]);
                moved
                    .chain(&node.outputs)
                    .for_each(|&v| joined.join(v, node.outputs[0]));
            }
        }
        let mut numbers = BTreeMap::new();
        let mut assigns: Vec<Vec<ValueId>> = Vec::new();
        for assign in of_updates {
            let group = *numbers.entry(joined.first(assign.target)).or_insert(assigns.len());
            if group == assigns.len() {
                assigns.push(Vec::new());
            }
            assigns[group].push(assign.target);
        }
        let group = |(node, found): (&Node, bool)| found.then(|| numbers[&joined.first(node.outputs[0])]);
        let nodes = graph.nodes.iter().zip(found).map(group).collect();
        Groups { nodes, assigns }
    }
}

/// Disjoint sets of values.
struct Joined {
    /// For each value another value of the same set; the value itself if it represents its set.
    next: Vec<usize>,
}

impl Joined {
    fn new(values: usize) -> Joined {
        Joined {
            next: (0..values).collect(),
        }
    }

    /// The value that represents the set of a value.
    fn first(&self, value: ValueId) -> usize {
        let mut at = value.index();
        while self.next[at] != at {
            at = self.next[at];
        }
        at
    }

    fn join(&mut self, one: ValueId, other: ValueId) {
        let (one, other) = (self.first(one), self.first(other));
        self.next[one.max(other)] = one.min(other);
    }
}
