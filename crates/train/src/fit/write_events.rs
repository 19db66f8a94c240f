//! The numbers of a training loop for TensorBoard.

use super::callback::{Callback, Course};
use super::history::Evaluation;
use crate::events::Events;
use crate::trainer::{StepReport, Trainer};
use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Writes an event file for TensorBoard: `train/loss`, `train/lr` and `train/gradient_norm` of each step, and
/// `eval/NAME` of each score.
pub struct WriteEvents {
    folder: PathBuf,
    events: Option<Events>,
}

impl WriteEvents {
    /// Writes into a folder, which is created when the loop begins. Each loop writes a file of its own.
    pub fn new(folder: impl Into<PathBuf>) -> WriteEvents {
        WriteEvents {
            folder: folder.into(),
            events: None,
        }
    }

    fn write(&mut self, step: u64, scalars: &[(&str, f64)]) -> Result<ControlFlow<String>> {
        let events = self.events.as_mut();
        let events = events.ok_or_else(|| Error::internal("an event file was not begun"))?;
        events.scalars(step, scalars)?;
        Ok(ControlFlow::Continue(()))
    }
}

impl Callback for WriteEvents {
    fn begin(&mut self, trainer: &mut Trainer, _: &Course) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|error| unwritable(&self.folder, &error))?;
        self.events = Some(Events::create(&self.folder, trainer.done())?);
        Ok(())
    }

    fn stepped(&mut self, _: &mut Trainer, report: &StepReport) -> Result<ControlFlow<String>> {
        let mut scalars = vec![("train/loss", f64::from(report.loss)), ("train/lr", report.lr)];
        scalars.extend(
            report
                .gradient_norm
                .map(|norm| ("train/gradient_norm", f64::from(norm))),
        );
        self.write(report.step, &scalars)
    }

    fn evaluated(&mut self, _: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        let named = evaluation
            .scores
            .iter()
            .map(|(name, score)| (format!("eval/{name}"), *score));
        let named: Vec<(String, f64)> = named.collect();
        let scalars: Vec<(&str, f64)> = named.iter().map(|(name, score)| (name.as_str(), *score)).collect();
        self.write(evaluation.step, &scalars)
    }
}
