//! A linear text classifier: logits from the tokens of a text and the pairs of tokens that follow each other.

use crate::models::class::{ModelClass, settings_in_config};
use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::{BatchShape, Outputs, classifier_loss};
use crate::activation::Activation;
use crate::config::{Fields, put_identity, put_loss, put_own};
use crate::context::Context;
use crate::init::Init;
use crate::labels::{numbered_labels, put_labels};
use crate::loss::Loss;
use crate::ngrams::{Ngrams, ngrams};
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;
use lessen_base::Result;

/// The configuration of a linear classifier; fields are named as in its `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct LinearConfig {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Rows of the table of pairs; see [`Ngrams::takes_buckets`].
    pub buckets: usize,
    /// Whether tokens that both texts of a pair have count by rows of their own, too; see [`Ngrams::shared`].
    pub shared: bool,
    /// Tokens to which texts are cut. The model itself reads texts of any length.
    pub max_length: usize,
    /// Id of the padding token.
    pub pad_token_id: usize,
    /// Softmax of the cross entropy.
    pub loss: Loss,
    /// The kind of layer norms, of which it has none.
    pub norm: NormKind,
    /// The bits of layers, of which it has none.
    pub quantization: Option<Quantization>,
    /// Names of the classes; one class means a regression.
    pub labels: Vec<String>,
    /// Whether each text can have several of the classes, or none.
    pub multi_label: bool,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl Default for LinearConfig {
    /// Two classes; `vocab_size` is a placeholder.
    fn default() -> LinearConfig {
        LinearConfig {
            vocab_size: 1,
            buckets: Ngrams::usual_buckets(2),
            shared: false,
            max_length: 128,
            pad_token_id: 0,
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            labels: numbered_labels(2),
            multi_label: false,
            fields: Map::new(),
        }
    }
}

impl LinearConfig {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing or wrong; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<LinearConfig> {
        let default = LinearConfig::default();
        let config = LinearConfig {
            vocab_size: fields.size("vocab_size")?,
            buckets: buckets(fields, "buckets")?.unwrap_or(0),
            shared: fields.switch_or("shared", default.shared)?,
            max_length: fields.size("max_length")?,
            pad_token_id: fields.index_or("pad_token_id", default.pad_token_id)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            labels: fields.labels()?,
            multi_label: fields.is_multi_label()?,
            fields: fields.clone().into_map(),
        };
        fields.check_padding(config.pad_token_id, config.vocab_size)?;
        Ok(config)
    }
}

/// The number of rows of a table of pairs in a field; none where it is missing.
///
/// # Errors
/// A number that [`Ngrams::takes_buckets`] refuses.
pub(super) fn buckets(fields: &Fields, field: &str) -> Result<Option<usize>> {
    if fields.get(field).is_none() {
        return Ok(None);
    }
    let buckets = fields.index_or(field, 0)?;
    if Ngrams::takes_buckets(buckets) {
        return Ok(Some(buckets));
    }
    let most = Ngrams::MOST_BUCKETS;
    Err(fields.error(
        field,
        format!("is {buckets}, neither 0 nor a power of two up to {most}"),
    ))
}

/// A linear classifier of texts, or with one class a linear regression, over tokens and pairs of tokens.
#[derive(Clone, PartialEq, Debug)]
pub struct LessenLinear {
    /// Configuration.
    pub config: LinearConfig,
}

impl LessenLinear {
    /// The name in `architectures`.
    pub const ARCHITECTURE: &str = "LessenLinear";

    /// The name in `model_type`.
    pub const MODEL_TYPE: &str = "lessen-linear";

    /// Logits of the classes, `f32[B, classes]`: those of [`ngrams`] and the bias `classifier.bias`. Declares `tokens`
    /// (`i32[B, T]`) and the padding mask `mask` (`bool[B, T]`, true for a real token); of pairs with shared tokens
    /// also `types` (`i32[B, T]`).
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let sizes = Ngrams {
            vocab: c.vocab_size,
            buckets: c.buckets,
            classes: c.labels.len(),
            shared: c.shared,
        };
        let logits = ngrams(cx, "ngrams", batch.ids(cx, "tokens"), batch, sizes);
        let bias = cx.at("classifier").param("bias", &[sizes.classes], Init::Zeros);
        c.loss.normalize(logits + bias)
    }

    /// Loss over `labels` (`i32[B]`), or over `targets` and `weights` (`f32[B]`); see [`Task`](crate::Task).
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        classifier_loss(cx, batch, self.logits(cx, batch), self.config.multi_label)
    }

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, Self::ARCHITECTURE, Self::MODEL_TYPE);
        for (field, size) in [
            ("vocab_size", c.vocab_size),
            ("buckets", c.buckets),
            ("max_length", c.max_length),
            ("pad_token_id", c.pad_token_id),
        ] {
            map.insert(field.into(), json!(size));
        }
        put_own(&mut map, "shared", c.shared.then_some(true.into()));
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        put_labels(&mut map, &c.labels, c.multi_label);
        map
    }
}

impl ModelClass for LessenLinear {
    fn title(&self) -> String {
        "linear model".to_string()
    }

    fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        self.forward(cx, batch)
    }

    fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        self.logits(cx, batch)
    }

    fn config_json(&self) -> Map<String, Value> {
        self.config_json()
    }

    /// Every parameter is of the head: each has an element for each class.
    fn is_head(&self, _name: &str) -> bool {
        true
    }

    settings_in_config!(classes);
    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(loss and norm);

    /// It has no activations; this is only the default of others.
    fn activation(&self) -> Activation {
        Activation::Gelu
    }

    /// Changes nothing: it has no activations.
    fn set_activation(&mut self, _activation: Activation) {}

    /// Changes nothing: it has no dropout.
    fn set_dropout(&mut self, _p: f64) {}
}
