//! The configuration of BERT, RoBERTa, DistilBERT and MPNet.

use serde_json::{Map, Value, json};

use super::family::{Counting, Description, Family};
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::config::{Fields, put_activation, put_identity, put_loss};
use crate::init::Init;
use crate::labels::numbered_labels;
use crate::layers::RelativeBias;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;
use lessen_base::Result;

/// The configuration of a BERT, RoBERTa, DistilBERT or MPNet; fields are named as in transformers' `config.json` of
/// BERT.
#[derive(Clone, PartialEq, Debug)]
pub struct BertConfig {
    /// Family, from which names, positions, token types and heads follow.
    pub family: Family,
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
    /// Number of position embeddings. RoBERTa uses only the embeddings after the padding id, MPNet those after 1.
    pub max_position_embeddings: usize,
    /// Number of token types: first or second text. With a single one all tokens have it; 0 in DistilBERT and MPNet,
    /// which have none.
    pub type_vocab_size: usize,
    /// Rows of MPNet's table of biases by distance, which uses the first [`RelativeBias::BUCKETS`]; 0 in other
    /// families.
    pub relative_attention_num_buckets: usize,
    /// Activation of the feed-forward layers.
    pub hidden_act: Activation,
    /// Dropout probability of embeddings and residual branches, in `[0, 1)`.
    pub hidden_dropout_prob: f64,
    /// Dropout probability of attention weights, in `[0, 1)`.
    pub attention_probs_dropout_prob: f64,
    /// Dropout probability before the classes of a text; `None` means `hidden_dropout_prob`.
    pub classifier_dropout: Option<f64>,
    /// Dropout probability before the answers to questions.
    pub qa_dropout: f64,
    /// Epsilon that norms add to the variance.
    pub layer_norm_eps: f64,
    /// Standard deviation of the initial values of matrices.
    pub initializer_range: f64,
    /// Id of the padding token.
    pub pad_token_id: usize,
    /// Attention and positions.
    pub attention: AttentionConfig,
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

impl Default for BertConfig {
    /// BERT-base, uncased, with two classes.
    fn default() -> BertConfig {
        BertConfig {
            family: Family::Bert,
            vocab_size: 30522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            relative_attention_num_buckets: 0,
            hidden_act: Activation::Gelu,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            classifier_dropout: None,
            qa_dropout: 0.0,
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
            pad_token_id: 0,
            attention: AttentionConfig::default(),
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            labels: numbered_labels(2),
            multi_label: false,
            fields: Map::new(),
        }
    }
}

impl BertConfig {
    /// The base model of a family, with two classes.
    pub fn of(family: Family) -> BertConfig {
        let bert = BertConfig {
            family,
            ..BertConfig::default()
        };
        match family {
            Family::Bert => bert,
            Family::Roberta => BertConfig {
                vocab_size: 50265,
                max_position_embeddings: 514,
                type_vocab_size: 1,
                layer_norm_eps: 1e-5,
                pad_token_id: 1,
                ..bert
            },
            Family::DistilBert => BertConfig {
                num_hidden_layers: 6,
                type_vocab_size: 0,
                classifier_dropout: Some(0.2),
                qa_dropout: 0.1,
                ..bert
            },
            Family::MPNet => BertConfig {
                vocab_size: 30527,
                max_position_embeddings: 514,
                type_vocab_size: 0,
                relative_attention_num_buckets: RelativeBias::BUCKETS,
                layer_norm_eps: 1e-5,
                pad_token_id: 1,
                ..bert
            },
        }
    }

    /// Reads the fields of a `config.json` of this family.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields, family: Family) -> Result<BertConfig> {
        for field in ["is_decoder", "add_cross_attention", "sinusoidal_pos_embds"] {
            fields.must_be(field, &json!(false))?;
        }
        fields.must_be("position_embedding_type", &json!("absolute"))?;
        let default = BertConfig::default();
        let description = family.description();
        let names = &description.fields;
        let (width, heads) = (fields.size(names.hidden_size)?, fields.size(names.num_attention_heads)?);
        fields.divides(names.hidden_size, width, names.num_attention_heads, heads)?;
        let classifier_dropout = match names.classifier_dropout.filter(|name| fields.get(name).is_some()) {
            Some(name) => Some(fields.dropout_or(name, 0.0)?),
            None => names.default_classifier_dropout,
        };
        let config = BertConfig {
            family,
            vocab_size: fields.size("vocab_size")?,
            hidden_size: width,
            num_hidden_layers: fields.depth(names.num_hidden_layers)?,
            num_attention_heads: heads,
            intermediate_size: fields.size(names.intermediate_size)?,
            max_position_embeddings: fields.size("max_position_embeddings")?,
            type_vocab_size: match names.type_vocab_size {
                Some(name) => fields.size_or(name, default.type_vocab_size)?,
                None => 0,
            },
            relative_attention_num_buckets: match names.relative_attention_num_buckets {
                Some(name) => buckets(fields, name)?,
                None => 0,
            },
            hidden_act: fields.activation_or(names.hidden_act, default.hidden_act)?,
            hidden_dropout_prob: fields.dropout_or(names.hidden_dropout_prob, default.hidden_dropout_prob)?,
            attention_probs_dropout_prob: fields
                .dropout_or(names.attention_probs_dropout_prob, default.attention_probs_dropout_prob)?,
            classifier_dropout,
            qa_dropout: match names.qa_dropout {
                Some((name, default)) => fields.dropout_or(name, default)?,
                None => 0.0,
            },
            layer_norm_eps: match names.layer_norm_eps {
                Some(name) => fields.positive_or(name, default.layer_norm_eps)?,
                None => default.layer_norm_eps,
            },
            initializer_range: fields.positive_or("initializer_range", default.initializer_range)?,
            pad_token_id: fields.index_or("pad_token_id", description.pad_token_id)?,
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            labels: fields.labels()?,
            multi_label: fields.is_multi_label()?,
            fields: fields.clone().into_map(),
        };
        if config.first_position() >= config.max_position_embeddings {
            let (rows, first) = (config.max_position_embeddings, config.first_position());
            let why = match description.positions {
                Counting::AfterPadding => " (`pad_token_id` + 1)",
                Counting::All | Counting::After(_) => "",
            };
            let what = format!("is {rows}, which leaves no positions, as they begin at {first}{why}");
            return Err(fields.error("max_position_embeddings", what));
        }
        Ok(config)
    }

    /// The fields of the `config.json` of a class.
    pub(super) fn to_json(&self, class: &str) -> Map<String, Value> {
        let Description {
            fields: names,
            model_type,
            ..
        } = self.family.description();
        let mut map = self.fields.clone();
        put_identity(&mut map, class, model_type);
        for (field, value) in [
            ("vocab_size", json!(self.vocab_size)),
            (names.hidden_size, json!(self.hidden_size)),
            (names.num_hidden_layers, json!(self.num_hidden_layers)),
            (names.num_attention_heads, json!(self.num_attention_heads)),
            (names.intermediate_size, json!(self.intermediate_size)),
            ("max_position_embeddings", json!(self.max_position_embeddings)),
            (names.hidden_dropout_prob, json!(self.hidden_dropout_prob)),
            (
                names.attention_probs_dropout_prob,
                json!(self.attention_probs_dropout_prob),
            ),
            ("initializer_range", json!(self.initializer_range)),
            ("pad_token_id", json!(self.pad_token_id)),
        ] {
            map.insert(field.into(), value);
        }
        for (field, value) in [
            (names.classifier_dropout, json!(self.classifier_dropout)),
            (names.type_vocab_size, json!(self.type_vocab_size)),
            (
                names.relative_attention_num_buckets,
                json!(self.relative_attention_num_buckets),
            ),
            (names.layer_norm_eps, json!(self.layer_norm_eps)),
            (names.qa_dropout.map(|(name, _)| name), json!(self.qa_dropout)),
        ] {
            map.extend(field.map(|field| (field.to_string(), value)));
        }
        put_activation(&mut map, names.hidden_act, self.hidden_act);
        self.attention.put(&AttentionConfig::DEFAULT, &mut map);
        put_loss(&mut map, self.loss);
        self.norm.put(&mut map);
        Quantization::put(self.quantization.as_ref(), &mut map);
        map
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.hidden_dropout_prob, self.attention_probs_dropout_prob) = (p, p);
        self.classifier_dropout = self.classifier_dropout.map(|_| p);
        if self.family.description().fields.qa_dropout.is_some() {
            self.qa_dropout = p;
        }
    }

    /// The token that does not count where positions count tokens, and whose row in the table of positions is its id;
    /// none where all tokens count.
    pub(super) fn uncounted_token(&self) -> Option<usize> {
        match self.family.description().positions {
            Counting::All => None,
            Counting::AfterPadding => Some(self.pad_token_id),
            Counting::After(token) => Some(token),
        }
    }

    /// The row of the first token's position in the table of positions.
    pub fn first_position(&self) -> usize {
        self.uncounted_token().map_or(0, |token| token + 1)
    }

    pub(super) fn weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range,
        }
    }
}

/// The rows of the table of biases by distance.
fn buckets(fields: &Fields, name: &str) -> Result<usize> {
    let (rows, used) = (fields.size_or(name, RelativeBias::BUCKETS)?, RelativeBias::BUCKETS);
    if rows < used {
        let what = format!("is {rows}, but distances have {used} buckets");
        return Err(fields.error(name, what));
    }
    Ok(rows)
}
