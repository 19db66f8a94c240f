//! Llama.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::models::llama::{LlamaConfig, LlamaForCausalLM};
use lessen_nn::{AttentionConfig, Model};

/// Llama.
pub(super) struct Llama;

impl ModelFamily for Llama {
    fn role(&self) -> ModelRole {
        ModelRole::ContinuesTexts
    }

    fn attention(&self, _head_width: usize) -> AttentionConfig {
        LlamaConfig::ATTENTION
    }

    fn takes_kv_heads(&self) -> bool {
        true
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let config = LlamaConfig {
            vocab_size: sizes.vocab,
            hidden_size: keys.width,
            intermediate_size: keys.ffn,
            num_hidden_layers: keys.layers,
            num_attention_heads: keys.heads,
            num_key_value_heads: keys.kv_heads.unwrap_or(keys.heads),
            head_dim: keys.width / keys.heads,
            max_position_embeddings: sizes.length,
            attention_dropout: scratch.dropout,
            attention: scratch.attention,
            fields: scratch.special_tokens(),
            ..LlamaConfig::default()
        };
        LlamaForCausalLM { config }.into()
    }
}
