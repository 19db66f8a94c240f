//! A run that is there already: its settings, its model, and what can be done with them.

use crate::config::{Config, DataFormat};
use crate::config_file::read_config;
use crate::corpus::{Corpus, Goal, has_pairs};
use crate::evaluate::{self, Scores, evaluate};
use crate::folder::Folder;
use crate::generate::{Generator, Sampling};
use crate::inference::Inference;
use crate::model::{check_vocabulary, number_classes};
use crate::settings::Value;
use lessen_base::{Error, Result};
use lessen_cpu::Device;
use lessen_data::{Adder, ExampleBatches, Examples, Order, Source, Target, Tokenizer, adder};
use lessen_nn::{BatchShape, Model, Task, Weights, checkpoint};
use std::path::{Path, PathBuf};

/// The device that the environment asks for.
///
/// # Errors
/// An environment variable that makes no sense.
pub fn device() -> Result<Device> {
    Device::from_env()
}

/// What to call a loss that is not finite.
pub(crate) fn name_of(loss: f64) -> &'static str {
    if loss.is_nan() {
        "no number (NaN)"
    } else {
        "infinite"
    }
}

/// What a model says of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// The most likely class, and all classes with their probabilities.
    Class(String, Vec<(String, f64)>),
    /// A score.
    Score(f64),
    /// The answer to a sum, as it is written.
    Sum(String),
}

/// A saved run.
pub struct Finished {
    /// Its settings.
    pub config: Config,
    /// The folder that the model was read from.
    pub source: PathBuf,
    /// The model.
    pub model: Model,
    weights: Weights,
    tokenizer: Tokenizer,
}

impl Finished {
    /// Opens a run: its last model, or its best one; that of the newest checkpoint while it has not ended.
    ///
    /// # Errors
    /// A folder without a run, or with a damaged one.
    pub fn open(root: &Path, best: bool) -> Result<Finished> {
        let folder = Folder::open(root)?;
        let written = read_config(&folder)?;
        let config = Config::new(&written.recipe, written.settings)?;
        let source = folder.usable_model(best)?;
        let model = Model::from_dir(&source)?;
        let weights = checkpoint::load(&source, &model.parameters(), &|_| false)?.weights;
        let tokenizer = Tokenizer::from_dir(&source)?;
        let whose = format!("the model in {}", source.display());
        check_vocabulary(tokenizer.vocab_size(), &model, &whose)?;
        let (length, longest) = (config.data.max_length, model.max_length());
        if config.data.format != DataFormat::Adder && length > longest {
            return Err(Error::user(format!(
                "{} is more than the {longest} positions of {whose}; restore the run's config.toml",
                config.place("data.max_length")
            )));
        }
        Ok(Finished {
            config,
            source,
            model,
            weights,
            tokenizer,
        })
    }

    /// Evaluates on a split of the run's data, or of other data. Where that numbers the same classes otherwise, the
    /// model's classes are numbered like them from then on.
    ///
    /// # Errors
    /// Data that is missing, damaged, or does not fit the model; parameters whose loss is no number.
    pub fn evaluate(&mut self, data: Option<&Path>, split: &str) -> Result<Scores> {
        if let Some(path) = data {
            let mut settings = self.config.settings.clone();
            let text = path.display().to_string();
            settings.set_named("data.path", Value::Text(text.clone()), format!("--data {text}"))?;
            self.config = Config::new(&self.config.recipe, settings)?;
        }
        let corpus = Corpus::read(&self.config)?;
        let goal = corpus.goal();
        match &goal {
            Goal::Classes(names, _) => number_classes(&mut self.model, &mut self.weights, names)?,
            Goal::Score(_) if self.model.task() != Task::Regression => {
                return Err(Error::user(
                    "the data has scores but the model tells classes apart; name data of the same task",
                ));
            }
            _ => {}
        }
        let source = corpus.evaluation(&self.config, &self.tokenizer, split)?;
        let shape = BatchShape {
            size: self.config.train.batch,
            length: corpus.length(&self.config),
        };
        let mut inference = self.inference()?;
        let mut function = inference.function(|cx| evaluate::trace(cx, &self.model, &goal, shape))?;
        let scores = evaluate(&mut inference, &mut function, source.as_ref(), &goal)?;
        if !scores.loss.is_finite() {
            return Err(Error::user(format!(
                "the loss of {} on {split} is {}; its parameters are of no use: train again with a lower train.lr, or \
                 evaluate another model of the run (--best)",
                self.source.display(),
                name_of(scores.loss)
            )));
        }
        Ok(scores)
    }

    /// What the model says of a text.
    ///
    /// # Errors
    /// A model that only continues texts, a text that cannot be encoded.
    pub fn predict(&self, text: &str) -> Result<Prediction> {
        let target = match (self.goal_is_sum(), self.model.task()) {
            (true, _) => return self.answer(text),
            (_, Task::Regression) => Target::Score,
            (_, Task::Classification { .. }) => Target::Classes(self.model.labels().to_vec()),
            _ => {
                return Err(Error::user(
                    "this run is a language model; continue texts with `lessen generate`",
                ));
            }
        };
        let shape = BatchShape {
            size: 1,
            length: self.config.data.max_length,
        };
        // Pairs of texts are written with a tab between; a single text may have tabs of its own.
        let pair = match text.split_once('\t') {
            Some((first, second)) if has_pairs(&self.config) => (first.to_string(), Some(second.to_string())),
            _ => (text.to_string(), None),
        };
        let examples = Examples::unlabelled(vec![pair], &target);
        let batches = ExampleBatches::new(&examples, &self.tokenizer, shape.length, 1, Order::InOrder)?;
        let batch = batches.eval_batch(0);
        let mut inference = self.inference()?;
        let mut function = inference.function(|cx| vec![("logits", self.model.logits(cx, shape))])?;
        inference.run(&mut function, &evaluate::inputs_of(&batch))?;
        let logits = function.output("logits").unwrap_or_default();
        if target == Target::Score {
            return Ok(Prediction::Score(
                logits.first().copied().map_or(f64::NAN, f64::from),
            ));
        }
        let labels = self.model.labels();
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        let shares = labels
            .iter()
            .cloned()
            .zip(weights.iter().map(|weight| weight / total))
            .collect();
        let best = evaluate::largest(logits, 1)
            .first()
            .map_or(0, |&class| class as usize);
        Ok(Prediction::Class(labels[best].clone(), shares))
    }

    /// Continues a prompt; returns what was added.
    ///
    /// # Errors
    /// A model that is no language model, a prompt without tokens.
    pub fn generate(&self, prompt: &str, sampling: &Sampling) -> Result<String> {
        let tokens = self.tokenizer.encode(prompt)?;
        let mut generator = Generator::new(device()?, &self.model, &self.weights)?;
        let most = if self.goal_is_sum() {
            adder::DIGITS
        } else {
            usize::MAX
        };
        let sampling = Sampling {
            tokens: sampling.tokens.min(most),
            ..*sampling
        };
        let added = generator.generate(&tokens, &sampling)?;
        Ok(self.tokenizer.decode(&added)?)
    }

    fn goal_is_sum(&self) -> bool {
        self.config.data.format == DataFormat::Adder
    }

    fn inference(&self) -> Result<Inference> {
        Inference::new(device()?, self.model.parameters(), &self.weights)
    }

    /// The answer of a model that adds.
    fn answer(&self, text: &str) -> Result<Prediction> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let numbers = plain.trim_end_matches('=').split_once('+');
        let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number < 1000);
        let Some((a, b)) = numbers.and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
            return Err(Error::user(format!(
                "'{text}' is no sum of two numbers below 1000; write one such as 123+456"
            )));
        };
        let adder = Adder::new(1, 0)?;
        let question = adder.question(a, b);
        let sampling = Sampling {
            tokens: adder::DIGITS,
            temperature: 0.0,
            top_k: None,
            seed: 0,
        };
        let answer = Generator::new(device()?, &self.model, &self.weights)?.generate(&question, &sampling)?;
        Ok(Prediction::Sum(adder.show(&question, &answer)))
    }
}
