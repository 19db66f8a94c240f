//! BERT (Devlin et al. 2019) and its relatives RoBERTa, DistilBERT and MPNet: post-norm Transformer encoders with a
//! head. Parameters are named as in transformers; [`Family`] holds all differences.

mod config;
mod encoder;
mod family;
mod heads;

use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::loss::Loss;
use crate::models::class::{ModelClass, settings_in_config};
use crate::norm_kind::NormKind;
use crate::task::Task;
use lessen_graph::Tensor;
use serde_json::{Map, Value};

use super::Outputs;
use crate::batch::BatchShape;
use crate::config::Fields;
use crate::context::Cx;
use crate::labels::put_labels;
use lessen_base::Result;

pub use self::config::BertConfig;
pub use self::encoder::bert;
pub use self::family::{Family, Head};

/// An encoder of one of the families, with a head.
#[derive(Clone, PartialEq, Debug)]
pub struct Bert {
    /// Configuration.
    pub config: BertConfig,
    /// Head of the encoder.
    pub head: Head,
}

impl Bert {
    /// Reads the fields of a `config.json` of this family.
    ///
    /// # Errors
    /// A field that is missing, wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields, family: Family, head: Head) -> Result<Bert> {
        if head == Head::MaskedLM {
            fields.must_be("tie_word_embeddings", &Value::Bool(true))?;
        }
        let config = BertConfig::from_fields(fields, family)?;
        Ok(Bert { config, head })
    }

    /// The hidden states of the last layer, `f32[B, T, hidden_size]`, or `f32[1, N, hidden_size]` without padding.
    #[track_caller]
    pub fn states(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let c = &self.config;
        cx.scope(c.family.description().prefix, |cx| bert(cx, c, batch))
    }

    /// Whether the head tells classes apart.
    pub fn has_classes(&self) -> bool {
        match self.head {
            Head::SequenceClassification | Head::TokenClassification => true,
            Head::QuestionAnswering | Head::MaskedLM => false,
        }
    }
}

impl ModelClass for Bert {
    fn task(&self) -> Task {
        let classes = self.config.labels.len();
        match self.head {
            Head::MaskedLM => Task::MaskedLanguageModelling,
            Head::QuestionAnswering => Task::QuestionAnswering,
            Head::TokenClassification => Task::TokenClassification { classes },
            Head::SequenceClassification if self.is_multi_label() => Task::MultiLabelClassification { classes },
            Head::SequenceClassification if classes == 1 => Task::Regression,
            Head::SequenceClassification => Task::Classification { classes },
        }
    }

    /// Returns logits and loss. The loss reads `labels`: `i32[B]` of texts (or `targets` and `weights`, see [`Task`]),
    /// `i32[B, T]` of tokens, or `i32[M]` in a batch of [`BatchShape::Masked`]; -100 where there is no label. A model
    /// that finds answers reads `answers` in place of labels (`i32[2, B]`: the places of the first and the last token
    /// of an answer, in the row of tokens that the text is in).
    fn forward(&self, cx: Cx, batch: BatchShape) -> Outputs {
        let logits = self.logits(cx, batch);
        match self.head {
            Head::SequenceClassification => super::classifier_loss(cx, batch, logits, self.config.multi_label),
            Head::TokenClassification | Head::MaskedLM => super::class_loss(cx, logits, batch.token_labels(cx), None),
            Head::QuestionAnswering => super::class_loss(cx, logits, batch.answers(cx), None),
        }
    }

    /// Logits, by the head: of the classes of texts, `f32[B, classes]`; of the classes of tokens, `f32[B, T, classes]`;
    /// of the first and the last token of answers among the tokens of the batch, `f32[2, B, T]`, or `f32[2, B, N]`
    /// without padding, very low ones where a token is not of the text; of the vocabulary at all tokens, `f32[B, T,
    /// vocab_size]`, or at the masked ones in a batch of [`BatchShape::Masked`], `f32[M, vocab_size]`.
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let c = &self.config;
        let states = self.states(cx, batch);
        match self.head {
            Head::SequenceClassification => heads::classes_of_texts(cx, c, batch, states),
            Head::TokenClassification => heads::classes_of_tokens(cx, c, states),
            Head::QuestionAnswering => heads::answers(cx, c, batch, states),
            Head::MaskedLM => heads::masked_tokens(cx, c, batch, states),
        }
    }

    fn states(&self, cx: Cx, batch: BatchShape) -> Option<Tensor> {
        Some(self.states(cx, batch))
    }

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.to_json(c.family.class(self.head));
        match self.head {
            Head::QuestionAnswering => {
                ["id2label", "label2id", "num_labels", "problem_type"]
                    .iter()
                    .for_each(|field| {
                        map.remove(*field);
                    })
            }
            _ if self.has_classes() => put_labels(&mut map, &c.labels, c.multi_label),
            _ => {}
        }
        map
    }

    /// Whether a parameter belongs to the head; BERT's pooler does.
    fn is_head(&self, name: &str) -> bool {
        let description = self.config.family.description();
        let in_encoder = name
            .strip_prefix(description.prefix)
            .is_some_and(|rest| rest.starts_with('.'));
        !in_encoder || name.starts_with(encoder::place(description.classifier.dense))
    }

    fn labels(&self) -> &[String] {
        if self.has_classes() { &self.config.labels } else { &[] }
    }

    fn is_multi_label(&self) -> bool {
        self.has_classes() && self.config.multi_label
    }

    fn labels_mut(&mut self) -> Option<(&mut Vec<String>, &mut bool)> {
        if self.has_classes() {
            Some((&mut self.config.labels, &mut self.config.multi_label))
        } else {
            None
        }
    }

    fn positions(&self) -> Option<usize> {
        Some(self.config.max_position_embeddings - self.config.first_position())
    }

    fn positions_mut(&mut self) -> Option<(&mut usize, usize)> {
        let first = self.config.first_position();
        Some((&mut self.config.max_position_embeddings, first))
    }

    settings_in_config!(vocabulary vocab_size);
    settings_in_config!(attention | c | c.hidden_size / c.num_attention_heads);
    settings_in_config!(activation hidden_act);
    settings_in_config!(loss and norm);

    fn set_dropout(&mut self, p: f64) {
        self.config.set_dropout(p);
    }
}
