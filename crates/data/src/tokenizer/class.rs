//! What `tokenizer_config.json` changes of a `tokenizer.json`, as transformers 5 changes it: tokens that the file
//! lacks, and parts that a class of tokenizers makes by its own fields.

use std::path::Path;

use lessen_base::{Error, Result};
use serde_json::{Value, json};

use super::added::content;
use crate::vocabulary::{added_token, read_object};

/// Roles of special tokens, in the order in which missing ones are added. Padding is left out: no text has it.
const ROLES: [&str; 6] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "cls_token",
    "mask_token",
];

/// Fields with further special tokens: lists, or objects of tokens by role.
const MORE: [&str; 2] = ["extra_special_tokens", "additional_special_tokens"];

/// A class of tokenizers that makes parts of a tokenizer by fields of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// WordPiece with the normalizer of BERT.
    Bert,
    /// The same with the template of RoBERTa.
    MPNet,
    /// Byte-level BPE with the template of RoBERTa.
    Roberta,
    /// Byte-level BPE.
    Gpt2,
}

impl Class {
    /// The class that a configuration names, or else that of the model in the same folder.
    fn of(config: &Value, dir: &Path) -> Result<Option<Class>> {
        let named = config["tokenizer_class"].as_str().map(str::to_string);
        let name = match named {
            Some(name) => name.strip_suffix("Fast").unwrap_or(&name).to_string(),
            None => {
                let path = dir.join("config.json");
                let model = if path.exists() {
                    read_object(&path)?
                } else {
                    Value::Null
                };
                match model["model_type"].as_str() {
                    Some("bert" | "distilbert") => "BertTokenizer".to_string(),
                    Some("roberta") => "RobertaTokenizer".to_string(),
                    Some("mpnet") => "MPNetTokenizer".to_string(),
                    Some("gpt2") => "GPT2Tokenizer".to_string(),
                    _ => return Ok(None),
                }
            }
        };
        Ok(match name.as_str() {
            "BertTokenizer" | "DistilBertTokenizer" => Some(Class::Bert),
            "RobertaTokenizer" => Some(Class::Roberta),
            "MPNetTokenizer" => Some(Class::MPNet),
            "GPT2Tokenizer" => Some(Class::Gpt2),
            _ => None,
        })
    }

    /// The model of the tokenizers of this class, in `tokenizer.json`.
    fn model(self) -> &'static str {
        match self {
            Class::Bert | Class::MPNet => "WordPiece",
            Class::Roberta | Class::Gpt2 => "BPE",
        }
    }
}

/// Changes a `tokenizer.json` as the `tokenizer_config.json` beside it says. `roles` is `special_tokens_map.json`.
///
/// # Errors
/// A field of another type, and a damaged `config.json`.
pub(super) fn apply(tokenizer: &mut Value, config: &Value, roles: &Value, dir: &Path) -> Result<()> {
    let fields = Config { config, roles, dir };
    let own = tokenizer["model"]["type"].clone();
    let class = Class::of(config, dir)?.filter(|class| own == class.model());
    add_missing(tokenizer, &fields, class)?;
    match class {
        None => {}
        Some(Class::Bert | Class::MPNet) => {
            tokenizer["normalizer"] = json!({
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": fields.switch("tokenize_chinese_chars")?.unwrap_or(true),
                "strip_accents": fields.switch("strip_accents")?,
                "lowercase": fields.switch("do_lower_case")?.unwrap_or(true),
            });
            tokenizer["pre_tokenizer"] = json!({ "type": "BertPreTokenizer" });
            if let Some(unknown) = fields.role("unk_token") {
                tokenizer["model"]["unk_token"] = json!(unknown);
            }
            let [cls, sep] = ["cls_token", "sep_token"].map(|role| fields.around(role, class));
            if let (Some(start), Some(end)) = (id_of(tokenizer, &cls), id_of(tokenizer, &sep)) {
                let special = |token: &str, kind: u8| json!({ "SpecialToken": { "id": token, "type_id": kind } });
                let text = |name: &str, kind: u8| json!({ "Sequence": { "id": name, "type_id": kind } });
                let (first, second) = (text("A", 0), text("B", 1));
                tokenizer["post_processor"] = match class {
                    Some(Class::MPNet) => json!({
                        "type": "RobertaProcessing", "sep": [sep, end], "cls": [cls, start],
                        "trim_offsets": true, "add_prefix_space": false,
                    }),
                    _ => json!({
                        "type": "TemplateProcessing",
                        "single": [special(&cls, 0), first, special(&sep, 0)],
                        "pair": [special(&cls, 0), first, special(&sep, 0), second, special(&sep, 1)],
                        "special_tokens": {
                            cls.clone(): { "id": cls, "ids": [start], "tokens": [cls] },
                            sep.clone(): { "id": sep, "ids": [end], "tokens": [sep] },
                        },
                    }),
                };
            }
        }
        Some(Class::Roberta | Class::Gpt2) => {
            let has_prefix = fields.switch("add_prefix_space")?.unwrap_or(false);
            tokenizer["pre_tokenizer"] = json!({
                "type": "ByteLevel", "add_prefix_space": has_prefix, "trim_offsets": true, "use_regex": true,
            });
            if class == Some(Class::Roberta) {
                let [cls, sep] = ["cls_token", "sep_token"].map(|role| fields.around(role, class));
                if let (Some(start), Some(end)) = (id_of(tokenizer, &cls), id_of(tokenizer, &sep)) {
                    tokenizer["post_processor"] = json!({
                        "type": "RobertaProcessing", "sep": [sep, end], "cls": [cls, start],
                        "trim_offsets": fields.switch("trim_offsets")?.unwrap_or(true), "add_prefix_space": has_prefix,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Whether special tokens in a text are read as ordinary characters (`split_special_tokens`).
pub(super) fn splits_special(config: &Value, dir: &Path) -> Result<bool> {
    let roles = &Value::Null;
    let fields = Config { config, roles, dir };
    Ok(fields.switch("split_special_tokens")?.unwrap_or(false))
}

/// Whether texts that are too long lose their beginning (`truncation_side`).
///
/// # Errors
/// Another side than left and right.
pub(super) fn cuts_left(config: &Value, dir: &Path) -> Result<bool> {
    match &config["truncation_side"] {
        Value::Null => Ok(false),
        side if side == "right" => Ok(false),
        side if side == "left" => Ok(true),
        side => {
            let roles = &Value::Null;
            let what = format!("is {side}; write \"left\" or \"right\"");
            Err(Config { config, roles, dir }.error("truncation_side", &what))
        }
    }
}

/// The fields of `tokenizer_config.json` and `special_tokens_map.json`.
struct Config<'a> {
    config: &'a Value,
    roles: &'a Value,
    dir: &'a Path,
}

impl Config<'_> {
    fn error(&self, field: &str, what: &str) -> Error {
        let path = self.dir.join(super::CONFIG);
        Error::user(format!("{}: the field `{field}` {what}", path.display()))
    }

    fn switch(&self, field: &str) -> Result<Option<bool>> {
        match &self.config[field] {
            Value::Null => Ok(None),
            Value::Bool(switch) => Ok(Some(*switch)),
            value => Err(self.error(field, &format!("must be true or false, it is {value}"))),
        }
    }

    /// The token of a role, if it has one.
    fn role(&self, role: &str) -> Option<&str> {
        content(&self.config[role]).or_else(|| content(&self.roles[role]))
    }

    /// The token of a role that stands around texts.
    fn around(&self, role: &str, class: Option<Class>) -> String {
        let own = match (class, role) {
            (Some(Class::Roberta | Class::MPNet), "cls_token") => "<s>",
            (Some(Class::Roberta | Class::MPNet), _) => "</s>",
            (_, "cls_token") => "[CLS]",
            (_, _) => "[SEP]",
        };
        self.role(role).unwrap_or(own).to_string()
    }
}

/// Adds the tokens that the configuration lists and the tokenizer lacks. They get the numbers after its vocabulary.
fn add_missing(tokenizer: &mut Value, fields: &Config<'_>, class: Option<Class>) -> Result<()> {
    let mut listed: Vec<(u64, Value)> = Vec::new();
    for (id, token) in fields.config["added_tokens_decoder"].as_object().into_iter().flatten() {
        let damaged = || fields.error("added_tokens_decoder", &format!("has no id and token in '{id}'"));
        let number: u64 = id.parse().map_err(|_| damaged())?;
        let mut entry = added_token(number, content(token).ok_or_else(damaged)?, false);
        for property in ["special", "normalized", "lstrip", "rstrip", "single_word"] {
            if let Some(value) = token[property].as_bool() {
                entry[property] = value.into();
            }
        }
        listed.push((number, entry));
    }
    listed.sort_by_key(|(id, _)| *id);
    for (_, token) in listed {
        add(tokenizer, token, true);
    }
    let mut special: Vec<String> = ROLES
        .iter()
        .filter_map(|role| Some(fields.role(role)?.to_string()))
        .collect();
    if let Some(class) = class.filter(|class| *class != Class::Gpt2) {
        special.extend(["cls_token", "sep_token"].map(|role| fields.around(role, Some(class))));
    }
    for field in MORE {
        match &fields.config[field] {
            Value::Array(tokens) => special.extend(tokens.iter().filter_map(content).map(str::to_string)),
            Value::Object(tokens) => special.extend(tokens.values().filter_map(content).map(str::to_string)),
            _ => {}
        }
    }
    for token in special {
        add(tokenizer, added_token(0, &token, true), false);
    }
    Ok(())
}

/// Adds a token with the number that it has in the vocabulary, or the next one. A token that is there keeps its
/// properties unless they are to be replaced.
fn add(tokenizer: &mut Value, mut token: Value, replaces: bool) {
    let Some(name) = token["content"].as_str().map(str::to_string) else {
        return;
    };
    let id = id_of(tokenizer, &name).unwrap_or_else(|| next_id(tokenizer));
    token["id"] = id.into();
    if !tokenizer["added_tokens"].is_array() {
        tokenizer["added_tokens"] = json!([]);
    }
    let Some(all) = tokenizer["added_tokens"].as_array_mut() else {
        return;
    };
    match all.iter_mut().find(|own| own["content"] == name) {
        Some(own) if replaces => *own = token,
        Some(_) => {}
        None => all.push(token),
    }
    all.sort_by_key(|token| token["id"].as_u64());
}

/// The number of a token in the vocabulary or among the added tokens.
fn id_of(tokenizer: &Value, name: &str) -> Option<u64> {
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let own = added
        .filter(|token| token["content"] == name)
        .find_map(|token| token["id"].as_u64());
    own.or_else(|| match &tokenizer["model"]["vocab"] {
        // A unigram model lists its tokens with their scores.
        Value::Array(tokens) => tokens.iter().position(|token| token[0] == name).map(|id| id as u64),
        vocab => vocab.get(name)?.as_u64(),
    })
}

/// The number after all tokens.
fn next_id(tokenizer: &Value) -> u64 {
    let vocab = &tokenizer["model"]["vocab"];
    let listed = vocab
        .as_array()
        .and_then(|tokens| tokens.len().checked_sub(1))
        .map(|id| id as u64);
    let vocab = vocab.as_object().into_iter().flatten();
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let ids = vocab
        .filter_map(|(_, id)| id.as_u64())
        .chain(listed)
        .chain(added.filter_map(|token| token["id"].as_u64()));
    ids.max().map_or(0, |id| id + 1)
}
