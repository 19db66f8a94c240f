//! GPT-2 (Radford et al. 2019): a pre-norm Transformer decoder with tanh GELU and a head that may be tied
//! to the token embeddings. Parameters are named as in transformers' `GPT2LMHeadModel`.

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
use lessen_base::Result;

configuration! {
    /// The configuration of a GPT-2; fields are named as in transformers' `config.json`.
    Gpt2Config {
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 50257, size;
        /// Maximum sequence length in tokens: the number of position embeddings.
        n_positions: usize = 1024, size;
        /// Width of every hidden state.
        n_embd: usize = 768, size;
        /// Number of layers.
        n_layer: usize = 12, depth;
        /// Attention heads of each layer; their number divides `n_embd`.
        n_head: usize = 12, size;
        /// Width inside the feed-forward layers; `None` means `4 · n_embd`.
        n_inner: Option<usize> = None, optional;
        /// Activation of the feed-forward layers.
        activation_function: Activation = Activation::GeluTanh, activation;
        /// Dropout probability of embeddings, in `[0, 1)`.
        embd_pdrop: f64 = 0.1, dropout;
        /// Dropout probability of attention weights, in `[0, 1)`.
        attn_pdrop: f64 = 0.1, dropout;
        /// Dropout probability of residual branches, in `[0, 1)`.
        resid_pdrop: f64 = 0.1, dropout;
        /// Epsilon that norms add to the variance.
        layer_norm_epsilon: f64 = 1e-5, positive;
        /// Standard deviation of the initial values of matrices.
        initializer_range: f64 = 0.02, positive;
        /// Whether the head's matrix is the table of token embeddings.
        tie_word_embeddings: bool = true, switch;
        /// Attention and positions.
        attention: AttentionConfig = AttentionConfig::default(), given;
    }
    /// GPT-2 small, 124M parameters.
    default
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
        let (width, heads) = (fields.size("n_embd")?, fields.size("n_head")?);
        fields.divides("n_embd", width, "n_head", heads)?;
        Ok(Gpt2Config {
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            ..Gpt2Config::read(fields)?
        })
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
        let linear = Linear::Gpt2;
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
}

impl ModelClass for GPT2LMHeadModel {
    described_by_decoder!();

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.begin(Self::ARCHITECTURE, "gpt2", c.written());
        put_activation(&mut map, "activation_function", c.activation_function);
        c.attention.put(&AttentionConfig::DEFAULT, &mut map);
        c.put_settings(&mut map);
        map
    }

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
