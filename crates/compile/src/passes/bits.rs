//! Bits: a forward value that backward reads only through truth values is kept as one bit for each element.
//!
//! The derivative of HeLU asks whether its input is above `-alpha`, that of a maximum over some axes whether an element
//! attains it. Such a predicate of forward values is moved to the forward phase where that frees more bytes than its
//! bits take; see [`hoist`]. [`recompute`](super::recompute) then keeps truth values as [`PackBits`] instead of bytes.
//!
//! A predicate frees nothing where its operand is kept for another reader, where backward recomputes the operand
//! without a matrix product, or where other values are recomputed from the operand.

use std::collections::{BTreeSet, HashMap, HashSet};

use lessen_graph::ops::{PackBits, UnpackBits};
use lessen_graph::{DType, Graph, Node, NodeId, Phase, RowWise, Type, ValueId};

use super::remat::Forward;
use super::saved::Packed;
use crate::bytes;
use crate::place::is_view;
use crate::target::{KernelKind, Target};
use crate::value_name::describe;
use lessen_rewrite::Rewriter;

/// Least bytes that keeping bits instead of truth values has to save.
const LEAST_SAVED: usize = 2 << 10;

/// A graph whose predicates are computed in the forward phase.
pub struct Hoisted {
    /// The graph.
    pub graph: Graph,
    /// For each predicate the bytes of other values that it frees.
    pub freed: HashMap<ValueId, usize>,
}

fn has_truth_values(graph: &Graph) -> bool {
    graph.values.iter().any(|value| value.ty.dtype == DType::Bool)
}

/// Bytes of truth values of a type as bits, or as bytes where bits are no fewer.
fn packed_bytes(ty: &Type) -> usize {
    PackBits::packed(ty).map_or(ty.bytes(), |words| words.bytes().min(ty.bytes()))
}

/// The truth values that backward reads and cannot recompute without matrix products, if the device can pack them.
/// `freed` holds the bytes of other values that they stand for.
pub(crate) fn packable(forward: &Forward<'_>, freed: &HashMap<ValueId, usize>, target: &dyn Target) -> Vec<Packed> {
    let graph = forward.graph;
    if !has_truth_values(graph) {
        return Vec::new();
    }
    let prices = forward.prices(false);
    let runs = |ty: &Type, words: &Type| {
        let lowerings = [
            target.lower(&PackBits, std::slice::from_ref(ty), std::slice::from_ref(words)),
            target.lower(
                &UnpackBits { width: ty.last() },
                std::slice::from_ref(words),
                std::slice::from_ref(ty),
            ),
        ];
        lowerings
            .iter()
            .all(|lowering| matches!(lowering.kind, KernelKind::Rows { .. }))
    };
    let candidate = |i: usize| {
        let (value, ty) = (ValueId(i as u32), &graph.values[i].ty);
        if ty.dtype != DType::Bool || !forward.kept[i] || forward.source(value) || prices[i].is_some() {
            return None;
        }
        let words = PackBits::packed(ty)?;
        if words.bytes() + LEAST_SAVED > ty.bytes() || !runs(ty, &words) {
            return None;
        }
        Some(Packed {
            value,
            name: describe(graph, value).0,
            bytes: words.bytes(),
            freed: freed.get(&value).copied().unwrap_or(ty.bytes()),
        })
    };
    (0..graph.values.len()).filter_map(candidate).collect()
}

/// Moves predicates to the forward phase where the values that this frees, of at least `least` bytes each, take more
/// bytes than the bits and the values that backward could no longer recompute; with `even` also where they take as many
/// as the latter. None where there is no such predicate.
pub fn hoist(graph: &Graph, least: usize, even: bool) -> Option<Hoisted> {
    hoist_by(&Forward::new(graph), least, even)
}

/// Does the work of [`hoist`] with the facts about the forward phase given.
pub(crate) fn hoist_by(forward: &Forward<'_>, least: usize, even: bool) -> Option<Hoisted> {
    let graph = forward.graph;
    if !has_truth_values(graph) {
        return None;
    }
    let search = PredicateSearch::new(forward, least)?;
    let chosen = search.chosen(even);
    if chosen.is_empty() {
        return None;
    }
    let roots: BTreeSet<ValueId> = chosen
        .iter()
        .flat_map(|group| group.predicates.iter().copied())
        .collect();
    let mut freed: HashMap<ValueId, usize> = roots.iter().map(|&root| (root, 0)).collect();
    for group in &chosen {
        for &value in &group.values {
            let first = group.predicates.iter().find(|p| search.operands[p].contains(&value));
            *freed.entry(*first?).or_default() += graph.ty(value).bytes();
        }
    }
    let (new, places) = search.moved(&roots);
    let freed = freed.into_iter().map(|(old, bytes)| (places[&old], bytes)).collect();
    Some(Hoisted { graph: new, freed })
}

/// Values that are freed together when these predicates are computed in the forward phase.
#[derive(Clone, Default)]
struct PredicateGroup {
    values: BTreeSet<ValueId>,
    predicates: BTreeSet<ValueId>,
}

impl PredicateGroup {
    fn join(&mut self, other: PredicateGroup) {
        self.values.extend(other.values);
        self.predicates.extend(other.predicates);
    }
}

/// The predicates of a graph, and their operands.
struct PredicateSearch<'a> {
    graph: &'a Graph,
    /// Smaller values are not worth freeing.
    least: usize,
    forward: &'a Forward<'a>,
    prices: Vec<Option<f64>>,
    /// For each node whether it is after the forward phase and depends on forward values alone, element by element.
    derived: Vec<bool>,
    /// For each predicate, which is its own base, the forward values that it could free.
    operands: HashMap<ValueId, BTreeSet<ValueId>>,
    /// For each base the forward nodes that read it.
    readers: Vec<Vec<NodeId>>,
}

impl<'a> PredicateSearch<'a> {
    /// Finds the predicates; none where no predicate could free anything.
    fn new(forward: &'a Forward<'a>, least: usize) -> Option<PredicateSearch<'a>> {
        let graph = forward.graph;
        let derived = derived(forward);
        let is_truth = |node: &Node| node.outputs.iter().all(|&v| graph.ty(v).dtype == DType::Bool);
        let mut search = PredicateSearch {
            prices: forward.prices(false),
            forward,
            graph,
            least,
            operands: HashMap::new(),
            readers: vec![Vec::new(); graph.values.len()],
            derived,
        };
        let only = search.read_by_predicates_only();
        // Truth values with other readers than the computation of further truth values.
        let mut wanted = external(graph);
        for (i, node) in graph.nodes.iter().enumerate() {
            if node.phase != Phase::Forward && !(search.derived[i] && is_truth(node)) {
                node.inputs.iter().for_each(|v| wanted[v.index()] = true);
            }
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            if !search.derived[i] || node.inputs.is_empty() || !is_truth(node) {
                continue;
            }
            for &value in node.outputs.iter().filter(|v| wanted[v.index()]) {
                let base = search.forward.base(value);
                if search.is_after_forward(base) {
                    let operands = search.ancestors(base).1;
                    let freeable = operands
                        .into_iter()
                        .filter(|v| only[v.index()] && search.is_freeable(*v));
                    search.operands.insert(base, freeable.collect());
                }
            }
        }
        search.operands.retain(|_, operands| !operands.is_empty());
        if search.operands.is_empty() {
            return None;
        }
        for (i, node) in graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.phase == Phase::Forward)
        {
            for &input in &node.inputs {
                search.readers[search.forward.base(input).index()].push(NodeId(i as u32));
            }
        }
        Some(search)
    }

    fn is_after_forward(&self, value: ValueId) -> bool {
        self.forward
            .producer(value)
            .is_some_and(|node| node.phase != Phase::Forward)
    }

    /// Whether backward reads a base and cannot recompute it, and the base is large enough to be worth freeing.
    fn is_freeable(&self, base: ValueId) -> bool {
        let i = base.index();
        self.forward.kept[i]
            && !self.forward.source(base)
            && self.prices[i].is_none()
            && self.graph.ty(base).bytes() >= self.least
    }

    /// For each base whether backward reads it only to compute truth values, and it is no result.
    fn read_by_predicates_only(&self) -> Vec<bool> {
        let graph = self.graph;
        let external = external(graph);
        // Values after the forward phase that are not only read by predicates.
        let mut other = external.clone();
        let mut only = vec![true; graph.values.len()];
        for (i, node) in graph
            .nodes
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, node)| node.phase != Phase::Forward)
        {
            let truth = node.outputs.iter().all(|&v| graph.ty(v).dtype == DType::Bool);
            if self.derived[i] && (truth || node.outputs.iter().all(|v| !other[v.index()])) {
                continue;
            }
            for &input in &node.inputs {
                other[input.index()] = true;
                only[self.forward.base(input).index()] = false;
            }
        }
        for i in (0..only.len()).filter(|&i| external[i]) {
            only[self.forward.base(ValueId(i as u32)).index()] = false;
        }
        only
    }

    /// The nodes after the forward phase that a derived value depends on, in order, and the bases of forward values.
    fn ancestors(&self, value: ValueId) -> (BTreeSet<NodeId>, BTreeSet<ValueId>) {
        let (mut nodes, mut operands, mut pending) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
        while let Some(value) = pending.pop() {
            match self.graph.producer(value) {
                Some(id) if self.graph.nodes[id.index()].phase != Phase::Forward => {
                    if nodes.insert(id) {
                        pending.extend(&self.graph.nodes[id.index()].inputs);
                    }
                }
                _ => {
                    operands.insert(self.forward.base(value));
                }
            }
        }
        (nodes, operands)
    }

    /// Values that backward recomputes from these, and would have to keep without them.
    fn lost(&self, values: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
        let (mut lost, mut seen) = (BTreeSet::new(), HashSet::new());
        let mut pending: Vec<ValueId> = values.iter().copied().collect();
        while let Some(value) = pending.pop() {
            let readers = self.readers[value.index()]
                .iter()
                .map(|id| &self.graph.nodes[id.index()]);
            for output in readers.flat_map(|node| node.outputs.iter().copied()) {
                let recomputed = self.forward.base(output) == output && self.prices[output.index()].is_some();
                if recomputed && self.forward.kept[output.index()] {
                    lost.insert(output);
                } else if recomputed && seen.insert(output) {
                    pending.push(output);
                }
            }
        }
        lost
    }

    /// Whether the freed values take more bytes than the bits and the lost values; with `even`, at least as many as the
    /// lost values.
    fn pays(&self, group: &PredicateGroup, even: bool) -> bool {
        let bytes = |values: &BTreeSet<ValueId>| bytes::sum(values.iter().map(|&v| self.graph.ty(v).bytes()));
        let bits = bytes::sum(group.predicates.iter().map(|&v| packed_bytes(self.graph.ty(v))));
        let (freed, lost) = (bytes(&group.values), bytes(&self.lost(&group.values)));
        freed > bits.saturating_add(lost) || even && freed >= lost
    }

    /// The groups that pay: of values that share a predicate, or else of several such groups that lose the same values.
    fn chosen(&self, even: bool) -> Vec<PredicateGroup> {
        let single = self.operands.iter().map(|(&predicate, values)| PredicateGroup {
            values: values.clone(),
            predicates: BTreeSet::from([predicate]),
        });
        let candidates = joined(single.collect(), |group| group.values.clone());
        let (mut chosen, others): (Vec<PredicateGroup>, Vec<PredicateGroup>) =
            candidates.into_iter().partition(|group| self.pays(group, even));
        let groups = joined(others, |group| self.lost(&group.values));
        chosen.extend(groups.into_iter().filter(|group| self.pays(group, even)));
        chosen
    }

    /// The graph in which these predicates, and all nodes that they depend on, are in the forward phase, each as early
    /// as possible; and the new values of the predicates.
    fn moved(&self, roots: &BTreeSet<ValueId>) -> (Graph, HashMap<ValueId, ValueId>) {
        let mut moved_after: HashMap<Option<NodeId>, Vec<BTreeSet<NodeId>>> = HashMap::new();
        for &root in roots {
            let (nodes, operands) = self.ancestors(root);
            let last = operands.iter().filter_map(|&v| self.last_producer(v, &nodes)).max();
            moved_after.entry(last).or_default().push(nodes);
        }
        let mut rewriter = Rewriter::new(self.graph);
        let move_after = |rewriter: &mut Rewriter<'_>, at: Option<NodeId>| {
            for id in moved_after.get(&at).into_iter().flatten().flatten() {
                let node = &self.graph.nodes[id.index()];
                if !rewriter.has(node.outputs[0]) {
                    rewriter.copy_to(node, Phase::Forward);
                }
            }
        };
        move_after(&mut rewriter, None);
        for (i, node) in self.graph.nodes.iter().enumerate() {
            if !rewriter.has(node.outputs[0]) {
                rewriter.copy(node);
            }
            move_after(&mut rewriter, Some(NodeId(i as u32)));
        }
        let places = roots.iter().map(|&root| (root, rewriter.get(root))).collect();
        (rewriter.finish(), places)
    }

    /// The last forward node of a base that these nodes read: of the base itself or a view of it.
    fn last_producer(&self, base: ValueId, nodes: &BTreeSet<NodeId>) -> Option<NodeId> {
        let inputs = nodes.iter().flat_map(|id| &self.graph.nodes[id.index()].inputs);
        let read = inputs.filter(|&&v| self.forward.base(v) == base);
        let producers = read.filter_map(|&v| self.graph.producer(v));
        producers
            .filter(|id| self.graph.nodes[id.index()].phase == Phase::Forward)
            .max()
    }
}

/// For each node whether it is after the forward phase, depends on forward values alone, and works element by element.
fn derived(forward: &Forward<'_>) -> Vec<bool> {
    let graph = forward.graph;
    let mut derived = vec![false; graph.nodes.len()];
    for (i, node) in graph
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.phase != Phase::Forward)
    {
        let elementwise = || {
            let (inputs, outputs) = forward.types.of_node(i);
            graph.ask(node, inputs, outputs).row_wise() == RowWise::Elementwise || is_view(&forward.places, node)
        };
        let before = |v: &ValueId| match graph.producer(*v) {
            Some(id) => graph.nodes[id.index()].phase == Phase::Forward || derived[id.index()],
            None => true,
        };
        derived[i] = node.inputs.is_empty() || node.inputs.iter().all(before) && elementwise();
    }
    derived
}

/// For each value whether it is a result or assigned to a state.
fn external(graph: &Graph) -> Vec<bool> {
    let mut external = vec![false; graph.values.len()];
    let results = graph.outputs.iter().map(|o| o.value);
    results
        .chain(graph.assigns.iter().map(|a| a.value))
        .for_each(|v| external[v.index()] = true);
    external
}

/// Joins groups whose keys have a value in common, in the order of their first values.
fn joined(candidates: Vec<PredicateGroup>, keys: impl Fn(&PredicateGroup) -> BTreeSet<ValueId>) -> Vec<PredicateGroup> {
    let mut groups: Vec<Option<(PredicateGroup, BTreeSet<ValueId>)>> = Vec::new();
    let mut group_of: HashMap<ValueId, usize> = HashMap::new();
    let mut ordered = candidates;
    ordered.sort_by_key(|group| group.values.first().copied());
    for mut group in ordered {
        let mut keys = keys(&group);
        let others: BTreeSet<usize> = keys.iter().filter_map(|key| group_of.get(key).copied()).collect();
        for (other, other_keys) in others.into_iter().filter_map(|i| groups[i].take()) {
            group.join(other);
            keys.extend(other_keys);
        }
        group_of.extend(keys.iter().map(|&key| (key, groups.len())));
        groups.push(Some((group, keys)));
    }
    groups.into_iter().flatten().map(|(group, _)| group).collect()
}
