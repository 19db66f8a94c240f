//! GPT-NeoX.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::{AttentionConfig, Model};

/// GPT-NeoX.
pub(super) struct GptNeox;

impl ModelFamily for GptNeox {
    fn role(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn attention(&self, head_width: usize) -> AttentionConfig {
        GptNeoxConfig::attention(head_width)
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let mut config = GptNeoxConfig {
            vocab_size: sizes.vocab,
            hidden_size: keys.width,
            intermediate_size: keys.ffn,
            num_hidden_layers: keys.layers,
            num_attention_heads: keys.heads,
            max_position_embeddings: sizes.length,
            attention: scratch.attention,
            fields: scratch.special_tokens(),
            ..GptNeoxConfig::default()
        };
        config.set_dropout(scratch.dropout);
        GPTNeoXForCausalLM { config }.into()
    }
}
