//! What everything of a run is made from: settings, data, model, and the extent of its batches.

use crate::config::Config;
use crate::corpus::Goal;
use crate::error::{Error, Result};
use crate::plans::TrainerOptions;
use lessen_nn::{BatchShape, Model};

/// What everything is made from: settings, data, tokenizer, model.
pub struct Prepared {
    /// The recipe.
    pub config: Config,
    /// What is predicted.
    pub goal: Goal,
    /// The model.
    pub model: Model,
    /// Extent of a batch.
    pub shape: BatchShape,
    /// Steps in all.
    pub total: u64,
}

impl Prepared {
    /// How to train it.
    pub fn options(&self, budget: Option<usize>) -> TrainerOptions {
        let train = &self.config.train;
        TrainerOptions {
            optimizer: self.config.optimizer,
            schedule: self.config.schedule(self.total),
            seed: train.seed,
            clip_norm: (train.clip_norm > 0.0).then_some(train.clip_norm),
            accumulate: train.accumulate,
            placement: self.config.placement,
            budget,
        }
    }

    /// Refuses a batch whose arrays cannot even be counted.
    pub(crate) fn check_extent(&self) -> Result<()> {
        let widest = self
            .model
            .parameters()
            .iter()
            .flat_map(|p| p.shape.clone())
            .max()
            .unwrap_or(1);
        let BatchShape { size, length } = self.shape;
        let largest = size as f64 * length as f64 * widest.max(length) as f64 * 4.0;
        if largest < (1u64 << 50) as f64 {
            return Ok(());
        }
        Err(Error::user(format!(
            "{} asks for arrays of more than 1000 TiB; take a smaller batch",
            self.config.place("train.batch")
        )))
    }
}
