//! `lessen recipes`

use super::candidates;
use crate::say;
use clap::Args;
use lessen_base::word::Word;
use lessen_base::{Error, Result};
use lessen_jobs::SCHEMA;
use lessen_task::recipe::BUILT_IN;
use lessen_task::recipe::keys::{DataFormat, Key};
use serde_json::{Value, json};

/// Descriptions of the data formats: a section with the format's name for each.
const DATA: &str = include_str!("../../../../docs/data.md");

/// The section of [`DATA`] on a format; none where there is no such format.
fn section(format: &str) -> Option<&'static str> {
    let start = DATA
        .find(&format!("## {format}\n"))
        .filter(|_| DataFormat::WORDS.contains(&format))?;
    let length = DATA[start..].find("\n## ").map_or(DATA.len() - start, |end| end + 1);
    Some(&DATA[start..start + length])
}

/// Flags of `lessen recipes`.
#[derive(Args)]
pub struct Recipes {
    /// Print the text of this recipe, as a start for one's own, or the description of this data format
    #[arg(value_name = "RECIPE|FORMAT", add = candidates::recipes_and_formats())]
    name: Option<String>,
    /// List the keys of recipes with their defaults
    #[arg(long, conflicts_with = "name")]
    keys: bool,
    /// Print how data of every format has to look
    #[arg(long, conflicts_with_all = ["name", "keys"])]
    data: bool,
    /// Print one JSON object and nothing else on stdout
    #[arg(long, conflicts_with_all = ["name", "keys", "data"])]
    json: bool,
}

impl Recipes {
    /// Lists; the exit code.
    pub fn run(self) -> Result<u8> {
        if let Some(name) = &self.name {
            let recipe = BUILT_IN
                .iter()
                .find(|recipe| recipe.name == name)
                .map(|recipe| recipe.text);
            let text = recipe.or_else(|| section(name)).ok_or_else(|| {
                Error::user(format!(
                    "there is no built-in recipe and no format of data called '{name}'; `lessen recipes` lists the recipes, and \
                     formats are {}",
                    DataFormat::WORDS.join(", ")
                ))
            })?;
            say(text)?;
            return Ok(0);
        }
        if self.data {
            say(DATA)?;
            return Ok(0);
        }
        let lines: Vec<String> = if self.keys {
            let default = |default: Option<&str>| default.map_or(String::new(), |default| format!(" [{default}]"));
            let line = |key: &Key| {
                let (expected, default) = (key.kind.expected(), default(key.default));
                format!("{:<29} {}; {expected}{default}\n", key.name, key.meaning)
            };
            let paths = "\nA relative path in a recipe's file starts at the folder of the file, one in a flag at the current \
                         folder.\nA list of [[phase]] tables, each with a name and keys of its own, changes settings \
                         in the course of a run.\n";
            SCHEMA.keys().map(line).chain([paths.to_string()]).collect()
        } else if self.json {
            let recipes: Vec<Value> = BUILT_IN
                .iter()
                .map(|recipe| json!({ "name": recipe.name, "description": recipe.description() }))
                .collect();
            vec![format!("{}\n", json!({ "recipes": recipes }))]
        } else {
            BUILT_IN
                .iter()
                .map(|recipe| format!("{:<16} {}\n", recipe.name, recipe.description()))
                .collect()
        };
        say(&lines.concat())?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_section_of_its_own() {
        for format in DataFormat::WORDS {
            let text = section(format).unwrap();
            assert!(text.starts_with(&format!("## {format}\n\n")), "{text}");
            assert_eq!(text.matches("\n## ").count(), 0, "{text}");
        }
        assert_eq!(section("Large data"), None);
    }
}
