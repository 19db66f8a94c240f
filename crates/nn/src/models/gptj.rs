//! GPT-J (Wang and Komatsuzaki 2021): a Transformer decoder whose attention and feed-forward layers read the same norm,
//! with rotary positions for a part of each head. Parameters are named as in transformers' `GPTJForCausalLM`.

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
use crate::rotary::Rotary;
use lessen_base::Result;

/// The field of the number of rotated elements of a head, and its default.
const ROTARY_DIM: (&str, usize) = ("rotary_dim", 64);

/// The configuration of a GPT-J; fields are named as in transformers' `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct GptjConfig {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Positions for which transformers has angles; here they limit nothing.
    pub n_positions: usize,
    /// Width of every hidden state.
    pub n_embd: usize,
    /// Number of layers.
    pub n_layer: usize,
    /// Attention heads of each layer; their number divides `n_embd`.
    pub n_head: usize,
    /// Width inside the feed-forward layers; `None` means `4 · n_embd`.
    pub n_inner: Option<usize>,
    /// Activation of the feed-forward layers.
    pub activation_function: Activation,
    /// Dropout probability of embeddings, in `[0, 1)`.
    pub embd_pdrop: f64,
    /// Dropout probability of attention weights, in `[0, 1)`.
    pub attn_pdrop: f64,
    /// Dropout probability of residual branches, in `[0, 1)`.
    pub resid_pdrop: f64,
    /// Epsilon that norms add to the variance.
    pub layer_norm_epsilon: f64,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Whether the head's matrix is the table of token embeddings; its bias is its own.
    pub tie_word_embeddings: bool,
    /// Attention and positions, with the part of rotary ones (`rotary_dim`).
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

impl Default for GptjConfig {
    /// GPT-J-6B.
    fn default() -> GptjConfig {
        GptjConfig {
            vocab_size: 50400,
            n_positions: 2048,
            n_embd: 4096,
            n_layer: 28,
            n_head: 16,
            n_inner: None,
            activation_function: Activation::GeluTanh,
            embd_pdrop: 0.0,
            attn_pdrop: 0.0,
            resid_pdrop: 0.0,
            layer_norm_epsilon: 1e-5,
            initializer_range: 0.02,
            tie_word_embeddings: false,
            attention: GptjConfig::attention(256),
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            fields: Map::new(),
        }
    }
}

impl GptjConfig {
    /// The attention as transformers has it, for heads of this width: softmax, and interleaved rotary positions for the
    /// first quarter of each head, in whole pairs.
    pub fn attention(head_width: usize) -> AttentionConfig {
        AttentionConfig {
            position: Position::Rope,
            rotary: Rotary {
                interleaved: true,
                ..Rotary::of_quarter(head_width)
            },
            ..AttentionConfig::DEFAULT
        }
    }

    /// Width of a head.
    pub fn head_width(&self) -> usize {
        self.n_embd / self.n_head
    }

    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<GptjConfig> {
        let default = GptjConfig::default();
        let (width, heads) = (fields.size("n_embd")?, fields.size("n_head")?);
        fields.divides("n_embd", width, "n_head", heads)?;
        let (head_width, (rotary_dim, rotated)) = (width / heads, ROTARY_DIM);
        let rotated = fields.size_or(rotary_dim, rotated)?;
        let rotary = default.attention.rotary;
        let attention = AttentionConfig {
            rotary: rotary.with_width(fields, rotary_dim, rotated, head_width)?,
            ..default.attention
        };
        Ok(GptjConfig {
            vocab_size: fields.size("vocab_size")?,
            n_positions: fields.size_or("n_positions", default.n_positions)?,
            n_embd: width,
            n_layer: fields.depth("n_layer")?,
            n_head: heads,
            n_inner: fields.get("n_inner").map(|_| fields.size("n_inner")).transpose()?,
            activation_function: fields.activation_or("activation_function", default.activation_function)?,
            embd_pdrop: fields.dropout_or("embd_pdrop", default.embd_pdrop)?,
            attn_pdrop: fields.dropout_or("attn_pdrop", default.attn_pdrop)?,
            resid_pdrop: fields.dropout_or("resid_pdrop", default.resid_pdrop)?,
            layer_norm_epsilon: fields.positive_or("layer_norm_epsilon", default.layer_norm_epsilon)?,
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
        (self.embd_pdrop, self.attn_pdrop, self.resid_pdrop) = (p, p, p);
    }
}

/// GPT-J with a language-model head.
#[derive(Clone, PartialEq, Debug)]
pub struct GPTJForCausalLM {
    /// Configuration.
    pub config: GptjConfig,
}

impl GPTJForCausalLM {
    /// The name of the class in transformers.
    pub const ARCHITECTURE: &str = "GPTJForCausalLM";
    /// The name of the family in transformers.
    pub const MODEL_TYPE: &str = "gptj";
    /// The name of the product with the vocabulary.
    pub(crate) const HEAD: &str = "lm_head";

    /// Description of its body and head.
    pub fn decoder(&self) -> Decoder {
        let c = &self.config;
        let init = Init::Normal {
            std: c.initializer_range,
        };
        Decoder {
            sizes: Sizes {
                vocab: c.vocab_size,
                positions: c.n_positions,
                width: c.n_embd,
                layers: c.n_layer,
                heads: c.n_head,
                kv_heads: c.n_head,
                head_width: c.head_width(),
                ffn: c.n_inner.unwrap_or(4 * c.n_embd),
            },
            attention: c.attention,
            norm: Norm::Layer,
            norm_eps: c.layer_norm_epsilon,
            branches: Branches::ParallelWithOneNorm,
            qkv: Qkv::Separate(["q_proj", "k_proj", "v_proj"], Linear::Plain),
            attention_out: Linear::Plain,
            mlp: Mlp::Plain {
                up: "fc_in",
                down: "fc_out",
            },
            mlp_linear: Linear::Biased,
            activation: c.activation_function,
            dropout: Dropout {
                embeddings: c.embd_pdrop,
                attention: c.attn_pdrop,
                residual: c.resid_pdrop,
            },
            init,
            residual_init: init,
            head: Head {
                tied: c.tie_word_embeddings,
                biased: true,
            },
            names: Names {
                body: "transformer",
                words: "wte",
                positions: "wpe",
                layers: "h",
                attention: "attn",
                attention_out: "out_proj",
                mlp: "mlp",
                norms: ["ln_1", "ln_1", "ln_f"],
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
            ("n_positions", json!(c.n_positions)),
            ("n_embd", json!(c.n_embd)),
            ("n_layer", json!(c.n_layer)),
            ("n_head", json!(c.n_head)),
            ("n_inner", json!(c.n_inner)),
            (ROTARY_DIM.0, json!(c.attention.rotary.width_in(c.head_width()))),
            ("embd_pdrop", json!(c.embd_pdrop)),
            ("attn_pdrop", json!(c.attn_pdrop)),
            ("resid_pdrop", json!(c.resid_pdrop)),
            ("layer_norm_epsilon", json!(c.layer_norm_epsilon)),
            ("initializer_range", json!(c.initializer_range)),
            ("tie_word_embeddings", json!(c.tie_word_embeddings)),
        ] {
            map.insert(field.into(), value);
        }
        put_activation(&mut map, "activation_function", c.activation_function);
        c.attention.put(&GptjConfig::attention(c.head_width()), &mut map);
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        map
    }
}

impl ModelClass for GPTJForCausalLM {
    described_by_decoder!();

    fn is_head(&self, name: &str) -> bool {
        is_of(GPTJForCausalLM::HEAD, name)
    }

    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(positions n_positions);
    settings_in_config!(attention | c | c.head_width());
    settings_in_config!(activation activation_function);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.set_dropout(p);
    }
}
