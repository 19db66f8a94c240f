//! A small text classifier for training from scratch: a pre-norm Transformer encoder with learned position embeddings,
//! a final norm and mean pooling over the real tokens.

use crate::models::class::{ModelClass, is_of, settings_in_config};
use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::linear::buckets;
use super::{BatchShape, Outputs, classifier_loss};
use crate::activation::Activation;
use crate::attention::{AttentionConfig, SharedAttention};
use crate::config::{Fields, put_identity, put_loss, put_own};
use crate::context::Context;
use crate::init::Init;
use crate::labels::{numbered_labels, put_labels};
use crate::layers::{Attend, embedding, layer_norm, linear, multi_head};
use crate::loss::Loss;
use crate::ngrams::{Ngrams, ngrams};
use crate::norm_kind::NormKind;
use crate::observations::activate;
use crate::quantization::Quantization;
use lessen_base::Result;

/// The configuration of an encoder; fields are named as in its `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct EncoderConfig {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of every hidden state.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads of each layer.
    pub heads: usize,
    /// Width inside the feed-forward layers.
    pub ffn: usize,
    /// Maximum sequence length in tokens: the number of position embeddings.
    pub max_length: usize,
    /// Activation of the feed-forward layers.
    pub activation: Activation,
    /// Dropout probability of embeddings, attention weights, residual branches and the pooled state.
    pub dropout: f64,
    /// Epsilon that norms add to the variance.
    pub layer_norm_eps: f64,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Id of the padding token.
    pub pad_token_id: usize,
    /// Attention heads of keys and values in each layer, a divisor of `heads`; `None` means as many.
    pub kv_heads: Option<usize>,
    /// Whether the layers are reversible, as in the Reformer (Kitaev, Kaiser and Levskaya 2020): two streams, both
    /// begun by the embeddings. Attention reads the second stream and adds to the first, and the feed-forward layer
    /// reads the first stream and adds to the second, so that a layer's input follows from its output. The mean of both
    /// streams is pooled.
    pub reversible: bool,
    /// Attention and positions.
    pub attention: AttentionConfig,
    /// Rows of the table of pairs of a wide part (Cheng et al. 2016), whose logits, those of [`ngrams`], are added to
    /// the head's; none without that part.
    pub ngrams: Option<usize>,
    /// Whether tokens that both texts of a pair have count by rows of their own in the wide part, if there is one; see
    /// [`Ngrams::shared`].
    pub shared: bool,
    /// Softmax of the cross entropy.
    pub loss: Loss,
    /// How its layer norms are computed.
    pub norm: NormKind,
    /// How its layers are quantized; none if they are not.
    pub quantization: Option<Quantization>,
    /// Names of the classes; one class means a regression.
    pub labels: Vec<String>,
    /// Whether each text can have several of the classes, or none.
    pub multi_label: bool,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl Default for EncoderConfig {
    /// 2 layers of width 128 with 4 heads and two classes; `vocab_size` is a placeholder.
    fn default() -> EncoderConfig {
        EncoderConfig {
            vocab_size: 1,
            width: 128,
            layers: 2,
            heads: 4,
            ffn: 512,
            max_length: 32,
            activation: Activation::Gelu,
            dropout: 0.1,
            layer_norm_eps: 1e-5,
            initializer_range: 0.02,
            pad_token_id: 0,
            kv_heads: None,
            reversible: false,
            attention: AttentionConfig::default(),
            ngrams: None,
            shared: false,
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            labels: numbered_labels(2),
            multi_label: false,
            fields: Map::new(),
        }
    }
}

impl EncoderConfig {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing or wrong; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<EncoderConfig> {
        let default = EncoderConfig::default();
        let (width, heads) = (fields.size("width")?, fields.size("heads")?);
        fields.divides("width", width, "heads", heads)?;
        let config = EncoderConfig {
            vocab_size: fields.size("vocab_size")?,
            width,
            layers: fields.depth("layers")?,
            heads,
            ffn: fields.size("ffn")?,
            max_length: fields.size("max_length")?,
            activation: fields.activation_or("activation", default.activation)?,
            dropout: fields.dropout_or("dropout", default.dropout)?,
            layer_norm_eps: fields.positive_or("layer_norm_eps", default.layer_norm_eps)?,
            initializer_range: fields.positive_or("initializer_range", default.initializer_range)?,
            pad_token_id: fields.index_or("pad_token_id", default.pad_token_id)?,
            kv_heads: fields.get("kv_heads").map(|_| fields.size("kv_heads")).transpose()?,
            reversible: fields.switch_or("reversible", default.reversible)?,
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            ngrams: buckets(fields, "ngrams")?,
            shared: fields.switch_or("shared", default.shared)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            labels: fields.labels()?,
            multi_label: fields.is_multi_label()?,
            fields: fields.clone().into_map(),
        };
        if let Some(kv_heads) = config.kv_heads {
            fields.divides("heads", config.heads, "kv_heads", kv_heads)?;
        }
        fields.check_padding(config.pad_token_id, config.vocab_size)?;
        Ok(config)
    }

    fn weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range,
        }
    }
}

/// An encoder with a classification head, or with one class a regression head, on the mean of the last states.
#[derive(Clone, PartialEq, Debug)]
pub struct LessenEncoder {
    /// Configuration.
    pub config: EncoderConfig,
}

impl LessenEncoder {
    /// The name in `architectures`.
    pub const ARCHITECTURE: &str = "LessenEncoder";

    /// Logits of the classes, `f32[B, classes]`. Declares `tokens` (`i32[B, T]`) and the padding mask `mask`
    /// (`bool[B, T]`, true for a real token); of pairs with shared tokens also `types` (`i32[B, T]`).
    ///
    /// # Panics
    /// If `T` is above `max_length`; see [`Model::check_length`](crate::Model::check_length).
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let x = self.states(cx, batch);
        let pooled = cx.trace().in_scope("pool", || cx.dropout(batch.mean(cx, x), c.dropout));
        let logits = linear(cx, "classifier", pooled, c.labels.len(), c.weight());
        c.loss.normalize(match c.ngrams {
            Some(buckets) => logits + self.wide(cx, batch, buckets),
            None => logits,
        })
    }

    /// The logits of the wide part.
    #[track_caller]
    fn wide<'g>(&self, cx: &Context<'g>, batch: BatchShape, buckets: usize) -> Tensor<'g> {
        let sizes = Ngrams {
            vocab: self.config.vocab_size,
            buckets,
            classes: self.config.labels.len(),
            shared: self.config.shared,
        };
        ngrams(cx, "ngrams", batch.ids(cx, "tokens"), batch, sizes)
    }

    /// The hidden states after the last norm, `f32[B, T, width]`, or `f32[1, N, width]` without padding. Declares what
    /// [`LessenEncoder::logits`] does.
    ///
    /// # Panics
    /// As [`LessenEncoder::logits`].
    #[track_caller]
    pub fn states<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let tokens = batch.ids(cx, "tokens");
        let x = cx.scope("embeddings", |cx| {
            let words = embedding(cx, "tokens", tokens, (c.vocab_size, c.width), c.weight());
            if c.attention.position.is_limited() {
                words + batch.position_embeddings(cx, "positions", (c.max_length, c.width), c.weight())
            } else {
                words
            }
        });
        let shared = SharedAttention::new(cx, c.attention, c.heads, batch);
        let x = cx.dropout(x, c.dropout);
        let x = if c.reversible {
            let both = (0..c.layers).fold([x; 2], |[x1, x2], i| {
                cx.scope(&format!("layers.{i}"), |cx| {
                    let y1 = x1 + attend(cx, c, x2, batch, shared);
                    [y1, x2 + feed_forward(cx, c, y1, batch)]
                })
            });
            (both[0] + both[1]) * 0.5
        } else {
            (0..c.layers).fold(x, |x, i| {
                cx.scope(&format!("layers.{i}"), |cx| {
                    let x = x + attend(cx, c, x, batch, shared);
                    x + feed_forward(cx, c, x, batch)
                })
            })
        };
        layer_norm(cx, "norm", x, c.layer_norm_eps)
    }

    /// Loss over `labels` (`i32[B]`), or over `targets` and `weights` (`f32[B]`); see [`Task`](crate::Task).
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        classifier_loss(cx, batch, self.logits(cx, batch), self.config.multi_label)
    }

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, Self::ARCHITECTURE, "lessen-encoder");
        for (field, value) in [
            ("vocab_size", json!(c.vocab_size)),
            ("width", json!(c.width)),
            ("layers", json!(c.layers)),
            ("heads", json!(c.heads)),
            ("ffn", json!(c.ffn)),
            ("max_length", json!(c.max_length)),
            ("activation", json!(c.activation.to_string())),
            ("dropout", json!(c.dropout)),
            ("layer_norm_eps", json!(c.layer_norm_eps)),
            ("initializer_range", json!(c.initializer_range)),
            ("pad_token_id", json!(c.pad_token_id)),
        ] {
            map.insert(field.into(), value);
        }
        put_own(&mut map, "kv_heads", c.kv_heads.map(Value::from));
        put_own(&mut map, "reversible", c.reversible.then_some(true.into()));
        c.attention.put(&AttentionConfig::DEFAULT, &mut map);
        put_own(&mut map, "ngrams", c.ngrams.map(Value::from));
        put_own(&mut map, "shared", c.shared.then_some(true.into()));
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        put_labels(&mut map, &c.labels, c.multi_label);
        map
    }
}

/// Norm and attention.
fn attend<'g>(
    cx: &Context<'g>,
    c: &EncoderConfig,
    x: Tensor<'g>,
    batch: BatchShape,
    shared: SharedAttention<'g>,
) -> Tensor<'g> {
    let h = layer_norm(cx, "norm1", x, c.layer_norm_eps);
    let y = cx.scope("attention", |cx| {
        let kv_width = c.width / c.heads * c.kv_heads.unwrap_or(c.heads);
        let sizes = [c.width, kv_width, kv_width];
        let qkv = linear(cx, "qkv", h, sizes.iter().sum(), c.weight()).split(-1, &sizes);
        let how = Attend {
            mask: batch.mask(cx),
            dropout: c.dropout,
            ..Attend::default()
        };
        let y = multi_head(cx, qkv[0], qkv[1], qkv[2], shared.of_layer(cx, how));
        linear(cx, "out", y, c.width, c.weight())
    });
    cx.dropout(y, c.dropout)
}

/// Norm and feed-forward layer.
fn feed_forward<'g>(cx: &Context<'g>, c: &EncoderConfig, x: Tensor<'g>, batch: BatchShape) -> Tensor<'g> {
    let h = layer_norm(cx, "norm2", x, c.layer_norm_eps);
    let y = cx.scope("mlp", |cx| {
        let inner = linear(cx, "up", h, c.ffn, c.weight());
        let inner = activate(cx, c.activation, inner, |cx| batch.real(cx));
        linear(cx, "down", inner, c.width, c.weight())
    });
    cx.dropout(y, c.dropout)
}

impl ModelClass for LessenEncoder {
    fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        self.forward(cx, batch)
    }

    fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        self.logits(cx, batch)
    }

    fn states<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Option<Tensor<'g>> {
        Some(self.states(cx, batch))
    }

    fn config_json(&self) -> Map<String, Value> {
        self.config_json()
    }

    fn is_head(&self, name: &str) -> bool {
        is_of("classifier", name) || is_of("ngrams", name)
    }

    settings_in_config!(classes);
    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(positions max_length);
    settings_in_config!(attention | c | c.width / c.heads);
    settings_in_config!(activation activation);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.dropout = p;
    }
}
