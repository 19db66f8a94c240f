//! A search under way: epochs, checkpoints, files.

use super::curves::{curves, numbers};
use super::folder::CHOICES;
use super::manifest::Manifest;
use super::outcome::{Outcome, probabilities};
use super::report::Report;
use super::settings::{Job, reached};
use crate::job::RecipeImages;
use crate::job::{Checkpoint, JobFolder};
use crate::planning::memory_watch::MemoryWatch;
use crate::training::checkpoint_clock::CheckpointClock;
use crate::training::interrupt;
use crate::training::progress::Progress;
use lessen_base::{Error, Result};
use lessen_search::{Epoch, Searcher};
use lessen_task::device::NewBackend;
use lessen_task::folder::NewFolderGuard;
use lessen_task::folder::events::Events;
use lessen_task::folder::metrics::Metrics;
use lessen_task::folder::spent::Spent;
use lessen_task::recipe::config::Config;
use lessen_train::Peak;
use serde_json::json;
use std::time::Instant;

/// A search under way.
pub(super) struct Course<'a> {
    pub job: &'a Job,
    pub config: &'a Config,
    pub images: &'a RecipeImages,
    pub folder: JobFolder,
    /// Removes the folder of a new search that fails before its first epoch.
    pub guard: Option<NewFolderGuard>,
    pub manifest: Manifest,
    pub watch: &'a mut MemoryWatch,
    pub begun: Instant,
    /// Time and memory of the sessions before.
    pub before: Spent,
    /// Minutes between checkpoints.
    pub minutes: f64,
}

impl Course<'_> {
    /// Searches by a supernet.
    ///
    /// # Errors
    /// A device that fails, a loss that is not finite, a folder that cannot be written to.
    pub(super) fn search(&mut self, checkpoint: Option<&Checkpoint>, new_backend: NewBackend<'_>) -> Result<Report> {
        let (job, images) = (self.job, self.images);
        let budget = self.config.run.budget;
        let mut searcher = job.searcher(images, budget, (&mut *self.watch, new_backend))?;
        if let Some(checkpoint) = checkpoint {
            searcher.resume(checkpoint.done, &checkpoint.state)?;
        }
        self.manifest.write(&self.folder.manifest_file())?;
        let done = searcher.done() as u64;
        let mut metrics = Metrics::open(&self.folder.metrics(), done)?;
        let mut events = Events::create(self.folder.root(), done)?;
        let (steps, epochs) = (searcher.steps() as u64, job.settings.epochs);
        let mut progress = Progress::new("step", epochs as u64 * steps, done * steps);
        let mut clock = CheckpointClock::new(self.minutes, checkpoint.is_some());
        let unit = job.settings.cost.unit();
        while searcher.done() < epochs {
            let (begun, before) = (Instant::now(), searcher.state()?);
            let (now, mut stopped) = (searcher.done(), false);
            let found = searcher.epoch(&mut |step| {
                let validation = step
                    .validation_loss
                    .map_or(String::new(), |loss| format!("  validation {loss:.3}"));
                progress.step(
                    (step.epoch * step.steps + step.step + 1) as u64,
                    format!("epoch {}/{epochs}  loss {:.3}{validation}", step.epoch + 1, step.loss),
                );
                stopped = interrupt::asked() && step.step + 1 < step.steps;
                if stopped {
                    Err(Error::internal("interrupted"))
                } else {
                    Ok(())
                }
            });
            let epoch = match found {
                Ok(epoch) => epoch,
                Err(_) if stopped => {
                    searcher.resume(now, &before)?;
                    self.save(&searcher, &metrics)?;
                    return self.interrupted(&progress, searcher.done());
                }
                Err(error) => return Err(error),
            };
            if let Some(guard) = self.guard.take() {
                guard.keep();
            }
            let values = numbers(&epoch);
            let mut line = json!({ "step": epoch.done, "epoch_ms": begun.elapsed().as_secs_f64() * 1e3 });
            if let Some(line) = line.as_object_mut() {
                line.extend(values.iter().map(|(name, value)| (name.to_string(), json!(value))));
            }
            metrics.write(&line)?;
            events.scalars(epoch.done as u64, &values)?;
            progress.report(&said(&epoch, epochs, unit));
            if interrupt::asked() && searcher.done() < epochs {
                self.save(&searcher, &metrics)?;
                return self.interrupted(&progress, searcher.done());
            }
            if clock.is_due() && searcher.done() < epochs {
                let begun = Instant::now();
                self.save(&searcher, &metrics)?;
                clock.tried(begun.elapsed());
            }
        }
        let outcome = self.save(&searcher, &metrics)?;
        progress.finish();
        outcome.write_report(&self.folder)?;
        let spent = self.spent(searcher.session().memory().used.total());
        Ok(Report::new(self.folder.root(), outcome.numbers, &spent))
    }

    /// Saves state, network and manifest.
    fn save(&mut self, searcher: &Searcher<'_>, metrics: &Metrics) -> Result<Outcome> {
        metrics.sync()?;
        let checkpoint = Checkpoint {
            done: searcher.done(),
            state: searcher.state()?,
        };
        checkpoint.write(&self.folder.checkpoint())?;
        drop(checkpoint);
        self.manifest.done = searcher.done();
        let [trained, judged] = searcher.images();
        let more = json!({ "epochs": searcher.done(), "images": { "weights": trained, "architecture": judged } });
        let outcome = Outcome::new(self.job, self.config, self.images, searcher.choices()?, more)?;
        outcome.write(&self.folder, self.job, self.config)?;
        let shares = probabilities(searcher.space(), searcher)?;
        self.folder.write(CHOICES, format!("{shares:#}\n").as_bytes())?;
        let drawn = curves(&self.folder.metrics(), self.job.settings.cost.unit())?;
        self.folder.write("curves.svg", drawn.as_bytes())?;
        self.manifest.write(&self.folder.manifest_file())?;
        self.spent(searcher.session().memory().used.total())
            .write(&self.folder.sessions())?;
        if let Some(guard) = self.guard.take() {
            guard.keep();
        }
        Ok(outcome)
    }

    pub(super) fn interrupted(&mut self, progress: &Progress, done: usize) -> Result<Report> {
        progress.finish();
        let spent = self.spent(0);
        Ok(Report::interrupted(
            self.folder.root(),
            reached(self.config, done)?,
            &spent,
        ))
    }

    /// Time and memory of all sessions up to now.
    pub(super) fn spent(&self, measured: usize) -> Spent {
        let peak = self.watch.peak(Peak { planned: 0, measured });
        self.before.with_session(self.begun, &peak, self.watch.resident())
    }
}

/// An epoch in words.
fn said(epoch: &Epoch, epochs: usize, unit: &str) -> String {
    let validation = epoch.validation.map_or(String::new(), |[loss, accuracy]| {
        format!("  validation {loss:.4}, accuracy {:.2} %", 100.0 * accuracy)
    });
    format!(
        "epoch {}/{epochs}  loss {:.4}{validation}  mean cost {:.4} {unit}, of the likeliest choices {:.4} {unit}  entropy \
         {:.3}  temperature {:.3}",
        epoch.done, epoch.loss, epoch.mean_cost, epoch.cost, epoch.entropy, epoch.temperature
    )
}
