//! Cuts: decides which nodes of a stage run in slices.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use lessen_graph::{Graph, Node, NodeId, OnSlices, Op, Type, ValueId};

use super::roles::Roles;
use crate::passes::remat::SMALLEST;
use crate::place::{Place, places};
use crate::target::{KernelKind, RowGroup, Target};

/// The most slices of a stage.
const MOST: usize = 8;

/// How a node of a stage runs.
pub(super) enum Execution {
    /// Runs in slices: for each slice the operation that computes this slice of the results, and the slice's terms of
    /// sums over rows.
    BySlices(Vec<Arc<dyn Op>>, Roles),
    /// Runs as a sum over rows: the operation adds the rows of a slice to the sum so far.
    Accumulated(Arc<dyn Op>),
    /// Runs as a whole.
    Whole,
}

impl Execution {
    /// 0 for a node of a sliced level, which is even; 1 for a node between sliced levels.
    pub fn parity(&self) -> i32 {
        i32::from(matches!(self, Execution::Whole))
    }
}

/// A stage that runs in slices.
pub(super) struct Cut {
    pub slices: usize,
    /// The levels in the order in which they run: the nodes of each, and whether it is sliced.
    pub levels: Vec<(Vec<NodeId>, bool)>,
    pub executions: HashMap<NodeId, Execution>,
}

impl Cut {
    /// The nodes of the stage.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.levels.iter().flat_map(|level| level.0.iter().copied())
    }
}

/// The rows of a stage, and the number of slices that they are cut into.
#[derive(Clone, Copy)]
pub(super) struct Division {
    rows: usize,
    slices: usize,
}

impl Division {
    /// The division of a stage by its longest sum over rows; none where no sum can be accumulated slice by slice.
    pub fn of(graph: &Graph, nodes: &[NodeId], target: &dyn Target) -> Option<Division> {
        let sums = nodes.iter().map(|id| &graph.nodes[id.index()]);
        let rows = sums.filter_map(|node| rows_added(graph, node, target)).max()?;
        let slices = slices(rows, target)?;
        Some(Division { rows, slices })
    }
}

/// The rows of a sum that can be accumulated slice by slice; none for another node.
fn rows_added(graph: &Graph, node: &Node, target: &dyn Target) -> Option<usize> {
    let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
    graph.ask(node, &inputs, &outputs).accumulating()?;
    let adds = target.lower(node.op.as_ref(), &inputs, &outputs).adds_slices;
    adds.then(|| inputs[0].shape[0])
}

/// Number of slices of a stage of `rows` rows: the largest number with which sums over rows and products have the same
/// bits as without slices.
fn slices(rows: usize, target: &dyn Target) -> Option<usize> {
    let own = target.limits().slice_rows;
    let tile = |rows: usize| {
        let group = RowGroup {
            rows,
            row_bytes: 1,
            tiled: true,
            sum: 1,
        };
        target.blocks(&group).tile
    };
    let all = tile(rows);
    let is_even = |slices: &usize| {
        let slice = rows / slices;
        rows.is_multiple_of(*slices) && slice.is_multiple_of(own) && tile(slice) == all && own.is_multiple_of(all)
    };
    (2..=MOST).rev().find(is_even)
}

/// A graph whose stages are cut into slices.
pub(super) struct Slicing<'a> {
    pub graph: &'a Graph,
    places: Vec<Place>,
    /// For each base the values that lie in its array.
    of_base: Vec<Vec<ValueId>>,
    pub readers: Vec<Vec<NodeId>>,
    /// Values that are outputs or assigned.
    pub results: BTreeSet<ValueId>,
    target: &'a dyn Target,
}

/// Type of one of `slices` slices of a value; none where its first axis cannot be divided.
fn sliced(ty: &Type, slices: usize) -> Option<Type> {
    let first = ty.shape.first().filter(|first| first.is_multiple_of(slices))?;
    let mut shape = ty.shape.clone();
    shape[0] = first / slices;
    Some(Type::new(ty.dtype, &shape))
}

impl<'a> Slicing<'a> {
    pub fn new(graph: &'a Graph, target: &'a dyn Target) -> Slicing<'a> {
        let outputs = graph.outputs.iter().map(|output| output.value);
        let assigned = graph.assigns.iter().map(|assign| assign.value);
        let places = places(graph);
        let mut of_base = vec![Vec::new(); places.len()];
        for (i, place) in places.iter().enumerate() {
            of_base[place.base.index()].push(ValueId(i as u32));
        }
        Slicing {
            graph,
            places,
            of_base,
            readers: graph.readers(),
            results: outputs.chain(assigned).collect(),
            target,
        }
    }

    /// Whether a value is a view.
    pub fn is_view(&self, value: ValueId) -> bool {
        self.places[value.index()].base != value
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.index()]
    }

    /// Cuts a stage into slices, where that saves memory.
    pub fn cut(&self, nodes: &[NodeId], division: Division) -> Option<Cut> {
        let slices = division.slices;
        let executions: HashMap<NodeId, Execution> = nodes.iter().map(|&id| (id, self.kind(id, division))).collect();
        let level_of = self.levels(nodes, &executions);
        if !self.are_in_order(nodes, &executions, &level_of) {
            return None;
        }
        let mut by_level: BTreeMap<i32, Vec<NodeId>> = BTreeMap::new();
        for &id in nodes {
            by_level.entry(-level_of[&id]).or_default().push(id);
        }
        let is_worth = |own: &[NodeId]| {
            let adding = own
                .iter()
                .filter(|id| matches!(executions[id], Execution::Accumulated(_)));
            let mut factors = adding.flat_map(|id| &self.node(*id).inputs);
            factors.any(|&v| self.is_within(v, own))
        };
        let levels: Vec<(Vec<NodeId>, bool)> = (by_level.into_iter())
            .map(|(level, own)| {
                let is_sliced = level % 2 == 0 && is_worth(&own);
                (own, is_sliced)
            })
            .collect();
        levels.iter().any(|level| level.1).then_some(Cut {
            slices,
            levels,
            executions,
        })
    }

    fn kind(&self, id: NodeId, division: Division) -> Execution {
        let node = self.node(id);
        if rows_added(self.graph, node, self.target) == Some(division.rows) {
            let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
            let op = self.graph.ask(node, &inputs, &outputs).accumulating();
            return Execution::Accumulated(op.expect("it has rows to add"));
        }
        match self.on_slices(node, division) {
            Some((ops, roles)) => Execution::BySlices(ops, roles),
            None => Execution::Whole,
        }
    }

    /// The operations of a row-wise node on slices, and its roles.
    fn on_slices(&self, node: &Node, division: Division) -> Option<(Vec<Arc<dyn Op>>, Roles)> {
        let Division { rows, slices } = division;
        let (inputs, outputs) = (self.graph.input_types(node), self.graph.output_types(node));
        let asked = self.graph.ask(node, &inputs, &outputs);
        if asked.index_input().is_some() || inputs.is_empty() {
            return None;
        }
        let on_slice = |number: usize| match asked.on_slices((number, slices)) {
            OnSlices::No => None,
            OnSlices::Same => Some(node.op.clone()),
            OnSlices::By(op) | OnSlices::Roles(op, ..) => Some(op),
        };
        let ops: Vec<Arc<dyn Op>> = (0..slices).map(on_slice).collect::<Option<_>>()?;
        let op = &ops[0];
        let roles = Roles::of(self.graph, node, slices)?;
        let by_rows = |ty: &Type| {
            let first = *ty.shape.first().filter(|first| **first > 0)?;
            let has_rows = rows.is_multiple_of(first) && ty.numel().is_multiple_of(rows);
            sliced(ty, slices).filter(|_| has_rows && roles.rows.is_none_or(|own| own == rows))
        };
        let parts = |types: &[Type], is_whole: &[bool]| -> Option<Vec<Type>> {
            let part = |(ty, is_whole): (&Type, &bool)| if *is_whole { Some(ty.clone()) } else { by_rows(ty) };
            types.iter().zip(is_whole).map(part).collect()
        };
        let (part_inputs, part_outputs) = (parts(&inputs, &roles.whole)?, parts(&outputs, &roles.sums)?);
        let makes_parts = |op: &Arc<dyn Op>| op.infer_checked(&part_inputs).is_ok_and(|types| types == part_outputs);
        let is_same = ops.iter().all(makes_parts);
        let is_slow = self.target.lower(op.as_ref(), &part_inputs, &part_outputs).kind == KernelKind::Reference;
        let cut = |op: &dyn Op, inputs: &[Type], outputs: &[Type]| self.target.lower(op, inputs, outputs).cut;
        let is_cut_alike = || cut(op.as_ref(), &part_inputs, &part_outputs) == cut(node.op.as_ref(), &inputs, &outputs);
        (is_same && !is_slow && is_cut_alike()).then_some((ops, roles))
    }

    /// Whether a large value is computed by these nodes and read by no others.
    fn is_within(&self, value: ValueId, own: &[NodeId]) -> bool {
        let is_own = |id: &NodeId| own.binary_search(id).is_ok();
        let base = self.places[value.index()].base;
        self.graph.producer(base).is_some_and(|id| is_own(&id))
            && self.graph.ty(base).bytes() >= SMALLEST
            && self.of_base[base.index()]
                .iter()
                .all(|v| !self.results.contains(v) && self.readers[v.index()].iter().all(is_own))
    }
}
