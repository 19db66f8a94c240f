//! A small text classifier for training from scratch: a pre-norm Transformer encoder with learned position embeddings,
//! a final norm and mean pooling over the real tokens.

use crate::models::class::{ModelClass, is_of, settings_in_config};
use crate::models::configuration::configuration;
use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::BatchShape;
use super::linear::buckets;
use crate::activation::Activation;
use crate::attention::{AttentionConfig, SharedAttention};
use crate::config::{Fields, put_own};
use crate::context::Cx;
use crate::init::Init;
use crate::layers::{Attend, embedding, layer_norm, linear, multi_head};
use crate::loss::Loss;
use crate::ngrams::{Ngrams, ngrams};
use crate::norm_kind::NormKind;
use crate::observations::activate;
use lessen_base::Result;

configuration! {
    /// The configuration of an encoder; fields are named as in its `config.json`.
    EncoderConfig with labels {
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 1, size;
        /// Width of every hidden state.
        width: usize = 128, size;
        /// Number of layers.
        layers: usize = 2, depth;
        /// Attention heads of each layer.
        heads: usize = 4, size;
        /// Width inside the feed-forward layers.
        ffn: usize = 512, size;
        /// Maximum sequence length in tokens: the number of position embeddings.
        max_length: usize = 32, size;
        /// Activation of the feed-forward layers.
        activation: Activation = Activation::Gelu, activation;
        /// Dropout probability of embeddings, attention weights, residual branches and the pooled state.
        dropout: f64 = 0.1, dropout;
        /// Epsilon that norms add to the variance.
        layer_norm_eps: f64 = 1e-5, positive;
        /// Standard deviation of the initial values of matrices.
        initializer_range: f64 = 0.02, positive;
        /// Id of the padding token.
        pad_token_id: usize = 0, index;
        /// Attention heads of keys and values in each layer, a divisor of `heads`; `None` means as many.
        kv_heads: Option<usize> = None, given;
        /// Whether the layers are reversible, as in the Reformer (Kitaev, Kaiser and Levskaya 2020): two streams, both
        /// begun by the embeddings. Attention reads the second stream and adds to the first, and the feed-forward layer
        /// reads the first stream and adds to the second, so that a layer's input follows from its output. The mean of
        /// both streams is pooled.
        reversible: bool = false, given;
        /// Attention and positions.
        attention: AttentionConfig = AttentionConfig::default(), given;
        /// Rows of the table of pairs of a wide part (Cheng et al. 2016), whose logits, those of [`ngrams`], are added
        /// to the head's; none without that part.
        ngrams: Option<usize> = None, given;
        /// Whether tokens that both texts of a pair have count by rows of their own in the wide part, if there is one;
        /// see [`Ngrams::shared`].
        shared: bool = false, given;
    }
    /// 2 layers of width 128 with 4 heads and two classes; `vocab_size` is a placeholder.
    default
}

impl EncoderConfig {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing or wrong; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<EncoderConfig> {
        let (width, heads) = (fields.size("width")?, fields.size("heads")?);
        fields.divides("width", width, "heads", heads)?;
        let config = EncoderConfig {
            kv_heads: fields.optional_size("kv_heads")?,
            reversible: fields.switch_or("reversible", false)?,
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            ngrams: buckets(fields, "ngrams")?,
            shared: fields.switch_or("shared", false)?,
            ..EncoderConfig::read(fields)?
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

    /// The logits of the wide part.
    #[track_caller]
    fn wide(&self, cx: Cx, batch: BatchShape, buckets: usize) -> Tensor {
        let sizes = Ngrams {
            vocab: self.config.vocab_size,
            buckets,
            classes: self.config.labels.len(),
            shared: self.config.shared,
        };
        ngrams(cx, "ngrams", batch.ids(cx, "tokens"), batch, sizes)
    }

    /// The hidden states after the last norm, `f32[B, T, width]`, or `f32[1, N, width]` without padding. Declares
    /// `tokens` (`i32[B, T]`) and the padding mask `mask` (`bool[B, T]`, true for a real token).
    ///
    /// # Panics
    /// If `T` is above `max_length`; see [`Model::check_length`](crate::Model::check_length).
    #[track_caller]
    pub fn states(&self, cx: Cx, batch: BatchShape) -> Tensor {
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
}

/// Norm and attention.
fn attend(cx: Cx, c: &EncoderConfig, x: Tensor, batch: BatchShape, shared: SharedAttention) -> Tensor {
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
fn feed_forward(cx: Cx, c: &EncoderConfig, x: Tensor, batch: BatchShape) -> Tensor {
    let h = layer_norm(cx, "norm2", x, c.layer_norm_eps);
    let y = cx.scope("mlp", |cx| {
        let inner = linear(cx, "up", h, c.ffn, c.weight());
        let inner = activate(cx, c.activation, inner, |cx| batch.real(cx));
        linear(cx, "down", inner, c.width, c.weight())
    });
    cx.dropout(y, c.dropout)
}

impl ModelClass for LessenEncoder {
    /// Logits of the classes, `f32[B, classes]`. Declares `tokens` (`i32[B, T]`) and the padding mask `mask`
    /// (`bool[B, T]`, true for a real token); of pairs with shared tokens also `types` (`i32[B, T]`).
    ///
    /// # Panics
    /// If `T` is above `max_length`; see [`Model::check_length`](crate::Model::check_length).
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let c = &self.config;
        let x = self.states(cx, batch);
        let pooled = cx.trace().in_scope("pool", || cx.dropout(batch.mean(cx, x), c.dropout));
        let logits = linear(cx, "classifier", pooled, c.labels.len(), c.weight());
        c.loss.normalize(match c.ngrams {
            Some(buckets) => logits + self.wide(cx, batch, buckets),
            None => logits,
        })
    }

    fn states(&self, cx: Cx, batch: BatchShape) -> Option<Tensor> {
        Some(self.states(cx, batch))
    }

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut written = c.written();
        let place = written.iter().position(|(field, _)| *field == "dropout");
        let activation = ("activation", json!(c.activation.to_string()));
        written.insert(place.expect("a field of the table"), activation);
        let mut map = c.begin(Self::ARCHITECTURE, "lessen-encoder", written);
        put_own(&mut map, "kv_heads", c.kv_heads.map(Value::from));
        put_own(&mut map, "reversible", c.reversible.then_some(true.into()));
        c.attention.put(&AttentionConfig::DEFAULT, &mut map);
        put_own(&mut map, "ngrams", c.ngrams.map(Value::from));
        put_own(&mut map, "shared", c.shared.then_some(true.into()));
        c.put_settings(&mut map);
        map
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
