//! Asking a classifier, or a model that adds, about texts: one, or as many as there are.

use super::SavedRun;
use super::logits::Logits;
use crate::recipe::config::Config;
use crate::recipe::keys::DataFormat;
use crate::recipe::value::SettingValue;
use crate::task::class_names::number_classes;
use crate::task::corpus::{columns, glue_task, has_pairs};
use crate::task::evaluation::{largest, sigmoid};
use crate::task::fit::check_goal;
use crate::task::goal::Goal;
use lessen_base::{Error, Result};
use lessen_data::labelled::Columns;
use lessen_data::{Adder, Batch, ExampleBatches, Examples, Field, GlueTask, LabelKind, Order, Source, TextPair, adder};
use lessen_nn::Task;
use lessen_train::{Generator, Sampling};
use std::collections::HashSet;
use std::path::Path;

/// What a model says of a text or an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// The number of the most likely class, and the probabilities of all.
    Class(usize, Vec<f64>),
    /// The numbers of the classes that the text has, where it can have several, and the probabilities of all.
    Labels(Vec<usize>, Vec<f64>),
    /// A score.
    Score(f64),
    /// The answer to a sum, as it is written.
    Sum(String),
}

/// An answer about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the model says.
    pub prediction: Prediction,
    /// Whether the text has no token that the vocabulary knows, so that the answer says nothing of it.
    pub is_blank: bool,
}

/// A saved model that is ready to be asked, on a device.
pub struct Predictor<'a> {
    run: &'a SavedRun<'a>,
    kind: Kind,
}

/// What is asked, and how.
enum Kind {
    Labels(Box<Classifier>),
    Sums(Box<Generator>),
}

/// A classifier or a regression on a device.
struct Classifier {
    logits: Logits,
    target: LabelKind,
    /// The probability from which on one of several classes is predicted.
    threshold: f64,
    /// Tokens that say nothing of a text: those around every text, and the one for what is unknown.
    blank: HashSet<i32>,
}

impl SavedRun<'_> {
    /// The model on a device, to be asked about texts.
    ///
    /// # Errors
    /// A model that only continues texts, and one that cannot be read.
    pub fn predictor(&self) -> Result<Predictor<'_>> {
        let model = &self.saved.model;
        let target = match (self.goal_is_sum(), model.task()) {
            (true, _) => {
                let kind = Kind::Sums(Box::new(self.generator(adder::LENGTH)?));
                return Ok(Predictor { run: self, kind });
            }
            (_, Task::Regression) => LabelKind::Score,
            (_, Task::Classification { .. }) => LabelKind::Classes(model.labels().to_vec()),
            (_, Task::MultiLabelClassification { .. }) => LabelKind::Sets(model.labels().to_vec()),
            (_, Task::TokenClassification { .. } | Task::QuestionAnswering) => {
                return Err(Error::user(format!(
                    "{} tells classes of words or answers, not of texts; ask its tagger or answerer",
                    self.source().display()
                )));
            }
            (_, Task::LanguageModelling) => {
                return Err(Error::user(format!(
                    "{} is a language model; continue texts with `lessen generate`",
                    self.source().display()
                )));
            }
            (_, Task::MaskedLanguageModelling) => {
                return Err(Error::user(format!(
                    "{} is a masked language model, which classifies no texts; start a classifier from it with --init",
                    self.source().display()
                )));
            }
        };
        let tokenizer = self.saved.reader.tokenizer()?;
        let (around, _) = tokenizer.encode_pair("", Some(""), usize::MAX)?;
        let beside = [tokenizer.pad_id()].into_iter().chain(tokenizer.unknown_id());
        let classifier = Classifier {
            logits: Logits::new(self.session()?),
            target,
            threshold: self.config.data.threshold,
            blank: around.into_iter().chain(beside).collect(),
        };
        let kind = Kind::Labels(Box::new(classifier));
        Ok(Predictor { run: self, kind })
    }

    /// Whether the texts of the run's data are pairs; none where there is no run.
    pub fn has_pairs(&self) -> Option<bool> {
        (!self.is_plain).then(|| has_pairs(&self.config))
    }

    /// The columns of texts in files with named columns.
    pub fn columns(&self) -> Columns {
        columns(&self.config)
    }

    /// What stands between several labels of a text in one column.
    pub fn separator(&self) -> &str {
        &self.config.data.separator
    }

    /// The task of GLUE in a folder: that of the run, else the one that the folder is called after.
    ///
    /// # Errors
    /// A run on other data, and a folder of another name.
    pub fn glue_task(&self, dir: &Path) -> Result<GlueTask> {
        let mut settings = self.config.settings.clone();
        if self.is_plain {
            let text = dir.display().to_string();
            settings.set_named("data.path", SettingValue::Text(text.clone()), format!("--glue {text}"))?;
        } else if self.config.data.format != DataFormat::Glue {
            return Err(Error::user(format!(
                "--glue is for models of tasks of GLUE; {} is of a run on data.format = {}",
                self.source().display(),
                self.config.data.format
            )));
        }
        let config = Config::of(settings, self.config.phase.as_deref())?;
        glue_task(&config, config.data.path.as_deref().unwrap_or(dir))
    }

    /// The number of the model's class for each class of a task of GLUE; none for scores.
    ///
    /// # Errors
    /// A model of another task.
    pub fn classes_of(&self, task: GlueTask) -> Result<Vec<usize>> {
        let goal = match task.target() {
            LabelKind::Classes(names) => Goal::Classes(names, task.metrics()),
            LabelKind::Sets(names) => Goal::Labels(names, self.config.data.threshold),
            LabelKind::Score => Goal::Score(task.metrics()),
        };
        check_goal(&goal, &self.saved.model)?;
        let Goal::Classes(names, _) = &goal else {
            return Ok(Vec::new());
        };
        let places = number_classes(&mut self.saved.model.clone(), names)?;
        Ok((0..names.len())
            .map(|class| places.as_ref().map_or(class, |places| places[class]))
            .collect())
    }

    /// What the model says of a text; of pairs, both are written with a tab between.
    ///
    /// # Errors
    /// A model that only continues texts, a text that cannot be encoded.
    pub fn predict(&self, text: &str) -> Result<Prediction> {
        let answers = self
            .predictor()?
            .ask(&[split_pair(text, self.has_pairs() == Some(true))])?;
        let answer = answers.into_iter().next();
        answer
            .map(|answer| answer.prediction)
            .ok_or_else(|| Error::internal("a text without an answer"))
    }
}

/// A line as a text, or as the pair with a tab between; a single text may have tabs of its own.
pub fn split_pair(line: &str, has_pairs: bool) -> TextPair {
    match line.split_once('\t') {
        Some((first, second)) if has_pairs => (first.to_string(), Some(second.to_string())),
        _ => (line.to_string(), None),
    }
}

impl Predictor<'_> {
    /// How many texts are best asked about at once: what is worth a thread for each core.
    pub fn at_once(&self) -> usize {
        self.run.config.train.batch.saturating_mul(16).min(4096)
    }

    /// Asks about texts, in batches of at most `train.batch`; the answers in order.
    ///
    /// # Errors
    /// A text that cannot be encoded, or is no sum where the model adds.
    pub fn ask(&mut self, texts: &[TextPair]) -> Result<Vec<Answer>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        match &mut self.kind {
            Kind::Labels(classifier) => classifier.ask(self.run, texts),
            Kind::Sums(generator) => texts.iter().map(|(text, _)| sum_of(generator, text)).collect(),
        }
    }
}

impl Classifier {
    fn ask(&mut self, run: &SavedRun<'_>, texts: &[TextPair]) -> Result<Vec<Answer>> {
        let (length, most) = (run.config.data.max_length, run.config.train.batch);
        let size = texts.len().min(most);
        let examples = Examples::unlabelled(texts.to_vec(), &self.target);
        let batches = ExampleBatches::new(&examples, run.saved.reader.tokenizer()?, length, size, Order::InOrder)?;
        let mut answers = Vec::with_capacity(examples.len());
        for index in 0..batches.eval_batches() {
            let batch = batches.eval_batch(index)?;
            let logits = self.logits.of(&run.saved.model, &batch)?;
            let rows = logits.chunks_exact((logits.len() / size).max(1));
            for (row, logits) in rows.take(batch.examples).enumerate() {
                let prediction = prediction_of(&self.target, self.threshold, logits);
                let is_blank = tokens_of(&batch, row).iter().all(|token| self.blank.contains(token));
                answers.push(Answer { prediction, is_blank });
            }
        }
        Ok(answers)
    }
}

/// What the logits of an example say. Of several labels it has those whose probability is at least `threshold`.
pub(super) fn prediction_of(target: &LabelKind, threshold: f64, logits: &[f32]) -> Prediction {
    match target {
        LabelKind::Score => Prediction::Score(f64::from(logits[0])),
        LabelKind::Sets(_) => {
            let shares: Vec<f64> = logits.iter().map(|logit| sigmoid(*logit)).collect();
            let found = (0..shares.len()).filter(|class| shares[*class] >= threshold);
            Prediction::Labels(found.collect(), shares)
        }
        LabelKind::Classes(_) => Prediction::Class(largest(logits, 1)[0] as usize, softmax(logits)),
    }
}

/// The tokens of a text in a batch.
fn tokens_of(batch: &Batch, row: usize) -> &[i32] {
    let ints = |name| batch.get(name).and_then(Field::as_i32).unwrap_or_default();
    let starts = ints("starts");
    &ints("tokens")[starts[row] as usize..starts[row + 1] as usize]
}

/// The probabilities of classes.
pub(super) fn softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The answer of a model that adds.
fn sum_of(generator: &mut Generator, text: &str) -> Result<Answer> {
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
    let sampling = Sampling::greedy(adder::DIGITS);
    let answer = generator.generate(&question, &sampling)?;
    Ok(Answer {
        prediction: Prediction::Sum(adder.show(&question, &answer)),
        is_blank: false,
    })
}
