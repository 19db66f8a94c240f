//! Facts about the values of a graph along each of their axes.

use std::collections::HashMap;

use lessen_graph::{Along, Asked, Def, Fold, Graph, InputKind, Layout, Node, NodeId, Type, ValueId};

/// The lines of a value along one of its axes: its one-dimensional sections, such as the rows of a matrix along the
/// last axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lines {
    /// The value.
    pub value: ValueId,
    /// The axis.
    pub axis: usize,
}

impl Lines {
    /// The lines of a value along an axis.
    pub fn of(value: ValueId, axis: usize) -> Lines {
        Lines { value, axis }
    }
}

/// An input of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeInput {
    /// The node.
    pub node: NodeId,
    /// The position of the input.
    pub input: usize,
}

/// The reason why a value cannot have another mean: the result or node that a number added to all elements of a line
/// would change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The value is this result of the graph, or leads to it by sums alone.
    Result(ValueId),
    /// This node would compute something else.
    Node(NodeId),
    /// No reader; but the node that computes the value returns any mean.
    Producer,
    /// No reader; but a statistic of the norm, which the converted one does not compute, is a result as well.
    Statistic,
}

/// The facts about a graph. Axes are bits of a mask; values of more than 64 axes have no facts.
pub(crate) struct Facts<'g> {
    pub graph: &'g Graph,
    /// For each value the node inputs that read it.
    pub uses: Vec<Vec<NodeInput>>,
    /// For each value whether it is an output of the graph, a state that is assigned, or an assigned value.
    pub is_result: Vec<bool>,
    /// For each value the number that all its elements equal, where it is known.
    pub known: Vec<Option<f64>>,
    /// For each value whether it depends on states and constants alone.
    pub is_fixed: Vec<bool>,
    /// For each value whether it is a state that can get new values.
    pub is_parameter: Vec<bool>,
    /// For each value the axes along which all its lines are constant.
    constant: Vec<u64>,
    /// For each output of each node and each axis the rule for its lines.
    along: Vec<Vec<Vec<Along>>>,
    /// For each value the axes along which any number may be added to a line without a change of any result.
    insensitive: Vec<u64>,
    /// For each value the axes along which it is scalable; see [`Facts::is_scalable`].
    scalable: Vec<u64>,
}

impl<'g> Facts<'g> {
    /// The facts about a graph. `known` holds the number that all elements of a state equal, for states where it is
    /// known. States for which `is_parameter` does not hold cannot get new values.
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

    /// Adds the facts about a node's outputs that follow from its inputs.
    fn enter(&mut self, id: NodeId, node: &Node) {
        for (input, value) in node.inputs.iter().enumerate() {
            self.uses[value.index()].push(NodeInput { node: id, input });
        }
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        let known: Vec<Option<f64>> = node.inputs.iter().map(|v| self.known[v.index()]).collect();
        let asked = self.graph.ask(node, &inputs, &outputs);
        let number = match asked.fold(&known) {
            Fold::Splat(number) => Some(number),
            Fold::Input(input) => known[input],
            Fold::No => None,
        };
        let is_fixed = node.inputs.iter().all(|v| self.is_fixed[v.index()]);
        let mut rules = Vec::with_capacity(outputs.len());
        for (output, value) in node.outputs.iter().enumerate() {
            let axes = 0..outputs[output].rank().min(64);
            let rule = |axis| self.rule(node, asked, (output, axis), &known, &inputs, &outputs[output]);
            let along: Vec<Along> = axes.map(rule).collect();
            for (axis, rule) in along.iter().enumerate() {
                let is_constant = match rule {
                    Along::Constant => true,
                    Along::Linear(terms) => terms
                        .iter()
                        .all(|&(input, axis)| self.is_constant(Lines::of(node.inputs[input], axis))),
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
        asked: Asked<'_>,
        (output, axis): (usize, usize),
        known: &[Option<f64>],
        inputs: &[Type],
        result: &Type,
    ) -> Along {
        let is_constant =
            |(value, ty): (&ValueId, &Type)| ty.shape == result.shape && self.is_constant(Lines::of(*value, axis));
        let constant: Vec<bool> = node.inputs.iter().zip(inputs).map(is_constant).collect();
        asked.along(output, axis, (&constant, known))
    }

    /// Whether each line of a value is constant.
    pub fn is_constant(&self, lines: Lines) -> bool {
        lines.axis < 64 && self.constant[lines.value.index()] >> lines.axis & 1 == 1
    }

    /// The rule for the lines of a value; unknown for an input.
    pub fn along(&self, lines: Lines) -> &Along {
        const UNKNOWN: &Along = &Along::Unknown;
        match self.graph.values[lines.value.index()].def {
            Def::Node(node, output) => self.along[node.index()][output].get(lines.axis).unwrap_or(UNKNOWN),
            Def::Input(_) => UNKNOWN,
        }
    }

    /// Whether any number may be added to each line of a value without a change of any result.
    pub fn is_insensitive(&self, lines: Lines) -> bool {
        lines.axis < 64 && self.insensitive[lines.value.index()] >> lines.axis & 1 == 1
    }

    /// The axes along which a value is insensitive, once the insensitive axes of all later values are known.
    fn insensitive_axes(&self, value: ValueId) -> u64 {
        if self.is_result[value.index()] {
            return 0;
        }
        let axes = 0..self.graph.ty(value).rank().min(64);
        let is_free = |axis: &usize| self.sensitive_input(Lines::of(value, *axis)).is_none();
        axes.filter(is_free).fold(0, |mask, axis| mask | 1 << axis)
    }

    /// The first node input through which a number added to a value's lines would change a result.
    pub fn sensitive_input(&self, lines: Lines) -> Option<NodeInput> {
        let uses = &self.uses[lines.value.index()];
        uses.iter().copied().find(|&at| !self.passes_or_ignores(at, lines.axis))
    }

    /// The obstacle to a number added to lines: follows the first sensitive input of each reader to the end.
    pub fn obstacle(&self, mut lines: Lines) -> Obstacle {
        loop {
            if self.is_result[lines.value.index()] {
                return Obstacle::Result(lines.value);
            }
            let Some(at) = self.sensitive_input(lines) else {
                return Obstacle::Producer;
            };
            let node = &self.graph.nodes[at.node.index()];
            let after = self.axis_after(at, 0, lines.axis);
            match after.map(|axis| Lines::of(node.outputs[0], axis)) {
                Some(next) if !self.is_insensitive(next) => lines = next,
                _ => return Obstacle::Node(at.node),
            }
        }
    }

    /// Whether no result changes where a number is added to the lines of a node's input along an axis.
    fn passes_or_ignores(&self, at: NodeInput, axis: usize) -> bool {
        let node = &self.graph.nodes[at.node.index()];
        node.outputs.iter().enumerate().all(|(output, &value)| {
            let is_unread = self.uses[value.index()].is_empty() && !self.is_result[value.index()];
            is_unread
                || (output == 0 && node.op.ignores_shift(at.input, axis, &self.graph.input_types(node)))
                || self
                    .axis_after(at, output, axis)
                    .is_some_and(|axis| self.is_insensitive(Lines::of(value, axis)))
        })
    }

    /// The axis of an output along which its lines are linear in the lines of an input along an axis.
    pub fn axis_after(&self, at: NodeInput, output: usize, axis: usize) -> Option<usize> {
        let rules = &self.along[at.node.index()][output];
        rules.iter().position(|rule| match rule {
            Along::Linear(terms) => terms.contains(&(at.input, axis)),
            _ => false,
        })
    }

    /// The only node input that reads a value; none if there are several, or if the value is a result.
    pub fn only_use(&self, value: ValueId) -> Option<NodeInput> {
        match self.uses[value.index()][..] {
            [only] if !self.is_result[value.index()] => Some(only),
            _ => None,
        }
    }

    /// The state whose elements a value holds, moved or not, and the axis of the state that an axis of the value is.
    pub fn state_of(&self, mut lines: Lines) -> Option<Lines> {
        loop {
            if self.graph.input(lines.value).is_some() {
                return self.is_parameter[lines.value.index()].then_some(lines);
            }
            let Along::Linear(terms) = self.along(lines) else {
                return None;
            };
            let node = &self.graph.nodes[self.graph.producer(lines.value)?.index()];
            let &(input, axis) = terms.first().filter(|_| node.inputs.len() == 1 && self.moves(node))?;
            lines = Lines::of(node.inputs[input], axis);
        }
    }

    /// The lines of [`Facts::state_of`], where nothing else reads the state and the values between; none elsewhere.
    pub fn own_state_of(&self, lines: Lines) -> Option<Lines> {
        let state = self.state_of(lines)?;
        let mut value = lines.value;
        loop {
            self.only_use(value)?;
            let Some(node) = self.graph.producer(value) else {
                return Some(state);
            };
            value = self.graph.nodes[node.index()].inputs[0];
        }
    }

    /// The lines from a node input back to the state that holds them, each with the node input that reads it; see
    /// [`Facts::state_of`].
    pub fn way_from_state(&self, (mut lines, mut at): (Lines, NodeInput)) -> Vec<(Lines, NodeInput)> {
        let mut way = vec![(lines, at)];
        while let (Some(node), [term]) = (self.graph.producer(lines.value), &self.terms(lines)[..]) {
            (lines, at) = (*term, NodeInput { node, input: 0 });
            way.push((lines, at));
        }
        way
    }

    /// Whether a node's outputs hold elements of its first input, casts aside.
    pub fn moves(&self, node: &Node) -> bool {
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        let Some(first) = inputs.first() else {
            return false;
        };
        let asked = self.graph.ask(node, &inputs, &outputs);
        let nothing_known = vec![None; inputs.len()];
        asked.is_cast()
            || asked.copies() == Some(0)
            || asked.fold(&nothing_known) == Fold::Input(0)
            || asked.view(&Layout::dense(&first.shape), first.numel()).is_some()
    }

    /// Whether a value is scalable: all states that its lines are linear in, and the values between, have no other
    /// reader, so that they may be multiplied by a factor for each position.
    pub fn is_scalable(&self, lines: Lines) -> bool {
        lines.axis < 64 && self.scalable[lines.value.index()] >> lines.axis & 1 == 1
    }

    /// The axes along which a value is scalable, once the scalable axes of all earlier values are known.
    fn scalable_axes(&self, value: ValueId) -> u64 {
        if self.only_use(value).is_none() {
            return 0;
        }
        if self.graph.input(value).is_some() {
            return if self.is_parameter[value.index()] { u64::MAX } else { 0 };
        }
        let axes = 0..self.graph.ty(value).rank().min(64);
        let is_scalable = |axis: &usize| match self.along(Lines::of(value, *axis)) {
            Along::Linear(_) => self
                .terms(Lines::of(value, *axis))
                .iter()
                .all(|&term| self.is_scalable(term)),
            _ => false,
        };
        axes.filter(is_scalable).fold(0, |mask, axis| mask | 1 << axis)
    }

    /// The inputs that the lines of a value are linear in.
    pub fn terms(&self, lines: Lines) -> Vec<Lines> {
        let (Along::Linear(terms), Some(node)) = (self.along(lines), self.graph.producer(lines.value)) else {
            return Vec::new();
        };
        let inputs = &self.graph.nodes[node.index()].inputs;
        terms
            .iter()
            .map(|&(input, axis)| Lines::of(inputs[input], axis))
            .collect()
    }
}

/// The axes of extent 1, along which every line is constant.
fn axes_of_one(ty: &Type) -> u64 {
    let axes = ty.shape.iter().take(64).enumerate();
    axes.filter(|(_, extent)| **extent == 1)
        .fold(0, |mask, (axis, _)| mask | 1 << axis)
}
