//! A run that has been saved: its settings, its model, and what can be done with them.

use crate::device::NewBackend;
use crate::folder::Folder;
use crate::lengths::Length;
use crate::recipe::config::Config;
use crate::recipe::keys::DataFormat;
use crate::recipe::phases::Recipe;
use crate::recipe::settings::Settings;
use crate::recipe::value::SettingValue;
use crate::task::corpus::has_pairs;
use crate::task::evaluation::{self, Functions, Scores, evaluate, shape_of};
use crate::task::first_weights;
use crate::task::goal::Goal;
use crate::task::model::number_classes;
use crate::task::{RunTask, SavedModel};
use crate::wording::{counted, name_of};
use lessen_base::{Error, Result};
use lessen_data::{Adder, ExampleBatches, Examples, LabelKind, Order, Source, adder};
use lessen_nn::{Model, Task};
use lessen_train::{Generator, Sampling, Session};
use std::path::Path;

/// The most tokens whose keys and values are kept where a model's positions are unlimited.
const MOST_KEPT: usize = 1 << 14;

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
pub struct SavedRun<'a> {
    config: Config,
    saved: SavedModel,
    new_backend: NewBackend<'a>,
}

impl<'a> SavedRun<'a> {
    /// Opens a run: its last model, or its best one; that of the newest checkpoint while it has not ended.
    ///
    /// # Errors
    /// A folder without a run, or with a damaged one.
    pub fn open(root: &Path, best: bool, new_backend: NewBackend<'a>) -> Result<SavedRun<'a>> {
        let folder = Folder::open(root)?;
        let (dir, phase) = folder.usable_model(best)?;
        let config = config_of(Recipe::new(folder.settings()?)?, phase.as_deref(), &dir)?;
        let saved = SavedModel::read(&config, &dir)?;
        Ok(SavedRun {
            config,
            saved,
            new_backend,
        })
    }

    /// The settings of the model's phase.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The model and its tokenizer.
    pub(crate) fn saved(&self) -> &SavedModel {
        &self.saved
    }

    /// A device with the model's parameters.
    ///
    /// # Errors
    /// A device that cannot be opened, and a file that is damaged or lacks a parameter.
    pub(crate) fn session(&self) -> Result<Session> {
        self.session_of(&self.saved.model, None)
    }

    /// [`SavedRun::session`] of the model with its classes in another order: rows of its last layer come from these places.
    fn session_of(&self, model: &Model, places: Option<&[usize]>) -> Result<Session> {
        let parameters = model.parameters();
        let mut session = Session::zeros((self.new_backend)()?, parameters.clone())?;
        first_weights::read(&mut session, &parameters, &self.saved.dir, &|_| false, places)?;
        Ok(session)
    }

    /// The folder that the model was read from.
    pub fn source(&self) -> &Path {
        &self.saved.dir
    }

    /// Evaluates on a split of the run's data, or of other data. Where that numbers the same classes otherwise, the
    /// model's classes are numbered like them.
    ///
    /// # Errors
    /// Data that is missing, damaged, or does not fit the model; parameters whose loss is no number.
    pub fn evaluate(&self, data: Option<&Path>, split: &str) -> Result<Scores> {
        self.evaluate_with(self.settings_for(data)?, split)
    }

    /// Evaluates a language model on a split of a text in windows of another length than in training. Windows follow
    /// each other without overlap, so at every length each token but the first is predicted once, with what stands
    /// before it in its window, and the losses, means over all predicted tokens, can be compared.
    ///
    /// # Errors
    /// As [`SavedRun::evaluate`], data that is no text, and a model whose positions do not reach that far.
    pub fn evaluate_at(&self, data: Option<&Path>, split: &str, length: Length) -> Result<(usize, Scores)> {
        if self.config.data.format != DataFormat::Text {
            return Err(Error::user(format!(
                "--length is for language models on texts; {} is of a run on data.format = {}",
                self.source().display(),
                self.config.data.format
            )));
        }
        let (trained, batch) = (self.config.data.max_length, self.config.equal_batch());
        let tokens = length.tokens(trained)?;
        if let Some(most) = self.saved.model.max_length().filter(|most| tokens > *most) {
            return Err(Error::user(format!(
                "--length {length}: {} has learned positions for {} only; of models with model.position = none, rope, \
                 alibi or fire any length can be asked",
                self.source().display(),
                counted(most as u64, "token")
            )));
        }
        let mut settings = self.settings_for(data)?;
        // As many tokens in a batch as in training.
        let batch = (batch.saturating_mul(trained) / tokens).max(1);
        for (key, count) in [("data.max_length", tokens), ("train.batch", batch), ("train.tokens", 0)] {
            settings.set_named(key, SettingValue::Count(count as u64), format!("--length {length}"))?;
        }
        Ok((tokens, self.evaluate_with(settings, split)?))
    }

    /// Whether it is of a language model on texts whose positions reach this length.
    pub fn reaches(&self, length: Length) -> bool {
        let most = self.saved.model.max_length().unwrap_or(usize::MAX);
        let tokens = length.tokens(self.config.data.max_length);
        self.config.data.format == DataFormat::Text && tokens.is_ok_and(|tokens| tokens <= most)
    }

    /// The length of an example in training, in tokens.
    pub fn trained_length(&self) -> usize {
        self.config.data.max_length
    }

    /// The settings of the run, for other data where it is named.
    fn settings_for(&self, data: Option<&Path>) -> Result<Settings> {
        let mut settings = self.config.settings.clone();
        if let Some(path) = data {
            let text = path.display().to_string();
            let whole = match self.config.data.format {
                // All of a file that was not split before is evaluated.
                DataFormat::Labelled if !path.is_dir() => text.clone(),
                _ => String::new(),
            };
            for (key, value) in [
                ("data.path", text.clone()),
                ("data.dev", whole),
                ("data.test", String::new()),
            ] {
                settings.set_named(key, SettingValue::Text(value), format!("--data {text}"))?;
            }
        }
        Ok(settings)
    }

    fn evaluate_with(&self, settings: Settings, split: &str) -> Result<Scores> {
        let config = Config::of(settings, self.config.phase.as_deref())?;
        let mut task = RunTask::assemble(config, Some(self.saved.clone()))?;
        let places = match &task.goal {
            Goal::Classes(names, _) => number_classes(&mut task.model, names)?,
            _ => None,
        };
        let source = task.evaluation(split)?;
        let mut session = self.session_of(&task.model, places.as_deref())?;
        let (mut functions, job) = (Functions::new(), (&task.model, &task.goal));
        let scores = evaluate(&mut session, &mut functions, job, source.as_ref())?;
        if !scores.loss.is_finite() {
            return Err(Error::user(format!(
                "the loss of {} on {split} is {}; its parameters are of no use: train again with a lower train.lr, or \
                 evaluate another model of the run (--best)",
                self.source().display(),
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
        let model = &self.saved.model;
        let target = match (self.goal_is_sum(), model.task()) {
            (true, _) => return self.answer(text),
            (_, Task::Regression) => LabelKind::Score,
            (_, Task::Classification { .. }) => LabelKind::Classes(model.labels().to_vec()),
            _ => {
                return Err(Error::user(
                    "this run is a language model; continue texts with `lessen generate`",
                ));
            }
        };
        // Pairs of texts are written with a tab between; a single text may have tabs of its own.
        let pair = match text.split_once('\t') {
            Some((first, second)) if has_pairs(&self.config) => (first.to_string(), Some(second.to_string())),
            _ => (text.to_string(), None),
        };
        let (examples, length) = (Examples::unlabelled(vec![pair], &target), self.config.data.max_length);
        let batches = ExampleBatches::new(&examples, &self.saved.tokenizer, length, 1, Order::InOrder)?;
        let batch = batches.eval_batch(0);
        let shape = shape_of(&batch);
        let mut session = self.session()?;
        let function = session.function(|cx| vec![("logits", model.logits(cx, shape))])?;
        let results = session.run(function, &evaluation::inputs_of(&batch))?;
        let logits = results.f32("logits").unwrap_or_default();
        if target == LabelKind::Score {
            return Ok(Prediction::Score(logits.first().copied().map_or(f64::NAN, f64::from)));
        }
        let labels = model.labels();
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        let shares = labels
            .iter()
            .cloned()
            .zip(weights.iter().map(|weight| weight / total))
            .collect();
        let best = evaluation::largest(logits, 1)
            .first()
            .map_or(0, |&class| class as usize);
        Ok(Prediction::Class(labels[best].clone(), shares))
    }

    /// Continues a prompt; returns what was added.
    ///
    /// # Errors
    /// A model that is no language model, a prompt without tokens.
    pub fn generate(&self, prompt: &str, sampling: &Sampling) -> Result<String> {
        if self.saved.model.task() != Task::LanguageModelling {
            return Err(Error::user(
                "this run is a classifier; ask it about a text with `lessen predict`",
            ));
        }
        let tokens = self.saved.tokenizer.encode(prompt)?;
        if tokens.is_empty() {
            return Err(Error::user(
                "the prompt has no tokens; give at least one character with --prompt",
            ));
        }
        let most = if self.goal_is_sum() { adder::DIGITS } else { usize::MAX };
        let sampling = Sampling {
            tokens: sampling.tokens.min(most),
            ..*sampling
        };
        let kept = tokens.len().saturating_add(sampling.tokens).min(MOST_KEPT);
        let mut generator = self.generator(kept)?;
        let added = generator.generate(&tokens, &sampling)?;
        self.saved.tokenizer.decode(&added)
    }

    fn goal_is_sum(&self) -> bool {
        self.config.data.format == DataFormat::Adder
    }

    fn generator(&self, most: usize) -> Result<Generator> {
        Generator::new(self.session()?, &self.saved.model, most)
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
        let answer = self.generator(adder::LENGTH)?.generate(&question, &sampling)?;
        Ok(Prediction::Sum(adder.show(&question, &answer)))
    }
}

/// The settings of the phase that a model is of; of the last one where none is named.
///
/// # Errors
/// A phase that the recipe does not have.
fn config_of(mut recipe: Recipe, phase: Option<&str>, dir: &Path) -> Result<Config> {
    let found = match phase {
        Some(_) => recipe.phases.iter().position(|config| config.phase.as_deref() == phase),
        None => recipe.phases.len().checked_sub(1),
    };
    let found = found.ok_or_else(|| {
        Error::user(format!(
            "{} is of the phase {}, which the run's config.toml lacks; restore the file",
            dir.display(),
            phase.unwrap_or_default()
        ))
    })?;
    Ok(recipe.phases.swap_remove(found))
}
