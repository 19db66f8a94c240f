//! Llama (Touvron et al. 2023) and its relatives Mistral, Qwen2 and OLMo: pre-norm Transformer decoders with RMSNorm
//! (OLMo with LayerNorm), rotary positions, SwiGLU and grouped queries. Parameters are named as in transformers.

use crate::models::class::{ModelClass, described_by_decoder, settings_in_config};
use crate::models::configuration::configuration;
use serde_json::{Map, Value, json};

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

/// Llama or a relative with the same body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LlamaFamily {
    /// Llama, of any version.
    #[default]
    Llama,
    /// Mistral without a sliding window.
    Mistral,
    /// Qwen2 and Qwen2.5, whose queries, keys and values have biases.
    Qwen2,
    /// OLMo without clipped queries, keys and values; its norms are LayerNorms without parameters.
    Olmo,
}

impl LlamaFamily {
    /// All of them.
    pub const ALL: [LlamaFamily; 4] = [
        LlamaFamily::Llama,
        LlamaFamily::Mistral,
        LlamaFamily::Qwen2,
        LlamaFamily::Olmo,
    ];

    /// Epsilon of the norms of OLMo, which has no field for it.
    pub const OLMO_EPS: f64 = 1e-5;

    /// The name in `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            LlamaFamily::Llama => "llama",
            LlamaFamily::Mistral => "mistral",
            LlamaFamily::Qwen2 => "qwen2",
            LlamaFamily::Olmo => "olmo",
        }
    }

    /// The name of the class in transformers.
    pub fn class(self) -> &'static str {
        match self {
            LlamaFamily::Llama => "LlamaForCausalLM",
            LlamaFamily::Mistral => "MistralForCausalLM",
            LlamaFamily::Qwen2 => "Qwen2ForCausalLM",
            LlamaFamily::Olmo => "OlmoForCausalLM",
        }
    }

    /// Refuses fields for which transformers computes something else.
    fn check(self, fields: &Fields) -> Result<()> {
        match self {
            LlamaFamily::Llama => fields.must_be("pretraining_tp", &json!(1)),
            LlamaFamily::Mistral => fields.must_be_null("sliding_window"),
            LlamaFamily::Qwen2 => fields.must_be("use_sliding_window", &json!(false)),
            LlamaFamily::Olmo => fields.must_be("clip_qkv", &Value::Null),
        }
    }

    /// Whether `config.json` says if all products of attention have biases.
    fn may_bias_attention(self) -> bool {
        matches!(self, LlamaFamily::Llama | LlamaFamily::Olmo)
    }
}

configuration! {
    /// The configuration of a Llama; fields are named as in transformers' `config.json`.
    LlamaConfig {
        /// Llama or a relative.
        family: LlamaFamily = LlamaFamily::Llama, given;
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 32000, size;
        /// Width of every hidden state.
        hidden_size: usize = 4096, size;
        /// Width inside the feed-forward layers.
        intermediate_size: usize = 11008, size;
        /// Number of layers.
        num_hidden_layers: usize = 32, depth;
        /// Attention heads of each layer.
        num_attention_heads: usize = 32, size;
        /// Heads of keys and values of each layer; their number divides `num_attention_heads`.
        num_key_value_heads: usize = 32, written;
        /// Width of a head.
        head_dim: usize = 128, written;
        /// Activation of the feed-forward layers.
        hidden_act: Activation = Activation::Silu, activation;
        /// Length of the texts that the model was trained on, in tokens; it limits nothing.
        max_position_embeddings: usize = 2048, size_or;
        /// Standard deviation of the initial values of matrices.
        initializer_range: f64 = 0.02, positive;
        /// Epsilon that norms add to the mean square; in an OLMo [`LlamaFamily::OLMO_EPS`], to the variance.
        rms_norm_eps: f64 = 1e-6, given;
        /// Whether the products of attention have biases. Only a Llama and an OLMo read it.
        attention_bias: bool = false, given;
        /// Whether the products of the feed-forward layers have biases; of a Llama alone.
        mlp_bias: bool = false, given;
        /// Whether the head is the table of token embeddings.
        tie_word_embeddings: bool = false, switch;
        /// Dropout probability of attention weights, in `[0, 1)`.
        attention_dropout: f64 = 0.0, dropout;
        /// Attention and positions, with the angles of rotary ones.
        attention: AttentionConfig = LlamaConfig::ATTENTION, given;
    }
    /// Llama 2 with 7B parameters.
    default
}

impl LlamaConfig {
    /// The attention of a Llama as transformers has it: softmax and rotary positions.
    pub const ATTENTION: AttentionConfig = AttentionConfig {
        position: Position::Rope,
        ..AttentionConfig::DEFAULT
    };
}

impl LlamaConfig {
    /// Reads the fields of a `config.json` of this family.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields, family: LlamaFamily) -> Result<LlamaConfig> {
        family.check(fields)?;
        let default = LlamaConfig::default();
        let (width, heads) = (fields.size("hidden_size")?, fields.size("num_attention_heads")?);
        let head_dim = match fields.get("head_dim") {
            Some(_) => fields.size("head_dim")?,
            None => {
                fields.divides("hidden_size", width, "num_attention_heads", heads)?;
                width / heads
            }
        };
        let kv_heads = fields.size_or("num_key_value_heads", heads)?;
        fields.divides("num_attention_heads", heads, "num_key_value_heads", kv_heads)?;
        let attention = AttentionConfig {
            rotary: Rotary::from_fields(fields, &RotaryFields::LLAMA, head_dim)?,
            ..LlamaConfig::ATTENTION
        };
        let switch = |field: &str, is_read: bool| {
            if is_read {
                fields.switch_or(field, false)
            } else {
                Ok(false)
            }
        };
        let is_llama = family == LlamaFamily::Llama;
        let rms_norm_eps = match family {
            LlamaFamily::Olmo => LlamaFamily::OLMO_EPS,
            _ => fields.positive_or("rms_norm_eps", default.rms_norm_eps)?,
        };
        Ok(LlamaConfig {
            family,
            num_key_value_heads: kv_heads,
            head_dim,
            rms_norm_eps,
            attention_bias: switch("attention_bias", family.may_bias_attention())?,
            mlp_bias: switch("mlp_bias", is_llama)?,
            attention: attention.with_fields(fields, head_dim)?,
            ..LlamaConfig::read(fields)?
        })
    }
}

/// The products with biases, or without.
fn products(are_biased: bool) -> Linear {
    if are_biased { Linear::Biased } else { Linear::Plain }
}

/// A Llama, or a relative, with a language-model head.
#[derive(Clone, PartialEq, Debug)]
pub struct LlamaForCausalLM {
    /// Configuration.
    pub config: LlamaConfig,
}

impl LlamaForCausalLM {
    /// Description of its body and head.
    pub fn decoder(&self) -> Decoder {
        let c = &self.config;
        let init = Init::Normal {
            std: c.initializer_range,
        };
        let has_attention_bias = c.attention_bias && c.family.may_bias_attention();
        let qkv = products(has_attention_bias || c.family == LlamaFamily::Qwen2);
        Decoder {
            sizes: Sizes {
                vocab: c.vocab_size,
                positions: c.max_position_embeddings,
                width: c.hidden_size,
                layers: c.num_hidden_layers,
                heads: c.num_attention_heads,
                kv_heads: c.num_key_value_heads,
                head_width: c.head_dim,
                ffn: c.intermediate_size,
            },
            attention: c.attention,
            norm: match c.family {
                LlamaFamily::Olmo => Norm::LayerWithoutParameters,
                _ => Norm::Rms,
            },
            norm_eps: c.rms_norm_eps,
            branches: Branches::Sequential,
            qkv: Qkv::Separate(["q_proj", "k_proj", "v_proj"], qkv),
            attention_out: products(has_attention_bias),
            mlp: Mlp::Gated {
                gate: "gate_proj",
                up: "up_proj",
                down: "down_proj",
            },
            mlp_linear: products(c.mlp_bias && c.family == LlamaFamily::Llama),
            activation: c.hidden_act,
            dropout: Dropout {
                embeddings: 0.0,
                attention: c.attention_dropout,
                residual: 0.0,
            },
            init,
            residual_init: init,
            head: Head {
                tied: c.tie_word_embeddings,
                biased: false,
            },
            names: Names {
                body: "model",
                words: "embed_tokens",
                positions: "embed_positions",
                layers: "layers",
                attention: "self_attn",
                attention_out: "o_proj",
                mlp: "mlp",
                norms: ["input_layernorm", "post_attention_layernorm", "norm"],
                head: "lm_head",
            },
            loss: c.loss,
            quantization: c.quantization.clone(),
        }
    }
}

impl ModelClass for LlamaForCausalLM {
    described_by_decoder!();

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.begin(c.family.class(), c.family.model_type(), c.written());
        if c.family != LlamaFamily::Olmo {
            map.insert("rms_norm_eps".into(), json!(c.rms_norm_eps));
        }
        if c.family.may_bias_attention() {
            map.insert("attention_bias".into(), json!(c.attention_bias));
        }
        if c.family == LlamaFamily::Llama {
            map.insert("mlp_bias".into(), json!(c.mlp_bias));
        }
        put_activation(&mut map, "hidden_act", c.hidden_act);
        c.attention.rotary.put(&RotaryFields::LLAMA, c.head_dim, &mut map);
        c.attention.put(&LlamaConfig::ATTENTION, &mut map);
        c.put_settings(&mut map);
        map
    }

    fn is_head(&self, name: &str) -> bool {
        name == "lm_head.weight"
    }

    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(positions max_position_embeddings);
    settings_in_config!(attention | c | c.head_dim);
    settings_in_config!(activation hidden_act);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.attention_dropout = p;
    }
}
