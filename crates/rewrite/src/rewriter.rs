//! The rewriter: a copy of a graph, node by node, in which a rewrite leaves out, replaces or adds nodes.

use std::sync::Arc;

use lessen_graph::{Assign, Graph, InputKind, Node, Op, Output, Phase, ValueId};

/// A graph under construction beside the one that it replaces.
pub struct Rewriter<'a> {
    /// The graph so far.
    pub new: Graph,
    old: &'a Graph,
    /// The new graph's value for each value of the old one.
    map: Vec<Option<ValueId>>,
    /// The stage of the nodes that are appended.
    pub stage: u32,
}

impl<'a> Rewriter<'a> {
    /// Starts with all inputs of `old`.
    pub fn new(old: &'a Graph) -> Rewriter<'a> {
        let mut rewriter = Rewriter::without_inputs(old);
        for input in &old.inputs {
            rewriter.input(&input.name, input.kind, input.value);
        }
        rewriter
    }

    /// Starts without inputs.
    pub fn without_inputs(old: &'a Graph) -> Rewriter<'a> {
        let mut new = Graph::with_operations_of(old);
        new.nodes.reserve(old.nodes.len());
        new.values.reserve(old.values.len());
        Rewriter {
            new,
            old,
            map: vec![None; old.values.len()],
            stage: 0,
        }
    }

    /// Adds an input that stands for a value of the old graph.
    pub fn input(&mut self, name: &str, kind: InputKind, value: ValueId) -> ValueId {
        let new = self.new.add_input(name, kind, self.old.ty(value).clone());
        let new = new.expect("a value of a graph has a size that can be counted");
        self.set(value, new);
        new
    }

    /// The new graph's value for one of the old graph.
    pub fn get(&self, old: ValueId) -> ValueId {
        self.map[old.index()].expect("a value is mapped before it is read")
    }

    /// Whether the old graph's value `old` is mapped.
    pub fn has(&self, old: ValueId) -> bool {
        self.map[old.index()].is_some()
    }

    /// Maps the old graph's value `old` to `new`.
    pub fn set(&mut self, old: ValueId, new: ValueId) {
        self.map[old.index()] = Some(new);
    }

    /// Appends a node to the new graph. Returns its outputs.
    pub fn push(&mut self, op: Arc<dyn Op>, inputs: &[ValueId], phase: Phase, scope: &Arc<str>) -> Vec<ValueId> {
        let outputs = self.new.add_node(op, inputs, phase, scope.clone());
        self.new.nodes.last_mut().expect("the new node").stage = self.stage;
        outputs.expect("passes keep types")
    }

    /// Appends a node of the old graph that reads these values of the new graph. Returns its outputs, which no value of
    /// the old graph is mapped to.
    pub fn push_copy(&mut self, node: &Node, inputs: &[ValueId], phase: Phase) -> Vec<ValueId> {
        let outputs = self.new.copy_node(self.old, node, inputs, phase);
        let outputs = outputs.expect("passes keep types").to_vec();
        self.new.nodes.last_mut().expect("the new node").stage = self.stage;
        outputs
    }

    /// Copies a node of the old graph.
    pub fn copy(&mut self, node: &Node) {
        self.copy_to(node, node.phase);
    }

    /// Copies a node of the old graph into a phase.
    pub fn copy_to(&mut self, node: &Node, phase: Phase) {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| self.get(v)).collect();
        self.stage = node.stage;
        self.copy_with(node, &inputs, phase);
    }

    /// Copies a node of the old graph into a phase; the copy reads these values of the new graph.
    pub fn copy_with(&mut self, node: &Node, inputs: &[ValueId], phase: Phase) {
        let outputs = self.new.copy_node(self.old, node, inputs, phase);
        let outputs = outputs.expect("passes keep types");
        for (&old, &new) in node.outputs.iter().zip(outputs) {
            self.map[old.index()] = Some(new);
        }
        self.new.nodes.last_mut().expect("the new node").stage = self.stage;
    }

    /// The new graph, with the outputs and assignments of the old one.
    pub fn finish(mut self) -> Graph {
        for output in &self.old.outputs {
            let value = self.get(output.value);
            self.new.outputs.push(Output {
                name: output.name.clone(),
                value,
            });
        }
        for assign in &self.old.assigns {
            let (target, value) = (self.get(assign.target), self.get(assign.value));
            self.new.assigns.push(Assign { target, value });
        }
        self.new
    }
}
