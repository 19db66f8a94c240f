//! Choices for sentences whose words have classes.

use super::choice::{DataChoice, Plan};
use super::draft::Recipe;
use super::facts::Facts;
use super::request::ChoiceRequest;
use lessen_base::Result;
use lessen_task::recipe::value::SettingValue;

/// Adds choices and the candidate.
pub(super) fn plan(plan: &mut Plan, recipe: &mut Recipe, facts: &Facts, request: &ChoiceRequest<'_>) -> Result<()> {
    recipe.text("data.format", "tagged").text("model.kind", "bert");
    recipe
        .set("train.batch", 16)
        .text("train.schedule", "linear")
        .set("train.warmup", 0.1);
    recipe
        .set("train.patience", 3)
        .set("train.checkpoint_every", 0)
        .set("train.clip_norm", "1.0");
    recipe.set("train.weight_decay", 0.01).set("data.max_length", 128);
    let (model, epochs) = match &request.init {
        Some(init) => {
            recipe
                .set("model.init", SettingValue::of_path(init)?)
                .set("train.lr", "5e-5");
            (format!("the model of {}", init.display()), 3)
        }
        None => {
            let tokenizer = if facts.has_spaces { "wordpiece" } else { "characters" };
            recipe.text("data.tokenizer", tokenizer);
            recipe
                .set("model.layers", 2)
                .set("model.width", 128)
                .set("model.heads", 4)
                .set("model.ffn", 512);
            recipe.set("train.lr", "1e-3");
            plan.choices.push(DataChoice::new(
                "tokenizer",
                format!("{tokenizer}, learned from the sentences"),
                "no folder to start from is named",
                "data.tokenizer",
            ));
            ("a small BERT from scratch".to_string(), 10)
        }
    };
    let why = "each word gets a class at its first token";
    plan.try_alone(model, why, recipe.to_toml(), (epochs, 1));
    Ok(())
}
