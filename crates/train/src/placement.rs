//! The placement of each parameter, where plans choose it: which updates are delayed to the next step.
//!
//! A delayed update spares reading the parameter again, if what it touches fits in the caches until forward reads it.
//! It runs as a step of its own, while others share steps, and its gradient takes memory over the whole step. So
//! updates are ordered by the seconds that they may spare for each byte of their gradients. The first of them with all
//! of these bytes, a half, a quarter and so on are candidates, as are none and all updates; their plans decide.

use crate::graphs::{Late, StepGraphs, states_of};
use crate::options::TrainerOptions;
use lessen_base::Result;
use lessen_compile::passes::{Update, updates};
use lessen_compile::{Placement, Plan, Rates, Target};
use lessen_device::Backend;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// The candidates have these parts of the bytes of all gradients whose updates may spare anything.
const PARTS: [usize; 4] = [1, 2, 4, 8];

/// The part of a step that a candidate may spare at least, so that it is worth a plan.
const LEAST: f64 = 1e-3;

/// By how much a plan without a budget may take longer than the fastest one, as in the memory planner.
const WORTH: f64 = 1.03;

/// Graphs with the updates delayed that were chosen.
pub(crate) struct Placed<'a> {
    pub graphs: Cow<'a, StepGraphs>,
    pub plans: Vec<Plan>,
    /// How long the choice took, besides the plans.
    pub choosing: Duration,
}

/// A candidate, as far as the plan of its step says what it takes.
struct Tried {
    graphs: StepGraphs,
    seconds: f64,
    bytes: usize,
}

impl StepGraphs {
    /// The graphs with the updates delayed that the options ask for, and their plans. Under [`Placement::Planned`] that
    /// is the fastest candidate within the budget, or without a budget that of the fewest bytes of those that take
    /// hardly longer than the fastest one.
    ///
    /// # Errors
    /// A budget below the floor.
    pub(crate) fn placed(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Placed<'_>> {
        let start = Instant::now();
        let all = self.tried(backend, options)?;
        let choosing = start.elapsed();
        for Tried { graphs, .. } in all {
            if let Ok(plans) = graphs.plans(backend, options) {
                let graphs = Cow::Owned(graphs);
                return Ok(Placed {
                    graphs,
                    plans,
                    choosing,
                });
            }
        }
        Ok(Placed {
            plans: self.plans(backend, options)?,
            graphs: Cow::Borrowed(self),
            choosing,
        })
    }

    /// The graphs with all updates delayed, if plans are to choose and it can be done.
    pub(crate) fn with_all_late(&self, options: &TrainerOptions) -> Option<StepGraphs> {
        let late = states(updates(&self.step).iter());
        is_chosen(options).then(|| self.with_late(late).ok()).flatten()
    }

    /// The candidates that fit, the best first; none where nothing is to be chosen.
    fn tried(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Tried>> {
        if !is_chosen(options) {
            return Ok(Vec::new());
        }
        let of_functions = options.of_plans(None);
        let functions = self.functions.iter().map(|graph| backend.compile(graph, &of_functions));
        let functions: Vec<Plan> = functions.collect::<Result<_>>()?;
        let within = self.clone().try_out(backend, options, &functions);
        let least = within.as_ref().map_or(0.0, |tried| LEAST * tried.seconds);
        let candidates = candidates(&updates(&self.step), backend.target(), least);
        // What cannot be delayed is no candidate.
        let graphs = candidates.into_iter().filter_map(|late| self.with_late(late).ok());
        let late = graphs.filter_map(|graphs| graphs.try_out(backend, options, &functions));
        let mut tried: Vec<Tried> = within.into_iter().chain(late).collect();
        let fastest = tried.iter().map(|tried| tried.seconds).fold(f64::INFINITY, f64::min);
        tried.sort_by(|a, b| match options.budget {
            Some(_) => (a.seconds.total_cmp(&b.seconds)).then(a.bytes.cmp(&b.bytes)),
            None => {
                let is_slow = |tried: &Tried| tried.seconds > WORTH * fastest;
                let by_bytes = a.bytes.cmp(&b.bytes).then(a.seconds.total_cmp(&b.seconds));
                is_slow(a).cmp(&is_slow(b)).then(by_bytes)
            }
        });
        Ok(tried)
    }

    /// Plans the step alone; none where it does not fit. What constants of the graphs beside it take, but for the
    /// functions, is little and left out.
    fn try_out(self, backend: &dyn Backend, options: &TrainerOptions, functions: &[Plan]) -> Option<Tried> {
        let own: usize = states_of(&self.step).map(|(_, ty)| ty.bytes()).sum();
        let constants: usize = functions.iter().map(Plan::constant_bytes).sum();
        let beside = self.state_bytes() - own + constants;
        let budget = options.budget.map(|budget| budget.saturating_sub(beside));
        let plan = backend.compile(&self.step, &options.of_plans(budget)).ok()?;
        let arenas = functions.iter().map(Plan::arena_bytes);
        let arena = arenas.fold(plan.arena_bytes(), usize::max);
        Some(Tried {
            seconds: plan.estimated_seconds(),
            bytes: self.state_bytes() + constants + plan.constant_bytes() + arena,
            graphs: self,
        })
    }
}

/// Whether plans choose what is delayed. Gradients that are accumulated do not wait for the next step.
fn is_chosen(options: &TrainerOptions) -> bool {
    options.placement == Placement::Planned && options.accumulate == 1
}

/// The sets of updates that may be delayed, but for the empty one: all, those that may spare anything, and fewer and
/// fewer of these, as long as they may spare so many seconds.
fn candidates(updates: &[Update], target: &dyn Target, least: f64) -> Vec<Late> {
    let Rates {
        memory,
        step_overhead_seconds,
        ..
    } = target.costs().rates();
    let spares = |update: &Update| update.read as f64 / memory - step_overhead_seconds;
    let worth = |update: &Update| spares(update) / update.gradients.max(1) as f64;
    let fits = |update: &&Update| update.touched <= target.limits().cache_bytes && spares(update) > 0.0;
    let mut sparing: Vec<&Update> = updates.iter().filter(fits).collect();
    sparing.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let all: usize = sparing.iter().map(|update| update.gradients).sum();
    let part = |part: usize| {
        let sums = sparing.iter().scan(0, |sum, update| {
            *sum += update.gradients;
            Some(*sum)
        });
        &sparing[..sums.take_while(|sum| *sum <= all / part).count()]
    };
    let is_worth = |part: &&[&Update]| part.iter().map(|update| spares(update)).sum::<f64>() >= least;
    let parts = PARTS.into_iter().map(part).filter(is_worth);
    let parts = parts.map(|part| states(part.iter().copied()));
    let mut sets: Vec<Late> = std::iter::once(states(updates.iter())).chain(parts).collect();
    sets.retain(|late| !late.is_empty());
    sets.dedup();
    sets
}

fn states<'a>(updates: impl Iterator<Item = &'a Update>) -> Late {
    updates.flat_map(|update| update.states.iter().cloned()).collect()
}
