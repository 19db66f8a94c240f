//! Added tokens: extensions of a vocabulary in separate files.
//!
//! `tokenizer_config.json` lists them by id, with their properties, under `added_tokens_decoder`. Older folders have
//! `added_tokens.json`, a map from token to id; a token in it is special if `tokenizer_config.json` or
//! `special_tokens_map.json` gives it a role.

use std::path::Path;

use lessen_base::{Error, Result};
use serde_json::Value;

use super::CONFIG;
use crate::vocabulary::{added_token, read_object};

pub(super) const ADDED: &str = "added_tokens.json";
pub(super) const ROLES: &str = "special_tokens_map.json";

/// The contents of `added_tokens.json` and `special_tokens_map.json`; null if absent.
pub(super) struct Beside {
    added: Value,
    roles: Value,
}

impl Beside {
    pub(super) fn read(dir: &Path) -> Result<Beside> {
        let read = |name: &str| {
            let path = dir.join(name);
            if path.exists() {
                read_object(&path)
            } else {
                Ok(Value::Null)
            }
        };
        Ok(Beside {
            added: read(ADDED)?,
            roles: read(ROLES)?,
        })
    }

    /// The contents of `special_tokens_map.json`.
    pub(super) fn roles(&self) -> &Value {
        &self.roles
    }

    /// Copies `pad_token` from `special_tokens_map.json` into a config that has none.
    pub(super) fn name_padding(&self, config: &mut Value) {
        if content(&config["pad_token"]).is_none() && content(&self.roles["pad_token"]).is_some() {
            config["pad_token"] = self.roles["pad_token"].clone();
        }
    }

    /// Appends the added tokens to the `added_tokens` of a generated `tokenizer.json`; returns them with their ids.
    pub(super) fn add_to(&self, tokenizer: &mut Value, config: &Value, dir: &Path) -> Result<Vec<(String, u64)>> {
        let damaged = |file: &str, what: &str| {
            let path = dir.join(file);
            Error::user(format!("{} {what}; restore the file", path.display()))
        };
        let (mut tokens, mut ids) = (Vec::new(), Vec::new());
        for (token, id) in self.added.as_object().into_iter().flatten() {
            let id = id
                .as_u64()
                .ok_or_else(|| damaged(ADDED, &format!("gives '{token}' no id")))?;
            let special = self.is_special(token, config);
            tokens.push(added_token(id, token, special));
            ids.push((token.clone(), id));
        }
        for (id, listed) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
            let (id, token) = match (id.parse::<u64>(), content(listed)) {
                (Ok(id), Some(token)) => (id, token),
                _ => {
                    return Err(damaged(
                        CONFIG,
                        &format!("has no id and token in added_tokens_decoder '{id}'"),
                    ));
                }
            };
            let mut entry = added_token(id, token, false);
            for property in ["special", "normalized", "lstrip", "rstrip", "single_word"] {
                if let Some(value) = listed[property].as_bool() {
                    entry[property] = value.into();
                }
            }
            tokens.push(entry);
            ids.push((token.to_string(), id));
        }
        if let Some(known) = tokenizer["added_tokens"].as_array_mut() {
            for token in tokens {
                known.retain(|other| other["content"] != token["content"]);
                known.push(token);
            }
            // The library assigns ids in this order.
            known.sort_by_key(|token| token["id"].as_u64());
        }
        Ok(ids)
    }

    /// Whether the files list a token, as an added token or with a role.
    pub(super) fn lists(&self, token: &str, config: &Value) -> bool {
        let decoder = config["added_tokens_decoder"].as_object().into_iter().flatten();
        self.added.get(token).is_some()
            || decoder.clone().any(|(_, listed)| content(listed) == Some(token))
            || self.is_special(token, config)
    }

    fn is_special(&self, token: &str, config: &Value) -> bool {
        [config, &self.roles].into_iter().any(|file| {
            let roles = file.as_object().into_iter().flatten();
            let mut named = roles.filter(|(role, _)| role.ends_with("_token") || role.ends_with("_special_tokens"));
            named.any(|(_, value)| match value {
                Value::Array(tokens) => tokens.iter().any(|each| content(each) == Some(token)),
                single => content(single) == Some(token),
            })
        })
    }
}

/// Returns the text of a token that is given as a string or as an object with properties.
pub(super) fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}
