//! GPT-2 (Radford et al. 2019): a pre-norm Transformer decoder with tanh GELU and a head that may be tied
//! to the token embeddings. Parameters are named as in transformers' `GPT2LMHeadModel`.

use crate::models::class::{ModelClass, described_by_decoder, settings_in_config};
use serde_json::{Map, Value, json};

use super::decoder::{Branches, Decoder, Dropout, Head, Linear, Mlp, Names, Norm, Qkv, Sizes};
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::config::{Fields, put_activation, put_identity, put_loss};
use crate::init::Init;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;
use lessen_base::Result;

/// The configuration of a GPT-2; fields are named as in transformers' `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct Gpt2Config {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Maximum sequence length in tokens: the number of position embeddings.
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
    /// Whether the head's matrix is the table of token embeddings.
    pub tie_word_embeddings: bool,
    /// Attention and positions.
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

impl Default for Gpt2Config {
    /// GPT-2 small, 124M parameters.
    fn default() -> Gpt2Config {
        Gpt2Config {
            vocab_size: 50257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: None,
            activation_function: Activation::GeluTanh,
            embd_pdrop: 0.1,
            attn_pdrop: 0.1,
            resid_pdrop: 0.1,
            layer_norm_epsilon: 1e-5,
            initializer_range: 0.02,
            tie_word_embeddings: true,
            attention: AttentionConfig::default(),
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            fields: Map::new(),
        }
    }
}

impl Gpt2Config {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<Gpt2Config> {
        fields.must_be("scale_attn_weights", &json!(true))?;
        fields.must_be("scale_attn_by_inverse_layer_idx", &json!(false))?;
        fields.must_be("add_cross_attention", &json!(false))?;
        let default = Gpt2Config::default();
        let (width, heads) = (fields.size("n_embd")?, fields.size("n_head")?);
        fields.divides("n_embd", width, "n_head", heads)?;
        let config = Gpt2Config {
            vocab_size: fields.size("vocab_size")?,
            n_positions: fields.size("n_positions")?,
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
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            fields: fields.clone().into_map(),
        };
        Ok(config)
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.embd_pdrop, self.attn_pdrop, self.resid_pdrop) = (p, p, p);
    }

    /// The initial values of matrices that end a residual branch: scaled down so that the variance of the sum over all
    /// `2 · n_layer` branches does not grow with the depth.
    fn residual_weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range / (2.0 * self.n_layer as f64).sqrt(),
        }
    }
}

/// GPT-2 with a language-model head.
#[derive(Clone, PartialEq, Debug)]
pub struct GPT2LMHeadModel {
    /// Configuration.
    pub config: Gpt2Config,
}

impl GPT2LMHeadModel {
    /// The name of the class in transformers.
    pub const ARCHITECTURE: &str = "GPT2LMHeadModel";

    /// Description of its body and head.
    pub fn decoder(&self) -> Decoder {
        let c = &self.config;
        let linear = Linear::Conv1d;
        Decoder {
            sizes: Sizes {
                vocab: c.vocab_size,
                positions: c.n_positions,
                width: c.n_embd,
                layers: c.n_layer,
                heads: c.n_head,
                kv_heads: c.n_head,
                head_width: c.n_embd / c.n_head,
                ffn: c.n_inner.unwrap_or(4 * c.n_embd),
            },
            attention: c.attention,
            norm: Norm::Layer,
            norm_eps: c.layer_norm_epsilon,
            branches: Branches::Sequential,
            qkv: Qkv::Joined("c_attn", linear),
            attention_out: linear,
            mlp: Mlp::Plain {
                up: "c_fc",
                down: "c_proj",
            },
            mlp_linear: linear,
            activation: c.activation_function,
            dropout: Dropout {
                embeddings: c.embd_pdrop,
                attention: c.attn_pdrop,
                residual: c.resid_pdrop,
            },
            init: Init::Normal {
                std: c.initializer_range,
            },
            residual_init: c.residual_weight(),
            head: Head {
                tied: self.config.tie_word_embeddings,
                biased: false,
            },
            names: Names {
                body: "transformer",
                words: "wte",
                positions: "wpe",
                layers: "h",
                attention: "attn",
                attention_out: "c_proj",
                mlp: "mlp",
                norms: ["ln_1", "ln_2", "ln_f"],
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
        put_identity(&mut map, Self::ARCHITECTURE, "gpt2");
        for (field, value) in [
            ("vocab_size", json!(c.vocab_size)),
            ("n_positions", json!(c.n_positions)),
            ("n_embd", json!(c.n_embd)),
            ("n_layer", json!(c.n_layer)),
            ("n_head", json!(c.n_head)),
            ("n_inner", json!(c.n_inner)),
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
        c.attention.put(&AttentionConfig::DEFAULT, &mut map);
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        map
    }
}

impl ModelClass for GPT2LMHeadModel {
    described_by_decoder!();

    fn is_head(&self, name: &str) -> bool {
        name == "lm_head.weight"
    }

    fn fan_in_fan_out(&self) -> bool {
        true
    }

    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(positions n_positions);
    settings_in_config!(attention | c | c.n_embd / c.n_head);
    settings_in_config!(activation activation_function);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.set_dropout(p);
    }
}
