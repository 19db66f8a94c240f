//! Ways: which values a block keeps and recomputes, and what that costs by a plan of the block's sample.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use lessen_graph::{Graph, NodeId, Phase, RowWise, ValueId};

use super::other_blocks::{OtherBlocks, other_blocks};
use super::sample::Sample;
use crate::bytes::MOST_BYTES;
use crate::offsets::aligned;
use crate::options::Options;
use crate::passes::remat::Forward;
use crate::passes::{self, Recomputation, StorageFormat};
use crate::plan::Plan;
use crate::plan_graph::plan_graph;
use crate::planned::PlannedStep;
use crate::target::Target;
use crate::usage::StepUsage;

/// Number of the largest candidates that are tried in every combination. Row-wise candidates beside them are
/// recomputed, except in the ways that recompute nothing or everything.
const TRIED: usize = 5;

/// A difference of at most this fraction of a block's peak (1/200) counts as none.
const NEGLIGIBLE: usize = 200;

/// One way in which backward gets the values of a block.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Positions of the recomputed candidates.
    pub recomputed: Vec<usize>,
    /// Storage format of kept values and of new entry values; none means exact.
    pub format: Option<StorageFormat>,
    /// Whether the stage runs in slices.
    pub is_sliced: bool,
    /// Bytes kept from the block's forward part to its stage.
    pub kept: usize,
    /// Peak bytes of the forward part, kept values and entries included.
    pub forward: usize,
    /// Peak bytes of the stage, kept values and entries included.
    pub backward: usize,
    /// Seconds of the forward part and of the stage.
    pub seconds: f64,
}

impl Way {
    /// Whether the other way is in no figure better by more than a few bytes.
    fn is_no_worse(&self, other: &Way) -> bool {
        let few = other.backward / NEGLIGIBLE;
        self.kept <= other.kept + few
            && self.forward <= other.forward + few
            && self.backward <= other.backward + few
            && self.seconds <= other.seconds
    }
}

/// The ways of a sample.
pub(super) struct Ways {
    /// The Pareto-optimal ways, fastest first.
    pub best: Vec<Way>,
    /// The exact way that recomputes nothing.
    pub none: Way,
    /// The exact way that recomputes all candidates.
    pub all: Way,
    /// The way `all`, with its stage in slices where slices lower the peak.
    pub smallest: Way,
    /// Seconds of the forward part.
    pub forward_seconds: f64,
}

impl Ways {
    pub fn of(sample: &Sample, options: &Options, target: &dyn Target) -> Ways {
        let plans = SamplePlans {
            sample,
            forward: Forward::new(&sample.graph),
            options,
            target,
        };
        let sets = sets(sample);
        let mut forward_seconds = f64::INFINITY;
        let mut ways: Vec<Planned> = Vec::new();
        for recomputed in &sets {
            let (planned, forward) = plans.way(recomputed, None);
            forward_seconds = forward_seconds.min(forward);
            ways.push(planned);
        }
        let none = ways.iter().find(|planned| planned.way.recomputed.is_empty());
        let none = none.expect("the set of none is tried").way.clone();
        let last = ways.last().expect("the set of all is the last");
        let all = last.way.clone();
        let smaller = plans.in_slices(last).filter(|sliced| sliced.backward < all.backward);
        for format in StorageFormat::ALL
            .into_iter()
            .filter(|format| format.error() <= options.allowed_error)
        {
            ways.extend(sets.iter().map(|recomputed| plans.way(recomputed, Some(format)).0));
        }
        let best = the_best(ways);
        let sliced: Vec<Way> = best.iter().filter_map(|planned| plans.in_slices(planned)).collect();
        let best = best.into_iter().map(|planned| planned.way);
        Ways {
            best: the_best(best.chain(sliced).collect()),
            none,
            smallest: smaller.unwrap_or_else(|| all.clone()),
            all,
            forward_seconds,
        }
    }
}

/// The Pareto-optimal ways, fastest first.
fn the_best<T: Borrow<Way>>(mut ways: Vec<T>) -> Vec<T> {
    ways.sort_by(|a, b| {
        let (a, b) = (a.borrow(), b.borrow());
        a.seconds.total_cmp(&b.seconds).then(a.kept.cmp(&b.kept))
    });
    let mut best: Vec<T> = Vec::new();
    for way in ways {
        if !best.iter().any(|other| other.borrow().is_no_worse(way.borrow())) {
            best.push(way);
        }
    }
    best
}

/// A way with its figures and its graph.
struct Planned {
    way: Way,
    graph: Graph,
}

impl Borrow<Way> for Planned {
    fn borrow(&self) -> &Way {
        &self.way
    }
}

/// The sets of recomputed candidates that are tried; the last set holds all candidates.
fn sets(sample: &Sample) -> Vec<Vec<usize>> {
    let graph = &sample.graph;
    let bytes = |i: usize| -> usize { sample.candidates[i].iter().map(|&v| graph.ty(v).bytes()).sum() };
    let mut order: Vec<usize> = (0..sample.candidates.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(bytes(i)), i));
    let others = order.split_off(order.len().min(TRIED));
    let by_rows = |&i: &usize| {
        let producer = graph.producer(sample.candidates[i][0]).expect("a candidate has a node");
        let node = &graph.nodes[producer.index()];
        let (inputs, outputs) = (graph.input_types(node), graph.output_types(node));
        !node.op.is_contraction() && graph.ask(node, &inputs, &outputs).row_wise() != RowWise::No
    };
    let cheap: Vec<usize> = others.iter().copied().filter(by_rows).collect();
    let subset = |bits: usize| (0..order.len()).filter(move |i| bits >> i & 1 == 1);
    let mut sets: Vec<Vec<usize>> = (0..1 << order.len())
        .map(|bits| subset(bits).map(|i| order[i]).chain(cheap.iter().copied()).collect())
        .collect();
    if !others.is_empty() {
        sets.push(Vec::new());
        sets.push((0..sample.candidates.len()).collect());
    }
    sets
}

/// The values of a sample that are recomputed with these candidates.
fn values(sample: &Sample, recomputed: &[usize]) -> Vec<ValueId> {
    let chosen = recomputed.iter().flat_map(|&i| &sample.candidates[i]);
    chosen.chain(&sample.always).copied().collect()
}

/// Plans of a sample, from which the figures of its ways are read.
struct SamplePlans<'a> {
    sample: &'a Sample,
    forward: Forward<'a>,
    options: &'a Options,
    target: &'a dyn Target,
}

impl SamplePlans<'_> {
    /// Plans a way. Returns it with its figures, and the seconds of its forward part.
    fn way(&self, recomputed: &[usize], format: Option<StorageFormat>) -> (Planned, f64) {
        let graph = self.graph(recomputed, format);
        let way = Way {
            recomputed: recomputed.to_vec(),
            format,
            is_sliced: false,
            kept: 0,
            forward: 0,
            backward: 0,
            seconds: 0.0,
        };
        let (way, forward_seconds) = self.planned(graph.clone(), way);
        (Planned { way, graph }, forward_seconds)
    }

    /// The way of a plan with its stage in slices; none where slices do not save memory.
    fn in_slices(&self, Planned { way, graph }: &Planned) -> Option<Way> {
        let graph = passes::by_slices(graph, &BTreeSet::from([0]), self.target)?;
        let is_sliced = true;
        let (way, _) = self.planned(
            graph,
            Way {
                is_sliced,
                ..way.clone()
            },
        );
        Some(way)
    }

    /// The sample's graph after the recomputation of a way.
    fn graph(&self, recomputed: &[usize], format: Option<StorageFormat>) -> Graph {
        let sample = self.sample;
        let values = values(sample, recomputed);
        let rounded = format
            .map(|format| sample.rounded(recomputed, format))
            .unwrap_or_default();
        let bits = sample.bits.iter().copied().filter(|v| !values.contains(v)).collect();
        let inverted = sample.inverted.iter();
        let graph = passes::recompute_by_stages(
            &self.forward,
            &Recomputation {
                values,
                bits,
                rounded,
                inverted: inverted
                    .map(|inversion| (inversion.value, inversion.how.clone()))
                    .collect(),
                readable: &sample.entered,
                ..Recomputation::default()
            },
        );
        lessen_rewrite::without_dead_code(graph)
    }

    /// Plans a graph and reads the figures of its way. Returns the way, and the seconds of its forward part.
    fn planned(&self, graph: Graph, way: Way) -> (Way, f64) {
        let sample = self.sample;
        let plan = plan_graph(graph, self.options, self.target);
        let usage = plan.usage();
        let [before, after, before_again] = [
            OtherBlocks::ForwardBefore,
            OtherBlocks::After,
            OtherBlocks::BackwardBefore,
        ]
        .map(|which| step_of(&plan, which));
        let totals = |steps: &[StepUsage]| steps.iter().map(StepUsage::total).max().unwrap_or(0);
        let most = |steps: &[StepUsage]| totals(steps).min(MOST_BYTES);
        // The last block has no blocks after it: the phases tell where backward begins.
        let (end, stage_begin) = match after {
            Some((at, _)) => (at, at + 1),
            None => {
                let at = usage.iter().position(|step| step.phase != Phase::Forward);
                let at = at.unwrap_or(usage.len());
                (at, at)
            }
        };
        let begin = before.map_or(0, |(at, _)| at + 1).min(end);
        let apart = [before, after, before_again]
            .into_iter()
            .flatten()
            .map(|(at, _)| plan.computing_seconds(at));
        let way = Way {
            kept: after.map_or(0, |(at, _)| {
                usage[at]
                    .forward
                    .saturating_sub(sample.passed + entered(&plan, before, at))
            }),
            forward: most(&usage[begin..end]),
            backward: most(&usage[stage_begin..]),
            seconds: plan.seconds - plan.waiting_seconds() - apart.sum::<f64>(),
            ..way
        };
        (way, (begin..end).map(|step| plan.computing_seconds(step)).sum())
    }
}

/// The plan step and the node that stand for other blocks.
fn step_of(plan: &Plan, which: OtherBlocks) -> Option<(usize, NodeId)> {
    let find = |(at, step): (usize, &PlannedStep)| {
        let is_one = |id: &&NodeId| other_blocks(&plan.graph.nodes[id.index()]) == Some(which);
        let node = step.nodes.iter().find(is_one);
        node.map(|&id| (at, id))
    };
    plan.steps.iter().enumerate().find_map(find)
}

/// Bytes of the sample's entries that are alive in a plan step.
fn entered(plan: &Plan, before: Option<(usize, NodeId)>, step: usize) -> usize {
    let outputs = before.map(|(_, id)| &plan.graph.nodes[id.index()].outputs);
    let is_alive = |v: &&ValueId| plan.lifetimes[v.index()].is_some_and(|(first, last)| (first..=last).contains(&step));
    let alive = outputs.into_iter().flatten().filter(is_alive);
    alive.map(|&v| aligned(plan.graph.ty(v).bytes())).sum()
}
