//! BERT (Devlin et al. 2019): a post-norm Transformer encoder. Parameters are named as in transformers'
//! `BertForSequenceClassification` and `BertForMaskedLM`.

use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::{BatchShape, Outputs, classifier_loss};
use crate::activation::Activation;
use crate::attention::{AttentionConfig, SharedAttention};
use crate::config::{Fields, put_activation, put_identity, put_loss};
use crate::context::Context;
use crate::init::Init;
use crate::labels::{numbered_labels, put_labels};
use crate::layers::{Attend, embedding, layer_norm, linear, multi_head};
use crate::loss::Loss;
use crate::observations::{self, activate};
use lessen_base::Result;

/// The configuration of a BERT; fields are named as in transformers' `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct BertConfig {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of every hidden state.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Attention heads of each layer; their number divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward layers.
    pub intermediate_size: usize,
    /// Maximum sequence length in tokens: the number of position embeddings.
    pub max_position_embeddings: usize,
    /// Number of token types: first or second text.
    pub type_vocab_size: usize,
    /// Activation of the feed-forward layers.
    pub hidden_act: Activation,
    /// Dropout probability of embeddings and residual branches, in `[0, 1)`.
    pub hidden_dropout_prob: f64,
    /// Dropout probability of attention weights, in `[0, 1)`.
    pub attention_probs_dropout_prob: f64,
    /// Dropout probability before the classification head; `None` means `hidden_dropout_prob`.
    pub classifier_dropout: Option<f64>,
    /// Epsilon that norms add to the variance.
    pub layer_norm_eps: f64,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Attention and positions.
    pub attention: AttentionConfig,
    /// What the cross entropy is taken of.
    pub loss: Loss,
    /// Names of the classes; one class means a regression.
    pub labels: Vec<String>,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl Default for BertConfig {
    /// BERT-base, uncased, with two classes.
    fn default() -> BertConfig {
        BertConfig {
            vocab_size: 30522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            hidden_act: Activation::Gelu,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            classifier_dropout: None,
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
            attention: AttentionConfig::default(),
            loss: Loss::default(),
            labels: numbered_labels(2),
            fields: Map::new(),
        }
    }
}

impl BertConfig {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<BertConfig> {
        fields.must_be("position_embedding_type", &json!("absolute"))?;
        fields.must_be("is_decoder", &json!(false))?;
        fields.must_be("add_cross_attention", &json!(false))?;
        let default = BertConfig::default();
        let classifier_dropout = fields.get("classifier_dropout").is_some();
        let (width, heads) = (fields.size("hidden_size")?, fields.size("num_attention_heads")?);
        fields.divides("hidden_size", width, "num_attention_heads", heads)?;
        let config = BertConfig {
            vocab_size: fields.size("vocab_size")?,
            hidden_size: width,
            num_hidden_layers: fields.depth("num_hidden_layers")?,
            num_attention_heads: heads,
            intermediate_size: fields.size("intermediate_size")?,
            max_position_embeddings: fields.size("max_position_embeddings")?,
            type_vocab_size: fields.size_or("type_vocab_size", default.type_vocab_size)?,
            hidden_act: fields.activation_or("hidden_act", default.hidden_act)?,
            hidden_dropout_prob: fields.dropout_or("hidden_dropout_prob", default.hidden_dropout_prob)?,
            attention_probs_dropout_prob: fields
                .dropout_or("attention_probs_dropout_prob", default.attention_probs_dropout_prob)?,
            classifier_dropout: classifier_dropout
                .then(|| fields.dropout_or("classifier_dropout", 0.0))
                .transpose()?,
            layer_norm_eps: fields.positive_or("layer_norm_eps", default.layer_norm_eps)?,
            initializer_range: fields.positive_or("initializer_range", default.initializer_range)?,
            attention: AttentionConfig::from_fields(fields, width / heads)?,
            loss: fields.loss()?,
            labels: fields.labels()?,
            fields: fields.clone().into_map(),
        };
        Ok(config)
    }

    fn to_json(&self, architecture: &str) -> Map<String, Value> {
        let mut map = self.fields.clone();
        put_identity(&mut map, architecture, "bert");
        for (field, value) in [
            ("vocab_size", json!(self.vocab_size)),
            ("hidden_size", json!(self.hidden_size)),
            ("num_hidden_layers", json!(self.num_hidden_layers)),
            ("num_attention_heads", json!(self.num_attention_heads)),
            ("intermediate_size", json!(self.intermediate_size)),
            ("max_position_embeddings", json!(self.max_position_embeddings)),
            ("type_vocab_size", json!(self.type_vocab_size)),
            ("hidden_dropout_prob", json!(self.hidden_dropout_prob)),
            ("attention_probs_dropout_prob", json!(self.attention_probs_dropout_prob)),
            ("classifier_dropout", json!(self.classifier_dropout)),
            ("layer_norm_eps", json!(self.layer_norm_eps)),
            ("initializer_range", json!(self.initializer_range)),
        ] {
            map.insert(field.into(), value);
        }
        put_activation(&mut map, "hidden_act", self.hidden_act);
        self.attention.put(&mut map);
        put_loss(&mut map, self.loss);
        map
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.hidden_dropout_prob, self.attention_probs_dropout_prob) = (p, p);
        self.classifier_dropout = self.classifier_dropout.map(|_| p);
    }

    fn weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range,
        }
    }
}

/// The hidden states of the last layer, `f32[B, T, hidden_size]`. Declares `tokens` (`i32[B, T]`), token types `types`
/// (`i32[B, T]`: 0 for the first text, 1 for the second) and what [`BatchShape`] says.
///
/// # Panics
/// If `T` is above `max_position_embeddings`; see [`Model::check_length`](crate::Model::check_length).
#[track_caller]
pub fn bert<'g>(cx: &Context<'g>, c: &BertConfig, batch: BatchShape) -> Tensor<'g> {
    let x = cx.scope("embeddings", |cx| embeddings(cx, c, batch));
    let shared = SharedAttention::new(&cx.at("encoder"), c.attention, c.num_attention_heads, batch);
    (0..c.num_hidden_layers).fold(x, |x, i| {
        cx.scope(&format!("encoder.layer.{i}"), |cx| layer(cx, c, x, batch, shared))
    })
}

fn embeddings<'g>(cx: &Context<'g>, c: &BertConfig, batch: BatchShape) -> Tensor<'g> {
    let [tokens, types] = ["tokens", "types"].map(|name| batch.ids(cx, name));
    let table = |rows| (rows, c.hidden_size);
    let words = embedding(cx, "word_embeddings", tokens, table(c.vocab_size), c.weight());
    let types = embedding(cx, "token_type_embeddings", types, table(c.type_vocab_size), c.weight());
    let x = words + types;
    let x = if c.attention.position.is_limited() {
        let rows = table(c.max_position_embeddings);
        x + batch.position_embeddings(cx, "position_embeddings", rows, c.weight())
    } else {
        x
    };
    let x = layer_norm(cx, "LayerNorm", x, c.layer_norm_eps);
    cx.dropout(x, c.hidden_dropout_prob)
}

fn layer<'g>(
    cx: &Context<'g>,
    c: &BertConfig,
    x: Tensor<'g>,
    batch: BatchShape,
    shared: SharedAttention<'g>,
) -> Tensor<'g> {
    let x = cx.scope("attention", |cx| {
        let y = cx.scope("self", |cx| self_attention(cx, c, x, batch, shared));
        cx.scope("output", |cx| add_and_norm(cx, c, x, y))
    });
    let y = cx.scope("intermediate", |cx| {
        linear(cx, "dense", x, c.intermediate_size, c.weight())
    });
    let inner = cx.at("intermediate");
    cx.scope("output", |cx| {
        add_and_norm(cx, c, x, activate(&inner, c.hidden_act, y, |cx| batch.real(cx)))
    })
}

fn self_attention<'g>(
    cx: &Context<'g>,
    c: &BertConfig,
    x: Tensor<'g>,
    batch: BatchShape,
    shared: SharedAttention<'g>,
) -> Tensor<'g> {
    let [q, k, v] = ["query", "key", "value"].map(|name| linear(cx, name, x, c.hidden_size, c.weight()));
    let how = Attend {
        mask: batch.mask(cx),
        dropout: c.attention_probs_dropout_prob,
        ..Attend::default()
    };
    multi_head(cx, q, k, v, shared.of_layer(cx, how))
}

/// `LayerNorm(x + dropout(dense(y)))`
fn add_and_norm<'g>(cx: &Context<'g>, c: &BertConfig, x: Tensor<'g>, y: Tensor<'g>) -> Tensor<'g> {
    let y = linear(cx, "dense", y, c.hidden_size, c.weight());
    layer_norm(
        cx,
        "LayerNorm",
        x + cx.dropout(y, c.hidden_dropout_prob),
        c.layer_norm_eps,
    )
}

/// BERT with a classification head, or with one class a regression head, on the state of the first token.
#[derive(Clone, PartialEq, Debug)]
pub struct BertForSequenceClassification {
    /// Configuration.
    pub config: BertConfig,
}

impl BertForSequenceClassification {
    /// The name of the class in transformers.
    pub const ARCHITECTURE: &str = "BertForSequenceClassification";

    /// Logits of the classes, `f32[B, classes]`.
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let pooled = cx.scope("bert", |cx| {
            let first = batch.first(cx, bert(cx, c, batch));
            let pooled = cx.scope("pooler", |cx| linear(cx, "dense", first, c.hidden_size, c.weight()));
            activate(&cx.at("pooler"), Activation::Tanh, pooled, |cx| batch.not_empty(cx))
        });
        let pooled = cx.dropout(pooled, c.classifier_dropout.unwrap_or(c.hidden_dropout_prob));
        c.loss
            .normalize(linear(cx, "classifier", pooled, c.labels.len(), c.weight()))
    }

    /// Loss over `labels` (`i32[B]`), or for a regression over `targets` and `weights` (`f32[B]`).
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        classifier_loss(cx, batch, self.logits(cx, batch))
    }

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
        let mut map = self.config.to_json(Self::ARCHITECTURE);
        put_labels(&mut map, &self.config.labels);
        map
    }
}

/// BERT with a masked-language-model head that is tied to the word embeddings.
#[derive(Clone, PartialEq, Debug)]
pub struct BertForMaskedLM {
    /// Configuration.
    pub config: BertConfig,
}

impl BertForMaskedLM {
    /// The name of the class in transformers.
    pub const ARCHITECTURE: &str = "BertForMaskedLM";

    /// Logits of the tokens at every position, `f32[B, T, vocab_size]`.
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let x = cx.scope("bert", |cx| bert(cx, c, batch));
        let words = cx.param(
            "bert.embeddings.word_embeddings.weight",
            &[c.vocab_size, c.hidden_size],
            c.weight(),
        );
        cx.scope("cls.predictions", |cx| {
            let x = cx.scope("transform", |cx| {
                let x = linear(cx, "dense", x, c.hidden_size, c.weight());
                let x = activate(cx, c.hidden_act, x, |cx| batch.real(cx));
                layer_norm(cx, "LayerNorm", x, c.layer_norm_eps)
            });
            c.loss
                .normalize(x.matmul_t(words) + cx.param("bias", &[c.vocab_size], Init::Zeros))
        })
    }

    /// Loss over `labels` (`i32[B, T]`, -100 at positions without a label).
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
        self.config.to_json(Self::ARCHITECTURE)
    }
}
