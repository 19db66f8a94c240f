//! The masked tokens of a text.

use super::{Goal, LossOnly, OutputLayer, Scorer, SharedGoal};
use lessen_data::{Batch, Source};
use lessen_nn::models::bert::Head;
use lessen_nn::{Model, Task};
use std::sync::Arc;

/// The masked tokens of a text; scored by the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MaskedTokens;

/// The goal of a masked language model.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    (model.task() == Task::MaskedLanguageModelling).then(|| -> SharedGoal { Arc::new(MaskedTokens) })
}

impl Goal for MaskedTokens {
    fn data_has(&self) -> &'static str {
        "texts with masked tokens"
    }

    fn model_does(&self) -> &'static str {
        "fills in masked tokens"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        task == Task::MaskedLanguageModelling
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::Head(Head::MaskedLM)
    }

    fn weight_of(&self, batch: &Batch) -> f64 {
        batch.labels() as f64
    }

    fn reads_logits(&self) -> bool {
        false
    }

    fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(LossOnly { has_perplexity: false })
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    fn no_prediction(&self) -> &'static str {
        "is a masked language model, which classifies no texts; start a classifier from it with --init"
    }

    fn no_continuation(&self) -> Option<&'static str> {
        Some("is a masked language model, which continues no texts; start a classifier from it with --init")
    }
}
