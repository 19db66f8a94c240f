//! Graphs that are planned in every way. For a graph with few candidate values each subset of the candidates is tried,
//! and each choice of the composition by blocks (which may recompute a value once for each block). For a graph without
//! blocks nested sets are tried.
//!
//! The estimated time of a way is the time of its plan, so no way within a budget is faster than the chosen way, and
//! the floor is the least peak of all ways.

use std::collections::HashMap;

use lessen_graph::{Phase, ValueId};

use super::blocked_graph::{BlockedGraph, Selection, report};
use super::compose::Composed;
use super::search::WORTH;
use crate::nested_sets::NestedSets;
use crate::passes::remat::{Forward, SMALLEST};
use crate::passes::{Packed, Recomputation, Recompute, narrow};
use crate::plan::Plan;
use crate::target::{KernelKind, Target};

/// Graphs with more candidates are not planned in every way.
const MOST_VALUES: usize = 8;

/// The most nodes of all planned graphs together: some 40 ms.
const MOST_NODES: usize = 24_000;

/// The least and the most nested sets that are tried for a graph with many values.
const NESTED: [usize; 2] = [4, 64];

/// All ways of a graph that are tried.
pub(crate) struct Alternatives<'a> {
    /// Sets of recomputed values.
    sets: Vec<Vec<Recompute>>,
    blocked: Option<&'a BlockedGraph>,
    composed: Vec<Composed>,
    /// Number of nodes of the graph.
    nodes: usize,
}

/// The figures of a plan that was tried.
struct Figures {
    graph: usize,
    /// The position among the ways of the graph.
    at: usize,
    seconds: f64,
    bytes: usize,
}

impl<'a> Alternatives<'a> {
    /// Every subset of a graph's candidates, and every choice of the composition; none where there are too many
    /// candidates. `bits` are values that backward reads as bits.
    pub fn of_subsets(
        forward: &Forward<'_>,
        bits: &[Packed],
        blocked: Option<&'a BlockedGraph>,
        target: &dyn Target,
    ) -> Option<Alternatives<'a>> {
        let graph = forward.graph;
        let (mut values, mut always) = (Vec::new(), Vec::new());
        let bits: HashMap<ValueId, usize> = bits.iter().map(|packed| (packed.value, packed.bytes)).collect();
        let runs = graph.nodes.iter().filter(|node| node.phase == Phase::Forward);
        for node in runs.filter(|node| !node.inputs.is_empty()) {
            let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
            let is_slow = target.lower(node.op.as_ref(), &inputs, &outputs).kind == KernelKind::Reference;
            for &value in &node.outputs {
                let bytes = bits.get(&value).copied().unwrap_or(graph.ty(value).bytes());
                if !forward.kept[value.index()] || forward.base(value) != value || bytes < SMALLEST {
                    continue;
                }
                if narrow::widened_from(graph, value).is_some() {
                    // Backward reads the value as `bf16` and widens it itself.
                    always.push(report(graph, value));
                } else if !is_slow {
                    values.push(report(graph, value));
                }
            }
        }
        if values.len() > MOST_VALUES {
            return None;
        }
        let set = |at: usize| {
            let chosen = values.iter().enumerate().filter(|(i, _)| at >> i & 1 == 1);
            let chosen = chosen.map(|(_, value)| value);
            always.iter().chain(chosen).cloned().collect()
        };
        Some(Alternatives {
            sets: (0..1 << values.len()).map(set).collect(),
            composed: blocked.map_or(Vec::new(), BlockedGraph::all),
            blocked,
            nodes: graph.nodes.len(),
        })
    }

    /// Nested sets of a graph's candidates. `bits` are values that backward reads as bits.
    pub fn of_nested(forward: &Forward<'_>, bits: &[Packed]) -> Alternatives<'a> {
        let [least, most] = NESTED;
        let nodes = forward.graph.nodes.len();
        Alternatives {
            sets: NestedSets::of(forward, bits).sets((MOST_NODES / nodes.max(1)).clamp(least, most)),
            blocked: None,
            composed: Vec::new(),
            nodes,
        }
    }

    /// The number of ways.
    fn count(&self) -> usize {
        self.sets.len() + self.composed.len()
    }

    /// The way at a position.
    fn selection(&self, at: usize) -> Selection<'a> {
        if let (Some(blocked), Some(at)) = (self.blocked, at.checked_sub(self.sets.len())) {
            return blocked.selection(&self.composed[at].choices);
        }
        let recomputed = self.sets[at].clone();
        Selection {
            recomputation: Recomputation {
                values: recomputed.iter().map(|choice| choice.value).collect(),
                ..Recomputation::default()
            },
            recomputed,
            inverted: Vec::new(),
            rounded: Default::default(),
        }
    }
}

/// Whether all ways of the graphs `graphs` are planned within milliseconds.
pub(crate) fn are_few(graphs: &[Alternatives<'_>]) -> bool {
    let nodes = graphs
        .iter()
        .map(|alternatives| alternatives.count() * alternatives.nodes);
    nodes.sum::<usize>() <= MOST_NODES
}

/// The fastest plan within the budget, of graphs that compute the same. Without a budget (`usize::MAX`) it is the plan
/// of the fewest bytes among the plans that are hardly slower than the fastest plan. `try_out` plans the graph at a
/// position in a way.
///
/// # Errors
/// The least bytes of all plans, where none fits.
pub(crate) fn within(
    graphs: &[Alternatives<'_>],
    budget: usize,
    try_out: impl Fn(usize, Selection<'_>) -> Plan,
) -> Result<Plan, usize> {
    if let [alternatives] = graphs
        && alternatives.count() == 1
    {
        let plan = try_out(0, alternatives.selection(0));
        let bytes = plan.working_bytes();
        return if bytes <= budget { Ok(plan) } else { Err(bytes) };
    }
    let mut tried = Vec::new();
    for (graph, alternatives) in graphs.iter().enumerate() {
        tried.extend((0..alternatives.count()).map(|at| {
            let plan = try_out(graph, alternatives.selection(at));
            Figures {
                graph,
                at,
                seconds: plan.seconds,
                bytes: plan.working_bytes(),
            }
        }));
    }
    let fastest = tried.iter().map(|plan| plan.seconds).fold(f64::INFINITY, f64::min);
    let most = WORTH * fastest;
    let is_worth = |plan: &Figures| budget == usize::MAX && plan.seconds <= most;
    let late = |plan: &Figures| if is_worth(plan) { 0.0 } else { plan.seconds };
    let fitting = tried.iter().filter(|plan| plan.bytes <= budget);
    let best = fitting.min_by(|a, b| late(a).total_cmp(&late(b)).then(a.bytes.cmp(&b.bytes)));
    match best {
        Some(best) => Ok(try_out(best.graph, graphs[best.graph].selection(best.at))),
        None => Err(tried.iter().map(|plan| plan.bytes).min().unwrap_or(usize::MAX)),
    }
}
