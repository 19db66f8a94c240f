//! Writes the graph in which stages run in slices.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lessen_graph::ops::{Binary, BinaryKind, Concat, Slice};
use lessen_graph::{Graph, Node, NodeId, Phase, ValueId};

use super::cut::{Cut, Execution, Slicing};
use lessen_rewrite::Rewriter;

/// A graph under construction beside the one that is sliced.
pub(super) struct Writer<'a> {
    slicing: &'a Slicing<'a>,
    rewriter: Rewriter<'a>,
    /// The first stage number that no node has: each slice becomes a stage of its own.
    next_stage: u32,
}

/// A sliced level that is being written.
struct Level {
    /// Nodes that run in slices, and sums that are accumulated.
    rows: Vec<NodeId>,
    adding: Vec<NodeId>,
    /// For each slice the slices of the level's values and inputs.
    made: Vec<HashMap<ValueId, ValueId>>,
    /// The sums so far.
    sums: HashMap<ValueId, ValueId>,
}

impl<'a> Writer<'a> {
    pub fn new(slicing: &'a Slicing<'a>) -> Writer<'a> {
        let last = slicing.graph.nodes.iter().map(|node| node.stage).max();
        Writer {
            slicing,
            rewriter: Rewriter::new(slicing.graph),
            next_stage: last.map_or(0, |last| last + 1),
        }
    }

    /// Copies a node.
    pub fn node(&mut self, id: NodeId) {
        self.rewriter.copy(self.slicing.node(id));
    }

    /// Writes the nodes of a stage.
    pub fn stage(&mut self, cut: &Cut) {
        for (own, is_sliced) in &cut.levels {
            if *is_sliced {
                self.level(own, cut);
            } else {
                own.iter().for_each(|id| self.node(*id));
            }
        }
    }

    /// The new graph.
    pub fn finish(self) -> Graph {
        self.rewriter.finish()
    }

    /// Writes the nodes of a level once for each slice.
    fn level(&mut self, own: &[NodeId], cut: &Cut) {
        let (adding, rows) = own
            .iter()
            .partition(|id| matches!(cut.executions[id], Execution::Accumulated(_)));
        let mut level = Level {
            rows,
            adding,
            made: vec![HashMap::new(); cut.slices],
            sums: HashMap::new(),
        };
        for slice in 0..cut.slices {
            self.rewriter.stage = self.next_stage;
            self.next_stage += 1;
            self.slice(slice, cut, &mut level);
        }
        for (&old, &new) in &level.sums {
            self.rewriter.set(old, new);
        }
        self.join(own, &level);
    }

    /// Writes a slice of a level: nodes that run in slices first, so that nothing splits their row groups, then sums.
    fn slice(&mut self, slice: usize, cut: &Cut, level: &mut Level) {
        let mut terms: Vec<(&Node, ValueId)> = Vec::new();
        for id in &level.rows {
            let Execution::BySlices(ops, roles) = &cut.executions[id] else {
                continue;
            };
            let node = self.slicing.node(*id);
            let inputs: Vec<ValueId> = (node.inputs.iter().zip(&roles.whole))
                .map(|(&v, is_whole)| {
                    if *is_whole {
                        self.rewriter.get(v)
                    } else {
                        self.part(v, slice, &mut level.made)
                    }
                })
                .collect();
            let outputs = self
                .rewriter
                .push(ops[slice].clone(), &inputs, Phase::Backward, &node.scope);
            level.made[slice].extend(node.outputs.iter().copied().zip(outputs));
            terms.extend(roles.summed(node).into_iter().map(|value| (node, value)));
        }
        for (node, value) in terms {
            let mut sum = level.made[slice][&value];
            if let Some(&before) = level.sums.get(&value) {
                let add = Arc::new(Binary { kind: BinaryKind::Add });
                sum = self.rewriter.push(add, &[before, sum], Phase::Backward, &node.scope)[0];
            }
            level.sums.insert(value, sum);
        }
        for id in &level.adding {
            let Execution::Accumulated(further) = &cut.executions[id] else {
                continue;
            };
            let node = self.slicing.node(*id);
            let parts = node.inputs.iter().map(|&v| self.part(v, slice, &mut level.made));
            let mut inputs: Vec<ValueId> = parts.collect();
            let before = level.sums.get(&node.outputs[0]).copied();
            inputs.extend(before);
            let op = if before.is_some() { further } else { &node.op };
            let sum = self.rewriter.push(op.clone(), &inputs, Phase::Backward, &node.scope);
            level.sums.insert(node.outputs[0], sum[0]);
        }
    }

    /// The slice of a value: of one of the level's own, or a view of one of its inputs.
    fn part(&mut self, value: ValueId, slice: usize, made: &mut [HashMap<ValueId, ValueId>]) -> ValueId {
        if let Some(&known) = made[slice].get(&value) {
            return known;
        }
        let len = self.slicing.graph.ty(value).shape[0] / made.len();
        let op = Arc::new(Slice {
            axis: 0,
            start: slice * len,
            len,
        });
        let from = self.rewriter.get(value);
        let part = self.rewriter.push(op, &[from], Phase::Backward, &Arc::from(""))[0];
        made[slice].insert(value, part);
        part
    }

    /// Joins the slices of values that nodes outside the level read.
    fn join(&mut self, own: &[NodeId], level: &Level) {
        let within: BTreeSet<NodeId> = own.iter().copied().collect();
        for id in &level.rows {
            let outputs = &self.slicing.node(*id).outputs;
            for &value in outputs.iter().filter(|v| !level.sums.contains_key(v)) {
                let mut readers = self.slicing.readers[value.index()].iter();
                if self.slicing.results.contains(&value) || readers.any(|reader| !within.contains(reader)) {
                    self.joined(value, level);
                }
            }
        }
    }

    /// All slices of a value as one value; for a view, the view of its joined base.
    fn joined(&mut self, value: ValueId, level: &Level) {
        if self.rewriter.has(value) {
            return;
        }
        let graph = self.slicing.graph;
        let producer = graph.producer(value).expect("a value of the level");
        let node = self.slicing.node(producer);
        if self.slicing.is_view(value) {
            self.joined(node.inputs[0], level);
            self.rewriter.copy(node);
            return;
        }
        let slices: Vec<ValueId> = level.made.iter().map(|slice| slice[&value]).collect();
        let concat = Arc::new(Concat { axis: 0 });
        let joined = self.rewriter.push(concat, &slices, Phase::Backward, &node.scope);
        self.rewriter.set(value, joined[0]);
    }
}
