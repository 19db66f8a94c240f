//! BERT (Devlin et al. 2019) and its relatives RoBERTa and DistilBERT: post-norm Transformer encoders with a head.
//! Parameters are named as in transformers; [`Family`] holds all differences.

mod config;
mod encoder;
mod family;
mod heads;

use lessen_graph::Tensor;
use serde_json::{Map, Value};

use super::Outputs;
use crate::batch::BatchShape;
use crate::config::Fields;
use crate::context::Context;
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

    /// Logits, by the head: of the classes of texts, `f32[B, classes]`; of the classes of tokens, `f32[B, T, classes]`;
    /// of the first and the last token of answers among the tokens of the batch, `f32[2, B, T]`, or `f32[2, B, N]`
    /// without padding, very low ones where a token is not of the text; of the vocabulary at all tokens, `f32[B, T,
    /// vocab_size]`, or at the masked ones in a batch of [`BatchShape::Masked`], `f32[M, vocab_size]`.
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        let c = &self.config;
        let states = cx.scope(c.family.description().prefix, |cx| bert(cx, c, batch));
        match self.head {
            Head::SequenceClassification => heads::classes_of_texts(cx, c, batch, states),
            Head::TokenClassification => heads::classes_of_tokens(cx, c, states),
            Head::QuestionAnswering => heads::answers(cx, c, batch, states),
            Head::MaskedLM => heads::masked_tokens(cx, c, batch, states),
        }
    }

    /// Logits and loss, over `labels`: `i32[B]` of texts (or `targets` and `weights`, see [`Task`](crate::Task)),
    /// `i32[B, T]` of tokens, or `i32[M]` in a batch of [`BatchShape::Masked`]; -100 where there is none. Those of
    /// answers are `answers` (`i32[2, B]`: the places of the first and the last token in the row of tokens that the
    /// text is in).
    #[track_caller]
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        let logits = self.logits(cx, batch);
        match self.head {
            Head::SequenceClassification => super::classifier_loss(cx, batch, logits, self.config.multi_label),
            Head::TokenClassification | Head::MaskedLM => super::class_loss(cx, logits, batch.token_labels(cx)),
            Head::QuestionAnswering => super::class_loss(cx, logits, batch.answers(cx)),
        }
    }

    /// Returns the fields of its `config.json`.
    pub fn config_json(&self) -> Map<String, Value> {
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

    /// Whether the head tells classes apart.
    pub fn has_classes(&self) -> bool {
        match self.head {
            Head::SequenceClassification | Head::TokenClassification => true,
            Head::QuestionAnswering | Head::MaskedLM => false,
        }
    }

    /// Whether a parameter belongs to the head; BERT's pooler does.
    pub fn is_head(&self, name: &str) -> bool {
        let description = self.config.family.description();
        let in_encoder = name
            .strip_prefix(description.prefix)
            .is_some_and(|rest| rest.starts_with('.'));
        !in_encoder || name.starts_with(encoder::place(description.classifier.dense))
    }
}
