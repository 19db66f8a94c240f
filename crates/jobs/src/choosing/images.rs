//! Choices for images with classes.

use super::choice::{Candidate, DataChoice, Plan};
use super::draft::{Recipe, batch_within};
use super::facts::Facts;
use super::request::{ChoiceRequest, LINEAR, NETWORK};
use lessen_base::Result;
use lessen_task::recipe::value::SettingValue;

/// Rows of images that are small.
const SMALL: usize = 16;

/// Rows of the images that the linear model reads at most.
const OF_LINEAR: usize = 32;

/// Adds choices and candidates.
pub(super) fn plan(plan: &mut Plan, recipe: &mut Recipe, facts: &Facts, request: &ChoiceRequest<'_>) -> Result<()> {
    recipe.text("data.format", "images").text("train.best", "accuracy");
    let rows = facts.size.map_or(64, |[rows, columns]| rows.max(columns));
    recipe
        .set("train.checkpoint_every", 0)
        .text("train.schedule", "one-cycle")
        .set("train.warmup", 0.2);
    let batch = if facts.rows < 20_000 { 32 } else { 128 };
    recipe.set("train.batch", batch_within(batch, facts.rows));
    let mut linear = recipe.clone();
    linear
        .text("model.kind", "linear-array")
        .set("train.lr", 0.02)
        .set("train.weight_decay", 0.01);
    linear.set("train.patience", 15);
    let size = rows.min(OF_LINEAR);
    if facts.size.is_none() || size < rows {
        linear.set("image.size", size);
    }
    plan.candidates.push(Candidate {
        name: LINEAR.to_string(),
        model: "a linear model on pixels".to_string(),
        recipes: vec![linear.to_toml()],
        epochs: 60,
        least_epochs: 1,
    });
    if let Some(init) = &request.init {
        recipe
            .text("model.kind", "vit")
            .set("model.init", SettingValue::of_path(init)?);
        recipe.set("train.lr", "1e-4").set("train.weight_decay", 0.01);
        plan.candidates.push(Candidate {
            name: NETWORK.to_string(),
            model: format!("the model of {}", init.display()),
            recipes: vec![recipe.to_toml()],
            epochs: 5,
            least_epochs: 1,
        });
    } else {
        if facts.size.is_none() {
            recipe.set("image.size", 64);
        }
        recipe.text("optimizer.kind", "sgd").set("optimizer.momentum", 0.9);
        recipe.set("train.lr", 0.05).set("train.weight_decay", "5e-4");
        // Mirroring is wrong where letters or digits are told apart, which small grey images are of mostly.
        let augment = if rows > SMALL { "crop:2" } else { "crop:1" };
        recipe.set("image.augment", format!("[\"{augment}\"]"));
        let kinds = ["resnet20", "convnet-3"];
        let recipes = kinds
            .iter()
            .map(|kind| recipe.clone().text("model.kind", kind).to_toml());
        plan.candidates.push(Candidate {
            name: NETWORK.to_string(),
            model: "a small convolutional network".to_string(),
            recipes: recipes.collect(),
            epochs: 30,
            least_epochs: 10,
        });
    }
    plan.choices.push(DataChoice::new(
        "models",
        "a linear model on pixels and a network",
        "the one that is better on held-out images is the result",
        "model.kind, --init",
    ));
    Ok(())
}
