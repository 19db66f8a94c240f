//! GPT-J.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::models::gptj::{GPTJForCausalLM, GptjConfig};
use lessen_nn::{AttentionConfig, Model};

/// GPT-J.
pub(super) struct Gptj;

impl ModelFamily for Gptj {
    fn role(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn attention(&self, head_width: usize) -> AttentionConfig {
        GptjConfig::attention(head_width)
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes, default) = (scratch.keys, scratch.sizes, GptjConfig::default());
        let mut config = GptjConfig {
            vocab_size: sizes.vocab,
            // transformers has no angles beyond the last position.
            n_positions: if scratch.attention.position.is_limited() {
                sizes.length
            } else {
                sizes.length.max(default.n_positions)
            },
            n_embd: keys.width,
            n_layer: keys.layers,
            n_head: keys.heads,
            n_inner: Some(keys.ffn),
            attention: scratch.attention,
            fields: scratch.special_tokens(),
            ..default
        };
        config.set_dropout(scratch.dropout);
        GPTJForCausalLM { config }.into()
    }
}
