//! A linear text classifier: logits from the tokens of a text and the pairs of tokens that follow each other.

use crate::models::class::{ModelClass, settings_in_config};
use crate::models::configuration::configuration;
use lessen_graph::Tensor;
use serde_json::{Map, Value};

use super::BatchShape;
use crate::activation::Activation;
use crate::config::{Fields, put_own};
use crate::context::Cx;
use crate::init::Init;
use crate::loss::Loss;
use crate::ngrams::{Ngrams, ngrams};
use crate::norm_kind::NormKind;
use lessen_base::Result;

configuration! {
    /// The configuration of a linear classifier; fields are named as in its `config.json`.
    LinearConfig with labels {
        /// Number of tokens in the vocabulary.
        vocab_size: usize = 1, size;
        /// Rows of the table of pairs; see [`Ngrams::takes_buckets`].
        buckets: usize = Ngrams::usual_buckets(2), written;
        /// Whether tokens that both texts of a pair have count by rows of their own, too; see [`Ngrams::shared`].
        shared: bool = false, given;
        /// Tokens to which texts are cut. The model itself reads texts of any length.
        max_length: usize = 128, size;
        /// Id of the padding token.
        pad_token_id: usize = 0, index;
    }
    /// Two classes; `vocab_size` is a placeholder.
    default
}

impl LinearConfig {
    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing or wrong; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<LinearConfig> {
        let config = LinearConfig {
            buckets: buckets(fields, "buckets")?.unwrap_or(0),
            shared: fields.switch_or("shared", false)?,
            ..LinearConfig::read(fields)?
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
}

impl ModelClass for LessenLinear {
    fn title(&self) -> String {
        "linear model".to_string()
    }

    /// Logits of the classes, `f32[B, classes]`: those of [`ngrams`] and the bias `classifier.bias`. Declares `tokens`
    /// (`i32[B, T]`) and the padding mask `mask` (`bool[B, T]`, true for a real token); of pairs with shared tokens
    /// also `types` (`i32[B, T]`).
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
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

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.begin(Self::ARCHITECTURE, Self::MODEL_TYPE, c.written());
        put_own(&mut map, "shared", c.shared.then_some(true.into()));
        c.put_settings(&mut map);
        map
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
