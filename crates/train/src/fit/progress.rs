//! Progress of a training loop, for a watcher or as lines of text.

use super::callback::{Callback, Course};
use super::history::{Evaluation, History};
use crate::progress::Progress;
use crate::trainer::{StepReport, Trainer};
use lessen_base::watcher::{self, Event};
use lessen_base::{Error, Result};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Tells this thread's [watcher](lessen_base::watcher) of steps and evaluations, as jobs do.
#[derive(Default)]
pub struct TellWatcher(Option<Progress>);

impl TellWatcher {
    /// Tells the watcher of the thread that begins the loop.
    pub fn new() -> TellWatcher {
        TellWatcher::default()
    }
}

impl Callback for TellWatcher {
    fn begin(&mut self, trainer: &mut Trainer, course: &Course) -> Result<()> {
        self.0 = Some(Progress::new("step", course.steps, trainer.done()));
        Ok(())
    }

    fn stepped(&mut self, _: &mut Trainer, report: &StepReport) -> Result<ControlFlow<String>> {
        let numbers = [("loss", f64::from(report.loss)), ("lr", report.lr)];
        watcher::tell(&Event::Numbers {
            step: report.step,
            numbers: &numbers,
        });
        if let Some(progress) = &mut self.0 {
            progress.step(report.step, format!("loss {:.4}", report.loss));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn evaluated(&mut self, _: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        let numbers: Vec<(&str, f64)> = evaluation
            .scores
            .iter()
            .map(|(name, score)| (name.as_str(), *score))
            .collect();
        watcher::tell(&Event::Numbers {
            step: evaluation.step,
            numbers: &numbers,
        });
        watcher::tell(&Event::Report(&line_of(evaluation)));
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, _: &mut Trainer, _: &History) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}

/// Writes lines about steps and evaluations, such as `step 10 of 100: loss 0.1234` and `step 10: accuracy 0.9`.
pub struct WriteLines<W> {
    out: W,
    every: u64,
    steps: u64,
}

impl<W: Write> WriteLines<W> {
    /// Writes to `out` a line about every step whose number is divisible by `every`, and about every evaluation. 0
    /// leaves the steps out.
    pub fn new(out: W, every: u64) -> WriteLines<W> {
        WriteLines { out, every, steps: 0 }
    }

    fn line(&mut self, line: &str) -> Result<ControlFlow<String>> {
        writeln!(self.out, "{line}").map_err(|error| unwritten(&error))?;
        Ok(ControlFlow::Continue(()))
    }
}

impl<W: Write> Callback for WriteLines<W> {
    fn begin(&mut self, _: &mut Trainer, course: &Course) -> Result<()> {
        self.steps = course.steps;
        Ok(())
    }

    fn stepped(&mut self, _: &mut Trainer, report: &StepReport) -> Result<ControlFlow<String>> {
        if self.every == 0 || !report.step.is_multiple_of(self.every) {
            return Ok(ControlFlow::Continue(()));
        }
        self.line(&format!(
            "step {} of {}: loss {:.4}",
            report.step, self.steps, report.loss
        ))
    }

    fn evaluated(&mut self, _: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        self.line(&line_of(evaluation))
    }

    fn end(&mut self, _: &mut Trainer, _: &History) -> Result<()> {
        self.out.flush().map_err(|error| unwritten(&error))
    }
}

fn unwritten(error: &io::Error) -> Error {
    Error::user(format!(
        "the progress cannot be written ({error}); give WriteLines another writer"
    ))
}

/// A line about an evaluation.
fn line_of(evaluation: &Evaluation) -> String {
    let scores: Vec<String> = evaluation
        .scores
        .iter()
        .map(|(name, score)| format!("{name} {score:.4}"))
        .collect();
    format!("step {}: {}", evaluation.step, scores.join(", "))
}
