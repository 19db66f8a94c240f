//! Choice of the placement of each parameter by plans: which updates are delayed to the next step.
//!
//! A delayed update saves a read of the parameter, if all that it touches stays in the caches until forward reads it.
//! It is a plan step of its own, while other updates share plan steps, and its gradient takes memory over the whole
//! step. So updates are ordered by seconds saved per byte of gradient. Candidates delay no update, all updates, or the
//! first updates with all, a half, a quarter or an eighth of the gradient bytes; their plans decide.

use crate::beside::states_of;
use crate::graphs::StepGraphs;
use crate::options::TrainerOptions;
use crate::update_graphs::Late;
use lessen_base::Result;
use lessen_compile::passes::{Update, updates};
use lessen_compile::{Placement, Plan, Rates, Target};
use lessen_device::Backend;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Divisors of the gradient bytes that candidates delay.
const PARTS: [usize; 4] = [1, 2, 4, 8];

/// Least share of a step's time that a candidate saves; one that saves less is not planned.
const LEAST: f64 = 1e-3;

/// Factor of the fastest time within which a plan of fewer bytes is preferred, as in the memory planner; for plans
/// without a budget.
const WORTH: f64 = 1.03;

/// Graphs with the chosen updates delayed, and their plans.
pub(crate) struct Placed<'a> {
    pub graphs: Cow<'a, StepGraphs>,
    pub plans: Vec<Plan>,
    /// Time of the choice, without the time of the plans.
    pub choosing: Duration,
}

/// Candidate with the time and memory of the plan of its step.
struct Tried {
    graphs: StepGraphs,
    seconds: f64,
    bytes: usize,
}

impl StepGraphs {
    /// Graphs with the delayed updates that the options ask for, and their plans. Under [`Placement::Planned`] they are
    /// the fastest candidate within the budget; without a budget, the candidate of fewest bytes among the candidates
    /// that are hardly slower than the fastest.
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

    /// Graphs with all updates delayed; none if plans choose no placement or an update cannot be delayed.
    pub(crate) fn with_all_late(&self, options: &TrainerOptions) -> Option<StepGraphs> {
        let late = states(updates(&self.step).iter());
        is_chosen(options).then(|| self.with_late(late).ok()).flatten()
    }

    /// Candidates that fit the budget, best first; none if plans choose no placement.
    fn tried(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Tried>> {
        if !is_chosen(options) {
            return Ok(Vec::new());
        }
        let of_functions = options.of_plans(None, &self.carrier);
        let functions = self.functions.iter().map(|graph| backend.compile(graph, &of_functions));
        let functions: Vec<Plan> = functions.collect::<Result<_>>()?;
        let within = self.clone().try_out(backend, options, &functions);
        let least = within.as_ref().map_or(0.0, |tried| LEAST * tried.seconds);
        let candidates = candidates(&updates(&self.step), backend.target(), least);
        // Updates that cannot be delayed are no candidates.
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

    /// Plans the step alone; none if it does not fit. Constants of other graphs than the functions are small and not
    /// counted.
    fn try_out(self, backend: &dyn Backend, options: &TrainerOptions, functions: &[Plan]) -> Option<Tried> {
        let own: usize = states_of(&self.step).map(|(_, ty)| ty.bytes()).sum();
        let constants: usize = functions
            .iter()
            .map(|plan| plan.constant_bytes() + plan.result_bytes())
            .sum();
        let beside = self.state_bytes() - own + constants;
        let budget = options.budget.map(|budget| budget.saturating_sub(beside));
        let plan = backend
            .compile(&self.step, &options.of_plans(budget, &self.carrier))
            .ok()?;
        let arenas = functions.iter().map(Plan::arena_bytes);
        let arena = arenas.fold(plan.arena_bytes(), usize::max);
        Some(Tried {
            seconds: plan.estimated_seconds(),
            bytes: self.state_bytes() + constants + plan.constant_bytes() + plan.result_bytes() + arena,
            graphs: self,
        })
    }
}

/// Whether plans choose the delayed updates. Accumulated gradients do not wait for the next step.
fn is_chosen(options: &TrainerOptions) -> bool {
    options.placement == Placement::Planned && options.accumulate == 1
}

/// Sets of updates to delay, without the empty set: all updates, the updates that save time, and smaller and smaller
/// parts of the latter, as long as a set saves at least `least` seconds.
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
