//! Embedding texts of many askers together: each is encoded by itself, and all are embedded in batches of one size and
//! a bounded number of tokens, whose programs are compiled before the first text comes.

use super::{Embedder, Prompt, ROOM, divide_by_length};
use crate::warm_up::{all_layouts, full_batch};
use lessen_base::Result;
use lessen_data::EncodedText;
use lessen_task::goal::logits::check_finite;

/// A model that embeds texts of many askers.
pub struct JoinedEmbedder {
    embedder: Embedder,
    tokens: usize,
    /// Tokens of the default prompt that are not pooled.
    skipped: usize,
}

impl JoinedEmbedder {
    /// The most texts of a batch.
    pub const ROOM: usize = ROOM;

    /// A model that embeds batches of at most `tokens` tokens, or of one text, if this is longer, with the model's
    /// default prompt.
    ///
    /// # Errors
    /// A prompt that leaves no room for texts.
    pub fn new(embedder: Embedder, tokens: usize) -> Result<JoinedEmbedder> {
        let longest = embedder.max_length();
        let prompt = embedder.prompts.text(Prompt::Default)?.to_string();
        let skipped = if embedder.pooling.include_prompt {
            0
        } else {
            embedder.prompt_tokens(&prompt)?
        };
        Ok(JoinedEmbedder {
            embedder,
            tokens: tokens.min(longest.saturating_mul(ROOM)).max(longest),
            skipped,
        })
    }

    /// The model.
    pub fn embedder(&self) -> &Embedder {
        &self.embedder
    }

    /// The most tokens of a batch.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// A text with the model's default prompt as tokens, cut to `most` of them.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn encode(&self, text: &str, most: usize) -> Result<EncodedText> {
        let embedder = &self.embedder;
        let whole = embedder.prepared(embedder.prompts.text(Prompt::Default)?, text);
        embedder.tokenizer.encode_pair(&whole, None, most)
    }

    /// Compiles the programs of all batches, and runs that of the largest.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub fn warm_up(&mut self) -> Result<()> {
        for layout in all_layouts(ROOM, self.tokens) {
            self.embedder.prepare(layout)?;
        }
        let texts = full_batch(self.tokens, self.embedder.max_length());
        self.embed(&texts.iter().collect::<Vec<_>>()).map(drop)
    }

    /// Embeds at most [`JoinedEmbedder::ROOM`] texts, of at most [`JoinedEmbedder::tokens`] tokens together: vectors as
    /// the model's modules give them before a last normalization. Of a text whose vector has elements that are NaN or
    /// infinite, it is an error.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn embed(&mut self, texts: &[&EncodedText]) -> Result<Vec<Result<Vec<f32>>>> {
        let rows = self.embedder.batch(texts, self.skipped)?.into_iter();
        Ok(rows.map(|row| check_finite(&row).map(|()| row)).collect())
    }
}

/// Divides a vector by its length.
pub fn normalize(vector: &mut [f32]) {
    divide_by_length(vector);
}
