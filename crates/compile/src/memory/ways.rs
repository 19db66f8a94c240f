//! Ways: what a block keeps and recomputes, and what that costs by a plan of its sample.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use lessen_graph::{Graph, NodeId, Phase, RowWise, ValueId};

use super::others::{Who, others};
use super::sample::Sample;
use crate::bytes::MOST_BYTES;
use crate::offsets::aligned;
use crate::options::Options;
use crate::passes::remat::Forward;
use crate::passes::{self, Form, Recomputation};
use crate::plan::Plan;
use crate::planned::PlannedStep;
use crate::planner::plan;
use crate::target::Target;
use crate::usage::StepUsage;

/// The candidates of a block of which every subset is tried; of the others, those of rows are recomputed.
const TRIED: usize = 5;

/// Bytes are few that are at most this part of a block's peak.
const FEW: usize = 200;

/// A way of having a block's values in backward.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The candidates that are recomputed, by their positions.
    pub recomputed: Vec<usize>,
    /// The form in which the others are kept, and the values that lead into the block first, if not as they are.
    pub form: Option<Form>,
    /// Whether the block's backward part runs slice by slice of the rows.
    pub is_sliced: bool,
    /// Bytes that are kept from the block's forward part to its backward part.
    pub kept: usize,
    /// The most bytes that the forward part takes, with what is kept and with the values that lead into the block.
    pub forward: usize,
    /// The most bytes that the backward part takes, with the same.
    pub backward: usize,
    /// Seconds of both parts.
    pub seconds: f64,
}

impl Way {
    /// Whether no figure of another way is better by more than a few bytes.
    fn is_no_worse(&self, other: &Way) -> bool {
        let few = other.backward / FEW;
        self.kept <= other.kept + few
            && self.forward <= other.forward + few
            && self.backward <= other.backward + few
            && self.seconds <= other.seconds
    }
}

/// The ways of a sample.
pub(super) struct Ways {
    /// Those of which no other one is better in everything, the fastest first.
    pub best: Vec<Way>,
    /// The way that recomputes nothing.
    pub none: Way,
    /// The way that recomputes all.
    pub all: Way,
    /// The same, in slices where that takes fewer bytes.
    pub smallest: Way,
    /// Seconds of the forward part.
    pub forward_seconds: f64,
}

impl Ways {
    pub fn of(sample: &Sample, options: &Options, target: &dyn Target) -> Ways {
        let measuring = Measuring {
            sample,
            forward: Forward::new(&sample.graph),
            options,
            target,
        };
        let sets = sets(sample);
        let mut forward_seconds = f64::INFINITY;
        let mut ways: Vec<Planned> = Vec::new();
        for recomputed in &sets {
            let (planned, forward) = measuring.way(recomputed, None);
            forward_seconds = forward_seconds.min(forward);
            ways.push(planned);
        }
        let none = ways.iter().find(|planned| planned.way.recomputed.is_empty());
        let none = none.expect("the set of none is tried").way.clone();
        let last = ways.last().expect("the set of all is the last");
        let all = last.way.clone();
        let smaller = measuring
            .in_slices(last)
            .filter(|sliced| sliced.backward < all.backward);
        for form in Form::ALL
            .into_iter()
            .filter(|form| form.error() <= options.allowed_error)
        {
            ways.extend(sets.iter().map(|recomputed| measuring.way(recomputed, Some(form)).0));
        }
        let best = the_best(ways);
        let sliced: Vec<Way> = best.iter().filter_map(|planned| measuring.in_slices(planned)).collect();
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

/// The ways of which no other one is better in everything, the fastest first.
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

/// A way with the sample's graph in that way.
struct Planned {
    way: Way,
    graph: Graph,
}

impl Borrow<Way> for Planned {
    fn borrow(&self) -> &Way {
        &self.way
    }
}

/// The sets of candidates that are tried; the last is that of all.
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
        !node.op.is_contraction() && node.op.row_wise(&inputs, &outputs) != RowWise::No
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

/// The values of a sample that are recomputed in a way.
fn values(sample: &Sample, recomputed: &[usize]) -> Vec<ValueId> {
    let chosen = recomputed.iter().flat_map(|&i| &sample.candidates[i]);
    chosen.chain(&sample.always).copied().collect()
}

/// Plans of a sample, from which the figures of its ways are read.
struct Measuring<'a> {
    sample: &'a Sample,
    forward: Forward<'a>,
    options: &'a Options,
    target: &'a dyn Target,
}

impl Measuring<'_> {
    /// A way, and the seconds of the forward part.
    fn way(&self, recomputed: &[usize], form: Option<Form>) -> (Planned, f64) {
        let graph = self.graph(recomputed, form);
        let way = Way {
            recomputed: recomputed.to_vec(),
            form,
            is_sliced: false,
            kept: 0,
            forward: 0,
            backward: 0,
            seconds: 0.0,
        };
        let (way, forward_seconds) = self.planned(graph.clone(), way);
        (Planned { way, graph }, forward_seconds)
    }

    /// The same way with backward in slices; none where that spares nothing.
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

    /// The sample's graph in a way.
    fn graph(&self, recomputed: &[usize], form: Option<Form>) -> Graph {
        let sample = self.sample;
        let values = values(sample, recomputed);
        let rounded = form.map(|form| sample.rounded(recomputed, form)).unwrap_or_default();
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
                held: &sample.entered,
                ..Recomputation::default()
            },
        );
        lessen_rewrite::without_dead_code(graph)
    }

    /// A way with the figures of its plan, and the seconds of the forward part.
    fn planned(&self, graph: Graph, way: Way) -> (Way, f64) {
        let sample = self.sample;
        let plan = plan(graph, self.options, self.target);
        let usage = plan.usage();
        let [before, rest, again] = [Who::Before, Who::Behind, Who::Again].map(|who| step_of(&plan, who));
        let totals = |steps: &[StepUsage]| steps.iter().map(StepUsage::total).max().unwrap_or(0);
        let most = |steps: &[StepUsage]| totals(steps).min(MOST_BYTES);
        // The last block has no rest: the phases tell where backward begins.
        let (end, behind) = match rest {
            Some((at, _)) => (at, at + 1),
            None => {
                let at = usage.iter().position(|step| step.phase != Phase::Forward);
                let at = at.unwrap_or(usage.len());
                (at, at)
            }
        };
        let begin = before.map_or(0, |(at, _)| at + 1).min(end);
        let apart = [before, rest, again]
            .into_iter()
            .flatten()
            .map(|(at, _)| plan.step_seconds[at]);
        let way = Way {
            kept: rest.map_or(0, |(at, _)| {
                usage[at]
                    .forward
                    .saturating_sub(sample.passed + entered(&plan, before, at))
            }),
            forward: most(&usage[begin..end]),
            backward: most(&usage[behind..]),
            seconds: plan.seconds - apart.sum::<f64>(),
            ..way
        };
        (way, plan.step_seconds[begin..end].iter().sum())
    }
}

/// The step and the node of an operation that stands for other blocks.
fn step_of(plan: &Plan, who: Who) -> Option<(usize, NodeId)> {
    let find = |(at, step): (usize, &PlannedStep)| {
        let is_one = |id: &&NodeId| others(&plan.graph.nodes[id.index()]) == Some(who);
        let node = step.nodes.iter().find(is_one);
        node.map(|&id| (at, id))
    };
    plan.steps.iter().enumerate().find_map(find)
}

/// Bytes of the values that lead into a sample and are alive in a step.
fn entered(plan: &Plan, before: Option<(usize, NodeId)>, step: usize) -> usize {
    let outputs = before.map(|(_, id)| &plan.graph.nodes[id.index()].outputs);
    let is_alive = |v: &&ValueId| plan.lifetimes[v.index()].is_some_and(|(first, last)| (first..=last).contains(&step));
    let alive = outputs.into_iter().flatten().filter(is_alive);
    alive.map(|&v| aligned(plan.graph.ty(v).bytes())).sum()
}
