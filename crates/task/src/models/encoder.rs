//! Lessen's small encoder.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::Model;
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};

/// Lessen's small encoder.
pub(super) struct SmallEncoder;

impl ModelFamily for SmallEncoder {
    fn role(&self) -> ModelRole {
        ModelRole::ClassifiesTexts
    }

    fn dropout(&self) -> f64 {
        0.1
    }

    fn takes_kv_heads(&self) -> bool {
        true
    }

    fn can_be_reversible(&self) -> bool {
        true
    }

    fn takes_ngrams(&self) -> bool {
        true
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let config = EncoderConfig {
            vocab_size: sizes.vocab,
            width: keys.width,
            layers: keys.layers,
            heads: keys.heads,
            ffn: keys.ffn,
            max_length: sizes.length,
            kv_heads: keys.kv_heads.filter(|count| *count != keys.heads),
            reversible: keys.reversible.unwrap_or(false),
            attention: scratch.attention,
            ngrams: keys.ngrams,
            shared: keys.shared.unwrap_or(false),
            dropout: scratch.dropout,
            pad_token_id: sizes.padding_token(),
            ..EncoderConfig::default()
        };
        LessenEncoder { config }.into()
    }
}
