//! The driver of jobs: it goes through the units of a job and alone decides when to save, stop and end.

use super::{CheckpointClock, Log};
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::{Error, Result, watcher};
use lessen_comm::Group;
use lessen_task::folder::NewFolderGuard;
use lessen_task::folder::spent::Spent;
use lessen_task::wording::tell;
use lessen_train::Peak;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A long computation of units: steps, iterations, epochs, tests or episodes.
pub(crate) trait Job {
    /// The state between two units, to which a unit that is stopped midway is undone.
    type State;

    /// Whether all units are done.
    fn is_over(&self) -> bool;

    /// Whether no other job follows in the same folder.
    fn is_last(&self) -> bool {
        true
    }

    /// Does what precedes the first unit of this process.
    ///
    /// # Errors
    /// A device or folder that fails, and the errors of [`Unit::part`].
    fn prepare(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let _ = unit;
        Ok(())
    }

    /// The state before the next unit.
    ///
    /// # Errors
    /// A device that fails.
    fn state(&self) -> Result<Self::State>;

    /// Computes the next unit.
    ///
    /// # Errors
    /// A device or folder that fails, numbers that are not finite, and the errors of [`Unit::part`].
    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()>;

    /// Returns to the state before a unit.
    ///
    /// # Errors
    /// A device that fails.
    fn restore(&mut self, before: Self::State) -> Result<()>;

    /// Tells of the unit that is done: numbers, evaluations, pictures.
    ///
    /// # Errors
    /// A device or folder that fails, numbers that are not finite.
    fn record(&mut self, driver: &mut Driver) -> Result<()>;

    /// Whether the job's own settings ask for a checkpoint after the unit that is done.
    fn is_due(&self) -> bool {
        false
    }

    /// Refuses a state that must not be saved.
    ///
    /// # Errors
    /// Numbers that are not finite, with which the job ends.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    /// Saves the state and what shows it.
    ///
    /// # Errors
    /// A folder that cannot be written to, with which the job goes on.
    fn save(&mut self) -> Result<()>;

    /// Gives the process that saves what it lacks.
    ///
    /// # Errors
    /// A process that does not answer.
    fn share(&mut self) -> Result<()> {
        Ok(())
    }

    /// What is said where the present state is not saved.
    fn unsaved(&self) -> Unsaved;

    /// Bytes that its session was planned to take, and has taken.
    fn peak(&self) -> Peak;
}

/// What is said of a state that is not saved.
pub(crate) struct Unsaved {
    /// The sentence that it is not saved and the job goes on.
    pub goes_on: String,
    /// The state that is saved instead, if that is known.
    pub kept: Option<String>,
    /// The sentence that it is not saved, at the end of the job.
    pub at_end: String,
}

/// A unit under way.
pub(crate) struct Unit<'a> {
    /// The log.
    pub log: &'a mut Log,
    pub is_stopped: bool,
    group: &'a Group,
}

impl Unit<'_> {
    /// Asks between two parts of the unit whether to stop.
    ///
    /// # Errors
    /// A stop was asked for; the driver then undoes the unit.
    pub(crate) fn part(&mut self) -> Result<()> {
        self.is_stopped = stops(self.group)?;
        match self.is_stopped {
            true => Err(self.stop()),
            false => Ok(()),
        }
    }

    /// Stops the unit: the error with which it ends, so that the driver undoes it.
    pub(crate) fn stop(&mut self) -> Error {
        self.is_stopped = true;
        Error::internal("a unit is stopped")
    }
}

/// What a driver begins with.
pub(crate) struct Begin<'a> {
    /// The folder.
    pub root: &'a Path,
    /// The guard of a new folder.
    pub guard: Option<NewFolderGuard>,
    /// Units that are done, and whether a checkpoint has them.
    pub done: (u64, bool),
    /// Minutes between checkpoints, 0 for none.
    pub minutes: f64,
    /// The word for what is counted, its number in all, and the number that is done.
    pub count: (&'static str, u64, u64),
    /// The memory of the process.
    pub watch: MemoryWatch,
    /// When the session began, and time and memory of the sessions before.
    pub time: (Instant, Spent),
    /// The processes that share the job: all go through it, and the first one saves.
    pub group: Group,
}

/// The driver of the jobs of a folder, one after another.
pub(crate) struct Driver {
    /// Metrics, events and progress.
    pub log: Log,
    /// The memory of the process.
    pub watch: MemoryWatch,
    /// Removes a new folder of which no unit is done and nothing saved.
    guard: Option<NewFolderGuard>,
    clock: CheckpointClock,
    sessions: PathBuf,
    begun: Instant,
    before: Spent,
    /// Most bytes of the jobs up to now.
    peak: Peak,
    /// The error of the newest save, if it failed.
    unsaved: Option<Error>,
    group: Group,
}

impl Driver {
    /// Begins: listens for the wish to stop and opens the log.
    ///
    /// # Errors
    /// Wishes to stop that cannot be received, files that cannot be read or written to.
    pub(crate) fn begin(begin: Begin<'_>) -> Result<Driver> {
        watcher::current().can_stop()?;
        let ((done, has_one), (begun, before)) = (begin.done, begin.time);
        Ok(Driver {
            log: Log::open(begin.root, done, begin.count)?,
            watch: begin.watch,
            guard: begin.guard,
            clock: CheckpointClock::new(begin.minutes, has_one),
            sessions: begin.root.join("sessions.json"),
            begun,
            before,
            peak: Peak {
                planned: 0,
                measured: 0,
            },
            unsaved: None,
            group: begin.group,
        })
    }

    /// Goes through the units that are left of a job; false where it was asked to stop.
    ///
    /// # Errors
    /// The errors of the job, but for those of [`Job::save`].
    pub(crate) fn go<J: Job>(&mut self, job: &mut J) -> Result<bool> {
        let (prepared, is_stopped) = self.unit(|unit| job.prepare(unit));
        if is_stopped {
            self.keep();
            return Ok(false);
        }
        prepared?;
        let mut is_saved = false;
        while !job.is_over() {
            let before = job.state()?;
            let (advanced, is_stopped) = self.unit(|unit| job.advance(unit));
            if is_stopped {
                job.restore(before)?;
                self.save(job)?;
                return Ok(false);
            }
            advanced?;
            drop(before);
            self.keep();
            job.record(self)?;
            let stops = stops(&self.group)? && !(job.is_over() && job.is_last());
            is_saved = stops || self.is_due(job)?;
            if is_saved {
                self.save(job)?;
            }
            if stops {
                return Ok(false);
            }
        }
        if !is_saved {
            self.save(job)?;
        }
        Ok(true)
    }

    /// Whether a checkpoint is due, as the clock of the first process has it.
    fn is_due<J: Job>(&self, job: &J) -> Result<bool> {
        let own = self.group.is_first() && self.clock.is_due();
        Ok(job.is_due() || self.group.agree_any("whether a checkpoint is due", own)?)
    }

    /// Computes a unit; whether it was stopped midway.
    fn unit(&mut self, compute: impl FnOnce(&mut Unit<'_>) -> Result<()>) -> (Result<()>, bool) {
        let mut unit = Unit {
            log: &mut self.log,
            is_stopped: false,
            group: &self.group,
        };
        let computed = compute(&mut unit);
        let is_stopped = unit.is_stopped && computed.is_err();
        (computed, is_stopped)
    }

    /// Saves. Where that fails, the job goes on, and ends with the error unless it is saved later.
    fn save<J: Job>(&mut self, job: &mut J) -> Result<()> {
        job.check()?;
        self.measure(job.peak());
        if !self.group.is_first() {
            self.keep();
            return job.share();
        }
        let begun = Instant::now();
        let saved = match self.log.sync() {
            Ok(()) => job.save(),
            // Other processes wait for this one.
            Err(error) => job.share().and(Err(error)),
        };
        let saved = saved.and_then(|()| self.spent().write(&self.sessions));
        self.clock.tried(begun.elapsed());
        self.unsaved = None;
        match saved {
            Ok(()) => self.keep(),
            Err(error) => {
                let Unsaved { goes_on, kept, at_end } = job.unsaved();
                let kept = kept.map_or(String::new(), |kept| format!("; {kept}"));
                tell(&format!("warning: {goes_on}: {error}{kept}"));
                self.unsaved = Some(error.at(at_end));
            }
        }
        Ok(())
    }

    /// Keeps a new folder.
    pub(crate) fn keep(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.keep();
        }
    }

    /// Ends the progress, and refuses to end well where the last state is not saved.
    ///
    /// # Errors
    /// The error of the last save.
    pub(crate) fn check_saved(&mut self) -> Result<()> {
        self.log.progress.finish();
        self.unsaved.take().map_or(Ok(()), Err)
    }

    /// Counts the peak of a job's session.
    pub(crate) fn measure(&mut self, own: Peak) {
        self.peak.planned = self.peak.planned.max(own.planned);
        self.peak.measured = self.peak.measured.max(own.measured);
    }

    /// The peak of the process, planned and measured.
    pub(crate) fn peak(&self) -> Peak {
        self.watch.peak(self.peak)
    }

    /// Time and memory of all sessions up to now.
    pub(crate) fn spent(&self) -> Spent {
        self.before
            .with_session(self.begun, &self.peak(), self.watch.resident())
    }
}

/// Whether a process of the group is asked to stop.
fn stops(group: &Group) -> Result<bool> {
    group.agree_any("the wish to stop", watcher::current().stops())
}

#[cfg(test)]
mod tests;
