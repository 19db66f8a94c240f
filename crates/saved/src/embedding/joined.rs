//! Embedding texts of many askers together.

use super::{Embedder, Prompt, ROOM, divide_by_length};
use crate::text_model::{TextModel, tokens_of_batch};
use lessen_base::Result;
use lessen_data::{EncodedText, TextPair};
use lessen_nn::BatchShape;
use lessen_task::goal::logits::check_finite;

/// A model that embeds texts of many askers, with its default prompt. Vectors are as its modules give them before a
/// last normalization.
pub struct JoinedEmbedder {
    embedder: Embedder,
    tokens: usize,
    /// Tokens of the default prompt that are not pooled.
    skipped: usize,
}

impl JoinedEmbedder {
    /// A model that embeds batches of at most `tokens` tokens, or of one text, if this is longer.
    ///
    /// # Errors
    /// A prompt that leaves no room for texts.
    pub fn new(embedder: Embedder, tokens: usize) -> Result<JoinedEmbedder> {
        let prompt = embedder.prompts.text(Prompt::Default)?.to_string();
        let skipped = if embedder.pooling.include_prompt {
            0
        } else {
            embedder.prompt_tokens(&prompt)?
        };
        Ok(JoinedEmbedder {
            tokens: tokens_of_batch(tokens, embedder.max_length(), ROOM),
            embedder,
            skipped,
        })
    }

    /// The model.
    pub fn embedder(&self) -> &Embedder {
        &self.embedder
    }
}

impl TextModel for JoinedEmbedder {
    type Answer = Vec<f32>;

    fn max_length(&self) -> usize {
        self.embedder.max_length()
    }

    fn tokens(&self) -> usize {
        self.tokens
    }

    fn room(&self) -> usize {
        ROOM
    }

    fn encode(&self, (text, _): &TextPair, most: usize) -> Result<EncodedText> {
        let embedder = &self.embedder;
        let whole = embedder.prepared(embedder.prompts.text(Prompt::Default)?, text);
        embedder.tokenizer.encode_pair(&whole, None, most)
    }

    fn prepare(&self, layout: BatchShape) -> Result<()> {
        self.embedder.prepare(layout)
    }

    fn ask(&self, texts: &[&EncodedText]) -> Result<Vec<Result<Vec<f32>>>> {
        let rows = self.embedder.batch(texts, self.skipped)?.into_iter();
        Ok(rows.map(|row| check_finite(&row).map(|()| row)).collect())
    }
}

/// Divides a vector by its length.
pub fn normalize(vector: &mut [f32]) {
    divide_by_length(vector);
}
