//! What a search has, whatever its method: its folder, its start and its end.

use super::outcome::Outcome;
use super::report::Report;
use super::settings::{Job, reached};
use super::start::Manifest;
use crate::job::{Begin, Driver, JobFolder, RecipeImages, Unsaved};
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::Result;
use lessen_comm::Group;
use lessen_task::folder::NewFolderGuard;
use lessen_task::folder::spent::Spent;
use lessen_task::recipe::config::Config;
use std::time::Instant;

/// What a search has, whatever its method.
pub(super) struct Frame<'a> {
    pub job: &'a Job,
    pub config: &'a Config,
    pub images: &'a RecipeImages,
    pub folder: JobFolder,
    /// Removes the folder of a new search that fails before its first epoch.
    pub guard: Option<NewFolderGuard>,
    pub manifest: Manifest,
    /// Minutes between checkpoints.
    pub minutes: f64,
    /// When the session began, and time and memory of the sessions before.
    pub time: (Instant, Spent),
}

impl Frame<'_> {
    /// The driver, after so many epochs or tests of which a checkpoint may have the state; `count` is what is counted.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn driver(
        &mut self,
        watch: MemoryWatch,
        done: (u64, bool),
        count: (&'static str, u64, u64),
    ) -> Result<Driver> {
        self.manifest.write(&self.folder.manifest_file())?;
        Driver::begin(Begin {
            root: self.folder.root(),
            guard: self.guard.take(),
            done,
            minutes: self.minutes,
            count,
            watch,
            time: self.time,
            group: Group::alone(),
        })
    }

    /// What is said where the state is not saved.
    pub(super) fn unsaved(&self, done: usize) -> Unsaved {
        let reached = reached(self.config, done).unwrap_or_default();
        let what = format!("the state after {reached} is not saved");
        Unsaved {
            goes_on: format!("{what}, the search goes on"),
            kept: None,
            at_end: what,
        }
    }

    /// Ends the search.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn ended(&self, driver: &mut Driver, outcome: Outcome) -> Result<Report> {
        outcome.write_report(&self.folder)?;
        driver.keep();
        let spent = driver.spent();
        spent.write(&self.folder.sessions())?;
        Ok(Report::new(self.folder.root(), outcome.numbers, &spent))
    }

    /// The report of the search, which was stopped.
    ///
    /// # Errors
    /// None, as the settings were read before.
    pub(super) fn interrupted(&self, driver: &Driver, done: usize) -> Result<Report> {
        let reached = reached(self.config, done)?;
        Ok(Report::interrupted(self.folder.root(), reached, &driver.spent()))
    }
}
