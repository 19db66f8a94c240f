//! Delay: updates of a training step run at the beginning of the next one, before forward reads the new parameters.
//!
//! They are cut off the graph of a step. The values that they read of forward and backward, such as gradients and their
//! norm, are kept from one step to the next in *pending* states (Jiang et al. 2021, "Optimizer Fusion: Efficient
//! Training with Better Locality and Parallelism", calls the placement forward-fusion).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use lessen_base::{Error, Result};
use lessen_graph::{Assign, Graph, Input, InputKind, Node, NodeId, OnRows, Output, Phase, ValueId};

use super::sparse::{combined, on_rows};
use super::updates::Groups;
use crate::bytes;
use crate::place::{Place, is_view, places};
use lessen_rewrite::Rewriter;
use lessen_rewrite::eliminate_dead_code;

/// Prefix of the names of pending states, and of data inputs that a delayed update reads.
const PREFIX: &str = "@pending.";

/// The name under which a delayed update reads a data input, with the value of the step that the update belongs to.
pub fn pending(data: &str) -> String {
    format!("{PREFIX}{data}")
}

/// The graphs of a step with delayed updates: `first`, `step` any number of times, and `flush` compute the same as that
/// many undelayed steps. Data inputs that the update reads are named by [`pending`] in `step` and `flush`, since their
/// values belong to the step before. Outputs are the outputs of one step.
pub struct Delayed {
    /// The step without delayed updates: the first step, and a step after `flush`.
    pub first: Graph,
    /// The delayed updates of the step before, and the step without its own delayed updates.
    pub step: Graph,
    /// The delayed updates alone.
    pub flush: Graph,
    /// Names of the pending states, in order.
    pub pending: Vec<String>,
}

/// Delays updates of a step to the beginning of the next one: each update that assigns a state for whose name `is_late`
/// holds, such as a parameter, with all its other states. Other updates stay in the step.
///
/// # Errors
/// An output that follows from the update; an input whose name begins with `pending.`; an update that reads data of the
/// batch, or a state which forward or backward assigns.
pub fn delay(graph: &Graph, is_late: &dyn Fn(&str) -> bool) -> Result<Delayed> {
    if let Some(input) = graph.inputs.iter().find(|input| input.name.starts_with(PREFIX)) {
        return Err(Error::user(format!(
            "the name `{}` is that of a gradient which waits for its update; give the input another name",
            input.name
        )));
    }
    let graph = eliminate_dead_code(graph);
    let split = Split::of(&graph, is_late)?;
    Ok(Delayed {
        first: split.graph_of(false, true),
        step: split.graph_of(true, true),
        flush: split.graph_of(true, false),
        pending: split.pending.values().cloned().collect(),
    })
}

/// A step, cut into the delayed updates, below called the update, and the rest.
struct Split<'a> {
    graph: &'a Graph,
    places: Vec<Place>,
    readers: Vec<Vec<NodeId>>,
    /// For each value whether it is an output or assigned by the rest.
    results: Vec<bool>,
    /// For each node whether it belongs to the update.
    delayed: Vec<bool>,
    /// For each node of the rest whether the update runs it as well: constants, and views of values that it reads.
    shared: Vec<bool>,
    /// For each value whether it is an input that the update reads or assigns.
    read: Vec<bool>,
    /// The values of the rest that the update reads, with the names of their pending states.
    pending: BTreeMap<ValueId, String>,
}

impl<'a> Split<'a> {
    fn of(graph: &'a Graph, is_late: &dyn Fn(&str) -> bool) -> Result<Split<'a>> {
        let mut split = Split {
            graph,
            places: places(graph),
            readers: graph.readers(),
            results: vec![false; graph.values.len()],
            delayed: vec![false; graph.nodes.len()],
            shared: vec![false; graph.nodes.len()],
            read: vec![false; graph.values.len()],
            pending: BTreeMap::new(),
        };
        split.find_update(is_late);
        let of_rest = graph.assigns.iter().filter(|assign| !split.by_update(assign));
        let of_rest: Vec<ValueId> = of_rest.map(|assign| assign.value).collect();
        let results = graph.outputs.iter().map(|output| output.value);
        results.chain(of_rest).for_each(|v| split.results[v.index()] = true);
        split.check()?;
        split.sink();
        split.find_pending()?;
        Ok(split)
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.graph.nodes[id.index()]
    }

    /// Whether the update computes an assigned value.
    fn by_update(&self, assign: &Assign) -> bool {
        let producer = self.graph.producer(assign.value);
        producer.is_some_and(|id| self.delayed[id.index()])
    }

    /// Finds the nodes of updates that assign a state for whose name `is_late` holds.
    fn find_update(&mut self, is_late: &dyn Fn(&str) -> bool) {
        let graph = self.graph;
        let Groups { nodes, assigns } = Groups::of(graph);
        let is_late = |target: &ValueId| graph.input(*target).is_some_and(|input| is_late(&input.name));
        let late: Vec<bool> = assigns.iter().map(|targets| targets.iter().any(is_late)).collect();
        self.delayed = nodes
            .iter()
            .map(|group| group.is_some_and(|group| late[group]))
            .collect();
    }

    /// Refuses values that depend on the update and are not part of it.
    fn check(&self) -> Result<()> {
        let graph = self.graph;
        let by_delayed = |value: &ValueId| graph.producer(*value).is_some_and(|id| self.delayed[id.index()]);
        let mut follows = vec![false; graph.values.len()];
        for (node, delayed) in graph.nodes.iter().zip(&self.delayed) {
            let reads = node.inputs.iter().any(|v| by_delayed(v) || follows[v.index()]);
            if !delayed && reads {
                node.outputs.iter().for_each(|v| follows[v.index()] = true);
            }
        }
        let is_late = |output: &&Output| by_delayed(&output.value) || follows[output.value.index()];
        let what = match graph.outputs.iter().find(is_late) {
            Some(output) => format!("the output `{}`", output.name),
            None if follows.contains(&true) => "an assigned value outside of it".to_string(),
            None => return Ok(()),
        };
        Err(Error::user(format!(
            "{what} follows from the update, which runs in the next step; place updates in the same step"
        )))
    }

    /// Moves a node into the update if the update alone reads its results, and if the bytes that wait grow by single
    /// numbers at most: a gradient times the factor of clipping. Single numbers are not moved themselves, since all
    /// updates that read a number computed there would join one group.
    fn sink(&mut self) {
        let graph = self.graph;
        let large = |values: &BTreeSet<ValueId>| {
            let types = values.iter().map(|&v| graph.ty(v));
            bytes::sum(types.filter(|ty| ty.numel() > 1).map(|ty| ty.bytes()))
        };
        for (i, node) in graph.nodes.iter().enumerate().rev() {
            let late = |v: &ValueId| self.readers[v.index()].iter().all(|id| self.delayed[id.index()]);
            let is_read = node.outputs.iter().any(|v| !self.readers[v.index()].is_empty());
            let is_result = node.outputs.iter().any(|v| self.results[v.index()]);
            let own = large(&node.outputs.iter().copied().collect());
            let read: BTreeSet<ValueId> = node.inputs.iter().map(|&v| self.base(v)).collect();
            if node.phase == Phase::Update
                && !node.inputs.is_empty()
                && (is_read && !is_result && node.outputs.iter().all(late))
                && !read.iter().any(|&v| self.is_of_batch(v))
                && (own > 0 && large(&read) <= own)
            {
                self.delayed[i] = true;
            }
        }
    }

    /// Finds the values of the rest that the update reads.
    fn find_pending(&mut self) -> Result<()> {
        let (graph, leads_to) = (self.graph, self.first_states());
        let (by_update, of_rest): (Vec<Assign>, Vec<Assign>) =
            graph.assigns.iter().partition(|assign| self.by_update(assign));
        for assign in &by_update {
            self.read[assign.target.index()] = true;
        }
        let of_rest: HashSet<ValueId> = of_rest.iter().map(|assign| assign.target).collect();
        let update = graph
            .nodes
            .iter()
            .zip(self.delayed.clone())
            .filter(|(_, delayed)| *delayed);
        let mut found = Vec::new();
        for &input in update.flat_map(|(node, _)| &node.inputs) {
            let base = self.share(input);
            if let Some(of) = graph.input(base) {
                if self.is_of_batch(base) || of_rest.contains(&base) {
                    return Err(Error::user(format!(
                        "the update reads `{}`, which is another one in the next step; place updates in the same step",
                        of.name
                    )));
                }
                self.read[base.index()] = true;
            } else if !self.is_at_hand(base) {
                found.push((base, leads_to[input.index()].unwrap_or_default()));
            }
        }
        // Gradients are named after their parameters, single numbers after further states.
        found.sort_by_key(|(base, _)| graph.ty(*base).numel() == 1);
        let mut names = HashSet::new();
        for (base, of) in found {
            if self.pending.contains_key(&base) {
                continue;
            }
            let own = pending(of);
            let numbered = (2..).map(|number| format!("{own}.{number}"));
            let mut free = std::iter::once(own.clone()).chain(numbered);
            let name = free.find(|name| names.insert(name.clone()));
            let name = name.expect("there are more numbers than names");
            self.pending.insert(base, name);
        }
        Ok(())
    }

    /// For each value the name of the first state that it leads to in the update. States that forward reads as well,
    /// which are parameters, come first.
    fn first_states(&self) -> Vec<Option<&'a str>> {
        let graph = self.graph;
        let mut first: Vec<Option<(bool, usize)>> = vec![None; graph.values.len()];
        for (i, assign) in graph
            .assigns
            .iter()
            .enumerate()
            .filter(|(_, assign)| self.by_update(assign))
        {
            let readers = &self.readers[assign.target.index()];
            let rank = (readers.iter().all(|id| self.delayed[id.index()]), i);
            let known = &mut first[assign.value.index()];
            *known = (*known).into_iter().chain([rank]).min();
        }
        for (node, delayed) in graph.nodes.iter().zip(&self.delayed).rev() {
            let own = node.outputs.iter().filter_map(|v| first[v.index()]).min();
            for input in node.inputs.iter().filter(|_| *delayed) {
                let known = &mut first[input.index()];
                *known = (*known).into_iter().chain(own).min();
            }
        }
        let name = |(_, at): (bool, usize)| Some(graph.input(graph.assigns[at].target)?.name.as_str());
        first.into_iter().map(|rank| rank.and_then(name)).collect()
    }

    /// Whether a value is one of the update's own, or a constant.
    fn is_at_hand(&self, value: ValueId) -> bool {
        let producer = self.graph.producer(value);
        producer.is_some_and(|id| self.delayed[id.index()] || self.shared[id.index()])
    }

    /// The value from which views lead to a value that the update reads, as long as none is larger than its view.
    fn base(&self, value: ValueId) -> ValueId {
        std::iter::successors(Some(value), |&value| self.viewed(value))
            .last()
            .unwrap_or(value)
    }

    /// The value that a value of the rest is a view of, if that is not larger.
    fn viewed(&self, value: ValueId) -> Option<ValueId> {
        let id = self.graph.producer(value).filter(|id| !self.delayed[id.index()])?;
        let node = self.node(id);
        let is_small = |input: &ValueId| self.graph.ty(*input).bytes() <= self.graph.ty(value).bytes();
        let input = node.inputs.first().copied().filter(is_small);
        input.filter(|_| is_view(&self.places, node))
    }

    /// Makes the update run constants, and the views that lead to a value that it reads. Returns the base.
    fn share(&mut self, value: ValueId) -> ValueId {
        let mut base = value;
        while let Some(id) = self.graph.producer(base).filter(|id| !self.delayed[id.index()]) {
            let viewed = self.viewed(base);
            self.shared[id.index()] |= viewed.is_some() || self.node(id).inputs.is_empty();
            match viewed {
                Some(input) => base = input,
                None => break,
            }
        }
        base
    }

    /// Whether a value is an input that differs from batch to batch.
    fn is_of_batch(&self, value: ValueId) -> bool {
        let is_data = |input: &Input| input.kind == InputKind::Data;
        self.graph.input(value).is_some_and(is_data) && self.graph.ty(value).numel() > 1
    }

    /// The graph of the update, of the rest, or of the update of one step and the rest of the next.
    fn graph_of(&self, update: bool, rest: bool) -> Graph {
        let graph = self.graph;
        let mut out = Rewriter::without_inputs(graph);
        if update {
            self.add_update(&mut out);
        }
        if rest {
            self.add_rest(&mut out, update);
        }
        eliminate_dead_code(&out.new)
    }

    fn add_update(&self, out: &mut Rewriter<'_>) {
        let graph = self.graph;
        for input in graph.inputs.iter().filter(|input| self.read[input.value.index()]) {
            match input.kind {
                InputKind::Data => out.input(&pending(&input.name), input.kind, input.value),
                InputKind::State => out.input(&input.name, input.kind, input.value),
            };
        }
        for (&value, name) in &self.pending {
            out.input(name, InputKind::State, value);
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            if self.delayed[i] || self.shared[i] {
                out.copy_to(node, Phase::Update);
            }
        }
        let updates = graph.assigns.iter().filter(|assign| self.by_update(assign));
        for assign in updates.clone() {
            let (target, value) = (out.get(assign.target), out.get(assign.value));
            out.new.assigns.push(Assign { target, value });
        }
        // The rest reads the new values.
        let new: Vec<ValueId> = updates.clone().map(|assign| out.get(assign.value)).collect();
        for (assign, new) in updates.zip(new) {
            out.set(assign.target, new);
        }
    }

    /// Adds forward and backward, after the update of the step before where there is one.
    fn add_rest(&self, out: &mut Rewriter<'_>, after_update: bool) {
        let graph = self.graph;
        let waiting: Vec<(ValueId, ValueId)> = (self.pending.iter())
            .map(|(&value, name)| {
                if after_update {
                    (value, out.get(value))
                } else {
                    (value, out.input(name, InputKind::State, value))
                }
            })
            .collect();
        for input in &graph.inputs {
            let readers = &self.readers[input.value.index()];
            let is_own = !self.read[input.value.index()] || readers.iter().any(|id| !self.delayed[id.index()]);
            let is_there = input.kind == InputKind::State && out.has(input.value);
            if (is_own || self.results[input.value.index()]) && !is_there {
                out.input(&input.name, input.kind, input.value);
            }
        }
        let mut copies = BTreeMap::new();
        for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| !self.delayed[*i]) {
            out.copy(node);
            if self.is_copied(NodeId(i as u32)) {
                let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| out.get(v)).collect();
                let copy = out.push_copy(node, &inputs, Phase::Update);
                copies.insert(node.outputs[0], copy[0]);
            }
        }
        for output in &graph.outputs {
            let (name, value) = (output.name.clone(), out.get(output.value));
            out.new.outputs.push(Output { name, value });
        }
        for assign in graph.assigns.iter().filter(|assign| !self.by_update(assign)) {
            let (target, value) = (out.get(assign.target), out.get(assign.value));
            out.new.assigns.push(Assign { target, value });
        }
        for (value, target) in waiting {
            let value = copies.get(&value).copied().unwrap_or_else(|| out.get(value));
            out.new.assigns.push(Assign { target, value });
        }
    }

    /// Whether a pending value is computed twice: a sparse one that all other nodes read as rows, with the same bits as
    /// without the delay.
    fn is_copied(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let [value] = node.outputs[..] else { return false };
        let readers = &self.readers[value.index()];
        let mut others = readers.iter().map(|id| (id, self.node(*id)));
        let by_rows = |(reader, other): (&NodeId, &Node)| {
            let marked: Vec<bool> = other.inputs.iter().map(|&input| input == value).collect();
            let on_rows = on_rows(self.graph, other, &marked);
            self.delayed[reader.index()] || !matches!(on_rows, OnRows::No)
        };
        let is_read = readers.iter().any(|id| !self.delayed[id.index()]);
        combined(self.graph, node).is_some() && self.pending.contains_key(&value) && is_read && others.all(by_rows)
    }
}
