//! Graphs of which every way is planned: those with few values to choose from, of which every set that could be
//! recomputed is a way, and so is every choice of the composition by blocks, which may recompute a value once for each
//! block; and those that cannot be cut into blocks, with nested sets.
//!
//! The estimated time is that of the plan itself, so that no way that fits a budget is faster than the one that is
//! taken, and the floor is the least of all.

use lessen_graph::Phase;

use super::compose::Composed;
use super::layers::{Layers, Selection, report};
use super::search::WORTH;
use crate::choices::Choices;
use crate::passes::remat::{Forward, SMALLEST};
use crate::passes::{Packed, Recomputation, Recompute, narrow};
use crate::plan::Plan;
use crate::target::{KernelKind, Target};

/// The most values of which every set is planned.
const MOST_VALUES: usize = 8;

/// The most nodes of all graphs that are planned, for every set anew: some 40 ms.
const MOST_NODES: usize = 24_000;

/// The least and the most nested sets of a graph with many values.
const NESTED: [usize; 2] = [4, 64];

/// All ways of a graph.
pub(crate) struct Family<'a> {
    /// The sets of values that are recomputed.
    sets: Vec<Vec<Recompute>>,
    layers: Option<&'a Layers>,
    composed: Vec<Composed>,
    /// Nodes of the graph.
    nodes: usize,
}

/// What is known of a plan that was tried.
struct Figures {
    graph: usize,
    /// The position among the ways of the graph.
    at: usize,
    seconds: f64,
    bytes: usize,
}

impl<'a> Family<'a> {
    /// Every set of the values of a graph, of which backward keeps some as bits; none where there are too many values.
    pub fn of_subsets(
        forward: &Forward<'_>,
        bits: &[Packed],
        layers: Option<&'a Layers>,
        target: &dyn Target,
    ) -> Option<Family<'a>> {
        let graph = forward.graph;
        let (mut values, mut always) = (Vec::new(), Vec::new());
        let runs = graph.nodes.iter().filter(|node| node.phase == Phase::Forward);
        for node in runs.filter(|node| !node.inputs.is_empty()) {
            let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
            let is_slow = target.kernel(node.op.as_ref(), &inputs, &outputs) == KernelKind::Reference;
            for &value in &node.outputs {
                let packed = bits.iter().find(|packed| packed.value == value);
                let bytes = packed.map_or(graph.ty(value).bytes(), |packed| packed.bytes);
                if !forward.kept[value.index()] || forward.base(value) != value || bytes < SMALLEST {
                    continue;
                }
                if narrow::widened_from(graph, value).is_some() {
                    // Backward has it as `bf16`.
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
        Some(Family {
            sets: (0..1 << values.len()).map(set).collect(),
            composed: layers.map_or(Vec::new(), Layers::all),
            layers,
            nodes: graph.nodes.len(),
        })
    }

    /// Nested sets of a graph, of which backward keeps some values as bits.
    pub fn of_nested(forward: &Forward<'_>, bits: &[Packed]) -> Family<'a> {
        let [least, most] = NESTED;
        let nodes = forward.graph.nodes.len();
        Family {
            sets: Choices::of(forward, bits).sets((MOST_NODES / nodes.max(1)).clamp(least, most)),
            layers: None,
            composed: Vec::new(),
            nodes,
        }
    }

    /// The number of ways.
    fn count(&self) -> usize {
        self.sets.len() + self.composed.len()
    }

    /// The way of a position.
    fn selection(&self, at: usize) -> Selection<'a> {
        if let (Some(layers), Some(at)) = (self.layers, at.checked_sub(self.sets.len())) {
            return layers.selection(&self.composed[at].choices);
        }
        let recomputed = self.sets[at].clone();
        Selection {
            what: Recomputation {
                values: recomputed.iter().map(|choice| choice.value).collect(),
                ..Recomputation::default()
            },
            recomputed,
            inverted: Vec::new(),
            rounded: Default::default(),
        }
    }
}

/// Whether planning graphs in all ways takes milliseconds.
pub(crate) fn are_few(graphs: &[Family<'_>]) -> bool {
    let nodes = graphs.iter().map(|family| family.count() * family.nodes);
    nodes.sum::<usize>() <= MOST_NODES
}

/// The fastest plan within the budget, of graphs that compute the same; without a budget, which `usize::MAX` stands
/// for, that of the fewest bytes of those that take hardly longer than the fastest one. `try_out` makes a plan of the
/// graph with this position.
///
/// # Errors
/// The least bytes of all plans, where none fits.
pub(crate) fn within(
    graphs: &[Family<'_>],
    budget: usize,
    try_out: impl Fn(usize, Selection<'_>) -> Plan,
) -> Result<Plan, usize> {
    if let [family] = graphs
        && family.count() == 1
    {
        let plan = try_out(0, family.selection(0));
        let bytes = plan.peak_bytes();
        return if bytes <= budget { Ok(plan) } else { Err(bytes) };
    }
    let mut tried = Vec::new();
    for (graph, family) in graphs.iter().enumerate() {
        tried.extend((0..family.count()).map(|at| {
            let plan = try_out(graph, family.selection(at));
            Figures {
                graph,
                at,
                seconds: plan.seconds,
                bytes: plan.peak_bytes(),
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
