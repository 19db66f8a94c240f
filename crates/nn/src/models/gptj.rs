//! GPT-J (Wang and Komatsuzaki 2021): a Transformer decoder whose attention and feed-forward layers read the same norm,
//! with rotary positions for a part of each head. Parameters are named as in transformers' `GPTJForCausalLM`.

use crate::models::class::{ModelClass, described_by_decoder, is_of, settings_in_config};
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
use crate::rotary::Rotary;
use lessen_base::Result;

/// The field of the number of rotated elements of a head, and its default.
const ROTARY_DIM: (&str, usize) = ("rotary_dim", 64);

configuration! {
    /// The configuration of a GPT-J; fields are named as in transformers' `config.json`.
    GptjConfig {
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 50400, size;
        /// Positions for which transformers has angles; here they limit nothing.
        n_positions: usize = 2048, size_or;
        /// Width of every hidden state.
        n_embd: usize = 4096, size;
        /// Number of layers.
        n_layer: usize = 28, depth;
        /// Attention heads of each layer; their number divides `n_embd`.
        n_head: usize = 16, size;
        /// Width inside the feed-forward layers; `None` means `4 · n_embd`.
        n_inner: Option<usize> = None, optional;
        /// Activation of the feed-forward layers.
        activation_function: Activation = Activation::GeluTanh, activation;
        /// Dropout probability of embeddings, in `[0, 1)`.
        embd_pdrop: f64 = 0.0, dropout;
        /// Dropout probability of attention weights, in `[0, 1)`.
        attn_pdrop: f64 = 0.0, dropout;
        /// Dropout probability of residual branches, in `[0, 1)`.
        resid_pdrop: f64 = 0.0, dropout;
        /// Epsilon that norms add to the variance.
        layer_norm_epsilon: f64 = 1e-5, positive;
        /// Standard deviation of the initial values of matrices.
        initializer_range: f64 = 0.02, positive;
        /// Whether the head's matrix is the table of token embeddings; its bias is its own.
        tie_word_embeddings: bool = false, switch;
        /// Attention and positions, with the part of rotary ones (`rotary_dim`).
        attention: AttentionConfig = GptjConfig::attention(256), given;
    }
    /// GPT-J-6B.
    default
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
            attention: attention.with_fields(fields, head_width)?,
            ..GptjConfig::read(fields)?
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
}

impl ModelClass for GPTJForCausalLM {
    described_by_decoder!();

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut written = c.written();
        let place = written.iter().position(|(field, _)| *field == "embd_pdrop");
        let rotary = (ROTARY_DIM.0, json!(c.attention.rotary.width_in(c.head_width())));
        written.insert(place.expect("a field of the table"), rotary);
        let mut map = c.begin(Self::ARCHITECTURE, Self::MODEL_TYPE, written);
        put_activation(&mut map, "activation_function", c.activation_function);
        c.attention.put(&GptjConfig::attention(c.head_width()), &mut map);
        c.put_settings(&mut map);
        map
    }

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
