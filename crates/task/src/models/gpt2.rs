//! GPT-2.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::Model;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};

/// GPT-2.
pub(super) struct Gpt2;

impl ModelFamily for Gpt2 {
    fn role(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn dropout(&self) -> f64 {
        0.1
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let mut config = Gpt2Config {
            vocab_size: sizes.vocab,
            n_positions: sizes.length,
            n_embd: keys.width,
            n_layer: keys.layers,
            n_head: keys.heads,
            n_inner: Some(keys.ffn),
            attention: scratch.attention,
            ..Gpt2Config::default()
        };
        config.fields = scratch.special_tokens();
        config.set_dropout(scratch.dropout);
        GPT2LMHeadModel { config }.into()
    }
}
