//! BERT, RoBERTa, DistilBERT and MPNet.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::Model;
use lessen_nn::models::bert::{Bert, BertConfig, Family};

/// Least number of positions of a model from scratch.
const POSITIONS: usize = 512;

/// BERT, RoBERTa, DistilBERT or MPNet.
pub(super) struct Encoders(pub(super) Family);

impl ModelFamily for Encoders {
    fn role(&self) -> ModelRole {
        ModelRole::EncodesTexts
    }

    fn dropout(&self) -> f64 {
        0.1
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let (keys, sizes) = (scratch.keys, scratch.sizes);
        let mut config = BertConfig {
            vocab_size: sizes.vocab,
            hidden_size: keys.width,
            num_hidden_layers: keys.layers,
            num_attention_heads: keys.heads,
            intermediate_size: keys.ffn,
            pad_token_id: sizes.padding_token(),
            attention: scratch.attention,
            ..BertConfig::of(self.0)
        };
        config.max_position_embeddings = sizes.length.max(POSITIONS) + config.first_position();
        config.set_dropout(scratch.dropout);
        let head = scratch.head;
        Bert { config, head }.into()
    }
}
