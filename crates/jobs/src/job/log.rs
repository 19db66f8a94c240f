//! The log of a job: numbers as JSON lines, TensorBoard events, progress.

use lessen_base::Result;
use lessen_task::folder::metrics::Metrics;
use lessen_train::Progress;
use lessen_train::events::Events;
use std::path::Path;

/// The log of a job.
pub(crate) struct Log {
    /// `metrics.jsonl`
    pub metrics: Metrics,
    /// The events for TensorBoard.
    pub events: Events,
    /// The count that is shown.
    pub progress: Progress,
}

impl Log {
    /// Opens the log of a job in a folder after `done` units; lines about later ones are removed. What is counted has a
    /// name, a total and a number that is done.
    ///
    /// # Errors
    /// Files that cannot be read or written to.
    pub(crate) fn open(root: &Path, done: u64, (unit, total, counted): (&'static str, u64, u64)) -> Result<Log> {
        Ok(Log {
            metrics: Metrics::open(&root.join("metrics.jsonl"), done)?,
            events: Events::create(root, done)?,
            progress: Progress::new(unit, total, counted),
        })
    }

    /// Waits until metrics and events are on the disk.
    ///
    /// # Errors
    /// A disk that is full or fails.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.metrics.sync()?;
        self.events.sync()
    }
}
