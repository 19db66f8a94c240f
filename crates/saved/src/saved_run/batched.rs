//! Asking a model about texts of many askers: texts are encoded one by one, and answered in batches of one size and a
//! bounded number of tokens, so that few programs are compiled, each of them before the first text comes.

use super::SavedRun;
use super::logits::Logits;
use super::prediction::predicted;
use crate::warm_up::{all_layouts, full_batch};
use lessen_base::{Error, Result};
use lessen_data::{EncodedText, TextPair, packed_batch};
use lessen_device::DeviceMemory;
use lessen_task::goal::{Prediction, SharedGoal};

/// What a model says about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct RawAnswer {
    /// The numbers that the model gives: one for each class, or the value.
    pub logits: Vec<f32>,
    /// The prediction that follows from them.
    pub prediction: Prediction,
}

/// The number of texts that a batch has room for.
pub const ROOM: usize = 32;

/// A classifier or a regression on a device, for texts of many askers.
pub struct BatchedPredictor<'a> {
    run: &'a SavedRun<'a>,
    goal: SharedGoal,
    logits: Logits,
    tokens: usize,
}

impl SavedRun<'_> {
    /// The model on a device, to be asked in batches of at most `tokens` tokens, or of one text, if this is longer.
    ///
    /// # Errors
    /// A model that makes no predictions about texts, and one that cannot be read.
    pub fn batched_predictor(&self, tokens: usize) -> Result<BatchedPredictor<'_>> {
        let goal = self.goal();
        if goal.label_kind().is_none() {
            let shown = self.source().display();
            return Err(Error::user(format!("{shown} {}", goal.no_prediction())));
        }
        self.saved.reader.tokenizer()?;
        Ok(BatchedPredictor {
            run: self,
            goal,
            logits: Logits::new(self.session()?),
            // As many as there is room for.
            tokens: tokens
                .min(self.config.data.max_length.saturating_mul(ROOM))
                .max(self.config.data.max_length),
        })
    }
}

impl BatchedPredictor<'_> {
    /// The most tokens of a text, special ones among them.
    pub fn max_length(&self) -> usize {
        self.run.config.data.max_length
    }

    /// The most tokens of a batch.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// A text as tokens, cut to `most` of them.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn encode(&self, (first, second): &TextPair, most: usize) -> Result<EncodedText> {
        let tokenizer = self.run.saved.reader.tokenizer()?;
        tokenizer.encode_pair(first, second.as_deref(), most)
    }

    /// Compiles the programs of all batches, and runs that of the largest.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn warm_up(&mut self) -> Result<()> {
        for layout in all_layouts(ROOM, self.tokens) {
            self.logits.prepare(&self.run.saved.model, layout)?;
        }
        let texts = full_batch(self.tokens, self.max_length());
        self.logits_of(&texts.iter().collect::<Vec<_>>()).map(drop)
    }

    /// Asks about at most [`ROOM`] texts, of at most [`BatchedPredictor::tokens`] tokens together; the answers in
    /// order. Of a text for which the model has numbers that are NaN or infinite, the answer is an error.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn ask(&mut self, texts: &[&EncodedText]) -> Result<Vec<Result<RawAnswer>>> {
        let logits = self.logits_of(texts)?;
        let rows = logits.chunks_exact((logits.len() / ROOM).max(1)).take(texts.len());
        let answer = |row: &[f32]| {
            Ok(RawAnswer {
                logits: row.to_vec(),
                prediction: predicted(self.goal.as_ref(), row)?,
            })
        };
        Ok(rows.map(answer).collect())
    }

    /// The memory on the device.
    pub fn memory(&self) -> DeviceMemory {
        self.logits.memory()
    }

    fn logits_of(&mut self, texts: &[&EncodedText]) -> Result<Vec<f32>> {
        let pad = self.run.saved.reader.tokenizer()?.pad_id();
        let batch = packed_batch(texts, ROOM, pad);
        self.logits.of(&self.run.saved.model, &batch)
    }
}
