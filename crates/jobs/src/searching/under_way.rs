//! A search by a supernet as a job: epochs, checkpoints, files.

use super::curves::{curves, numbers};
use super::folder::CHOICES;
use super::frame::Frame;
use super::outcome::{Outcome, probabilities};
use super::report::Report;
use crate::job::{Checkpoint, Driver, Job, Unit, Unsaved};
use crate::planning::memory_watch::MemoryWatch;
use lessen_base::Result;
use lessen_nn::Weights;
use lessen_search::{Epoch, Searcher};
use lessen_task::device::NewBackend;
use lessen_task::wording::report;
use lessen_train::Peak;
use serde_json::json;
use std::time::{Duration, Instant};

/// A search by a supernet under way.
struct SearchUnderWay<'a> {
    frame: Frame<'a>,
    searcher: Searcher<'a>,
    /// The epoch that is done, until it is recorded, and its time.
    newest: Option<(Epoch, Duration)>,
    /// What the search would end with, of the last save.
    outcome: Option<Outcome>,
}

/// Searches by a supernet.
///
/// # Errors
/// A device that fails, a loss that is not finite, a folder that cannot be written to.
pub(super) fn search(
    mut frame: Frame<'_>,
    checkpoint: Option<Checkpoint>,
    (watch, new_backend): (&mut MemoryWatch, &NewBackend),
) -> Result<Report> {
    let (job, budget) = (frame.job, frame.config.run.budget);
    let mut searcher = job.searcher(frame.images, budget, (&mut *watch, new_backend))?;
    let has_one = checkpoint.is_some();
    if let Some(mut checkpoint) = checkpoint {
        searcher.resume(checkpoint.done, &checkpoint.take_weights())?;
    }
    let (done, steps) = (searcher.done() as u64, searcher.steps() as u64);
    let count = ("step", job.settings.epochs as u64 * steps, done * steps);
    let mut driver = frame.driver(*watch, (done, has_one), count)?;
    let mut under_way = SearchUnderWay {
        frame,
        searcher,
        newest: None,
        outcome: None,
    };
    let ended = driver.go(&mut under_way)?;
    driver.check_saved()?;
    driver.measure(under_way.peak());
    match under_way.outcome.filter(|_| ended) {
        Some(outcome) => under_way.frame.ended(&mut driver, outcome),
        None => under_way.frame.interrupted(&driver, under_way.searcher.done()),
    }
}

impl Job for SearchUnderWay<'_> {
    type State = (usize, Weights);

    fn is_over(&self) -> bool {
        self.searcher.done() >= self.frame.job.settings.epochs
    }

    fn state(&self) -> Result<(usize, Weights)> {
        Ok((self.searcher.done(), self.searcher.state()?))
    }

    fn advance(&mut self, unit: &mut Unit<'_>) -> Result<()> {
        let (begun, epochs) = (Instant::now(), self.frame.job.settings.epochs);
        let epoch = self.searcher.epoch(&mut |step| {
            let validation = step
                .validation_loss
                .map_or(String::new(), |loss| format!("  validation {loss:.3}"));
            unit.log.progress.step(
                (step.epoch * step.steps + step.step + 1) as u64,
                format!("epoch {}/{epochs}  loss {:.3}{validation}", step.epoch + 1, step.loss),
            );
            if step.step + 1 < step.steps {
                unit.part()
            } else {
                Ok(())
            }
        })?;
        self.newest = Some((epoch, begun.elapsed()));
        Ok(())
    }

    fn restore(&mut self, (done, state): (usize, Weights)) -> Result<()> {
        self.searcher.resume(done, &state)
    }

    fn record(&mut self, driver: &mut Driver) -> Result<()> {
        let Some((epoch, time)) = self.newest.take() else {
            return Ok(());
        };
        let values = numbers(&epoch);
        let mut line = json!({ "step": epoch.done, "epoch_ms": time.as_secs_f64() * 1e3 });
        if let Some(line) = line.as_object_mut() {
            line.extend(values.iter().map(|(name, value)| (name.to_string(), json!(value))));
        }
        driver.log.metrics.write(&line)?;
        driver.log.events.scalars(epoch.done as u64, &values)?;
        let settings = &self.frame.job.settings;
        report(&said(&epoch, settings.epochs, settings.cost.unit()));
        Ok(())
    }

    /// Saves state, network and manifest.
    fn save(&mut self) -> Result<()> {
        let (done, frame, searcher) = (self.searcher.done(), &mut self.frame, &self.searcher);
        Checkpoint::of(done, searcher.state()?).write(&frame.folder.checkpoint())?;
        frame.manifest.done = done;
        let [trained, judged] = searcher.images();
        let more = json!({ "epochs": done, "images": { "weights": trained, "architecture": judged } });
        let outcome = Outcome::new(frame.job, frame.config, frame.images, searcher.choices()?, more)?;
        outcome.write(&frame.folder, frame.job, frame.config)?;
        let shares = probabilities(searcher.space(), searcher)?;
        frame.folder.write(CHOICES, format!("{shares:#}\n").as_bytes())?;
        let drawn = curves(&frame.folder.metrics(), frame.job.settings.cost.unit())?;
        frame.folder.write("curves.svg", drawn.as_bytes())?;
        self.outcome = Some(outcome);
        frame.manifest.write(&frame.folder.manifest_file())
    }

    fn unsaved(&self) -> Unsaved {
        self.frame.unsaved(self.searcher.done())
    }

    fn peak(&self) -> Peak {
        Peak {
            planned: 0,
            measured: self.searcher.session().memory().used.total(),
        }
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
