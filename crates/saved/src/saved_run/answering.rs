//! Asking a model questions about texts.

use super::logits::Logits;
use super::{SavedRun, at_once};
use crate::cut_texts::CutTexts;
use crate::locked::locked;
use lessen_base::{Error, Result};
use lessen_data::labelled::Columns;
use lessen_data::{Answers, Asking, Batching, FoundAnswer, Order, QuestionBatches, Questions, Source};
use lessen_nn::Task;
use lessen_task::SavedModel;
use lessen_task::goal::logits::not_finite;
use std::sync::{Arc, Mutex};

/// A model that finds answers in texts, on a device.
pub struct Answerer {
    saved: Arc<SavedModel>,
    asking: Asking,
    batch: usize,
    logits: Logits,
    cut: Mutex<CutTexts>,
}

impl SavedRun {
    /// The model on a device, to be asked questions about texts.
    ///
    /// # Errors
    /// A model that finds no answers, and one that cannot be read.
    pub fn answerer(&self) -> Result<Answerer> {
        if self.saved.model.task() != Task::QuestionAnswering {
            return Err(Error::user(format!(
                "{} finds no answers in texts; name a model for question answering",
                self.source().display()
            )));
        }
        Ok(Answerer {
            saved: self.saved.clone(),
            asking: self.config.asking(),
            batch: self.config.train.batch,
            logits: self.logits()?,
            cut: self.uncut_texts(),
        })
    }

    /// The columns of questions and contexts in files with named columns: `question` and `context`, unless the settings
    /// name others.
    pub fn columns_of_questions(&self) -> Columns {
        let Columns { text, text_pair, .. } = self.columns();
        Columns {
            text: text.or(Some("question".to_string())),
            text_pair: text_pair.or(Some("context".to_string())),
            ..Columns::default()
        }
    }
}

impl Answerer {
    /// How many questions are best asked at once.
    pub fn at_once(&self) -> usize {
        at_once(self.batch)
    }

    /// How many of the questions were cut, which may take half of the `data.max_length` tokens of a window.
    pub fn cut_texts(&self) -> CutTexts {
        *locked(&self.cut)
    }

    /// Answers questions, in balanced batches of at most `train.batch` windows; the answers in order. Of a question for
    /// which the model has numbers that are NaN or infinite, the answer is an error.
    ///
    /// # Errors
    /// A text that cannot be encoded, and windows without room for one.
    pub fn ask(&self, questions: Arc<Questions>) -> Result<Vec<Result<FoundAnswer>>> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let batching = Batching::Examples(self.batch);
        let tokenizer = self.saved.reader.tokenizer()?;
        let source = QuestionBatches::new(questions, tokenizer, self.asking, batching, Order::InOrder)?
            .with_balanced_evaluations();
        locked(&self.cut).add(source.cut_texts());
        let mut answers = Answers::new(&source);
        let batch = |index| source.eval_batch(index as u64);
        self.logits
            .each(source.eval_batches() as usize, batch, |index, _, logits| {
                answers.add(index as u64, logits);
                Ok(())
            })?;
        let found = answers.found().zip(answers.not_finite());
        Ok(found
            .map(|(answer, number)| number.map_or(Ok(answer), |number| Err(not_finite(number))))
            .collect())
    }
}
