//! What is tried for data: its recipes, and the reasons.

use super::choice::{Choice, Plan};
use super::facts::{Facts, Kind};
use super::request::ChoiceRequest;
use super::{images, tables, tags, text_alone, texts};
use crate::recipe::value::SettingValue;
use lessen_base::Result;
use lessen_data::look::Look;
use std::path::Path;

/// Rows that are enough to tell models apart by a point.
const ENOUGH_HELD_OUT: usize = 5000;

/// The plan for data that was looked at.
///
/// # Errors
/// A folder to start from that cannot be read, or has no model for the data.
pub(super) fn plan_of(look: &Look, request: &ChoiceRequest<'_>) -> Result<Plan> {
    let facts = Facts::of(look)?;
    let mut recipe = Recipe::new(&facts, request)?;
    let mut plan = Plan::default();
    plan.choices.push(recipe.hold_out(&facts));
    match facts.kind {
        Kind::Texts(answer) => texts::plan(&mut plan, &mut recipe, &facts, answer, request)?,
        Kind::Tags => tags::plan(&mut plan, &mut recipe, &facts, request)?,
        Kind::TextAlone => text_alone::plan(&mut plan, &mut recipe, &facts, request)?,
        Kind::Table(answer) => tables::plan(&mut plan, &mut recipe, &facts, answer)?,
        Kind::Images => images::plan(&mut plan, &mut recipe, &facts, request)?,
    }
    Ok(plan)
}

/// Keys and values of a recipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipe {
    entries: Vec<(String, String)>,
}

impl Recipe {
    /// The keys that all recipes for the data have.
    fn new(facts: &Facts, request: &ChoiceRequest<'_>) -> Result<Recipe> {
        let mut recipe = Recipe::default();
        recipe.text("run.recipe", &name_of(&request.data));
        recipe.set("data.path", SettingValue::of_path(&request.data)?);
        for (key, column) in &facts.columns {
            recipe.text(key, column);
        }
        Ok(recipe)
    }

    /// Sets a key.
    pub(super) fn set(&mut self, key: &str, value: impl ToString) -> &mut Recipe {
        self.entries.retain(|(own, _)| own != key);
        self.entries.push((key.to_string(), value.to_string()));
        self
    }

    /// Sets a key to a text.
    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Recipe {
        self.set(key, SettingValue::Text(value.to_string()))
    }

    /// The recipe as TOML.
    pub(super) fn to_toml(&self) -> String {
        let line = |(key, value): &(String, String)| format!("{key} = {value}\n");
        self.entries.iter().map(line).collect()
    }

    /// Chooses the examples that are held out.
    fn hold_out(&mut self, facts: &Facts) -> Choice {
        if facts.has_dev {
            return Choice::new("validation", "the data's own", "it has a split for that", "data.dev");
        }
        let share = match facts.rows {
            0..1000 => 0.2,
            rows if rows > 10 * ENOUGH_HELD_OUT => ENOUGH_HELD_OUT as f64 / rows as f64,
            _ => 0.1,
        };
        self.set("data.held_out", format!("{share:?}"));
        let (value, why) = (
            format!("{:.1} % of the rows", 100.0 * share),
            "of each class its share".to_string(),
        );
        Choice::new("validation", value, why, "data.held_out")
    }
}

/// The name of a training on data: that of the file or folder.
pub fn name_of(data: &Path) -> String {
    let stem = data.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_.".contains(*c))
        .collect();
    if name.is_empty() { "data".to_string() } else { name }
}

/// Examples of a batch for so many rows.
pub(super) fn batch_for(rows: usize) -> usize {
    match rows {
        0..2_000 => 16,
        2_000..50_000 => 32,
        50_000..300_000 => 128,
        _ => 256,
    }
}
