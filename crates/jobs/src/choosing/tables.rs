//! Choices for tables of numbers and categories.

use super::choice::{Candidate, DataChoice, Plan};
use super::draft::{Recipe, batch_for};
use super::facts::{Answer, Facts};
use super::request::{LINEAR, NETWORK};
use lessen_base::Result;

/// Adds choices and candidates.
pub(super) fn plan(plan: &mut Plan, recipe: &mut Recipe, facts: &Facts, answer: Answer) -> Result<()> {
    let best = if answer == Answer::Number { "mse" } else { "accuracy" };
    recipe.text("data.format", "table").text("train.best", best);
    if answer == Answer::Number {
        recipe.text("data.problem", "regression");
    }
    recipe
        .set("train.batch", batch_for(facts.rows))
        .text("train.schedule", "linear");
    recipe
        .set("train.warmup", 0.05)
        .set("train.patience", 25)
        .set("train.checkpoint_every", 0);
    plan.choices.push(DataChoice::new(
        "columns",
        "numbers standardised, categories one element for each value",
        "missing numbers become the mean, beside an element that says so",
        "data.inputs, data.label",
    ));
    let candidate = |name: &str, kind: &str, model: &str, lr: &str, decay: &str| {
        let mut recipe = recipe.clone();
        recipe
            .text("model.kind", kind)
            .set("train.lr", lr)
            .set("train.weight_decay", decay);
        Candidate {
            name: name.to_string(),
            model: model.to_string(),
            recipes: vec![recipe.to_toml()],
            epochs: 200,
            least_epochs: 1,
        }
    };
    plan.candidates
        .push(candidate(LINEAR, "linear-array", "a linear model", "0.01", "0.1"));
    plan.candidates.push(candidate(
        NETWORK,
        "wide-mlp",
        "a multilayer perceptron with the linear model inside",
        "1e-3",
        "0.1",
    ));
    plan.choices.push(DataChoice::new(
        "models",
        "a linear model and a multilayer perceptron",
        "the one that is better on held-out rows is the result",
        "model.kind",
    ));
    Ok(())
}
