//! How far the runs of an experiment have got, and which of them are to be done.

use super::Experiment;
use super::grid::GridRun;
use super::kept::{Kept, deciding};
use super::measure::Measure;
use super::results::State;
use super::runs::Plan;
use lessen_base::{Error, Result};
use lessen_device::Backend;
use std::collections::BTreeSet;
use std::path::Path;

impl Experiment {
    /// Checks all runs but those that are kept; says how far each has got, and the measures of an experiment that names
    /// none.
    ///
    /// # Errors
    /// What the sort of runs refuses; kept runs of other settings.
    pub(super) fn states(
        &self,
        runs: &[GridRun],
        (kept, out): (Option<&Kept>, &Path),
        backend: &mut dyn Backend,
    ) -> Result<(Vec<State>, Vec<Measure>)> {
        let mut points = BTreeSet::new();
        for run in runs.iter().filter(|run| points.insert(run.point)) {
            let point = &self.grid.points[run.point];
            if let Some(kept) = kept {
                let more = self.kind.more_settings(&point.follows);
                kept.check(&point.name, &deciding(run, self.kind.seed_key(), more)?)?;
            }
        }
        let state = |run: &GridRun| {
            let is_kept = kept.is_some_and(|kept| kept.has(&self.grid.points[run.point].name, run.seed));
            match is_kept && !out.join(&run.folder).exists() {
                true => State::Kept,
                false => State::New,
            }
        };
        let mut states: Vec<State> = runs.iter().map(state).collect();
        self.leave_out_unneeded(runs, &mut states);
        let left: Vec<usize> = (0..runs.len()).filter(|&at| !states[at].is_over()).collect();
        let plan = Plan {
            grid: &self.grid,
            runs: &left.iter().map(|&at| &runs[at]).collect::<Vec<_>>(),
            measures: &self.measures,
            recipe: &self.base.0,
            out,
        };
        let (found, defaults) = self.kind.check(&plan, backend)?;
        for (at, state) in left.into_iter().zip(found) {
            states[at] = state;
        }
        self.leave_out_unneeded(runs, &mut states);
        Ok((states, defaults))
    }

    /// Counts runs as finished whose points are not trained, where all that follow them are over.
    fn leave_out_unneeded(&self, runs: &[GridRun], states: &mut [State]) {
        for at in (0..runs.len()).rev() {
            let is_needed = |(other, state): (&GridRun, &State)| self.follows(other, &runs[at]) && !state.is_over();
            let is_untrained = self.grid.points[runs[at].point].follows.is_untrained;
            if is_untrained && !runs.iter().zip(&*states).any(is_needed) {
                states[at] = State::Finished;
            }
        }
    }

    /// Whether a run takes something from another one.
    fn follows(&self, run: &GridRun, other: &GridRun) -> bool {
        let name = &self.grid.points[other.point].name;
        let mut followed = self.grid.points[run.point].follows.points();
        run.seed == other.seed && followed.any(|own| own == name)
    }

    /// Refuses to do a run that follows one whose folder is gone.
    ///
    /// # Errors
    /// Such a run.
    pub(super) fn check_followed(
        &self,
        run: &GridRun,
        all: (&[GridRun], &[State]),
        (kept, out): (Option<&Kept>, &Path),
    ) -> Result<()> {
        let mut others = all.0.iter().zip(all.1);
        let gone = others.find(|(other, state)| **state == State::Kept && self.follows(run, other));
        let Some((other, kept)) = gone.map(|(other, _)| other).zip(kept) else {
            return Ok(());
        };
        Err(Error::user(format!(
            "the run {} follows {}, whose folder {} is gone; remove that run from {}, so that it is done again",
            self.grid.title(run.point, run.seed),
            self.grid.title(other.point, other.seed),
            out.join(&other.folder).display(),
            kept.path().display()
        )))
    }
}
