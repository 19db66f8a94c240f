//! GPT-2 (Radford et al. 2019): a pre-norm Transformer decoder with tanh GELU and a head that is tied to the token
//! embeddings. Parameters are named as in transformers' `GPT2LMHeadModel`.

use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::{BatchShape, Outputs};
use crate::activation::Activation;
use crate::attention::{AttentionConfig, SharedAttention};
use crate::config::{Fields, put_activation, put_identity, put_loss};
use crate::context::Context;
use crate::init::Init;
use crate::layers::{Attend, attend, conv1d, embedding, layer_norm, merge_heads, split_heads};
use crate::loss::Loss;
use crate::observations::{self, activate};
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
    /// Attention and positions.
    pub attention: AttentionConfig,
    /// What the cross entropy is taken of.
    pub loss: Loss,
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
            attention: AttentionConfig::default(),
            loss: Loss::default(),
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
        fields.must_be("tie_word_embeddings", &json!(true))?;
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
            attention: AttentionConfig::from_fields(fields, width / heads)?,
            loss: fields.loss()?,
            fields: fields.clone().into_map(),
        };
        Ok(config)
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.embd_pdrop, self.attn_pdrop, self.resid_pdrop) = (p, p, p);
    }

    pub(super) fn weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range,
        }
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

    /// Logits of the next token at every position, `f32[B, T, vocab_size]`. Declares `tokens` (`i32[B, T]`).
    ///
    /// # Panics
    /// If `T` is above `n_positions`; see [`Model::check_length`](crate::Model::check_length).
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let x = cx.scope("transformer", |cx| {
            hidden_states(cx, c, Reads::Batch(batch), |cx, _, [q, k, v], how| {
                attend(cx, q, k, v, how)
            })
        });
        head(cx, c, x)
    }

    /// Loss over `labels` (`i32[B, T]`): `labels[t]` is the token after `tokens[t]`, or -100 without a label. Whoever
    /// makes the batch shifts the labels; transformers does that inside the model.
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        let logits = self.logits(cx, batch);
        let labels = batch.ids(cx, "labels");
        observations::logits(cx, logits, labels);
        Outputs {
            loss: logits.cross_entropy(labels),
            logits,
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
        ] {
            map.insert(field.into(), value);
        }
        put_activation(&mut map, "activation_function", c.activation_function);
        c.attention.put(&mut map);
        put_loss(&mut map, c.loss);
        map
    }
}

/// The tokens that a GPT-2 reads.
#[derive(Clone, Copy)]
pub(super) enum Reads<'g> {
    /// The sequences of a batch.
    Batch(BatchShape),
    /// One token of each sequence, the data input `tokens` (`i32[B, 1]`), at a position (`i32[]`).
    Token(usize, Tensor<'g>),
}

/// Embeddings, blocks and the final norm: `f32[B, T, n_embd]`.
///
/// `attend` takes the layer's index, queries, keys and values (`[B, T, H, D]`, queries and keys rotated where positions
/// are rotary) and options: training attends to the whole text, generation to the key/value cache.
pub(super) fn hidden_states<'g>(
    cx: &Context<'g>,
    c: &Gpt2Config,
    reads: Reads<'g>,
    attend: impl Fn(&Context<'g>, usize, [Tensor<'g>; 3], Attend<'g>) -> Tensor<'g>,
) -> Tensor<'g> {
    let batch = match reads {
        Reads::Batch(batch) => batch,
        Reads::Token(size, _) => BatchShape::Padded { size, length: 1 },
    };
    let table = (c.n_positions, c.n_embd);
    let places = c.attention.position.is_limited().then(|| match reads {
        Reads::Batch(batch) => batch.position_embeddings(cx, "wpe", table, c.weight()),
        Reads::Token(_, position) => embedding(cx, "wpe", position, table, c.weight()),
    });
    let words = embedding(cx, "wte", batch.ids(cx, "tokens"), (c.vocab_size, c.n_embd), c.weight());
    let x = places.map_or(words, |places| words + places);
    let shared = SharedAttention::new(cx, c.attention, c.n_head, batch);
    let shared = match reads {
        Reads::Batch(_) => shared,
        Reads::Token(_, position) => shared.from(position),
    };
    let x = (0..c.n_layer).fold(cx.dropout(x, c.embd_pdrop), |x, i| {
        cx.scope(&format!("h.{i}"), |cx| {
            block(cx, c, (x, batch), shared, |cx, qkv, how| attend(cx, i, qkv, how))
        })
    });
    layer_norm(cx, "ln_f", x, c.layer_norm_epsilon)
}

fn block<'g>(
    cx: &Context<'g>,
    c: &Gpt2Config,
    (x, batch): (Tensor<'g>, BatchShape),
    shared: SharedAttention<'g>,
    attend: impl FnOnce(&Context<'g>, [Tensor<'g>; 3], Attend<'g>) -> Tensor<'g>,
) -> Tensor<'g> {
    let h = layer_norm(cx, "ln_1", x, c.layer_norm_epsilon);
    let y = cx.scope("attn", |cx| {
        let qkv = conv1d(cx, "c_attn", h, 3 * c.n_embd, c.weight()).split(-1, &[c.n_embd; 3]);
        let [q, k, v] = [0, 1, 2].map(|i| split_heads(qkv[i], c.n_head));
        let how = Attend {
            causal: true,
            dropout: c.attn_pdrop,
            ..Attend::default()
        };
        let how = shared.of_layer(cx, how);
        let y = attend(cx, [how.rotate(q), how.rotate(k), v], how);
        conv1d(cx, "c_proj", merge_heads(y), c.n_embd, c.residual_weight())
    });
    let x = x + cx.dropout(y, c.resid_pdrop);

    let h = layer_norm(cx, "ln_2", x, c.layer_norm_epsilon);
    let y = cx.scope("mlp", |cx| {
        let inner = conv1d(cx, "c_fc", h, c.n_inner.unwrap_or(4 * c.n_embd), c.weight());
        conv1d(
            cx,
            "c_proj",
            activate(cx, c.activation_function, inner, |cx| batch.in_segments(cx)),
            c.n_embd,
            c.residual_weight(),
        )
    });
    x + cx.dropout(y, c.resid_pdrop)
}

/// Logits of the next token, `[.., vocab_size]`, from hidden states `[.., n_embd]`.
pub(super) fn head<'g>(cx: &Context<'g>, c: &Gpt2Config, x: Tensor<'g>) -> Tensor<'g> {
    let words = cx.param("transformer.wte.weight", &[c.vocab_size, c.n_embd], c.weight());
    cx.trace().in_scope("lm_head", || c.loss.normalize(x.matmul_t(words)))
}
