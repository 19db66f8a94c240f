//! Samples: one block of a graph with its part of backward and of the update, as a graph of its own. What runs before
//! and between is one operation each, [`Others`].

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lessen_graph::{Assign, Graph, InputKind, Layout, Node, NodeId, Op, Output, Phase, Type, ValueId};

use super::blocks::Blocks;
use super::inversion::Inversion;
use super::others::{Others, Who};
use crate::passes::remat::Forward;
use crate::passes::{Form, Inverted};
use crate::target::Target;

/// A block as a graph of its own.
pub(super) struct Sample {
    /// The block's nodes, [`Others`] unless the block is the last, and the block's part of backward and of the update.
    pub graph: Graph,
    /// For each value whether it leads into the block.
    pub entered: Vec<bool>,
    /// The values that may be kept or recomputed, by node; in the sample.
    pub candidates: Vec<Vec<ValueId>>,
    /// The values that are always recomputed, since backward has them as `bf16`.
    pub always: Vec<ValueId>,
    /// Values that are kept as bits, where they are kept.
    pub bits: Vec<ValueId>,
    /// The values that lead into the block first and may be kept in another form.
    pub rounded_entries: Vec<ValueId>,
    /// Where the block is inverted, the value that leads into it and follows from what it passes on.
    pub inverted: Option<Inversion>,
    /// Bytes of gradients that wait for an update behind the whole backward phase.
    pub waiting: usize,
    /// Bytes of the values that the block passes on.
    pub passed: usize,
}

/// The values of a block of which a sample must know.
pub(super) struct SampleValues<'a> {
    /// Those that may be kept or recomputed, by node.
    pub candidates: &'a [Vec<ValueId>],
    /// Those that are recomputed in any case.
    pub always: &'a [ValueId],
    /// Those that are kept as bits.
    pub bits: &'a [ValueId],
    /// Those that lead into the block first and may be kept in another form.
    pub rounded_entries: &'a [ValueId],
}

/// A graph of which samples are made.
pub(super) struct Source<'a> {
    pub forward: &'a Forward<'a>,
    pub blocks: &'a Blocks,
    /// For each value the nodes that read it.
    pub readers: Vec<Vec<NodeId>>,
    /// Whether a value is an output or assigned.
    pub results: Vec<bool>,
    /// For each value the assignments of it, by position.
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

    /// The phase of the nodes of another block that read a value, if any do; the earliest of several.
    fn read_outside(&self, value: ValueId, block: usize) -> Option<Phase> {
        let outside = |id: &&NodeId| self.blocks.of_node[id.index()] != Some(block);
        let readers = self.readers[value.index()].iter().filter(outside);
        readers.map(|id| self.node(*id).phase).min()
    }

    /// The sample of a block. With `inversion` the block is inverted.
    pub fn sample(&self, block: usize, values: &SampleValues<'_>, inversion: Option<&Inversion>) -> Sample {
        let graph = self.forward.graph;
        let mut maker = Maker {
            old: self.forward,
            new: Graph::default(),
            map: HashMap::new(),
        };
        let entered = self.entered(block);
        if !entered.is_empty() {
            maker.before(&entered);
        }
        let (forward, behind): (Vec<NodeId>, Vec<NodeId>) =
            (self.nodes[block].iter()).partition(|id| self.node(**id).phase == Phase::Forward);
        forward.iter().for_each(|id| maker.copy(self.node(*id)));
        let passes_on = |v: &ValueId| self.results[v.index()] || self.read_outside(*v, block).is_some();
        let passed: Vec<ValueId> = (forward.iter())
            .flat_map(|id| self.node(*id).outputs.iter().copied())
            .filter(passes_on)
            .collect();
        let returned = self.returned(block, &behind);
        if block + 1 < self.blocks.count {
            maker.rest(&passed, &returned);
        }
        behind.iter().for_each(|id| maker.copy(self.node(*id)));
        let mut waiting = 0;
        for id in &behind {
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
            maker.again(inverted.value);
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

    /// The bases of forward values that a block reads and others have computed.
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

    /// The bases of gradients that a block's part of backward reads and others have computed.
    fn returned(&self, block: usize, behind: &[NodeId]) -> Vec<ValueId> {
        let graph = self.forward.graph;
        let inputs = behind.iter().flat_map(|id| self.node(*id).inputs.iter());
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
    /// Adds a node whose first outputs stand for these values.
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

    /// A value of the sample for one of the graph: an input unless it is made in the sample, or a constant.
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
        // What an update computes before the forward phase lies in the memory of its state.
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

    fn before(&mut self, entered: &[ValueId]) {
        let outputs = self.types(entered);
        let all = self.new.add_input("before", InputKind::Data, Type::f32(&[]));
        let all = all.expect("a scalar has a size that can be counted");
        let who = Who::Before;
        let before = Arc::new(Others { who, outputs });
        self.push(before, &[all], (entered, Phase::Forward, &Arc::from("")));
    }

    fn rest(&mut self, passed: &[ValueId], returned: &[ValueId]) {
        let mut outputs = self.types(returned);
        outputs.push(Type::f32(&[]));
        let inputs: Vec<ValueId> = passed.iter().map(|&v| self.read(v)).collect();
        let who = Who::Behind;
        let rest = Arc::new(Others { who, outputs });
        let made = self.push(rest, &inputs, (returned, Phase::Backward, &Arc::from("")));
        self.output(made[returned.len()]);
    }

    /// The end of the blocks before, which read an inverted value of the sample when its own gradients are there.
    fn again(&mut self, inverted: ValueId) {
        let results = self.new.outputs.iter().map(|output| output.value);
        let inputs: Vec<ValueId> = results.chain([inverted]).collect();
        let (who, outputs) = (Who::Again, vec![Type::f32(&[])]);
        let made = self.push(
            Arc::new(Others { who, outputs }),
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

    /// An inversion, in values of the sample.
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

    /// The assignments whose value the sample makes, of these for each value.
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
    /// The values that are kept in a form where these candidates are recomputed.
    pub fn rounded(&self, recomputed: &[usize], form: Form) -> Vec<(ValueId, Form)> {
        let kept = (0..self.candidates.len()).filter(|i| !recomputed.contains(i));
        let kept = kept.flat_map(|i| &self.candidates[i]).chain(&self.rounded_entries);
        let in_form = |&v: &ValueId| Some((v, form.of_value(&self.graph, v)?));
        kept.filter_map(in_form).collect()
    }

    /// What a plan depends on: two samples with the same description have the same plans, but for names and offsets.
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
            let cost = op.cost(&inputs, &outputs);
            let costs = [cost.product_flops, cost.vector_flops, cost.bytes].map(f64::to_bits);
            let scratch = target.scratch(op, &inputs, &outputs);
            add(&|h| (costs, scratch.worker, scratch.shared).hash(h));
            let view = inputs.first().and_then(|first| {
                let dense = Layout::dense(&first.shape);
                op.view(&dense, &inputs, &outputs)
            });
            let ways = (
                op.row_wise(&inputs, &outputs),
                target.kernel(op, &inputs, &outputs),
                outputs,
                view,
            );
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
