//! GPT-NeoX (Black et al. 2022) and Pythia: a Transformer decoder with rotary positions for a part of each head, whose
//! attention and feed-forward layers may read the same. Parameters are named as in transformers' `GPTNeoXForCausalLM`.

use crate::models::class::{ModelClass, described_by_decoder, is_of, settings_in_config};
use serde_json::{Map, Value, json};

use super::decoder::{Branches, Decoder, Dropout, Head, Linear, Mlp, Names, Norm, Qkv, Sizes};
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::config::{Fields, put_activation, put_identity, put_loss};
use crate::init::Init;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use crate::position::Position;
use crate::quantization::Quantization;
use crate::rotary::{Rotary, RotaryFields};
use lessen_base::Result;

/// The configuration of a GPT-NeoX; fields are named as in transformers' `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct GptNeoxConfig {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of every hidden state.
    pub hidden_size: usize,
    /// Width inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Attention heads of each layer; their number divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Activation of the feed-forward layers.
    pub hidden_act: Activation,
    /// Length of the texts that the model was trained on, in tokens; it limits nothing.
    pub max_position_embeddings: usize,
    /// Whether attention and feed-forward layers of a block read the same.
    pub use_parallel_residual: bool,
    /// Whether the products of attention have biases.
    pub attention_bias: bool,
    /// Dropout probability of embeddings and residual branches, in `[0, 1)`.
    pub hidden_dropout: f64,
    /// Dropout probability of attention weights, in `[0, 1)`.
    pub attention_dropout: f64,
    /// Epsilon that norms add to the variance.
    pub layer_norm_eps: f64,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Whether the head is the table of token embeddings.
    pub tie_word_embeddings: bool,
    /// Attention and positions, with angles and part of rotary ones.
    pub attention: AttentionConfig,
    /// Softmax of the cross entropy.
    pub loss: Loss,
    /// How its layer norms are computed.
    pub norm: NormKind,
    /// How its layers are quantized; none if they are not.
    pub quantization: Option<Quantization>,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl Default for GptNeoxConfig {
    /// GPT-NeoX-20B.
    fn default() -> GptNeoxConfig {
        GptNeoxConfig {
            vocab_size: 50432,
            hidden_size: 6144,
            intermediate_size: 24576,
            num_hidden_layers: 44,
            num_attention_heads: 64,
            hidden_act: Activation::Gelu,
            max_position_embeddings: 2048,
            use_parallel_residual: true,
            attention_bias: true,
            hidden_dropout: 0.0,
            attention_dropout: 0.0,
            layer_norm_eps: 1e-5,
            initializer_range: 0.02,
            tie_word_embeddings: false,
            attention: GptNeoxConfig::attention(96),
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            fields: Map::new(),
        }
    }
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
            vocab_size: fields.size("vocab_size")?,
            hidden_size: width,
            intermediate_size: fields.size("intermediate_size")?,
            num_hidden_layers: fields.depth("num_hidden_layers")?,
            num_attention_heads: heads,
            hidden_act: fields.activation_or("hidden_act", default.hidden_act)?,
            max_position_embeddings: fields.size_or("max_position_embeddings", default.max_position_embeddings)?,
            use_parallel_residual: fields.switch_or("use_parallel_residual", default.use_parallel_residual)?,
            attention_bias: fields.switch_or("attention_bias", default.attention_bias)?,
            hidden_dropout: fields.dropout_or("hidden_dropout", default.hidden_dropout)?,
            attention_dropout: fields.dropout_or("attention_dropout", default.attention_dropout)?,
            layer_norm_eps: fields.positive_or("layer_norm_eps", default.layer_norm_eps)?,
            initializer_range: fields.positive_or("initializer_range", default.initializer_range)?,
            tie_word_embeddings: fields.switch_or("tie_word_embeddings", default.tie_word_embeddings)?,
            attention: attention.with_fields(fields, head_width)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            fields: fields.clone().into_map(),
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

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, Self::ARCHITECTURE, Self::MODEL_TYPE);
        for (field, value) in [
            ("vocab_size", json!(c.vocab_size)),
            ("hidden_size", json!(c.hidden_size)),
            ("intermediate_size", json!(c.intermediate_size)),
            ("num_hidden_layers", json!(c.num_hidden_layers)),
            ("num_attention_heads", json!(c.num_attention_heads)),
            ("max_position_embeddings", json!(c.max_position_embeddings)),
            ("use_parallel_residual", json!(c.use_parallel_residual)),
            ("attention_bias", json!(c.attention_bias)),
            ("hidden_dropout", json!(c.hidden_dropout)),
            ("attention_dropout", json!(c.attention_dropout)),
            ("layer_norm_eps", json!(c.layer_norm_eps)),
            ("initializer_range", json!(c.initializer_range)),
            ("tie_word_embeddings", json!(c.tie_word_embeddings)),
        ] {
            map.insert(field.into(), value);
        }
        put_activation(&mut map, "hidden_act", c.hidden_act);
        c.attention
            .rotary
            .put(&RotaryFields::GPT_NEOX, c.head_width(), &mut map);
        c.attention.put(&GptNeoxConfig::attention(c.head_width()), &mut map);
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        map
    }
}

impl ModelClass for GPTNeoXForCausalLM {
    described_by_decoder!();

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
