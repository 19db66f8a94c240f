//! Lessen's linear classifier of texts.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::models::linear::{LessenLinear, LinearConfig};
use lessen_nn::{Model, Ngrams};

/// Lessen's linear classifier of texts.
pub(super) struct Linear;

impl ModelFamily for Linear {
    fn role(&self) -> ModelRole {
        ModelRole::ClassifiesTexts
    }

    fn takes_buckets(&self) -> bool {
        true
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let config = LinearConfig {
            vocab_size: sizes.vocab,
            buckets: keys.buckets.unwrap_or(Ngrams::usual_buckets(sizes.classes)),
            shared: keys.shared.unwrap_or(false),
            max_length: sizes.length,
            pad_token_id: sizes.padding_token(),
            ..LinearConfig::default()
        };
        LessenLinear { config }.into()
    }
}
