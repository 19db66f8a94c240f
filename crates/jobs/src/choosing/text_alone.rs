//! Choices for texts alone: a language model.

use super::choice::{DataChoice, Plan};
use super::draft::Recipe;
use super::facts::Facts;
use super::request::ChoiceRequest;
use lessen_base::Result;
use lessen_task::recipe::value::SettingValue;
use std::fs;

/// Bytes of a text from which on a vocabulary of words is learned.
const LARGE: u64 = 5_000_000;

/// Adds choices and the candidate.
pub(super) fn plan(plan: &mut Plan, recipe: &mut Recipe, facts: &Facts, request: &ChoiceRequest<'_>) -> Result<()> {
    recipe.text("data.format", "text").text("model.kind", "gpt2");
    recipe.set("train.batch", 16).set("data.max_length", 128);
    recipe
        .text("train.schedule", "linear")
        .set("train.warmup", 0.1)
        .set("train.checkpoint_every", 0);
    recipe
        .set("train.weight_decay", "0.1")
        .set("train.clip_norm", "1.0")
        .text("train.best", "loss");
    let model = match &request.init {
        Some(init) => {
            recipe
                .set("model.init", SettingValue::of_path(init)?)
                .set("train.lr", "5e-5");
            format!("the model of {}", init.display())
        }
        None => {
            let bytes = fs::metadata(&request.data).map_or(0, |metadata| metadata.len());
            let has_words = facts.has_spaces && bytes >= LARGE;
            let tokenizer = if has_words { "bpe" } else { "characters" };
            recipe.text("data.tokenizer", tokenizer).set("train.lr", "2e-3");
            recipe
                .set("model.layers", 4)
                .set("model.width", 192)
                .set("model.heads", 6)
                .set("model.ffn", 768);
            recipe.set("model.dropout", "0.0");
            plan.choices.push(DataChoice::new(
                "tokenizer",
                tokenizer,
                format!("the text has {bytes} bytes"),
                "data.tokenizer",
            ));
            "a small GPT from scratch".to_string()
        }
    };
    let why = "there are no labels, so that it learns to continue the text";
    plan.try_alone(model, why, recipe.to_toml(), (10, 0));
    Ok(())
}
