//! Rewriting: a copy of a graph, node by node, in which a pass leaves out, replaces or adds nodes.

use std::sync::Arc;

use lessen_graph::{Assign, Graph, Node, Op, Output, Phase, ValueId};

/// A graph under construction beside the one that it replaces.
pub(crate) struct Rewriter {
    /// The graph so far.
    pub new: Graph,
    map: Vec<Option<ValueId>>,
    /// The stage of the nodes that are appended.
    pub stage: u32,
}

impl Rewriter {
    /// Starts with all inputs of `old`.
    pub fn new(old: &Graph) -> Rewriter {
        let mut new = Graph::default();
        let mut map = vec![None; old.values.len()];
        for input in &old.inputs {
            let value = new.add_input(&input.name, input.kind, old.ty(input.value).clone());
            map[input.value.index()] = Some(value);
        }
        Rewriter { new, map, stage: 0 }
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
