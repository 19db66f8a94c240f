//! The scores of a saved model on data.

use super::SavedRun;
use crate::cut_texts::CutTexts;
use crate::lengths::Length;
use lessen_base::{Error, Result};
use lessen_task::class_names;
use lessen_task::evaluation::{Functions, Scores, evaluate};
use lessen_task::formats;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue};
use lessen_task::wording::{counted, name_of};
use std::path::Path;

/// The split that is evaluated where none is named.
pub(super) const DEV: &str = "dev";

/// An evaluation: its scores, and what there is to say of the data.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The scores.
    pub scores: Scores,
    /// The split that was scored; `dev` of a file, which has no splits.
    pub split: String,
    /// Whether this is all of the data, or all that is in no other split.
    pub is_whole: bool,
    /// What was scored, in words: the split, or the file.
    pub scored: String,
    /// Remarks on how the data was read and on what of it was scored, a sentence each.
    pub remarks: Vec<String>,
}

impl SavedRun {
    /// Evaluates on a split of the run's data, or of other data: `dev` where none is named. A file is evaluated as a
    /// whole, and so are the training examples of a folder without a split `dev`. Where data numbers the same classes
    /// otherwise, the model's classes are numbered like them.
    ///
    /// # Errors
    /// Data that is missing, damaged, or does not fit the model; a label that is none of the model's classes;
    /// parameters whose loss is no number.
    pub fn evaluate(&self, data: Option<&Path>, split: Option<&str>) -> Result<Evaluation> {
        self.evaluate_with(self.settings_for(data)?, data, split)
    }

    /// Evaluates a language model on a split of a text in windows of another length than in training. Windows follow
    /// each other without overlap, so at every length each token but the first is predicted once, with what stands
    /// before it in its window, and the losses, means over all predicted tokens, can be compared.
    ///
    /// # Errors
    /// As [`SavedRun::evaluate`], data that is no text, and a model whose positions do not reach that far.
    pub fn evaluate_at(&self, data: Option<&Path>, split: Option<&str>, length: Length) -> Result<(usize, Evaluation)> {
        if !self.config.data.format.format().has_windows() {
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
        Ok((tokens, self.evaluate_with(settings, data, split)?))
    }

    /// Whether it is of a language model on texts whose positions reach this length.
    pub fn reaches(&self, length: Length) -> bool {
        let most = self.saved.model.max_length().unwrap_or(usize::MAX);
        let tokens = length.tokens(self.config.data.max_length);
        self.config.data.format.format().has_windows() && tokens.is_ok_and(|tokens| tokens <= most)
    }

    /// The length of an example in training, in tokens.
    pub fn trained_length(&self) -> usize {
        self.config.data.max_length
    }

    /// The settings of the run, for other data where it is named.
    pub(super) fn settings_for(&self, data: Option<&Path>) -> Result<Settings> {
        let mut settings = self.config.settings.clone();
        if let Some(path) = data {
            let text = path.display().to_string();
            settings.set_named("data.path", SettingValue::of_path(path)?, format!("--data {text}"))?;
            for key in ["data.dev", "data.test"] {
                // Files of the run's splits do not belong to other data.
                if !matches!(settings.origin(key), Origin::Flag(_)) {
                    settings.set_named(key, SettingValue::Text(String::new()), format!("--data {text}"))?;
                }
            }
        }
        let Some(path) = settings.text("data.path") else {
            if self.is_plain {
                return Err(Error::user(format!(
                    "{} is a model without data; name the file or folder to score it on with --data",
                    self.source().display()
                )));
            }
            return Ok(settings);
        };
        // The name of a folder may say which format its data has.
        let name = Path::new(path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name
            && self.is_plain
            && settings.origin("data.format") == Origin::Default
        {
            let found = formats::ALL
                .iter()
                .flat_map(|format| format.format().settings_of_folder(&name));
            for (key, word) in found {
                let value = SettingValue::Text(word.to_string());
                settings.set_named(key, value, "the name of the folder".to_string())?;
            }
        }
        Ok(settings)
    }

    /// How many texts of an evaluation `data.max_length` cuts, where it does.
    pub fn cut_texts(&self, scores: &Scores) -> Option<CutTexts> {
        CutTexts::of(scores.cut_texts, self.config.data.max_length)
    }

    fn evaluate_with(&self, settings: Settings, data: Option<&Path>, split: Option<&str>) -> Result<Evaluation> {
        let config = Config::of(settings, self.config.phase.as_deref())?.for_evaluation();
        let is_other = data.is_some() || self.is_plain;
        let config = if is_other { config.for_whole_data() } else { config };
        let path = config.data.path.clone().filter(|_| is_other);
        let file = path.as_deref().filter(|path| !path.is_dir());
        let named = match (file, split) {
            (Some(_), _) | (None, None) => DEV,
            (None, Some(split)) => split,
        };
        let task = self.assembled(config)?;
        let unnamed = class_names::unnamed(task.model(), task.goal().class_names());
        let (task, places) = task.numbered_by_data()?;
        let source = task.evaluation(named)?;
        let mut session = self.session_of(task.model(), places.as_deref())?;
        let (mut functions, job) = (Functions::new(), (task.model(), task.goal()));
        let scores = evaluate(&mut session, &mut functions, job, source.as_ref(), &self.group)?;
        let scored = file.map_or(named.to_string(), |file| file.display().to_string());
        if !scores.loss.is_finite() {
            return Err(Error::user(format!(
                "the loss of {} on {scored} is {}; its parameters are of no use: train again with a lower train.lr, or \
                 evaluate another model of the run (--best)",
                self.source().display(),
                name_of(scores.loss)
            )));
        }
        let corpus = task.data()?.corpus();
        let mut remarks = corpus.remarks().to_vec();
        remarks.extend(unnamed);
        let is_whole = corpus.is_whole() && (named == DEV || named == "valid");
        if let Some(path) = path.as_deref().filter(|_| is_whole) {
            let size = match corpus.bytes_of(DEV) {
                Some(bytes) => counted(bytes, "byte"),
                None => counted(scores.examples as u64, corpus.example()),
            };
            let all = match (file, split) {
                (Some(_), None) => "all of it".to_string(),
                (Some(_), Some(split)) => format!("all of it, as a file has no split {split}"),
                (None, _) => "all that are in no other split, as there is no split dev".to_string(),
            };
            remarks.push(format!("evaluated {}: {size}, {all}", path.display()));
        }
        Ok(Evaluation {
            scores,
            split: named.to_string(),
            is_whole,
            scored,
            remarks,
        })
    }
}
