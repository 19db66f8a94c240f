//! Tokens to text, as the tokenizer's decoder joins them.

use lessen_base::{Error, Result};
use serde_json::Value;
use tokenizers::Decoder;

use super::{Tokenizer, not_decoded};

impl Tokenizer {
    /// Decodes token ids, skipping special tokens (padding, `[CLS]` and so on) and invalid ids.
    ///
    /// # Errors
    /// A failure of the tokenizer's decoder.
    pub fn decode(&self, ids: &[i32]) -> Result<String> {
        self.joined(ids.iter().filter_map(|&id| self.written(id)).collect())
    }

    /// The token of an id, unless it is one that a text does not show.
    pub(super) fn written(&self, id: i32) -> Option<String> {
        let token = self.token(id)?;
        (!self.inner.get_added_vocabulary().is_special_token(&token)).then_some(token)
    }

    /// Joins tokens to a text.
    pub(super) fn joined(&self, tokens: Vec<String>) -> Result<String> {
        match self.inner.get_decoder() {
            // Decoders of the library count on a token.
            _ if tokens.is_empty() => Ok(String::new()),
            Some(decoder) => decoder.decode(tokens).map_err(not_decoded),
            None => Ok(tokens.join(" ")),
        }
    }

    /// The decoder as `tokenizer.json` describes it; null if there is none.
    pub(super) fn decoder(&self) -> Result<Value> {
        serde_json::to_value(self.inner.get_decoder())
            .map_err(|error| Error::internal(format!("the decoder of a tokenizer cannot be described ({error})")))
    }
}

/// The decoder and those within it, by type.
pub(super) fn parts(decoder: &Value) -> Vec<&Value> {
    match decoder["decoders"].as_array() {
        Some(all) => all.iter().flat_map(parts).collect(),
        None => vec![decoder],
    }
}
