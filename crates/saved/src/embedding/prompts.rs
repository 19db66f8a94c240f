//! Prompts: what stands before a text that is embedded, by name.

use super::known_fields::check_known;
use lessen_base::{Error, Result};
use lessen_nn::Fields;
use std::path::Path;

/// The file of the prompts.
pub(super) const FILE: &str = "config_sentence_transformers.json";

/// The prompts of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompts {
    named: Vec<(String, String)>,
    default: Option<String>,
}

/// Which prompt stands before a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompt<'a> {
    /// That of the model's `default_prompt_name`, if it has one.
    #[default]
    Default,
    /// The one that the model has by this name.
    Named(&'a str),
    /// This text; an empty one is no prompt.
    Text(&'a str),
}

impl Prompts {
    /// Reads the prompts of a folder; none where it has no `config_sentence_transformers.json`.
    ///
    /// # Errors
    /// A damaged file, a field that is not known, and a default prompt that there is not.
    pub(super) fn read(dir: &Path) -> Result<Prompts> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(Prompts::default());
        }
        let fields = Fields::read(&path)?;
        let known = [
            "__version__",
            "model_type",
            "prompts",
            "default_prompt_name",
            "similarity_fn_name",
        ];
        check_known(&fields, &known)?;
        let mut named = Vec::new();
        for (name, prompt) in fields.within("prompts")?.map(Fields::into_map).unwrap_or_default() {
            let text = match prompt {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text,
                other => return Err(fields.error("prompts", format!("has {other} for `{name}`, which is no text"))),
            };
            named.push((name, text));
        }
        let prompts = Prompts {
            named,
            default: fields.word("default_prompt_name")?.map(str::to_string),
        };
        if let Some(name) = &prompts.default {
            prompts
                .named(name)
                .map_err(|error| fields.error("default_prompt_name", format!("is wrong: {}", error.message())))?;
        }
        Ok(prompts)
    }

    /// The text of a prompt.
    ///
    /// # Errors
    /// A name that the model does not have.
    pub fn text<'a>(&'a self, prompt: Prompt<'a>) -> Result<&'a str> {
        match (prompt, &self.default) {
            (Prompt::Text(text), _) => Ok(text),
            (Prompt::Named(name), _) => self.named(name),
            (Prompt::Default, Some(name)) => self.named(name),
            (Prompt::Default, None) => Ok(""),
        }
    }

    fn named(&self, name: &str) -> Result<&str> {
        let found = self.named.iter().find(|(own, _)| own == name);
        found.map(|(_, text)| text.as_str()).ok_or_else(|| {
            let known: Vec<&str> = self.named.iter().map(|(name, _)| name.as_str()).collect();
            Error::user(if known.is_empty() {
                format!("the model has no prompt `{name}`, as it has none; give its text with --prompt")
            } else {
                format!("the model has no prompt `{name}`; choose among {}", known.join(", "))
            })
        })
    }
}
