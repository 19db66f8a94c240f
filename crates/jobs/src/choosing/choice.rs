//! Choices that follow from a look at data, each with its reason and the key that changes it.

use super::request::NETWORK;
use serde::{Deserialize, Serialize};

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataChoice {
    /// What was chosen, such as `tokenizer`.
    pub what: String,
    /// The choice in words.
    pub value: String,
    /// The reason.
    pub why: String,
    /// The key or flag that changes it.
    pub key: String,
}

impl DataChoice {
    /// A choice in words.
    pub(super) fn new(what: &str, value: impl Into<String>, why: impl Into<String>, key: &str) -> DataChoice {
        DataChoice {
            what: what.to_string(),
            value: value.into(),
            why: why.into(),
            key: key.to_string(),
        }
    }
}

/// The choices as lines of a table.
pub fn to_text(choices: &[DataChoice]) -> String {
    let width = choices.iter().map(|choice| choice.what.len()).max().unwrap_or(0);
    choices
        .iter()
        .map(|choice| {
            let DataChoice { what, value, why, key } = choice;
            format!("  {what:width$}  {value}: {why} ({key})\n")
        })
        .collect()
}

/// A model that is tried, with its settings as a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Its model in words.
    pub model: String,
    /// Recipes, the largest model first; the first one that the time is enough for is taken.
    pub recipes: Vec<String>,
    /// Epochs that are worth their time.
    pub epochs: u64,
    /// The fewest epochs for which a model is taken, unless it is the last one.
    pub least_epochs: u64,
}

/// What is tried, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub choices: Vec<DataChoice>,
    pub candidates: Vec<Candidate>,
}

impl Plan {
    /// Tries one model alone, a network; `why` is the reason for it.
    pub(super) fn try_alone(&mut self, model: String, why: &str, recipe: String, (epochs, least_epochs): (u64, u64)) {
        self.choices
            .push(DataChoice::new("model", model.clone(), why, "--init, model.layers"));
        self.candidates.push(Candidate {
            name: NETWORK.to_string(),
            model,
            recipes: vec![recipe],
            epochs,
            least_epochs,
        });
    }
}
