//! Rewriting: a copy of a graph, node by node, in which a pass leaves out, replaces or adds nodes.

use std::sync::Arc;

use lessen_graph::{Assign, Graph, InputKind, Node, Op, Output, Phase, ValueId};

/// A graph under construction beside the one that it replaces.
pub struct Rewriter {
    /// The graph so far.
    pub new: Graph,
    map: Vec<Option<ValueId>>,
    /// The stage of the nodes that are appended.
    pub stage: u32,
}

impl Rewriter {
    /// Starts with all inputs of `old`.
    pub fn new(old: &Graph) -> Rewriter {
        let mut rewriter = Rewriter::without_inputs(old);
        for input in &old.inputs {
            rewriter.input(&input.name, input.kind, input.value, old);
        }
        rewriter
    }

    /// Starts without an input.
    pub fn without_inputs(old: &Graph) -> Rewriter {
        Rewriter {
            new: Graph::default(),
            map: vec![None; old.values.len()],
            stage: 0,
        }
    }

    /// Adds an input, which stands for a value of the old graph.
    pub fn input(&mut self, name: &str, kind: InputKind, value: ValueId, old: &Graph) -> ValueId {
        let new = self.new.add_input(name, kind, old.ty(value).clone());
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

    /// Appends a node to the new graph.
    pub fn push(&mut self, op: Arc<dyn Op>, inputs: &[ValueId], phase: Phase, scope: &Arc<str>) -> Vec<ValueId> {
        let outputs = self.new.add_node(op, inputs, phase, scope.clone());
        self.new.nodes.last_mut().expect("the new node").stage = self.stage;
        outputs.expect("passes keep types")
    }

    /// Copies a node of the old graph.
    pub fn copy(&mut self, node: &Node) {
        self.copy_to(node, node.phase);
    }

    /// Copies a node of the old graph into a phase.
    pub fn copy_to(&mut self, node: &Node, phase: Phase) {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| self.get(v)).collect();
        self.stage = node.stage;
        let outputs = self.push(node.op.clone(), &inputs, phase, &node.scope);
        for (&old, new) in node.outputs.iter().zip(outputs) {
            self.set(old, new);
        }
    }

    /// The new graph, with the outputs and assignments of the old one.
    pub fn finish(mut self, old: &Graph) -> Graph {
        for output in &old.outputs {
            let value = self.get(output.value);
            self.new.outputs.push(Output {
                name: output.name.clone(),
                value,
            });
        }
        for assign in &old.assigns {
            let (target, value) = (self.get(assign.target), self.get(assign.value));
            self.new.assigns.push(Assign { target, value });
        }
        self.new
    }
}
