//! Samples: one block of a graph with its stage and its updates, as a graph of its own. The blocks before and after are
//! one operation each, [`OtherBlocksOp`].

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lessen_graph::{Assign, Graph, InputKind, Layout, Node, NodeId, Op, Output, Phase, Type, ValueId};

use super::blocks::Blocks;
use super::inversion::Inversion;
use super::other_blocks::{OtherBlocks, OtherBlocksOp};
use crate::passes::remat::Forward;
use crate::passes::{Inverted, StorageFormat};
use crate::target::Target;

/// A block as a graph of its own.
pub(super) struct Sample {
    /// The block's forward nodes, [`OtherBlocksOp`] nodes for the blocks before and after it, and the block's stage and
    /// updates.
    pub graph: Graph,
    /// For each value whether it is an entry of the block.
    pub entered: Vec<bool>,
    /// The candidates, grouped by the node that computes them.
    pub candidates: Vec<Vec<ValueId>>,
    /// Values that are always recomputed, because backward reads them as `bf16`.
    pub always: Vec<ValueId>,
    /// Values that are stored as bits if they are kept.
    pub bits: Vec<ValueId>,
    /// The new entries of the block that may be rounded.
    pub rounded_entries: Vec<ValueId>,
    /// The inversion of the block, in an inverted sample.
    pub inverted: Option<Inversion>,
    /// Bytes of gradients that wait for an update after the whole backward phase.
    pub waiting: usize,
    /// Bytes of the values that the block passes on.
    pub passed: usize,
}

/// The values of a block that a sample must know.
pub(super) struct SampleValues<'a> {
    /// The candidates, grouped by the node that computes them.
    pub candidates: &'a [Vec<ValueId>],
    /// Values that are always recomputed.
    pub always: &'a [ValueId],
    /// Values that are stored as bits if they are kept.
    pub bits: &'a [ValueId],
    /// New entries that may be rounded.
    pub rounded_entries: &'a [ValueId],
}

/// The graph that samples are cut from.
pub(super) struct Source<'a> {
    pub forward: &'a Forward<'a>,
    pub blocks: &'a Blocks,
    /// For each value the nodes that read it.
    pub readers: Vec<Vec<NodeId>>,
    /// For each value whether it is an output or assigned to a state.
    pub results: Vec<bool>,
    /// For each value the positions of its assignments.
    assigns: Vec<Vec<usize>>,
    /// For each block its nodes, in order.
    pub nodes: Vec<Vec<NodeId>>,
}

impl<'a> Source<'a> {
    pub fn of(forward: &'a Forward<'a>, blocks: &'a Blocks) -> Source<'a> {
        let graph = forward.graph;
        let mut source = Source {
            forward,
            blocks,
            readers: vec![Vec::new(); graph.values.len()],
            results: vec![false; graph.values.len()],
            assigns: vec![Vec::new(); graph.values.len()],
            nodes: vec![Vec::new(); blocks.count],
        };
        for (i, node) in graph.nodes.iter().enumerate() {
            let id = NodeId(i as u32);
            node.inputs.iter().for_each(|v| source.readers[v.index()].push(id));
            if let Some(block) = blocks.of_node[i] {
                source.nodes[block].push(id);
            }
        }
        for (at, assign) in graph.assigns.iter().enumerate() {
            source.assigns[assign.value.index()].push(at);
            source.results[assign.value.index()] = true;
        }
        let outputs = graph.outputs.iter();
        outputs.for_each(|output| source.results[output.value.index()] = true);
        source
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.forward.graph.nodes[id.index()]
    }

    /// The earliest phase in which another block reads a value; none where no other block does.
    fn read_outside(&self, value: ValueId, block: usize) -> Option<Phase> {
        let outside = |id: &&NodeId| self.blocks.of_node[id.index()] != Some(block);
        let readers = self.readers[value.index()].iter().filter(outside);
        readers.map(|id| self.node(*id).phase).min()
    }

    /// The sample of a block; the inverted one where there is an inversion.
    pub fn sample(&self, block: usize, values: &SampleValues<'_>, inversion: Option<&Inversion>) -> Sample {
        let graph = self.forward.graph;
        let mut maker = Maker {
            old: self.forward,
            new: Graph::with_operations_of(graph),
            map: HashMap::new(),
        };
        let entered = self.entered(block);
        if !entered.is_empty() {
            maker.forward_before(&entered);
        }
        let (forward, stage_nodes): (Vec<NodeId>, Vec<NodeId>) =
            (self.nodes[block].iter()).partition(|id| self.node(**id).phase == Phase::Forward);
        forward.iter().for_each(|id| maker.copy(self.node(*id)));
        let passes_on = |v: &ValueId| self.results[v.index()] || self.read_outside(*v, block).is_some();
        let passed: Vec<ValueId> = (forward.iter())
            .flat_map(|id| self.node(*id).outputs.iter().copied())
            .filter(passes_on)
            .collect();
        let returned = self.returned(block, &stage_nodes);
        if block + 1 < self.blocks.count {
            maker.after(&passed, &returned);
        }
        stage_nodes.iter().for_each(|id| maker.copy(self.node(*id)));
        let mut waiting = 0;
        for id in &stage_nodes {
            for &value in &self.node(*id).outputs {
                let outside = self.read_outside(value, block);
                if self.results[value.index()] || outside.is_some() {
                    maker.output(maker.map[&value]);
                }
                if outside == Some(Phase::Update) {
                    waiting += graph.ty(value).bytes();
                }
            }
        }
        let inverted = inversion.map(|inversion| maker.inverted(inversion));
        if let Some(inverted) = &inverted {
            maker.backward_before(inverted.value);
        }
        maker.assigns(&self.assigns);
        let mapped = |values: &[ValueId]| values.iter().map(|v| maker.map[v]).collect::<Vec<_>>();
        let mut bases: Vec<ValueId> = passed.iter().map(|&v| self.forward.base(v)).collect();
        bases.sort_unstable();
        bases.dedup();
        let own = |base: &&ValueId| maker.map.contains_key(base);
        let mut is_entered = vec![false; maker.new.values.len()];
        entered.iter().for_each(|v| is_entered[maker.map[v].index()] = true);
        Sample {
            entered: is_entered,
            candidates: values.candidates.iter().map(|values| mapped(values)).collect(),
            always: mapped(values.always),
            bits: mapped(values.bits),
            rounded_entries: values
                .rounded_entries
                .iter()
                .filter_map(|v| maker.map.get(v).copied())
                .collect(),
            inverted,
            waiting,
            passed: bases
                .iter()
                .filter(own)
                .map(|&v| crate::offsets::aligned(graph.ty(v).bytes()))
                .sum(),
            graph: maker.new,
        }
    }

    /// The entries of a block, as bases.
    fn entered(&self, block: usize) -> Vec<ValueId> {
        let inputs = self.nodes[block].iter().flat_map(|id| self.node(*id).inputs.iter());
        let bases = inputs.map(|&v| self.forward.base(v));
        let from_others = |base: &ValueId| {
            let producer = self.forward.graph.producer(*base);
            !self.forward.source(*base) && producer.is_some_and(|id| self.blocks.of_node[id.index()] != Some(block))
        };
        let mut entered: Vec<ValueId> = bases.filter(from_others).collect();
        entered.sort_unstable();
        entered.dedup();
        entered
    }

    /// The gradients, as bases, that the block's stage reads and other blocks compute.
    fn returned(&self, block: usize, stage_nodes: &[NodeId]) -> Vec<ValueId> {
        let graph = self.forward.graph;
        let inputs = stage_nodes.iter().flat_map(|id| self.node(*id).inputs.iter());
        let bases = inputs.map(|&v| self.forward.base(v));
        let from_others = |base: &ValueId| {
            graph.producer(*base).is_some_and(|id| {
                let node = self.node(id);
                let is_gradient = node.phase == Phase::Backward && !node.inputs.is_empty();
                is_gradient && self.blocks.of_node[id.index()] != Some(block)
            })
        };
        let mut returned: Vec<ValueId> = bases.filter(from_others).collect();
        returned.sort_unstable();
        returned.dedup();
        returned
    }
}

struct Maker<'a> {
    old: &'a Forward<'a>,
    new: Graph,
    map: HashMap<ValueId, ValueId>,
}

impl Maker<'_> {
    /// Adds a node whose first outputs stand for these values of the graph.
    fn push(&mut self, op: Arc<dyn Op>, inputs: &[ValueId], node: (&[ValueId], Phase, &Arc<str>)) -> Vec<ValueId> {
        let (outputs, phase, scope) = node;
        let made = self.new.add_node(op, inputs, phase, scope.clone());
        let made = made.expect("a copy of a node keeps its types");
        self.map.extend(outputs.iter().copied().zip(made.iter().copied()));
        made
    }

    fn copy(&mut self, node: &Node) {
        let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| self.read(v)).collect();
        let made = self.new.copy_node(self.old.graph, node, &inputs, node.phase);
        let made = made.expect("a copy of a node keeps its types");
        self.map.extend(node.outputs.iter().copied().zip(made.iter().copied()));
    }

    /// The sample's value for one of the graph. Constants and views are copied; a value that no node of the sample
    /// computes becomes an input.
    fn read(&mut self, old: ValueId) -> ValueId {
        if let Some(&value) = self.map.get(&old) {
            return value;
        }
        let graph = self.old.graph;
        let is_view = self.old.base(old) != old;
        if let Some(id) = graph.producer(old)
            && (graph.nodes[id.index()].inputs.is_empty() || is_view)
        {
            self.copy(&graph.nodes[id.index()]);
            return self.map[&old];
        }
        // A value that an update computes before the forward phase lies in the memory of its state.
        let is_updated = |id: NodeId| graph.nodes[id.index()].phase == Phase::Update;
        let kind = match graph.input(old) {
            Some(input) => input.kind,
            None if graph.producer(old).is_some_and(is_updated) => InputKind::State,
            None => InputKind::Data,
        };
        let name = self.new.inputs.len().to_string();
        let value = self.new.add_input(&name, kind, graph.ty(old).clone());
        let value = value.expect("a value of a graph has a size that can be counted");
        self.map.insert(old, value);
        value
    }

    fn forward_before(&mut self, entered: &[ValueId]) {
        let outputs = self.types(entered);
        let all = self.new.add_input("before", InputKind::Data, Type::f32(&[]));
        let all = all.expect("a scalar has a size that can be counted");
        let which = OtherBlocks::ForwardBefore;
        let before = Arc::new(OtherBlocksOp { which, outputs });
        self.push(before, &[all], (entered, Phase::Forward, &Arc::from("")));
    }

    fn after(&mut self, passed: &[ValueId], returned: &[ValueId]) {
        let mut outputs = self.types(returned);
        outputs.push(Type::f32(&[]));
        let inputs: Vec<ValueId> = passed.iter().map(|&v| self.read(v)).collect();
        let which = OtherBlocks::After;
        let rest = Arc::new(OtherBlocksOp { which, outputs });
        let made = self.push(rest, &inputs, (returned, Phase::Backward, &Arc::from("")));
        self.output(made[returned.len()]);
    }

    /// Adds the stages of the blocks before, which read the inverted entry once the sample's own gradients are
    /// complete.
    fn backward_before(&mut self, inverted: ValueId) {
        let results = self.new.outputs.iter().map(|output| output.value);
        let inputs: Vec<ValueId> = results.chain([inverted]).collect();
        let (which, outputs) = (OtherBlocks::BackwardBefore, vec![Type::f32(&[])]);
        let made = self.push(
            Arc::new(OtherBlocksOp { which, outputs }),
            &inputs,
            (&[], Phase::Backward, &Arc::from("")),
        );
        self.output(made[0]);
    }

    fn types(&self, values: &[ValueId]) -> Vec<Type> {
        values.iter().map(|&v| self.old.graph.ty(v).clone()).collect()
    }

    fn output(&mut self, value: ValueId) {
        let name = self.new.outputs.len().to_string();
        self.new.outputs.push(Output { name, value });
    }

    /// The inversion in values of the sample.
    fn inverted(&mut self, inversion: &Inversion) -> Inversion {
        let operands = inversion.how.operands.iter().map(|&v| self.read(v)).collect();
        let op = inversion.how.op.clone();
        Inversion {
            value: self.read(inversion.value),
            bytes: inversion.bytes,
            error: inversion.error,
            how: Inverted { op, operands, stage: 0 },
        }
    }

    /// Adds the assignments of values that the sample computes.
    fn assigns(&mut self, of_values: &[Vec<usize>]) {
        let mut own: Vec<usize> = self.map.keys().flat_map(|v| &of_values[v.index()]).copied().collect();
        own.sort_unstable();
        for at in own {
            let assign = self.old.graph.assigns[at];
            let (target, value) = (self.read(assign.target), self.map[&assign.value]);
            self.new.assigns.push(Assign { target, value });
        }
    }
}

impl Sample {
    /// The values that are rounded to a storage format where these candidates are recomputed.
    pub fn rounded(&self, recomputed: &[usize], format: StorageFormat) -> Vec<(ValueId, StorageFormat)> {
        let kept = (0..self.candidates.len()).filter(|i| !recomputed.contains(i));
        let kept = kept.flat_map(|i| &self.candidates[i]).chain(&self.rounded_entries);
        let in_form = |&v: &ValueId| Some((v, format.of_value(&self.graph, v)?));
        kept.filter_map(in_form).collect()
    }

    /// The facts that a plan depends on: samples with equal descriptions have equal plans, but for names.
    pub fn description(&self, target: &dyn Target) -> Vec<u64> {
        let mut words = Vec::new();
        let mut add = |part: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            part(&mut hasher);
            words.push(hasher.finish());
        };
        for input in &self.graph.inputs {
            add(&|h| (input.kind == InputKind::State, self.graph.ty(input.value).to_string()).hash(h));
        }
        for node in &self.graph.nodes {
            add(&|h| (type_of(node), &node.inputs, node.phase).hash(h));
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            let op = node.op.as_ref();
            let asked = self.graph.ask(node, &inputs, &outputs);
            let cost = asked.cost();
            let costs = [cost.product_flops, cost.vector_flops, cost.bytes].map(f64::to_bits);
            let lowering = target.lower(op, &inputs, &outputs);
            let scratch = lowering.scratch;
            add(&|h| (costs, scratch.worker, scratch.shared).hash(h));
            let view = inputs.first().and_then(|first| {
                let dense = Layout::dense(&first.shape);
                asked.view(&dense, first.numel())
            });
            let ways = (asked.row_wise(), lowering.kind, outputs, view);
            add(&|h| format!("{ways:?}").hash(h));
        }
        let results: Vec<ValueId> = self.graph.outputs.iter().map(|o| o.value).collect();
        let assigns: Vec<(ValueId, ValueId)> = self.graph.assigns.iter().map(|a| (a.target, a.value)).collect();
        add(&|h| (&results, &assigns, self.waiting).hash(h));
        add(&|h| (&self.candidates, &self.always, &self.bits, &self.rounded_entries).hash(h));
        let inverted = self.inverted.as_ref();
        add(&|h| {
            inverted
                .map(|inversion| (inversion.value, &inversion.how.operands))
                .hash(h)
        });
        words
    }
}

fn type_of(node: &Node) -> TypeId {
    let op: &dyn Op = node.op.as_ref();
    (op as &dyn Any).type_id()
}
