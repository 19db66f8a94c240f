//! What is known of the values of a graph along each of their axes.

use std::collections::HashMap;

use lessen_graph::{Along, AlongQuery, Def, Fold, Graph, InputKind, Layout, Node, NodeId, Type, ValueId};

/// A value along one of its axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Runs {
    /// The value.
    pub value: ValueId,
    /// Its axis.
    pub axis: usize,
}

impl Runs {
    /// A value along an axis.
    pub fn of(value: ValueId, axis: usize) -> Runs {
        Runs { value, axis }
    }
}

/// One use of a value: the reader and the position among its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Use {
    /// The node that reads it.
    pub node: NodeId,
    /// The position of the input.
    pub input: usize,
}

/// What would notice a number that is added to all elements of a value's runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The value is a result of the graph, or leads to this one by sums alone.
    Result(ValueId),
    /// This node computes something else then.
    Reader(NodeId),
    /// Nothing, but what computes the value gives any mean.
    Nothing,
}

/// The facts of a graph. Axes are bits of a mask; values of more than 64 axes have no facts.
pub(crate) struct Facts<'g> {
    pub graph: &'g Graph,
    /// For each value its uses by nodes.
    pub uses: Vec<Vec<Use>>,
    /// Whether a value is an output of the graph, or what a state is assigned.
    pub is_result: Vec<bool>,
    /// The number that all elements of a value equal.
    pub known: Vec<Option<f64>>,
    /// Whether a value follows from states and constants alone.
    pub is_fixed: Vec<bool>,
    /// Whether a value is a state of which new values can be made.
    pub is_parameter: Vec<bool>,
    /// For each value the axes along which all its runs are constant.
    constant: Vec<u64>,
    /// For each output of each node and each axis what its runs are.
    along: Vec<Vec<Vec<Along>>>,
    /// For each value the axes along which any number may be added to a run without a change of any result.
    insensitive: Vec<u64>,
    /// For each value the axes along which it is scalable.
    scalable: Vec<u64>,
}

impl<'g> Facts<'g> {
    /// The facts of a graph. `known` holds the number that all elements of a state equal, for those where one is known.
    /// Of states for which `is_parameter` does not hold no new values can be made.
    pub fn of(graph: &'g Graph, known: &HashMap<ValueId, f64>, is_parameter: &dyn Fn(ValueId) -> bool) -> Facts<'g> {
        let count = graph.values.len();
        let mut facts = Facts {
            graph,
            uses: vec![Vec::new(); count],
            is_result: vec![false; count],
            known: vec![None; count],
            is_fixed: vec![false; count],
            is_parameter: vec![false; count],
            constant: graph.values.iter().map(|value| axes_of_one(&value.ty)).collect(),
            along: Vec::with_capacity(graph.nodes.len()),
            insensitive: vec![0; count],
            scalable: vec![0; count],
        };
        for input in &graph.inputs {
            facts.is_fixed[input.value.index()] = input.kind == InputKind::State;
            facts.is_parameter[input.value.index()] = input.kind == InputKind::State && is_parameter(input.value);
            facts.known[input.value.index()] = known.get(&input.value).copied();
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            facts.enter(NodeId(i as u32), node);
        }
        let outputs = graph.outputs.iter().map(|output| output.value);
        let assigned = graph.assigns.iter().flat_map(|assign| [assign.target, assign.value]);
        outputs
            .chain(assigned)
            .for_each(|value| facts.is_result[value.index()] = true);
        for value in (0..count).rev() {
            facts.insensitive[value] = facts.insensitive_axes(ValueId(value as u32));
        }
        for value in 0..count {
            facts.scalable[value] = facts.scalable_axes(ValueId(value as u32));
        }
        facts
    }

    /// Adds what follows for a node's outputs from its inputs.
    fn enter(&mut self, id: NodeId, node: &Node) {
        for (input, value) in node.inputs.iter().enumerate() {
            self.uses[value.index()].push(Use { node: id, input });
        }
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| self.known[v.index()]).collect();
        let number = match node.op.fold(&known, &inputs, &outputs) {
            Fold::Splat(number) => Some(number),
            Fold::Input(input) => known[input],
            Fold::No => None,
        };
        let is_fixed = node.inputs.iter().all(|v| self.is_fixed[v.index()]);
        let mut rules = Vec::with_capacity(outputs.len());
        for (output, value) in node.outputs.iter().enumerate() {
            let axes = 0..outputs[output].rank().min(64);
            let rule = |axis| self.rule(node, output, axis, &known, &inputs, &outputs);
            let along: Vec<Along> = axes.map(rule).collect();
            for (axis, rule) in along.iter().enumerate() {
                let is_constant = match rule {
                    Along::Constant => true,
                    Along::Linear(terms) => terms
                        .iter()
                        .all(|&(input, axis)| self.is_constant(Runs::of(node.inputs[input], axis))),
                    Along::Unknown | Along::Centred | Along::Product => false,
                };
                self.constant[value.index()] |= u64::from(is_constant) << axis;
            }
            rules.push(along);
            self.is_fixed[value.index()] = is_fixed;
        }
        if let Some(number) = number {
            let value = node.outputs[0].index();
            self.known[value] = Some(number);
            self.constant[value] = u64::MAX;
        }
        self.along.push(rules);
    }

    fn rule(
        &self,
        node: &Node,
        output: usize,
        axis: usize,
        known: &[Option<f64>],
        inputs: &[Type],
        outputs: &[Type],
    ) -> Along {
        let is_constant = |(value, ty): (&ValueId, &Type)| {
            ty.shape == outputs[output].shape && self.is_constant(Runs::of(*value, axis))
        };
        let constant: Vec<bool> = node.inputs.iter().zip(inputs).map(is_constant).collect();
        node.op.along(AlongQuery {
            output,
            axis,
            constant: &constant,
            known,
            inputs,
            outputs,
        })
    }

    /// Whether the runs of a value are constant.
    pub fn is_constant(&self, runs: Runs) -> bool {
        runs.axis < 64 && self.constant[runs.value.index()] >> runs.axis & 1 == 1
    }

    /// What the runs of a value are; nothing is known of an input.
    pub fn along(&self, runs: Runs) -> &Along {
        const UNKNOWN: &Along = &Along::Unknown;
        match self.graph.values[runs.value.index()].def {
            Def::Node(node, output) => self.along[node.index()][output].get(runs.axis).unwrap_or(UNKNOWN),
            Def::Input(_) => UNKNOWN,
        }
    }

    /// Whether any number may be added to each run of a value without a change of any result.
    pub fn is_insensitive(&self, runs: Runs) -> bool {
        runs.axis < 64 && self.insensitive[runs.value.index()] >> runs.axis & 1 == 1
    }

    /// The axes of a value along which it is insensitive, when those of all values after it are known.
    fn insensitive_axes(&self, value: ValueId) -> u64 {
        if self.is_result[value.index()] {
            return 0;
        }
        let axes = 0..self.graph.ty(value).rank().min(64);
        let is_free = |axis: &usize| self.stopping_use(Runs::of(value, *axis)).is_none();
        axes.filter(is_free).fold(0, |mask, axis| mask | 1 << axis)
    }

    /// The first use of a value that a number added to its runs would change.
    pub fn stopping_use(&self, runs: Runs) -> Option<Use> {
        let uses = &self.uses[runs.value.index()];
        uses.iter().copied().find(|&at| !self.passes_or_ignores(at, runs.axis))
    }

    /// What would notice a number that is added to runs: the end of the way along the first uses that do not pass it on
    /// to such as ignore it.
    pub fn stop(&self, mut runs: Runs) -> Stop {
        loop {
            if self.is_result[runs.value.index()] {
                return Stop::Result(runs.value);
            }
            let Some(at) = self.stopping_use(runs) else {
                return Stop::Nothing;
            };
            let node = &self.graph.nodes[at.node.index()];
            let after = self.axis_after(at, 0, runs.axis);
            match after.map(|axis| Runs::of(node.outputs[0], axis)) {
                Some(next) if !self.is_insensitive(next) => runs = next,
                _ => return Stop::Reader(at.node),
            }
        }
    }

    /// Whether no result changes where a number is added to the runs of an input along an axis.
    fn passes_or_ignores(&self, at: Use, axis: usize) -> bool {
        let node = &self.graph.nodes[at.node.index()];
        node.outputs.iter().enumerate().all(|(output, &value)| {
            let is_unread = self.uses[value.index()].is_empty() && !self.is_result[value.index()];
            is_unread
                || (output == 0 && node.op.ignores_shift(at.input, axis, &self.graph.input_types(node)))
                || self
                    .axis_after(at, output, axis)
                    .is_some_and(|axis| self.is_insensitive(Runs::of(value, axis)))
        })
    }

    /// The axis of an output along which its runs are linear in the runs of an input along an axis.
    pub fn axis_after(&self, at: Use, output: usize, axis: usize) -> Option<usize> {
        let rules = &self.along[at.node.index()][output];
        rules.iter().position(|rule| match rule {
            Along::Linear(terms) => terms.contains(&(at.input, axis)),
            _ => false,
        })
    }

    /// The only use of a value that is no result.
    pub fn only_use(&self, value: ValueId) -> Option<Use> {
        match self.uses[value.index()][..] {
            [only] if !self.is_result[value.index()] => Some(only),
            _ => None,
        }
    }

    /// The state whose elements a value has, if it has those of one, and the axis of the state that an axis of it is.
    pub fn state_of(&self, mut runs: Runs) -> Option<Runs> {
        loop {
            if self.graph.input(runs.value).is_some() {
                return self.is_parameter[runs.value.index()].then_some(runs);
            }
            let Along::Linear(terms) = self.along(runs) else {
                return None;
            };
            let node = &self.graph.nodes[self.graph.producer(runs.value)?.index()];
            let &(input, axis) = terms.first().filter(|_| node.inputs.len() == 1 && self.moves(node))?;
            runs = Runs::of(node.inputs[input], axis);
        }
    }

    /// The state of [`Facts::state_of`] where nothing else reads it, nor what lies between it and the value.
    pub fn own_state_of(&self, runs: Runs) -> Option<Runs> {
        let state = self.state_of(runs)?;
        let mut value = runs.value;
        loop {
            self.only_use(value)?;
            let Some(node) = self.graph.producer(value) else {
                return Some(state);
            };
            value = self.graph.nodes[node.index()].inputs[0];
        }
    }

    /// The runs from those that a use reads back to the state that they are of, each with its use; see
    /// [`Facts::state_of`].
    pub fn way_from_state(&self, (mut runs, mut at): (Runs, Use)) -> Vec<(Runs, Use)> {
        let mut way = vec![(runs, at)];
        while let (Some(node), [term]) = (self.graph.producer(runs.value), &self.terms(runs)[..]) {
            (runs, at) = (*term, Use { node, input: 0 });
            way.push((runs, at));
        }
        way
    }

    /// Whether the elements of a node's outputs are elements of its first input, dtypes aside.
    pub fn moves(&self, node: &Node) -> bool {
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        let Some(first) = inputs.first() else {
            return false;
        };
        let is_view = || node.op.view(&Layout::dense(&first.shape), &inputs, &outputs).is_some();
        let nothing_known = vec![None; inputs.len()];
        node.op.is_cast()
            || node.op.copies() == Some(0)
            || node.op.fold(&nothing_known, &inputs, &outputs) == Fold::Input(0)
            || is_view()
    }

    /// Whether all leaves that the runs of a value are linear in are states that nothing else reads, nor what lies
    /// between, so that they may be multiplied by a factor for each position.
    pub fn is_scalable(&self, runs: Runs) -> bool {
        runs.axis < 64 && self.scalable[runs.value.index()] >> runs.axis & 1 == 1
    }

    /// The axes of a value along which it is scalable, when those of all values before it are known.
    fn scalable_axes(&self, value: ValueId) -> u64 {
        if self.only_use(value).is_none() {
            return 0;
        }
        if self.graph.input(value).is_some() {
            return if self.is_parameter[value.index()] { u64::MAX } else { 0 };
        }
        let axes = 0..self.graph.ty(value).rank().min(64);
        let is_scalable = |axis: &usize| match self.along(Runs::of(value, *axis)) {
            Along::Linear(_) => self
                .terms(Runs::of(value, *axis))
                .iter()
                .all(|&term| self.is_scalable(term)),
            _ => false,
        };
        axes.filter(is_scalable).fold(0, |mask, axis| mask | 1 << axis)
    }

    /// The inputs that the runs of a value are linear in.
    pub fn terms(&self, runs: Runs) -> Vec<Runs> {
        let (Along::Linear(terms), Some(node)) = (self.along(runs), self.graph.producer(runs.value)) else {
            return Vec::new();
        };
        let inputs = &self.graph.nodes[node.index()].inputs;
        terms
            .iter()
            .map(|&(input, axis)| Runs::of(inputs[input], axis))
            .collect()
    }
}

/// The axes of extent 1, along which every run is constant.
fn axes_of_one(ty: &Type) -> u64 {
    let axes = ty.shape.iter().take(64).enumerate();
    axes.filter(|(_, extent)| **extent == 1)
        .fold(0, |mask, (axis, _)| mask | 1 << axis)
}
