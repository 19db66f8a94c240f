//! What everything of a run is made from: settings, data, model, and the extent of its batches.

use crate::config::{Config, DataFormat};
use crate::corpus::{Corpus, Goal};
use crate::model::{self, Sizes};
use crate::plans::TrainerOptions;
use lessen_base::{Error, Result};
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
        check_sizes(&config, sizes)?;
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

    /// Refuses a batch whose arrays, about one for every parameter, cannot even be counted.
    pub(crate) fn check_extent(&self) -> Result<()> {
        let parameters = self.model.parameters();
        let widest = parameters
            .iter()
            .map(|param| param.shape.iter().copied().max().unwrap_or(1) as f64);
        let BatchShape { size, length } = self.shape;
        if size as f64 * length as f64 * widest.sum::<f64>() < COUNTABLE {
            return Ok(());
        }
        let model = &self.config.model;
        let mut keys = vec![("train.batch", size), ("data.max_length", length)];
        if model.init.is_none() {
            keys.extend([("model.width", model.width), ("model.ffn", model.ffn)]);
        }
        Err(uncountable(&self.config, keys))
    }
}

/// Numbers, of four bytes each, beyond which sizes are a slip of the hand.
const COUNTABLE: f64 = (1u64 << 48) as f64;

/// Refuses a model from scratch whose parameters cannot even be counted, before anything is made of them.
///
/// # Errors
/// The key that has the largest share in it.
pub(crate) fn check_sizes(config: &Config, sizes: Sizes) -> Result<()> {
    let model = &config.model;
    if model.init.is_some() {
        return Ok(());
    }
    let (layers, width, ffn) = (model.layers as f64, model.width as f64, model.ffn as f64);
    // A pair of sizes for every matrix, the layers' with their number.
    let shares = [
        ("model.width", 4.0 * layers * width * width),
        ("model.ffn", 2.0 * layers * width * ffn),
        ("model.vocab", sizes.vocab as f64 * width),
        ("data.max_length", sizes.length as f64 * width),
    ];
    if shares.iter().map(|(_, share)| share).sum::<f64>() < COUNTABLE {
        return Ok(());
    }
    Err(uncountable(config, shares))
}

/// The refusal of sizes whose arrays nobody can count, naming the key with the greatest share in them.
fn uncountable<T: PartialOrd>(config: &Config, shares: impl IntoIterator<Item = (&'static str, T)>) -> Error {
    let greatest = shares
        .into_iter()
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
        .map_or("train.batch", |(name, _)| name);
    Error::user(format!(
        "{} asks for more than 1000 TiB of memory; choose a smaller number",
        config.place(greatest)
    ))
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
