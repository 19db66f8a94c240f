//! Fields of `tokenizer_config.json` against the tokens that transformers makes by them: the same, or an error.

use lessen_data::Tokenizer;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

/// Writes the folder of a case.
fn write(dir: &Path, name: &str, config: &Value, changes: &Value) {
    let mut tokenizer = read(&format!("{name}-tokenizer.json"));
    for change in changes.as_array().unwrap() {
        let mut place = &mut tokenizer;
        for key in change[0].as_array().unwrap() {
            place = &mut place[key.as_str().unwrap()];
        }
        *place = change[1].clone();
    }
    for (file, value) in [
        ("tokenizer.json", &tokenizer),
        ("tokenizer_config.json", config),
        ("config.json", &json!({ "model_type": name })),
    ] {
        fs::write(dir.join(file), value.to_string()).unwrap();
    }
}

/// The tokens of all texts and pairs.
fn tokens(dir: &Path, record: &Value) -> lessen_data::Result<Vec<Vec<i32>>> {
    let tokenizer = Tokenizer::from_dir(dir)?;
    let texts = record["texts"].as_array().unwrap().iter();
    let texts = texts.map(|text| Ok(tokenizer.encode_pair(text.as_str().unwrap(), None, 1000)?.0));
    let pairs = record["pairs"].as_array().unwrap().iter();
    let pairs = pairs.map(|pair| {
        let (a, length) = (pair[0].as_str().unwrap(), pair[2].as_u64().unwrap() as usize);
        Ok(tokenizer.encode_pair(a, pair[1].as_str(), length)?.0)
    });
    texts.chain(pairs).collect()
}

#[test]
fn fields_of_tokenizer_configurations_have_the_effects_of_transformers() {
    let record = read("tokenizers.json");
    let (dir, mut wrong) = (tempfile::tempdir().unwrap(), Vec::new());
    let cases = record["cases"].as_array().unwrap();
    for case in cases {
        let (name, fields) = (case[0].as_str().unwrap(), &case[1]);
        let mut config = record["roles"][name].clone();
        for (field, value) in fields.as_object().unwrap() {
            config[field] = value.clone();
        }
        write(dir.path(), name, &config, &case[2]);
        let expected: Option<Vec<Vec<i32>>> = case[3]
            .as_u64()
            .map(|number| serde_json::from_value(record["results"][number as usize].clone()).unwrap());
        match (tokens(dir.path(), &record), expected) {
            (Ok(found), Some(expected)) if found == expected => {}
            (Err(_), None) => {}
            (found, expected) => wrong.push(format!("{case}: {found:?} for {expected:?}")),
        }
        // A saved tokenizer says the same where no model lies beside it that decides.
        if let (Ok(tokenizer), Some(_)) = (Tokenizer::from_dir(dir.path()), fields.get("tokenizer_class")) {
            let saved = tempfile::tempdir().unwrap();
            tokenizer.save(saved.path()).unwrap();
            let again = tokens(saved.path(), &record).ok();
            if again != tokens(dir.path(), &record).ok() {
                wrong.push(format!("{case} differs when it is saved and read"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), cases.len());
    assert!(cases.len() > 300);
}

#[test]
fn fields_of_other_types_are_refused() {
    let (dir, roles) = (tempfile::tempdir().unwrap(), read("tokenizers.json"));
    for (fields, expected) in [
        (
            json!({ "do_lower_case": "no" }),
            "the field `do_lower_case` must be true or false, it is \"no\"",
        ),
        (
            json!({ "truncation_side": "middle" }),
            "the field `truncation_side` is \"middle\"; write \"left\" or \"right\"",
        ),
        (
            json!({ "added_tokens_decoder": { "x": "y" } }),
            "`added_tokens_decoder` has no id and token in 'x'",
        ),
        (
            json!({ "split_special_tokens": 1 }),
            "the field `split_special_tokens` must be true or false, it is 1",
        ),
    ] {
        let mut config = roles["roles"]["bert"].clone();
        for (field, value) in fields.as_object().unwrap() {
            config[field] = value.clone();
        }
        write(dir.path(), "bert", &config, &json!([]));
        let sentence = Tokenizer::from_dir(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(
            sentence.contains("tokenizer_config.json") && sentence.contains(expected),
            "{sentence}"
        );
    }
}
