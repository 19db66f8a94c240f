//! The files of a folder that hold chat templates.

use super::bounds::SOURCE;
use lessen_base::{Error, Result};
use lessen_nn::Fields;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// The template of a folder, in a file of its own.
const FILE: &str = "chat_template.jinja";

/// The folder of further templates, by the names of their files.
const FOLDER: &str = "additional_chat_templates";

/// The template of older folders, a field of an object.
const OBJECT: &str = "chat_template.json";

/// Names of special tokens that templates read.
const TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The templates of a folder by their names, and the special tokens that they read.
pub(super) struct Templates {
    pub(super) named: Vec<(String, String)>,
    pub(super) tokens: Map<String, Value>,
}

impl Templates {
    /// Reads the templates of a folder: `chat_template.jinja` and the files of `additional_chat_templates`, or else the
    /// field `chat_template` of `tokenizer_config.json`, as the tokenizers of transformers do, or else that of
    /// `chat_template.json`, which its processors read.
    ///
    /// # Errors
    /// A file that is damaged or cannot be read.
    pub(super) fn read(dir: &Path) -> Result<Templates> {
        let config = dir.join("tokenizer_config.json");
        let config = config.exists().then(|| Fields::read(&config)).transpose()?;
        let mut named = Vec::new();
        if dir.join(FILE).is_file() {
            named.push(("default".to_string(), text(&dir.join(FILE))?));
        }
        if let Ok(entries) = fs::read_dir(dir.join(FOLDER)) {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.retain(|path| path.extension().is_some_and(|ending| ending == "jinja"));
            paths.sort();
            for path in paths {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                named.push((name, text(&path)?));
            }
        }
        if let Some(config) = config.as_ref().filter(|_| named.is_empty()) {
            named = in_object(config)?;
        }
        if named.is_empty() && dir.join(OBJECT).is_file() {
            named = in_object(&Fields::read(&dir.join(OBJECT))?)?;
        }
        let more = dir.join("special_tokens_map.json");
        let more = more.exists().then(|| Fields::read(&more)).transpose()?;
        let mut tokens = Map::new();
        for name in TOKENS {
            let content = |fields: &Fields| match fields.get(name)? {
                Value::Object(map) => map.get("content")?.as_str().map(str::to_string),
                value => value.as_str().map(str::to_string),
            };
            let found = [&config, &more].into_iter().flatten().find_map(content);
            tokens.extend(found.map(|token| (name.to_string(), Value::from(token))));
        }
        Ok(Templates { named, tokens })
    }
}

/// The templates in the field `chat_template`: one, or a list of named ones.
fn in_object(fields: &Fields) -> Result<Vec<(String, String)>> {
    let wrong = || {
        fields.error(
            "chat_template",
            "must be a text, or a list of objects with name and template",
        )
    };
    match fields.get("chat_template") {
        None => Ok(Vec::new()),
        Some(Value::String(template)) => Ok(vec![("default".to_string(), template.clone())]),
        Some(Value::Array(list)) => list
            .iter()
            .map(|one| match (one["name"].as_str(), one["template"].as_str()) {
                (Some(name), Some(template)) => Ok((name.to_string(), template.to_string())),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn text(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
    if bytes > SOURCE as u64 {
        return Err(Error::user(format!(
            "{} has {bytes} bytes, and a chat template at most {SOURCE}; put the model's own template there",
            path.display()
        )));
    }
    fs::read_to_string(path).map_err(|error| {
        Error::user(format!(
            "{} cannot be read ({error}); check that it is UTF-8, and its permissions",
            path.display()
        ))
    })
}
