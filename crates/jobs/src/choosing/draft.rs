//! Recipes that are drafted: keys and values, and what all of them have.

use super::facts::Facts;
use super::request::ChoiceRequest;
use lessen_base::Result;
use lessen_task::recipe::value::SettingValue;
use std::path::Path;

/// Keys and values of a recipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipe {
    entries: Vec<(String, String)>,
}

impl Recipe {
    /// The keys that all recipes for the data have.
    pub(super) fn new(facts: &Facts, request: &ChoiceRequest<'_>) -> Result<Recipe> {
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

/// The number of examples in a batch for data of `rows` rows.
pub(super) fn batch_for(rows: usize) -> usize {
    let wanted = match rows {
        0..2_000 => 16,
        2_000..50_000 => 32,
        50_000..300_000 => 128,
        _ => 256,
    };
    batch_within(wanted, rows)
}

/// A batch that rows are enough for when some of them are held out.
pub(super) fn batch_within(wanted: usize, rows: usize) -> usize {
    wanted.min((rows / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_at_most_half_of_the_rows() {
        assert_eq!([1, 6, 40, 3000].map(batch_for), [1, 3, 16, 32]);
        assert_eq!((batch_within(32, 10), batch_within(32, 500)), (5, 32));
    }
}
