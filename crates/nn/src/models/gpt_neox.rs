//! GPT-NeoX (Black et al. 2022) and Pythia: a Transformer decoder with rotary positions for a part of each head, whose
//! attention and feed-forward layers may read the same. Parameters are named as in transformers' `GPTNeoXForCausalLM`.

use crate::models::class::{ModelClass, described_by_decoder, is_of, settings_in_config};
use crate::models::configuration::configuration;
use serde_json::{Map, Value};

use super::decoder::{Branches, Decoder, Dropout, Head, Linear, Mlp, Names, Norm, Qkv, Sizes};
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::config::{Fields, put_activation};
use crate::init::Init;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use crate::position::Position;
use crate::rotary::{Rotary, RotaryFields};
use lessen_base::Result;

configuration! {
    /// The configuration of a GPT-NeoX; fields are named as in transformers' `config.json`.
    GptNeoxConfig {
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 50432, size;
        /// Width of every hidden state.
        hidden_size: usize = 6144, size;
        /// Width inside the feed-forward layers.
        intermediate_size: usize = 24576, size;
        /// Number of layers.
        num_hidden_layers: usize = 44, depth;
        /// Attention heads of each layer; their number divides `hidden_size`.
        num_attention_heads: usize = 64, size;
        /// Activation of the feed-forward layers.
        hidden_act: Activation = Activation::Gelu, activation;
        /// Length of the texts that the model was trained on, in tokens; it limits nothing.
        max_position_embeddings: usize = 2048, size_or;
        /// Whether attention and feed-forward layers of a block read the same.
        use_parallel_residual: bool = true, switch;
        /// Whether the products of attention have biases.
        attention_bias: bool = true, switch;
        /// Dropout probability of embeddings and residual branches, in `[0, 1)`.
        hidden_dropout: f64 = 0.0, dropout;
        /// Dropout probability of attention weights, in `[0, 1)`.
        attention_dropout: f64 = 0.0, dropout;
        /// Epsilon that norms add to the variance.
        layer_norm_eps: f64 = 1e-5, positive;
        /// Standard deviation of the initial values of matrices.
        initializer_range: f64 = 0.02, positive;
        /// Whether the head is the table of token embeddings.
        tie_word_embeddings: bool = false, switch;
        /// Attention and positions, with angles and part of rotary ones.
        attention: AttentionConfig = GptNeoxConfig::attention(96), given;
    }
    /// GPT-NeoX-20B.
    default
}

impl GptNeoxConfig {
    /// The attention as transformers has it, for heads of this width: softmax, and rotary positions for the first
    /// quarter of each head, in whole pairs.
    pub fn attention(head_width: usize) -> AttentionConfig {
        AttentionConfig {
            position: Position::Rope,
            rotary: Rotary::of_quarter(head_width),
            ..AttentionConfig::DEFAULT
        }
    }

    /// Width of a head.
    pub fn head_width(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<GptNeoxConfig> {
        let default = GptNeoxConfig::default();
        let (width, heads) = (fields.size("hidden_size")?, fields.size("num_attention_heads")?);
        fields.divides("hidden_size", width, "num_attention_heads", heads)?;
        let head_width = width / heads;
        let attention = AttentionConfig {
            rotary: Rotary::from_fields(fields, &RotaryFields::GPT_NEOX, head_width)?,
            ..default.attention
        };
        Ok(GptNeoxConfig {
            attention: attention.with_fields(fields, head_width)?,
            ..GptNeoxConfig::read(fields)?
        })
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.hidden_dropout, self.attention_dropout) = (p, p);
    }
}

/// GPT-NeoX with a language-model head.
#[derive(Clone, PartialEq, Debug)]
pub struct GPTNeoXForCausalLM {
    /// Configuration.
    pub config: GptNeoxConfig,
}

impl GPTNeoXForCausalLM {
    /// The name of the class in transformers.
    pub const ARCHITECTURE: &str = "GPTNeoXForCausalLM";
    /// The name of the family in transformers.
    pub const MODEL_TYPE: &str = "gpt_neox";
    /// The name of the product with the vocabulary.
    pub(crate) const HEAD: &str = "embed_out";

    /// Description of its body and head.
    pub fn decoder(&self) -> Decoder {
        let c = &self.config;
        let init = Init::Normal {
            std: c.initializer_range,
        };
        let linear = if c.attention_bias {
            Linear::Biased
        } else {
            Linear::Plain
        };
        Decoder {
            sizes: Sizes {
                vocab: c.vocab_size,
                positions: c.max_position_embeddings,
                width: c.hidden_size,
                layers: c.num_hidden_layers,
                heads: c.num_attention_heads,
                kv_heads: c.num_attention_heads,
                head_width: c.head_width(),
                ffn: c.intermediate_size,
            },
            attention: c.attention,
            norm: Norm::Layer,
            norm_eps: c.layer_norm_eps,
            branches: if c.use_parallel_residual {
                Branches::Parallel
            } else {
                Branches::Sequential
            },
            qkv: Qkv::JoinedByHead("query_key_value", linear),
            attention_out: linear,
            mlp: Mlp::Plain {
                up: "dense_h_to_4h",
                down: "dense_4h_to_h",
            },
            mlp_linear: Linear::Biased,
            activation: c.hidden_act,
            dropout: Dropout {
                embeddings: c.hidden_dropout,
                attention: c.attention_dropout,
                residual: c.hidden_dropout,
            },
            init,
            residual_init: init,
            head: Head {
                tied: c.tie_word_embeddings,
                biased: false,
            },
            names: Names {
                body: "gpt_neox",
                words: "embed_in",
                positions: "embed_positions",
                layers: "layers",
                attention: "attention",
                attention_out: "dense",
                mlp: "mlp",
                norms: ["input_layernorm", "post_attention_layernorm", "final_layer_norm"],
                head: Self::HEAD,
            },
            loss: c.loss,
            quantization: c.quantization.clone(),
        }
    }
}

impl ModelClass for GPTNeoXForCausalLM {
    described_by_decoder!();

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.begin(Self::ARCHITECTURE, Self::MODEL_TYPE, c.written());
        put_activation(&mut map, "hidden_act", c.hidden_act);
        c.attention
            .rotary
            .put(&RotaryFields::GPT_NEOX, c.head_width(), &mut map);
        c.attention.put(&GptNeoxConfig::attention(c.head_width()), &mut map);
        c.put_settings(&mut map);
        map
    }

    fn is_head(&self, name: &str) -> bool {
        is_of(GPTNeoXForCausalLM::HEAD, name)
    }

    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(positions max_position_embeddings);
    settings_in_config!(attention | c | c.head_width());
    settings_in_config!(activation hidden_act);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.set_dropout(p);
    }
}
