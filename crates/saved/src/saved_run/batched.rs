//! Asking a model about texts of many askers.

use super::SavedRun;
use super::logits::Logits;
use super::prediction::predicted;
use crate::text_model::{TextModel, tokens_of_batch};
use lessen_base::{Error, Result};
use lessen_data::{EncodedText, TextPair, packed_batch};
use lessen_device::DeviceMemory;
use lessen_nn::BatchShape;
use lessen_task::SavedModel;
use lessen_task::goal::{Prediction, SharedGoal};
use std::sync::Arc;

/// What a model says about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct RawAnswer {
    /// The numbers that the model gives: one for each class, or the value.
    pub logits: Vec<f32>,
    /// The prediction that follows from them.
    pub prediction: Prediction,
}

/// The number of texts that a batch has room for.
const ROOM: usize = 32;

/// A classifier or a regression on a device, for texts of many askers.
pub struct BatchedPredictor {
    saved: Arc<SavedModel>,
    length: usize,
    goal: SharedGoal,
    logits: Logits,
    tokens: usize,
}

impl SavedRun {
    /// The model on a device, to be asked in batches of at most `tokens` tokens, or of one text, if this is longer.
    ///
    /// # Errors
    /// A model that makes no predictions about texts, and one that cannot be read.
    pub fn batched_predictor(&self, tokens: usize) -> Result<BatchedPredictor> {
        let goal = self.goal();
        if goal.label_kind().is_none() {
            let shown = self.source().display();
            return Err(Error::user(format!("{shown} {}", goal.no_prediction())));
        }
        self.saved.reader.tokenizer()?;
        let length = self.config.data.max_length;
        Ok(BatchedPredictor {
            saved: self.saved.clone(),
            length,
            goal,
            logits: self.logits()?,
            tokens: tokens_of_batch(tokens, length, ROOM),
        })
    }
}

impl BatchedPredictor {
    /// The memory on the device.
    pub fn memory(&self) -> DeviceMemory {
        self.logits.memory()
    }
}

impl TextModel for BatchedPredictor {
    type Answer = RawAnswer;

    fn max_length(&self) -> usize {
        self.length
    }

    fn tokens(&self) -> usize {
        self.tokens
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn encode(&self, (first, second): &TextPair, most: usize) -> Result<EncodedText> {
        let tokenizer = self.saved.reader.tokenizer()?;
        tokenizer.encode_pair(first, second.as_deref(), most)
    }

    fn prepare(&self, layout: BatchShape) -> Result<()> {
        self.logits.prepare(layout)
    }

    fn ask(&self, texts: &[&EncodedText]) -> Result<Vec<Result<RawAnswer>>> {
        let pad = self.saved.reader.tokenizer()?.pad_id();
        let logits = self.logits.of(&packed_batch(texts, ROOM, pad))?;
        let rows = logits.chunks_exact((logits.len() / ROOM).max(1)).take(texts.len());
        let answer = |row: &[f32]| {
            Ok(RawAnswer {
                logits: row.to_vec(),
                prediction: predicted(self.goal.as_ref(), row)?,
            })
        };
        Ok(rows.map(answer).collect())
    }
}
