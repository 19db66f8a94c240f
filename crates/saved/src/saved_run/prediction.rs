//! Asking a classifier, or a model that adds, about texts: one, or as many as there are.

use super::logits::Logits;
use super::{SavedRun, at_once};
use crate::cut_texts::CutTexts;
use crate::locked::locked;
use lessen_base::{Error, Result};
use lessen_data::labelled::Columns;
use lessen_data::{
    Batch, Batching, EncodedExamples, ExampleBatches, Examples, Field, GlueTask, LabelKind, Order, Source, TextPair,
};
use lessen_task::SavedModel;
use lessen_task::agreement::check_model;
use lessen_task::formats::glue::{goal_of_task, task_of};
use lessen_task::formats::labelled::columns;
use lessen_task::goal::logits::check_finite;
use lessen_task::goal::{Goal, Prediction, SharedGoal};
use lessen_task::recipe::config::Config;
use lessen_task::recipe::keys::DataFormat;
use lessen_task::recipe::value::SettingValue;
use lessen_train::Generator;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The least room for texts in a batch.
const LEAST_ROOM: usize = 16;

/// An answer about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The prediction.
    pub prediction: Prediction,
    /// Whether the text has no token that the vocabulary knows, so that the answer says nothing of it.
    pub is_blank: bool,
}

/// A saved model that is ready to be asked, on a device.
pub struct Predictor {
    goal: SharedGoal,
    batch: usize,
    answerer: TextAnswerer,
    cut: Mutex<CutTexts>,
}

/// How texts are answered.
enum TextAnswerer {
    /// By the logits of a classifier or a regression.
    Classifier(Box<Classifier>),
    /// By the text that a language model generates.
    Generator(Box<Mutex<Generator>>),
}

/// A classifier or a regression on a device.
struct Classifier {
    saved: Arc<SavedModel>,
    length: usize,
    logits: Logits,
    labels: LabelKind,
    /// Tokens without content: the special tokens around every text, and the unknown token.
    blank: HashSet<i32>,
}

impl SavedRun {
    /// The model on a device, to be asked about texts.
    ///
    /// # Errors
    /// A model that only continues texts, and one that cannot be read.
    pub fn predictor(&self) -> Result<Predictor> {
        let goal = self.goal();
        let answerer = match goal.answer_length() {
            Some(length) => TextAnswerer::Generator(Box::new(Mutex::new(self.generator(length)?))),
            None => TextAnswerer::Classifier(Box::new(self.classifier(goal.as_ref())?)),
        };
        Ok(Predictor {
            goal,
            batch: self.config.train.batch,
            answerer,
            cut: self.uncut_texts(),
        })
    }

    fn classifier(&self, goal: &dyn Goal) -> Result<Classifier> {
        let Some(labels) = goal.label_kind() else {
            let shown = self.source().display();
            return Err(Error::user(format!("{shown} {}", goal.no_prediction())));
        };
        let tokenizer = self.saved.reader.tokenizer()?;
        let (around, _) = tokenizer.encode_pair("", Some(""), usize::MAX)?;
        let beside = [tokenizer.pad_id()].into_iter().chain(tokenizer.unknown_id());
        Ok(Classifier {
            saved: self.saved.clone(),
            length: self.config.data.max_length,
            logits: self.logits()?,
            labels,
            blank: around.into_iter().chain(beside).collect(),
        })
    }

    /// Whether the texts of the run's data are pairs; none where there is no run.
    pub fn has_pairs(&self) -> Option<bool> {
        (!self.is_plain).then(|| self.config.data.format.format().has_pairs(&self.config))
    }

    /// The columns of texts in files with named columns.
    pub fn columns(&self) -> Columns {
        columns(&self.config)
    }

    /// Separator of several labels of a text in one column.
    pub fn separator(&self) -> &str {
        &self.config.data.separator
    }

    /// The task of GLUE in a folder: the task of the run, else the task in the folder's name.
    ///
    /// # Errors
    /// A run on other data, and a folder of another name.
    pub fn glue_task(&self, dir: &Path) -> Result<GlueTask> {
        let mut settings = self.config.settings.clone();
        if self.is_plain {
            let flag = format!("--glue {}", dir.display());
            settings.set_named("data.path", SettingValue::of_path(dir)?, flag)?;
        } else if self.config.data.format != DataFormat::Glue {
            return Err(Error::user(format!(
                "--glue is for models of tasks of GLUE; {} is of a run on data.format = {}",
                self.source().display(),
                self.config.data.format
            )));
        }
        let config = Config::of(settings, self.config.phase.as_deref())?;
        task_of(&config, config.data.path.as_deref().unwrap_or(dir))
    }

    /// The number of the model's class for each class of a task of GLUE; none for scores.
    ///
    /// # Errors
    /// A model of another task.
    pub fn classes_of(&self, task: GlueTask) -> Result<Vec<usize>> {
        let goal = goal_of_task(task, self.config.data.threshold);
        check_model(goal.as_ref(), &self.saved.model)?;
        let places = goal.number_classes(&mut self.saved.model.clone())?;
        let classes = 0..goal.class_names().len();
        Ok(classes
            .map(|class| places.as_ref().map_or(class, |places| places[class]))
            .collect())
    }

    /// The prediction for a text. A pair of texts is written with a tab between them. The model stays loaded for the
    /// next one; [`SavedRun::predictor`] is for several texts at once.
    ///
    /// # Errors
    /// A model that only continues texts, a text that cannot be encoded, an answer that is NaN or infinite.
    pub fn predict(&self, text: &str) -> Result<Prediction> {
        let mut kept = locked(&self.predictor);
        let predictor = match &*kept {
            Some(predictor) => predictor.clone(),
            None => kept.insert(Arc::new(self.predictor()?)).clone(),
        };
        drop(kept);
        let answers = predictor.ask(&[split_pair(text, self.has_pairs() == Some(true))])?;
        let answer = answers.into_iter().next();
        let answer = answer.ok_or_else(|| Error::internal("a text without an answer"))?;
        answer.map(|answer| answer.prediction)
    }
}

/// A line as a text, or as the pair with a tab between; a single text may have tabs of its own.
pub fn split_pair(line: &str, has_pairs: bool) -> TextPair {
    match line.split_once('\t') {
        Some((first, second)) if has_pairs => (first.to_string(), Some(second.to_string())),
        _ => (line.to_string(), None),
    }
}

impl Predictor {
    /// Number of texts that are best asked about at once.
    pub fn at_once(&self) -> usize {
        at_once(self.batch)
    }

    /// How many of the texts that were asked about were cut after `data.max_length` tokens.
    pub fn cut_texts(&self) -> CutTexts {
        *locked(&self.cut)
    }

    /// Asks about texts, in balanced batches of at most `train.batch`, or of 16 where this is less; the answers in
    /// order. Of a text for which the model has numbers that are NaN or infinite, the answer is an error.
    ///
    /// # Errors
    /// A text that cannot be encoded, or is no sum where the model adds.
    pub fn ask(&self, texts: &[TextPair]) -> Result<Vec<Result<Answer>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let goal = self.goal.as_ref();
        match &self.answerer {
            TextAnswerer::Classifier(classifier) => {
                let mut answers = vec![None; texts.len()];
                classifier.each(self.batch, texts, &self.cut, &mut |text, is_blank, logits| {
                    let prediction = predicted(goal, logits);
                    answers[text] = Some(prediction.map(|prediction| Answer { prediction, is_blank }));
                })?;
                all_of(answers)
            }
            TextAnswerer::Generator(generator) => {
                let mut generator = locked(generator);
                let answers = texts.iter().map(|(text, _)| {
                    Ok(Ok(Answer {
                        prediction: goal.answer(&mut generator, text)?,
                        is_blank: false,
                    }))
                });
                answers.collect()
            }
        }
    }

    /// The numbers that the model gives for texts, such as the logits of its classes, in batches as
    /// [`Predictor::ask`] makes them.
    ///
    /// # Errors
    /// A text that cannot be encoded, and a model that writes its answers.
    pub fn logits(&self, texts: &[TextPair]) -> Result<Vec<Vec<f32>>> {
        let TextAnswerer::Classifier(classifier) = &self.answerer else {
            return Err(Error::user(
                "this model writes its answers, and has no logits of classes; ask for predictions",
            ));
        };
        let mut all = vec![None; texts.len()];
        if !texts.is_empty() {
            classifier.each(self.batch, texts, &self.cut, &mut |text, _, logits| {
                all[text] = Some(logits.to_vec())
            })?;
        }
        all_of(all)
    }
}

/// What was found of each text.
fn all_of<T>(found: Vec<Option<T>>) -> Result<Vec<T>> {
    let found: Option<Vec<T>> = found.into_iter().collect();
    found.ok_or_else(|| Error::internal("a text that is in no batch"))
}

impl Classifier {
    /// Calls `found` with the number of each text, whether it has no token that says anything, and its logits.
    fn each(
        &self,
        most: usize,
        texts: &[TextPair],
        cut: &Mutex<CutTexts>,
        found: &mut dyn FnMut(usize, bool, &[f32]),
    ) -> Result<()> {
        // Products of at least so many rows are computed alike, so that the answer about a text is the same to the bit
        // beside any others, here and where texts of many askers are joined.
        let size = most.max(LEAST_ROOM);
        let examples = Examples::unlabelled(texts.to_vec(), &self.labels);
        let encoded = EncodedExamples::new(&examples, self.saved.reader.tokenizer()?, self.length, None)?;
        let batches = ExampleBatches::of(Arc::new(encoded), Batching::Examples(size), Order::InOrder)?
            .with_balanced_evaluations();
        locked(cut).add(batches.cut_texts());
        let made = |index| batches.eval_batch(index as u64);
        self.logits
            .each(batches.eval_batches() as usize, made, |index, batch, logits| {
                let rows = logits.chunks_exact((logits.len() / size).max(1));
                for ((row, text), logits) in batches
                    .examples_of(index as u64)
                    .unwrap_or_default()
                    .into_iter()
                    .enumerate()
                    .zip(rows)
                {
                    let is_blank = tokens_of(batch, row).iter().all(|token| self.blank.contains(token));
                    found(text, is_blank, logits);
                }
                Ok(())
            })
    }
}

/// The prediction that follows from an example's logits.
///
/// # Errors
/// Logits that are NaN or infinite.
pub(super) fn predicted(goal: &dyn Goal, logits: &[f32]) -> Result<Prediction> {
    check_finite(logits)?;
    let found = goal.prediction(logits);
    found.ok_or_else(|| Error::internal("a goal without predictions was asked for some"))
}

/// The tokens of a text in a batch.
fn tokens_of(batch: &Batch, row: usize) -> &[i32] {
    let ints = |name| batch.get(name).and_then(Field::as_i32).unwrap_or_default();
    let starts = ints("starts");
    &ints("tokens")[starts[row] as usize..starts[row + 1] as usize]
}
