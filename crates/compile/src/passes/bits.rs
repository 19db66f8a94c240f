//! Bits: what backward reads of a forward value only through truth values is kept as one bit for each element.
//!
//! The derivative of HeLU asks of its input whether it is above `-alpha`, that of a maximum over some axes whether an
//! element attains it. Such a predicate of forward values is computed in the forward phase where that frees more than
//! its bits take; see [`hoist`]. [`recompute`](super::recompute) then keeps truth values as [`PackBits`] instead of
//! bytes.
//!
//! A value that is kept for another reader stays as it is, and so does one that backward recomputes without a matrix
//! product, or that others are recomputed from: freeing it would free nothing.

use std::collections::{BTreeSet, HashMap, HashSet};

use lessen_graph::ops::{PackBits, UnpackBits};
use lessen_graph::{DType, Graph, Node, NodeId, Phase, RowWise, Type, ValueId};

use super::remat::Forward;
use crate::place::is_view;
use crate::report::describe;
use crate::target::{KernelKind, Target};
use lessen_rewrite::Rewriter;

/// The least bytes that keeping bits instead of truth values has to save.
const LEAST_SAVED: usize = 2 << 10;

/// A forward value of which backward has one bit for each element.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The truth values, in the graph before recomputation.
    pub value: ValueId,
    /// Their scope in the model and the operation that they are from, such as `h.0.mlp compare`.
    pub name: String,
    /// Bytes that are kept.
    pub bytes: usize,
    /// Bytes of the values that would be kept otherwise: of the truth values, or of what they are computed from; 0
    /// where another one that is kept as bits frees these.
    pub freed: usize,
}

/// A graph in which predicates are computed in the forward phase, and for each of them how many bytes of other values
/// that frees.
pub struct Hoisted {
    /// The graph.
    pub graph: Graph,
    /// The bytes by predicate.
    pub freed: HashMap<ValueId, usize>,
}

/// Bytes of truth values of a type as bits; those of the bytes where bits are no fewer.
fn packed_bytes(ty: &Type) -> usize {
    PackBits::packed(ty).map_or(ty.bytes(), |words| words.bytes().min(ty.bytes()))
}

/// The truth values that backward reads and cannot recompute without matrix products, as bits, if the device can pack
/// them; `freed` says where they stand for other values.
pub(crate) fn packable(graph: &Graph, freed: &HashMap<ValueId, usize>, target: &dyn Target) -> Vec<Packed> {
    let forward = Forward::new(graph);
    let prices = forward.prices(false);
    let runs = |ty: &Type, words: &Type| {
        let kinds = [
            target.kernel(&PackBits, std::slice::from_ref(ty), std::slice::from_ref(words)),
            target.kernel(
                &UnpackBits { width: ty.last() },
                std::slice::from_ref(words),
                std::slice::from_ref(ty),
            ),
        ];
        kinds.iter().all(|kind| matches!(kind, KernelKind::Rows { .. }))
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

/// Computes predicates in the forward phase where the values that this frees, of at least `least` bytes each, are
/// larger than the bits and what backward could not recompute without them; with `even` also where they are as large as
/// the latter. None where there is no such predicate.
pub fn hoist(graph: &Graph, least: usize, even: bool) -> Option<Hoisted> {
    let search = Search::new(graph, least)?;
    let chosen = search.chosen(even);
    if chosen.is_empty() {
        return None;
    }
    let roots: BTreeSet<ValueId> = chosen.iter().flat_map(|unit| unit.predicates.iter().copied()).collect();
    let mut freed: HashMap<ValueId, usize> = roots.iter().map(|&root| (root, 0)).collect();
    for unit in &chosen {
        for &value in &unit.values {
            let first = unit.predicates.iter().find(|p| search.operands[p].contains(&value));
            *freed.entry(*first?).or_default() += graph.ty(value).bytes();
        }
    }
    let (new, places) = search.moved(&roots);
    let freed = freed.into_iter().map(|(old, bytes)| (places[&old], bytes)).collect();
    Some(Hoisted { graph: new, freed })
}

/// Values that are freed together when these predicates are computed in the forward phase.
#[derive(Clone, Default)]
struct Unit {
    values: BTreeSet<ValueId>,
    predicates: BTreeSet<ValueId>,
}

impl Unit {
    fn join(&mut self, other: Unit) {
        self.values.extend(other.values);
        self.predicates.extend(other.predicates);
    }
}

/// The predicates of a graph and what they read.
struct Search<'a> {
    graph: &'a Graph,
    /// The least bytes of a value that is worth freeing.
    least: usize,
    forward: Forward<'a>,
    prices: Vec<Option<f64>>,
    /// Whether a node behind the forward phase depends on forward values alone, element by element.
    derived: Vec<bool>,
    /// For each predicate, which is its own base, the forward values that it could free.
    operands: HashMap<ValueId, BTreeSet<ValueId>>,
    /// The forward nodes that read a base.
    readers: Vec<Vec<NodeId>>,
}

impl<'a> Search<'a> {
    /// None where no predicate could free anything.
    fn new(graph: &'a Graph, least: usize) -> Option<Search<'a>> {
        let forward = Forward::new(graph);
        let derived = derived(&forward);
        let is_truth = |node: &Node| node.outputs.iter().all(|&v| graph.ty(v).dtype == DType::Bool);
        let mut search = Search {
            prices: forward.prices(false),
            forward,
            graph,
            least,
            operands: HashMap::new(),
            readers: vec![Vec::new(); graph.values.len()],
            derived,
        };
        let only = search.read_by_predicates_only();
        // Truth values that are read by more than the making of other truth values.
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
                if search.is_behind(base) {
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

    fn is_behind(&self, value: ValueId) -> bool {
        self.forward
            .producer(value)
            .is_some_and(|node| node.phase != Phase::Forward)
    }

    /// Whether backward reads a base, has no other way to have it, and it is worth freeing.
    fn is_freeable(&self, base: ValueId) -> bool {
        let i = base.index();
        self.forward.kept[i]
            && !self.forward.source(base)
            && self.prices[i].is_none()
            && self.graph.ty(base).bytes() >= self.least
    }

    /// For each base, whether backward reads it only to make truth values of it, and it is no result.
    fn read_by_predicates_only(&self) -> Vec<bool> {
        let graph = self.graph;
        let external = external(graph);
        // Values behind the forward phase that something else than a predicate reads.
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

    /// The nodes behind the forward phase that a derived value depends on, in order, and the bases of forward values.
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

    /// Values that backward recomputes, and would have to keep if these were not there.
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

    /// Whether what is freed takes more bytes than the bits and what is lost; with `even`, no fewer than what is lost.
    fn pays(&self, unit: &Unit, even: bool) -> bool {
        let bytes = |values: &BTreeSet<ValueId>| values.iter().map(|&v| self.graph.ty(v).bytes()).sum::<usize>();
        let bits: usize = unit.predicates.iter().map(|&v| packed_bytes(self.graph.ty(v))).sum();
        let (freed, lost) = (bytes(&unit.values), bytes(&self.lost(&unit.values)));
        freed > bits + lost || even && freed >= lost
    }

    /// The units that pay: values that share a predicate, or else several such units that lose the same values.
    fn chosen(&self, even: bool) -> Vec<Unit> {
        let single = self.operands.iter().map(|(&predicate, values)| Unit {
            values: values.clone(),
            predicates: BTreeSet::from([predicate]),
        });
        let units = joined(single.collect(), |unit| unit.values.clone());
        let (mut chosen, others): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| self.pays(unit, even));
        let groups = joined(others, |unit| self.lost(&unit.values));
        chosen.extend(groups.into_iter().filter(|unit| self.pays(unit, even)));
        chosen
    }

    /// The graph with these predicates, and all that they depend on, in the forward phase, each as early as it can be;
    /// and what they are there.
    fn moved(&self, roots: &BTreeSet<ValueId>) -> (Graph, HashMap<ValueId, ValueId>) {
        let mut behind: HashMap<Option<NodeId>, Vec<BTreeSet<NodeId>>> = HashMap::new();
        for &root in roots {
            let (nodes, operands) = self.ancestors(root);
            let last = operands.iter().filter_map(|&v| self.last_producer(v, &nodes)).max();
            behind.entry(last).or_default().push(nodes);
        }
        let mut rewriter = Rewriter::new(self.graph);
        let move_behind = |rewriter: &mut Rewriter<'_>, at: Option<NodeId>| {
            for id in behind.get(&at).into_iter().flatten().flatten() {
                let node = &self.graph.nodes[id.index()];
                if !rewriter.has(node.outputs[0]) {
                    rewriter.copy_to(node, Phase::Forward);
                }
            }
        };
        move_behind(&mut rewriter, None);
        for (i, node) in self.graph.nodes.iter().enumerate() {
            if !rewriter.has(node.outputs[0]) {
                rewriter.copy(node);
            }
            move_behind(&mut rewriter, Some(NodeId(i as u32)));
        }
        let places = roots.iter().map(|&root| (root, rewriter.get(root))).collect();
        (rewriter.finish(), places)
    }

    /// The last of the forward nodes of a base that these nodes read: of the base itself or a view of it.
    fn last_producer(&self, base: ValueId, nodes: &BTreeSet<NodeId>) -> Option<NodeId> {
        let inputs = nodes.iter().flat_map(|id| &self.graph.nodes[id.index()].inputs);
        let read = inputs.filter(|&&v| self.forward.base(v) == base);
        let producers = read.filter_map(|&v| self.graph.producer(v));
        producers
            .filter(|id| self.graph.nodes[id.index()].phase == Phase::Forward)
            .max()
    }
}

/// For each node, whether it is behind the forward phase, depends on no other values than forward ones, and works
/// element by element.
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
            node.op.row_wise(inputs, outputs) == RowWise::Elementwise || is_view(&forward.places, node)
        };
        let before = |v: &ValueId| match graph.producer(*v) {
            Some(id) => graph.nodes[id.index()].phase == Phase::Forward || derived[id.index()],
            None => true,
        };
        derived[i] = node.inputs.is_empty() || node.inputs.iter().all(before) && elementwise();
    }
    derived
}

/// For each value, whether it is a result or assigned to a state.
fn external(graph: &Graph) -> Vec<bool> {
    let mut external = vec![false; graph.values.len()];
    let results = graph.outputs.iter().map(|o| o.value);
    results
        .chain(graph.assigns.iter().map(|a| a.value))
        .for_each(|v| external[v.index()] = true);
    external
}

/// Joins units whose keys have a value in common, in the order of their first values.
fn joined(units: Vec<Unit>, keys: impl Fn(&Unit) -> BTreeSet<ValueId>) -> Vec<Unit> {
    let mut groups: Vec<Option<(Unit, BTreeSet<ValueId>)>> = Vec::new();
    let mut group_of: HashMap<ValueId, usize> = HashMap::new();
    let mut ordered = units;
    ordered.sort_by_key(|unit| unit.values.first().copied());
    for mut unit in ordered {
        let mut keys = keys(&unit);
        let others: BTreeSet<usize> = keys.iter().filter_map(|key| group_of.get(key).copied()).collect();
        for (other, other_keys) in others.into_iter().filter_map(|i| groups[i].take()) {
            unit.join(other);
            keys.extend(other_keys);
        }
        group_of.extend(keys.iter().map(|&key| (key, groups.len())));
        groups.push(Some((unit, keys)));
    }
    groups.into_iter().flatten().map(|(unit, _)| unit).collect()
}
