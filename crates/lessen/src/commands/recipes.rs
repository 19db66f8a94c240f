//! `lessen recipes`

use crate::say;
use clap::Args;
use lessen_run::recipe::BUILT_IN;
use lessen_run::recipe::keys::{KEYS, Key};
use lessen_run::{Error, Result};
use serde_json::{Value, json};

/// Flags of `lessen recipes`.
#[derive(Args)]
pub struct Recipes {
    /// Print this recipe's text, to start a recipe of one's own from
    name: Option<String>,
    /// List the keys of recipes with their defaults
    #[arg(long, conflicts_with = "name")]
    keys: bool,
    /// Print one JSON object and nothing else on stdout
    #[arg(long, conflicts_with_all = ["name", "keys"])]
    json: bool,
}

impl Recipes {
    /// Lists; the exit code.
    pub fn run(self) -> Result<u8> {
        if let Some(name) = &self.name {
            let found = BUILT_IN.iter().find(|recipe| recipe.name == name);
            let recipe = found.ok_or_else(|| {
                Error::user(format!(
                    "there is no built-in recipe called '{name}'; `lessen recipes` lists them"
                ))
            })?;
            say(recipe.text);
            return Ok(0);
        }
        let lines: Vec<String> = if self.keys {
            let default = |default: Option<&str>| default.map_or(String::new(), |default| format!(" [{default}]"));
            let line = |key: &Key| {
                let (expected, default) = (key.kind.expected(), default(key.default));
                format!("{:<24} {}; {expected}{default}\n", key.name, key.meaning)
            };
            let paths = "\nA relative path in a recipe's file starts at the folder of the file, one in a flag at the current \
                         folder.\nA list of [[phase]] tables, each with a name and keys of its own, changes settings \
                         in the course of a run.\n";
            KEYS.iter().map(line).chain([paths.to_string()]).collect()
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
        say(&lines.concat());
        Ok(0)
    }
}
