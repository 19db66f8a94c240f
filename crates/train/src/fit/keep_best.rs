//! The best state of a training.

use super::better::{Better, Watched};
use super::callback::{Callback, Course};
use super::history::{Evaluation, History};
use crate::trainer::{Snapshot, Trainer};
use lessen_base::Result;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Keeps the trainer's state at the best evaluation, and restores it at the end: parameters, averages, states of the
/// optimizer, and the number of steps done.
pub struct KeepBest {
    watched: Watched,
    place: Place,
}

/// Where the best state is kept.
enum Place {
    Memory(Option<Snapshot>),
    Folder(PathBuf),
}

impl KeepBest {
    /// Keeps the state in the host's memory, which takes as many bytes there as parameters and states of training on
    /// the device.
    pub fn in_memory(score: &str, better: Better) -> KeepBest {
        KeepBest {
            watched: Watched::new(score, better),
            place: Place::Memory(None),
        }
    }

    /// Keeps the state in a folder, as [`Trainer::save_checkpoint`] writes it.
    pub fn in_folder(score: &str, better: Better, folder: impl Into<PathBuf>) -> KeepBest {
        KeepBest {
            watched: Watched::new(score, better),
            place: Place::Folder(folder.into()),
        }
    }

    /// The best score, and the number of steps before its evaluation.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.watched.best
    }
}

impl Callback for KeepBest {
    fn begin(&mut self, _: &mut Trainer, course: &Course) -> Result<()> {
        self.watched.begin(course)
    }

    fn evaluated(&mut self, trainer: &mut Trainer, evaluation: &Evaluation) -> Result<ControlFlow<String>> {
        let score = evaluation.score(&self.watched.name)?;
        if self.watched.improves(evaluation.step, score, 0.0) {
            match &mut self.place {
                Place::Memory(kept) => *kept = Some(trainer.snapshot()?),
                Place::Folder(folder) => trainer.save_checkpoint(folder)?,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, trainer: &mut Trainer, _: &History) -> Result<()> {
        if self.watched.best.is_none() {
            return Ok(());
        }
        match &mut self.place {
            Place::Memory(kept) => kept.take().map_or(Ok(()), |kept| trainer.restore(&kept)),
            Place::Folder(folder) => trainer.resume_checkpoint(folder).map(drop),
        }
    }
}
