//! Saving of checkpoints, of the best model and of the model that a run results in.

use super::Run;
use lessen_base::Result;
use lessen_base::atomic::{unwritable, write_folder};
use lessen_task::evaluation::Scores;
use lessen_task::folder::manifest::{BEST, Best, Manifest, STATE, Waiting, write_best};
use lessen_task::wording::tell;
use std::fs;
use std::path::Path;

impl Run {
    /// Saves the model as the best one, if its scores are the best. Where saving fails, the best model stays the one
    /// before.
    pub(super) fn keep_best(&mut self, step: u64, scores: &Scores) {
        let score = scores.deciding(self.phase.task.config().train.best.as_deref());
        if self.best.as_ref().is_none_or(|best| score.gain() > best.gain()) {
            let best = Best {
                step,
                score: score.value,
                is_error: score.is_error,
                phase: self.phase.task.config().phase.clone(),
            };
            match self.save_model(&self.folder.best(), Some(&best)) {
                Ok(()) => self.best = Some(best),
                Err(error) => tell(&format!(
                    "warning: the best model, that after step {step}, is not saved: {error}"
                )),
            }
        }
    }

    /// Counts the evaluations since the best one. After `train.patience` of them, the training phase ends.
    pub(super) fn wait(&mut self, scores: &Scores) {
        let train = &self.phase.task.config().train;
        if train.patience == 0 {
            return;
        }
        let score = scores.deciding(train.best.as_deref()).gain();
        let waiting = match self.waiting {
            Some(waiting) if score <= waiting.score => Waiting {
                evaluations: waiting.evaluations + 1,
                ..waiting
            },
            _ => Waiting { score, evaluations: 0 },
        };
        self.stopped = waiting.evaluations >= train.patience;
        self.waiting = Some(waiting);
    }

    /// Saves a checkpoint.
    ///
    /// # Errors
    /// A folder that cannot be written to, a full disk.
    pub(super) fn save_checkpoint(&mut self) -> Result<()> {
        let train = &self.phase.task.config().train;
        let (dtype, optimizer) = (train.save_dtype, train.save_optimizer);
        let mut manifest = Manifest::new(self.trainer.done(), self.phase.steps.total, self.data);
        manifest.phase = self.phase.mark();
        manifest.inputs = self.inputs.clone();
        (manifest.waiting, manifest.stopped) = (self.waiting, self.stopped);
        (manifest.without_optimizer, manifest.optimizer_since) = (!optimizer, self.optimizer_since);
        self.trainer.begin_giving(dtype, optimizer)?;
        let saved = self.folder.checkpoints().save(manifest, train.keep, |aside| {
            self.phase.task.save(aside, &mut self.trainer, &self.reader)?;
            self.trainer.save_state(&aside.join(STATE), dtype, optimizer)
        });
        // Other processes wait for this one, whether it could write or not.
        self.trainer.end_giving()?;
        saved
    }

    /// Gives the process that saves a checkpoint what it lacks.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(super) fn share_checkpoint(&mut self) -> Result<()> {
        let train = &self.phase.task.config().train;
        self.trainer.begin_giving(train.save_dtype, train.save_optimizer)?;
        self.trainer.end_giving()
    }

    /// Saves model and tokenizer, and the best evaluation if they belong to it.
    fn save_model(&mut self, dir: &Path, best: Option<&Best>) -> Result<()> {
        write_folder(dir, |aside| {
            self.phase.task.save(aside, &mut self.trainer, &self.reader)?;
            best.map_or(Ok(()), |best| write_best(aside, best))
        })
    }

    /// Whether the run results in its best model: where the recipe names a score for that, or a patience.
    pub(super) fn yields_best(&self) -> bool {
        let train = &self.phase.task.config().train;
        self.best.is_some() && self.folder.best().is_dir() && (train.best.is_some() || train.patience > 0)
    }

    /// Saves the model that the run results in.
    pub(super) fn save_result(&mut self) -> Result<()> {
        let (best, model) = (self.folder.best(), self.folder.model());
        if !self.yields_best() {
            return self.save_model(&model, None);
        }
        let unreadable = |error| unwritable(&model, &error);
        write_folder(&model, |aside| {
            for entry in fs::read_dir(&best).map_err(unreadable)? {
                let name = entry.map_err(unreadable)?.file_name();
                if name != BEST {
                    fs::copy(best.join(&name), aside.join(&name)).map_err(unreadable)?;
                }
            }
            Ok(())
        })
    }
}
