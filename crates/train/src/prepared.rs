//! What everything of a run is made from: settings, data, model, and the extent of its batches.

use crate::config::{Config, DataFormat};
use crate::corpus::{Corpus, Goal};
use crate::error::{Error, Result};
use crate::model::{self, Sizes};
use crate::plans::TrainerOptions;
use lessen_data::Metric;
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
    /// What a recipe describes. Without data it assumes the recipe's `model.vocab` and `model.classes`.
    ///
    /// # Errors
    /// Settings, data or a checkpoint with a mistake.
    pub(crate) fn assumed(config: Config) -> Result<Prepared> {
        let (goal, sizes) = extent(&config)?;
        let model = model::build(&config, &goal, sizes)?;
        let shape = BatchShape {
            size: config.train.batch,
            length: sizes.length,
        };
        let prepared = Prepared {
            config,
            goal,
            model,
            shape,
            total: 1,
        };
        prepared.check_extent()?;
        Ok(prepared)
    }

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

/// The model of a recipe and the extent of its batches. Without data it assumes the recipe's `model.vocab` and
/// `model.classes`.
///
/// # Errors
/// Settings, data or a checkpoint with a mistake.
pub fn recipe_model(config: Config) -> Result<(Model, BatchShape)> {
    let prepared = Prepared::assumed(config)?;
    Ok((prepared.model, prepared.shape))
}

/// What the data is like, or would be.
fn extent(config: &Config) -> Result<(Goal, Sizes)> {
    if config.data.path.is_some() || config.data.format == DataFormat::Adder {
        let corpus = Corpus::read(config)?;
        let tokenizer = corpus.tokenizer(config)?;
        let length = corpus.length(config);
        return Ok((
            corpus.goal(),
            Sizes {
                vocab: tokenizer.vocab_size(),
                pad: tokenizer.pad_id(),
                length,
            },
        ));
    }
    let names = (0..config.model.classes).map(|class| class.to_string()).collect();
    let goal = match config.data.format {
        DataFormat::Text => Goal::NextToken,
        _ => Goal::Classes(names, vec![Metric::Accuracy]),
    };
    Ok((
        goal,
        Sizes {
            vocab: config.model.vocab,
            pad: 0,
            length: config.data.max_length,
        },
    ))
}
