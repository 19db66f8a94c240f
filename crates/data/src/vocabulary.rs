//! Vocabulary files, converted to the `tokenizer.json` of the tokenizer that they imply.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use lessen_base::{Error, Result};
use serde_json::{Map, Value, json};

use crate::files::{numbered_lines, quoted, read_text};

/// The contents of `tokenizer.json` and `tokenizer_config.json`.
pub(crate) struct Description {
    pub(crate) tokenizer: Value,
    pub(crate) config: Value,
}

/// The padding token of vocabularies of characters.
pub(crate) const PAD: &str = "[PAD]";
/// The unknown token of vocabularies of characters.
pub(crate) const UNKNOWN: &str = "[UNK]";

/// The pre-tokenizer that splits a text into characters.
pub(crate) fn single_characters() -> Value {
    json!({ "type": "Split", "pattern": { "Regex": "[\\s\\S]" }, "behavior": "Isolated", "invert": false })
}

/// Builds a vocabulary of characters: the special tokens, padding and unknown among them, then the characters that
/// occur at least `min_count` times, by code point.
pub(crate) fn characters<S: AsRef<str>>(
    texts: impl IntoIterator<Item = S>,
    min_count: usize,
    special: &[&str],
) -> Description {
    // Most characters of most texts are ASCII, and need no search.
    let (mut ascii, mut others) = ([0; 128], BTreeMap::<char, usize>::new());
    for text in texts {
        for character in text.as_ref().chars() {
            match ascii.get_mut(character as usize) {
                Some(count) => *count += 1,
                None => *others.entry(character).or_default() += 1,
            }
        }
    }
    let counts = (0..).map(char::from).zip(ascii).chain(others);
    let kept = counts
        .filter(|&(_, count)| count >= min_count.max(1))
        .map(|(character, _)| character.to_string());
    let tokens = special.iter().map(|token| token.to_string()).chain(kept);
    let vocab: Map<String, Value> = tokens.enumerate().map(|(id, token)| (token, json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": special_tokens(&vocab, special),
        "normalizer": null,
        "pre_tokenizer": single_characters(),
        "post_processor": null,
        "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": UNKNOWN },
    });
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "clean_up_tokenization_spaces": false,
    });
    if special.contains(&END_OF_TEXT) {
        config["eos_token"] = json!(END_OF_TEXT);
    }
    Description { tokenizer, config }
}

/// The special tokens of BERT.
pub(crate) const BERT: [&str; 5] = [PAD, UNKNOWN, "[CLS]", "[SEP]", BERT_MASK];

/// The mask token of BERT.
pub(crate) const BERT_MASK: &str = "[MASK]";

/// Builds a vocabulary of characters, as [`characters`] does, with the special tokens of BERT, which texts and pairs
/// have.
pub(crate) fn marked_characters<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, min_count: usize) -> Description {
    let Description {
        mut tokenizer,
        mut config,
    } = characters(texts, min_count, &BERT);
    tokenizer["post_processor"] = bert_template(&tokenizer["model"]["vocab"]);
    for (role, token) in [
        ("cls_token", "[CLS]"),
        ("sep_token", "[SEP]"),
        ("mask_token", BERT_MASK),
    ] {
        config[role] = json!(token);
    }
    Description { tokenizer, config }
}

/// BERT's template: `[CLS] a [SEP]`, and for pairs `[CLS] a [SEP] b [SEP]`.
fn bert_template(vocab: &Value) -> Value {
    let piece = |token: &str, type_id: u32| json!({ "SpecialToken": { "id": token, "type_id": type_id } });
    let text_of = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
    let special = |token: &str| json!({ "id": token, "ids": [vocab[token]], "tokens": [token] });
    json!({
        "type": "TemplateProcessing",
        "single": [piece("[CLS]", 0), text_of("A", 0), piece("[SEP]", 0)],
        "pair": [
            piece("[CLS]", 0), text_of("A", 0), piece("[SEP]", 0), text_of("B", 1), piece("[SEP]", 1)
        ],
        "special_tokens": { "[CLS]": special("[CLS]"), "[SEP]": special("[SEP]") },
    })
}

/// Reads the WordPiece of BERT, or of MPNet where the vocabulary has its special tokens: `vocab.txt` has one token per
/// line, in the order of ids. The keys `do_lower_case`, `strip_accents` and `tokenize_chinese_chars` of `config` set
/// the normalization. MPNet has the template of RoBERTa.
pub(crate) fn word_piece(path: &Path, config: &Value) -> Result<Description> {
    let text = read_text(path)?;
    let vocab: Map<String, Value> = numbered_lines(&text)
        .map(|(number, token)| (token.to_string(), json!(number - 1)))
        .collect();
    let needed: &[&str] = if is_mpnet(&vocab) {
        &[UNKNOWN]
    } else {
        &[UNKNOWN, "[CLS]", "[SEP]"]
    };
    for &token in needed {
        if !vocab.contains_key(token) {
            let path = path.display();
            return Err(Error::user(format!(
                "{path} has no line {token}; use the vocab.txt of a BERT or MPNet model"
            )));
        }
    }
    Ok(describe_word_piece(vocab, config))
}

/// The WordPiece of BERT, or of MPNet, with this vocabulary; see [`word_piece`].
pub(crate) fn describe_word_piece(vocab: Map<String, Value>, config: &Value) -> Description {
    let is_mpnet = is_mpnet(&vocab);
    let lower = flag(config, "do_lower_case").unwrap_or(true);
    let mut added_tokens = special_tokens(&vocab, if is_mpnet { &MPNET } else { &BERT });
    for token in &mut added_tokens {
        token["lstrip"] = json!(token["content"] == ROBERTA_MASK);
    }
    let vocab = Value::Object(vocab);
    let post_processor = if is_mpnet {
        roberta_template(|token| vocab[token].clone(), false)
    } else {
        bert_template(&vocab)
    };
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": flag(config, "tokenize_chinese_chars").unwrap_or(true),
            "strip_accents": flag(config, "strip_accents"),
            "lowercase": lower,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": post_processor,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    });
    let mut config = json!({
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lower,
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    });
    if is_mpnet {
        config["tokenizer_class"] = json!("MPNetTokenizer");
        config["model_input_names"] = json!(["input_ids", "attention_mask"]);
        put_roberta_roles(&mut config);
        config["unk_token"] = json!(UNKNOWN);
    }
    Description { tokenizer, config }
}

/// Whether a vocabulary of WordPiece is MPNet's, with the special tokens of RoBERTa.
fn is_mpnet(vocab: &Map<String, Value>) -> bool {
    ROBERTA.iter().all(|(token, _)| vocab.contains_key(*token))
}

/// The end-of-text token of GPT-2.
pub(crate) const END_OF_TEXT: &str = "<|endoftext|>";

/// The special tokens of RoBERTa, and their roles in `tokenizer_config.json`.
const ROBERTA: [(&str, &[&str]); 5] = [
    ("<s>", &["bos_token", "cls_token"]),
    ("<pad>", &["pad_token"]),
    ("</s>", &["eos_token", "sep_token"]),
    ("<unk>", &["unk_token"]),
    (ROBERTA_MASK, &["mask_token"]),
];

/// The mask token of RoBERTa, which takes the space before it.
pub(crate) const ROBERTA_MASK: &str = "<mask>";

/// The special tokens of MPNet: those of RoBERTa, and BERT's token for the unknown.
const MPNET: [&str; 5] = ["<s>", "<pad>", "</s>", UNKNOWN, ROBERTA_MASK];

/// RoBERTa's template: `<s> a </s>`, and for pairs `<s> a </s></s> b </s>`.
fn roberta_template(id: impl Fn(&str) -> Value, add_prefix_space: bool) -> Value {
    json!({
        "type": "RobertaProcessing",
        "sep": ["</s>", id("</s>")],
        "cls": ["<s>", id("<s>")],
        "trim_offsets": true,
        "add_prefix_space": add_prefix_space,
    })
}

/// Names RoBERTa's special tokens by their roles.
fn put_roberta_roles(config: &mut Value) {
    for (token, roles) in ROBERTA {
        roles.iter().for_each(|role| config[*role] = json!(token));
    }
}

/// Reads the byte-level BPE of GPT-2, or of RoBERTa where the vocabulary has its special tokens: `vocab.json` maps
/// tokens to ids, `merges.txt` has one pair per line, in order of priority. RoBERTa's texts are `<s> a </s>`, its pairs
/// `<s> a </s></s> b </s>`. `is_whole` holds for tokens that are never split and so need no merge.
pub(crate) fn byte_pairs(
    vocab_path: &Path,
    merges_path: &Path,
    config: &Value,
    is_whole: impl Fn(&str) -> bool,
) -> Result<Description> {
    let vocab = match read_json(vocab_path)? {
        Value::Object(vocab)
            if vocab
                .values()
                .all(|id| id.as_u64().is_some_and(|id| id <= i32::MAX as u64)) =>
        {
            vocab
        }
        _ => {
            let path = vocab_path.display();
            return Err(Error::user(format!(
                "{path} is no object of tokens and ids; use the vocab.json of a GPT-2 model"
            )));
        }
    };
    let text = read_text(merges_path)?;
    let (mut merges, mut made) = (Vec::new(), HashSet::new());
    for (number, line) in numbered_lines(&text) {
        if line.starts_with("#version") {
            continue;
        }
        let reason = match line.split_once(' ') {
            Some((left, right)) => {
                let merged = format!("{left}{right}");
                let parts = [left, right, &merged];
                match parts.iter().find(|token| !vocab.contains_key(**token)) {
                    None => {
                        merges.push(json!([left, right]));
                        made.insert(merged);
                        continue;
                    }
                    Some(token) => format!("merges to or from {}, which vocab.json lacks", quoted(token)),
                }
            }
            None => "is not two tokens with a space between".to_string(),
        };
        let path = merges_path.display();
        return Err(Error::user(format!(
            "{path} line {number} {reason}; use the two files of one model"
        )));
    }
    let lost = |token: &&String| !made.contains(*token) && !is_whole(token) && is_joint(&vocab, token);
    let mut lost_tokens = vocab.keys().filter(lost);
    if let Some(token) = lost_tokens.next() {
        let (path, vocab_path) = (merges_path.display(), vocab_path.display());
        let others = match lost_tokens.count() {
            0 => String::new(),
            count => format!(" and {count} others"),
        };
        return Err(Error::user(format!(
            "{path} has no line that makes {}{others} of {vocab_path}; restore the file, which was cut short \
             or is of another model",
            quoted(token)
        )));
    }
    Ok(describe_byte_pairs(vocab, merges, config))
}

/// The byte-level BPE of GPT-2, or of RoBERTa, with this vocabulary and pairs of tokens to merge, in order of priority;
/// see [`byte_pairs`].
pub(crate) fn describe_byte_pairs(vocab: Map<String, Value>, merges: Vec<Value>, config: &Value) -> Description {
    let has_prefix = flag(config, "add_prefix_space").unwrap_or(false);
    let byte_level = json!({
        "type": "ByteLevel",
        "add_prefix_space": has_prefix,
        "trim_offsets": true,
        "use_regex": true,
    });
    let is_roberta = ROBERTA.iter().all(|(token, _)| vocab.contains_key(*token));
    let (special, post_processor, class): (Vec<&str>, _, _) = if is_roberta {
        let around = roberta_template(|token| vocab[token].clone(), has_prefix);
        (ROBERTA.map(|(token, _)| token).to_vec(), around, "RobertaTokenizer")
    } else {
        let named = config["bos_token"].as_str().or(config["bos_token"]["content"].as_str());
        let begin = named.unwrap_or(END_OF_TEXT);
        let begins = flag(config, "add_bos_token") == Some(true) && vocab.contains_key(begin);
        let before = if begins {
            beginning_template(begin, &vocab[begin])
        } else {
            Value::Null
        };
        (vec![END_OF_TEXT], before, "GPT2Tokenizer")
    };
    let mut added_tokens = special_tokens(&vocab, &special);
    for token in &mut added_tokens {
        token["lstrip"] = json!(token["content"] == ROBERTA_MASK);
    }
    let ends = vocab.contains_key(END_OF_TEXT) && !is_roberta;
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens,
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": post_processor,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges,
        },
    });
    let mut config = json!({ "tokenizer_class": class, "add_prefix_space": has_prefix });
    if ends {
        for role in ["bos_token", "eos_token", "unk_token"] {
            config[role] = json!(END_OF_TEXT);
        }
    }
    if is_roberta {
        put_roberta_roles(&mut config);
    }
    Description { tokenizer, config }
}

/// The template with a token before every text.
fn beginning_template(token: &str, id: &Value) -> Value {
    let special = |type_id: u32| json!({ "SpecialToken": { "id": token, "type_id": type_id } });
    let text_of = |id: &str, type_id: u32| json!({ "Sequence": { "id": id, "type_id": type_id } });
    json!({
        "type": "TemplateProcessing",
        "single": [special(0), text_of("A", 0)],
        "pair": [special(0), text_of("A", 0), special(1), text_of("B", 1)],
        "special_tokens": { token: { "id": token, "ids": [id], "tokens": [token] } },
    })
}

/// Whether a token needs a merge: it is the concatenation of two others. Tokens in brackets, such as `<s>` and
/// `[MASK]`, are special and need none, listed or not.
fn is_joint(vocab: &Map<String, Value>, token: &str) -> bool {
    let within = |open, close| token.starts_with(open) && token.ends_with(close);
    let bracketed = within('<', '>') || within('[', ']');
    let mut splits = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
    !bracketed && splits.any(|(left, right)| vocab.contains_key(left) && vocab.contains_key(right))
}

/// Reads a file that holds a JSON object.
pub(crate) fn read_object(path: &Path) -> Result<Value> {
    let value = read_json(path)?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Error::user(format!(
        "{} must hold a JSON object; restore the file",
        path.display()
    )))
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    serde_json::from_str(&read_text(path)?).map_err(|error| {
        Error::user(format!(
            "{} is not valid JSON ({error}); restore the file",
            path.display()
        ))
    })
}

fn flag(config: &Value, key: &str) -> Option<bool> {
    config.get(key).and_then(Value::as_bool)
}

/// Returns the special tokens among `names` that the vocabulary has.
fn special_tokens(vocab: &Map<String, Value>, names: &[&str]) -> Vec<Value> {
    let known = names.iter().filter_map(|name| Some((name, vocab.get(*name)?)));
    known.map(|(name, id)| added_token(id.clone(), name, true)).collect()
}

/// Makes an entry of `added_tokens`: a token that is never split. A special one is matched before normalization, any
/// other one after it.
pub(crate) fn added_token(id: impl Into<Value>, name: &str, special: bool) -> Value {
    json!({
        "id": id.into(), "content": name, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": !special, "special": special,
    })
}
