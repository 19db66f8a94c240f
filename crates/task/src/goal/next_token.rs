//! The next token of a text.

use super::{Demonstrated, Goal, LossOnly, OutputLayer, Scorer, SharedGoal};
use lessen_base::{Error, Result};
use lessen_data::{Batch, Source};
use lessen_nn::{Model, Task};
use lessen_train::Sampling;
use std::sync::Arc;

/// Tokens of the text that is shown.
const TOKENS: usize = 400;

/// The next token of a text; scored by the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NextToken;

/// The goal of a language model.
pub(super) fn of_model(model: &Model, _threshold: f64) -> Option<SharedGoal> {
    (model.task() == Task::LanguageModelling).then(|| -> SharedGoal { Arc::new(NextToken) })
}

impl Goal for NextToken {
    fn data_has(&self) -> &'static str {
        "texts to continue"
    }

    fn model_does(&self) -> &'static str {
        "continues texts"
    }

    fn is_learned_by(&self, task: Task) -> bool {
        task == Task::LanguageModelling
    }

    fn output_layer(&self) -> OutputLayer {
        OutputLayer::LanguageModel
    }

    fn weight_of(&self, batch: &Batch) -> f64 {
        batch.tokens as f64
    }

    fn reads_logits(&self) -> bool {
        false
    }

    fn scorer<'a>(&'a self, _model: &Model, _source: &'a dyn Source) -> Box<dyn Scorer + 'a> {
        Box::new(LossOnly { has_perplexity: true })
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    fn no_prediction(&self) -> &'static str {
        "is a language model; continue texts with `lessen generate`"
    }

    fn no_continuation(&self) -> Option<&'static str> {
        None
    }

    /// A text that the model makes up.
    fn demonstration(&self, demonstrated: Demonstrated<'_>) -> Result<Vec<String>> {
        let Demonstrated {
            tokenizer,
            seed,
            new_generator,
            ..
        } = demonstrated;
        let tokenizer = tokenizer.ok_or_else(|| Error::internal("a language model without a tokenizer"))?;
        let sampling = Sampling {
            tokens: TOKENS,
            temperature: 0.8,
            top_k: Some(200),
            seed,
            ..Sampling::default()
        };
        let mut start = tokenizer.encode_prompt("\n")?;
        if start.is_empty() {
            start.push(tokenizer.pad_id());
        }
        let mut generator = new_generator(start.len() + TOKENS)?;
        let text = tokenizer.decode_after(&start, &generator.generate(&start, &sampling)?)?;
        Ok(text.lines().map(str::to_string).collect())
    }
}
