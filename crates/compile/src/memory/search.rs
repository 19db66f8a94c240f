//! The search for a plan within a budget: choices are tried from the fastest to the smallest, and the first one whose
//! plan of the whole graph fits is taken.
//!
//! The choices come from a grid of limits that does not depend on the budget. A larger budget begins earlier in the
//! grid, so that it never gets a slower plan.

use std::cmp::Ordering;
use std::ops::Range;

use super::blocked_graph::{BlockedGraph, Selection};
use super::compose::{Choice, Composed, compose, is_composed};
use super::relaxation::Relaxation;
use crate::plan::Plan;

/// The ratio of each limit of the grid to the one before.
const GRID: f64 = 0.97;

/// Number of finer steps into which the step between two limits of the grid is divided.
const FINE: usize = 3;

/// A plan may take less memory than its limit, at most by this factor.
const SLACK: f64 = 1.05;

/// Without a budget, a plan may be slower than the fastest one by this factor if it is smaller.
pub(super) const WORTH: f64 = 1.03;

/// Number of the smallest choices whose least peak is the floor.
const LAST: usize = 6;

/// The fastest plan within the budget, of graphs that compute the same. Without a budget (`usize::MAX`) it is the plan
/// of the fewest bytes among the plans that are hardly slower than the fastest plan. `try_out` plans the graph at a
/// position with a selection.
///
/// # Errors
/// The least bytes of all plans tried, where none fits.
pub(crate) fn within(
    graphs: &[BlockedGraph],
    budget: usize,
    try_out: impl Fn(usize, Selection<'_>) -> Plan,
) -> Result<Plan, usize> {
    let most = WORTH
        * graphs
            .iter()
            .map(|blocked| blocked.seconds(0))
            .fold(f64::INFINITY, f64::min);
    let worth = |plan: &Plan| if budget == usize::MAX { 0.0 } else { plan.seconds };
    let better = |one: Plan, other: Plan| {
        let order = worth(&one).total_cmp(&worth(&other));
        match order.then(one.working_bytes().cmp(&other.working_bytes())) {
            Ordering::Greater => other,
            _ => one,
        }
    };
    let found = graphs.iter().enumerate();
    let found = found.map(|(i, blocked)| blocked.within(budget, most, |chosen| try_out(i, chosen)));
    let joined = found.reduce(|one, other| match (one, other) {
        (Ok(one), Ok(other)) => Ok(better(one, other)),
        (Err(one), Err(other)) => Err(one.min(other)),
        (Ok(plan), Err(_)) | (Err(_), Ok(plan)) => Ok(plan),
    });
    joined.expect("at least one graph")
}

impl BlockedGraph {
    /// The limit at a position in the grid. The first one is the peak of the fastest choice.
    fn limit(&self, at: usize) -> usize {
        self.fine_limit(FINE * at)
    }

    fn fine_limit(&self, fine: usize) -> usize {
        let most = self.choice(0).map_or(0, |composed| composed.peak);
        (most as f64 * GRID.powf(fine as f64 / FINE as f64)) as usize
    }

    /// The fastest choice within the limit at a position in the grid.
    fn choice(&self, at: usize) -> Option<Composed> {
        self.fine_choice(FINE * at)
    }

    fn fine_choice(&self, fine: usize) -> Option<Composed> {
        if let Some(known) = self.composed.borrow().get(&fine) {
            return known.clone();
        }
        let limit = if fine == 0 { usize::MAX } else { self.fine_limit(fine) };
        let composed = compose(&self.blocks(), limit, self.has_segments);
        self.composed.borrow_mut().insert(fine, composed.clone());
        composed
    }

    /// The choices between a position of the grid and the one before, fastest first.
    fn between(&self, at: usize) -> impl Iterator<Item = Composed> {
        let fine = (FINE * at).saturating_sub(FINE - 1)..FINE * at;
        fine.filter_map(|fine| self.fine_choice(fine))
    }

    /// All choices of the grid, each once.
    pub(super) fn all(&self) -> Vec<Composed> {
        let mut all: Vec<Composed> = (0..).map_while(|at| self.choice(at)).collect();
        all.dedup_by(|a, b| a.choices == b.choices);
        all
    }

    /// Seconds of the fastest choice within a limit.
    fn seconds(&self, at: usize) -> f64 {
        self.choice(at).map_or(f64::INFINITY, |composed| composed.seconds)
    }

    /// Position of the smallest choice that takes at most `most` seconds; the first position if no choice does.
    fn last_within(&self, most: f64) -> usize {
        let blocks = self.blocks();
        let is_within = |at: usize| is_composed(&blocks, self.limit(at), self.has_segments, most);
        let (mut within, mut above) = (0, 1);
        while is_within(above) {
            (within, above) = (above, 2 * above);
        }
        while within + 1 < above {
            let middle = within.midpoint(above);
            if is_within(middle) {
                within = middle;
            } else {
                above = middle;
            }
        }
        within
    }

    /// The first position from `begin` on whose limit is at most `room` bytes, or else the last position with a choice.
    fn first_below(&self, room: f64, begin: usize) -> usize {
        let is_below = |at: usize| self.limit(at) as f64 <= room || self.limit(at) == 0;
        let below = (begin..).find(|&at| is_below(at)).expect("limits fall to 0");
        if self.choice(below).is_some() {
            return below;
        }
        let (mut some, mut none) = (begin, below);
        while some + 1 < none {
            let middle = some.midpoint(none);
            match self.choice(middle) {
                Some(_) => some = middle,
                None => none = middle,
            }
        }
        some
    }

    /// The bytes that a choice may take by its samples, if its plan shall fit the budget. Plans take `beside` bytes
    /// that samples do not know.
    fn room(&self, budget: usize, beside: usize) -> f64 {
        SLACK * budget.saturating_sub(self.fixed + beside) as f64
    }

    /// Lower bound on the seconds of every choice whose plan may fit the budget: of those that take at most [`SLACK`]
    /// times the budget by their samples.
    pub fn least_seconds(&self, budget: usize) -> f64 {
        let room = self.room(budget, 0) as usize;
        Relaxation::of(&self.blocks(), room, self.has_segments).least(0, 0, false)
    }

    /// The first position that is tried for a budget. The smallest choices are tried for every budget.
    fn first(&self, budget: usize, beside: usize, begin: usize) -> usize {
        let first = self.first_below(self.room(budget, beside), begin);
        if self.choice(first + LAST).is_some() {
            return first;
        }
        let end = (first..).find(|&at| self.choice(at).is_none());
        begin.max(end.map_or(0, |end| end.saturating_sub(LAST))).min(first)
    }

    /// The least budget for which the choice at a position is tried, unless it is one of the smallest.
    fn least_budget(&self, at: usize, beside: usize) -> usize {
        let limit = self.limit(at) as f64;
        let near = self.fixed + beside + (limit / SLACK) as usize;
        let is_enough = |&budget: &usize| limit <= self.room(budget, beside);
        (near.saturating_sub(1)..)
            .find(is_enough)
            .expect("room grows with the budget")
    }

    /// The fastest plan within the budget. Without a budget, the smallest that takes at most `most` seconds.
    ///
    /// # Errors
    /// The least budget that there is a plan for, where none fits.
    fn within(&self, budget: usize, most: f64, try_out: impl Fn(Selection<'_>) -> Plan) -> Result<Plan, usize> {
        let planned = |composed: &Composed| {
            let plan = try_out(self.selection(&composed.choices));
            Plan {
                seconds: composed.seconds + plan.waiting_seconds(),
                ..plan
            }
        };
        let begin = self.last_within(most);
        let mut before = self.choice(begin).expect("a choice without a limit");
        let plan = planned(&before);
        if budget == usize::MAX {
            return Ok(plan);
        }
        // Memory that samples do not know is about the same in every plan.
        let beside = plan.working_bytes().saturating_sub(self.fixed + before.peak);
        if plan.working_bytes() <= budget {
            // The plan without a budget is taken for every budget that it fits, whatever the samples say.
            let faster = (self.first_below(self.room(budget, beside), 0)..begin).filter_map(|at| self.choice(at));
            let faster = faster.filter(|composed| composed.choices != before.choices);
            let found = faster
                .map(|composed| planned(&composed))
                .find(|plan| plan.working_bytes() <= budget);
            return Ok(found.unwrap_or(plan));
        }
        let largest = plan.working_bytes();
        let mut at = self.first(budget, beside, begin);
        while let Some(composed) = self.choice(at) {
            if before.choices != composed.choices {
                let plan = planned(&composed);
                if plan.working_bytes() <= budget {
                    let between = self.between(at).filter(|other| other.seconds < composed.seconds);
                    let found = between
                        .map(|other| planned(&other))
                        .find(|plan| plan.working_bytes() <= budget);
                    return Ok(found.unwrap_or(plan));
                }
            }
            before = composed;
            at += 1;
        }
        Err(self.floor(begin..at, (largest, beside), try_out))
    }

    /// The least budget that has a plan, among the choices at these positions; `first` is the peak of the first one.
    /// Tries the smallest choices, and earlier ones as far as lower budgets lead to them.
    fn floor(
        &self,
        positions: Range<usize>,
        (first, beside): (usize, usize),
        try_out: impl Fn(Selection<'_>) -> Plan,
    ) -> usize {
        let last = positions.end.saturating_sub(LAST);
        let (mut floor, mut tried): (usize, Option<(Vec<Choice>, usize)>) = (first, None);
        for at in positions.rev() {
            let least = if at >= last { 0 } else { self.least_budget(at, beside) };
            if least >= floor {
                break;
            }
            let Some(composed) = self.choice(at) else { continue };
            let bytes = match tried {
                Some((choices, bytes)) if choices == composed.choices => bytes,
                _ => try_out(self.selection(&composed.choices)).working_bytes(),
            };
            floor = floor.min(bytes.max(least));
            tried = Some((composed.choices, bytes));
        }
        floor
    }
}
