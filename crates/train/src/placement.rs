//! The placement of each parameter, where plans choose it: which updates are delayed to the next step.
//!
//! A delayed update spares reading what it has just written, if that is still in a cache when forward reads it, and its
//! gradient takes memory over the whole step. So the updates whose arrays fit in the caches are ordered by their bytes:
//! small ones are there the longest. The first of them that have half of the gradients' bytes, a quarter and so on are
//! candidates, as are none and all updates; their plans decide.

use crate::graphs::{Late, StepGraphs, states_of};
use crate::options::TrainerOptions;
use lessen_base::Result;
use lessen_compile::passes::{Update, updates};
use lessen_compile::{Backend, Placement, Plan};
use std::borrow::Cow;

/// The candidates have these parts of the bytes of all gradients whose updates may spare anything.
const PARTS: [usize; 4] = [1, 2, 4, 8];

/// By how much a plan without a budget may take longer than the fastest one, as in the memory planner.
const WORTH: f64 = 1.03;

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
    pub(crate) fn placed(
        &self,
        backend: &dyn Backend,
        options: &TrainerOptions,
    ) -> Result<(Cow<'_, StepGraphs>, Vec<Plan>)> {
        for tried in self.tried(backend, options)? {
            if let Ok(plans) = tried.graphs.plans(backend, options) {
                return Ok((Cow::Owned(tried.graphs), plans));
            }
        }
        Ok((Cow::Borrowed(self), self.plans(backend, options)?))
    }

    /// Under [`Placement::Planned`] the graphs with all updates delayed, if they can be.
    pub(crate) fn uniform(&self, options: &TrainerOptions) -> Option<StepGraphs> {
        let late = self.candidates(options, usize::MAX).into_iter().next()?;
        self.with_late(late).ok()
    }

    /// The candidates that fit, the best first; none where nothing is to be chosen.
    fn tried(&self, backend: &dyn Backend, options: &TrainerOptions) -> Result<Vec<Tried>> {
        let candidates = self.candidates(options, backend.target().cache_bytes());
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let of_functions = options.of_plans(None);
        let functions = self.functions.iter().map(|graph| backend.compile(graph, &of_functions));
        let functions: Vec<Plan> = functions.collect::<Result<_>>()?;
        // What cannot be delayed is no candidate.
        let graphs = candidates.into_iter().filter_map(|late| self.with_late(late).ok());
        let graphs = std::iter::once(self.clone()).chain(graphs);
        let mut tried: Vec<Tried> = graphs
            .filter_map(|graphs| graphs.try_out(backend, options, &functions))
            .collect();
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

    /// The sets of updates that may be delayed, but for the empty one: first all, then those whose arrays fit in caches
    /// of so many bytes, and fewer and fewer of these.
    fn candidates(&self, options: &TrainerOptions, cache: usize) -> Vec<Late> {
        if options.placement != Placement::Planned || options.accumulate > 1 {
            return Vec::new();
        }
        let mut updates = updates(&self.step);
        updates.sort_by_key(|update| update.touched);
        let states = |updates: &[Update]| updates.iter().flat_map(|update| update.states.clone()).collect();
        let fitting = &updates[..updates.partition_point(|update| update.touched <= cache)];
        let all: usize = fitting.iter().map(|update| update.gradients).sum();
        let part = |part: usize| {
            let sums = fitting.iter().scan(0, |sum, update| {
                *sum += update.gradients;
                Some(*sum)
            });
            states(&fitting[..sums.take_while(|sum| *sum <= all / part).count()])
        };
        let mut sets: Vec<Late> = std::iter::once(states(&updates)).chain(PARTS.map(part)).collect();
        sets.retain(|late| !late.is_empty());
        sets.dedup();
        sets
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
