//! Llama (Touvron et al. 2023) and its relatives Mistral, Qwen2 and OLMo: pre-norm Transformer decoders with RMSNorm
//! (OLMo with LayerNorm), rotary positions, SwiGLU and grouped queries. Parameters are named as in transformers.

use crate::models::class::{ModelClass, described_by_decoder, settings_in_config};
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

/// The configuration of a Llama; fields are named as in transformers' `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct LlamaConfig {
    /// Llama or a relative.
    pub family: LlamaFamily,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of every hidden state.
    pub hidden_size: usize,
    /// Width inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Attention heads of each layer.
    pub num_attention_heads: usize,
    /// Heads of keys and values of each layer; their number divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Activation of the feed-forward layers.
    pub hidden_act: Activation,
    /// Length of the texts that the model was trained on, in tokens; it limits nothing.
    pub max_position_embeddings: usize,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Epsilon that norms add to the mean square; in an OLMo [`LlamaFamily::OLMO_EPS`], to the variance.
    pub rms_norm_eps: f64,
    /// Whether the products of attention have biases. Only a Llama and an OLMo read it.
    pub attention_bias: bool,
    /// Whether the products of the feed-forward layers have biases; of a Llama alone.
    pub mlp_bias: bool,
    /// Whether the head is the table of token embeddings.
    pub tie_word_embeddings: bool,
    /// Dropout probability of attention weights, in `[0, 1)`.
    pub attention_dropout: f64,
    /// Attention and positions, with the angles of rotary ones.
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

impl LlamaConfig {
    /// The attention of a Llama as transformers has it: softmax and rotary positions.
    pub const ATTENTION: AttentionConfig = AttentionConfig {
        position: Position::Rope,
        ..AttentionConfig::DEFAULT
    };
}

impl Default for LlamaConfig {
    /// Llama 2 with 7B parameters.
    fn default() -> LlamaConfig {
        LlamaConfig {
            family: LlamaFamily::Llama,
            vocab_size: 32000,
            hidden_size: 4096,
            intermediate_size: 11008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: 32,
            head_dim: 128,
            hidden_act: Activation::Silu,
            max_position_embeddings: 2048,
            initializer_range: 0.02,
            rms_norm_eps: 1e-6,
            attention_bias: false,
            mlp_bias: false,
            tie_word_embeddings: false,
            attention_dropout: 0.0,
            attention: LlamaConfig::ATTENTION,
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            fields: Map::new(),
        }
    }
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
        Ok(LlamaConfig {
            family,
            vocab_size: fields.size("vocab_size")?,
            hidden_size: width,
            intermediate_size: fields.size("intermediate_size")?,
            num_hidden_layers: fields.depth("num_hidden_layers")?,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            hidden_act: fields.activation_or("hidden_act", default.hidden_act)?,
            max_position_embeddings: fields.size_or("max_position_embeddings", default.max_position_embeddings)?,
            initializer_range: fields.positive_or("initializer_range", default.initializer_range)?,
            rms_norm_eps: match family {
                LlamaFamily::Olmo => LlamaFamily::OLMO_EPS,
                _ => fields.positive_or("rms_norm_eps", default.rms_norm_eps)?,
            },
            attention_bias: switch("attention_bias", family.may_bias_attention())?,
            mlp_bias: switch("mlp_bias", is_llama)?,
            tie_word_embeddings: fields.switch_or("tie_word_embeddings", default.tie_word_embeddings)?,
            attention_dropout: fields.dropout_or("attention_dropout", default.attention_dropout)?,
            attention: attention.with_fields(fields, head_dim)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            fields: fields.clone().into_map(),
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

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, c.family.class(), c.family.model_type());
        for (field, value) in [
            ("vocab_size", json!(c.vocab_size)),
            ("hidden_size", json!(c.hidden_size)),
            ("intermediate_size", json!(c.intermediate_size)),
            ("num_hidden_layers", json!(c.num_hidden_layers)),
            ("num_attention_heads", json!(c.num_attention_heads)),
            ("num_key_value_heads", json!(c.num_key_value_heads)),
            ("head_dim", json!(c.head_dim)),
            ("max_position_embeddings", json!(c.max_position_embeddings)),
            ("initializer_range", json!(c.initializer_range)),
            ("tie_word_embeddings", json!(c.tie_word_embeddings)),
            ("attention_dropout", json!(c.attention_dropout)),
        ] {
            map.insert(field.into(), value);
        }
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
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        map
    }
}

impl ModelClass for LlamaForCausalLM {
    described_by_decoder!();

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
