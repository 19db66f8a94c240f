//! Texts of more than `data.max_length` tokens: their share is told, and a saved model says to others where it cuts.

use crate::support::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Trains a tiny classifier on titles that are cut after `length` characters; what it said.
fn trained(dir: &Path, length: usize, out: &str) -> String {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let length = format!("data.max_length={length}");
    let output = lessen(
        dir,
        &train_on(&recipe, &data, &["--steps", "2", "--out", out, "--set", &length]),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn cut_texts_are_told_in_training_evaluation_and_prediction() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = trained(dir, 8, "run");
    // "day 0 sun" has 9 characters, and every text is longer.
    let warning = "warning: data.max_length = 8 cuts the ends of 40 of 40 texts of the training data (100.00 %) and 12 of \
                   12 texts of the evaluation data (100.00 %); raise it, as far as the model's positions reach, or split \
                   the texts\n";
    assert!(said.contains(warning), "{said}");
    let all = |count: u64| json!({ "count": count, "share": 1.0, "max_length": 8 });
    assert_eq!(
        read(&dir.join("run/report.json"))["cut_texts"],
        json!({ "training": all(40), "dev": all(12) })
    );

    let output = lessen(dir, &["eval", "run", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["cut_texts"], all(12));
    assert!(
        stderr(&output).contains("warning: data.max_length = 8 cuts the ends of 12 of 12 texts (100.00 %)"),
        "{}",
        stderr(&output)
    );

    let output = lessen(dir, &["predict", "run", "--text", "day 7 rain", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["cut_texts"], all(1));
    let output = lessen(dir, &["predict", "run", "--text", "rain"]);
    assert_eq!(stderr(&output), "");

    // A few are a note, which is not shown without progress.
    let lines: String = (0..39).map(|_| "sun\n").collect();
    fs::write(dir.join("in.txt"), lines + "a day of rain\n").unwrap();
    let args = ["predict", "run", "--input", "in.txt"];
    assert_eq!(
        stderr(&lessen(dir, &args)),
        "note: data.max_length = 8 cuts the ends of 1 of 40 texts (2.50 %)\n"
    );
    assert_eq!(stderr(&lessen(dir, &[&args[..], &["-q"]].concat())), "");
}

#[test]
fn uncut_texts_are_not_spoken_of() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(!trained(dir, 12, "run").contains("cuts the ends"));
    assert_eq!(read(&dir.join("run/report.json"))["cut_texts"]["dev"]["count"], 0);
    let output = lessen(dir, &["eval", "run"]);
    assert!(!stderr(&output).contains("cuts the ends"), "{}", stderr(&output));
}

#[test]
fn an_exported_model_cuts_where_its_run_did() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir, 8, "run");
    succeed(dir, &["export", "run", "out"]);
    for folder in ["run/model", "out"] {
        let config = read(&dir.join(folder).join("tokenizer_config.json"));
        assert_eq!(config["model_max_length"], 8, "{folder}");
    }
    let ask = |folder: &str| {
        json(
            dir,
            &["-q", "predict", folder, "--text", "day 7 rain and more", "--json"],
        )
    };
    assert_eq!(ask("out"), ask("run"));
    assert_eq!(ask("out")["cut_texts"]["count"], 1);
}

#[test]
fn a_foreign_model_cuts_where_its_tokenizer_says() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir, 12, "run");
    succeed(dir, &["export", "run", "out"]);
    let path = dir.join("out/tokenizer_config.json");
    let whole = read(&path);
    // The field, and the most tokens of a text then; the model has positions for 12.
    let cases = [
        (json!({ "model_max_length": 5 }), 5),
        (json!({ "max_len": 7 }), 7),
        (json!({ "model_max_length": 6, "max_len": 9 }), 6),
        (json!({ "model_max_length": 12 }), 12),
        (json!({ "model_max_length": 4096 }), 12),
        (json!({ "model_max_length": 1e30 }), 12),
        (json!({ "model_max_length": null }), 12),
        (json!({ "model_max_length": 0 }), 12),
        (json!({}), 12),
    ];
    for (fields, length) in cases {
        let mut config = whole.clone();
        config.as_object_mut().unwrap().remove("model_max_length");
        config
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        fs::write(&path, config.to_string()).unwrap();
        let found = json(dir, &["-q", "predict", "out", "--text", "day 7 of rain", "--json"]);
        assert_eq!(found["cut_texts"]["max_length"], length, "{fields}");
    }
    // A flag comes first.
    let args = [
        "-q",
        "predict",
        "out",
        "--text",
        "day 7",
        "--set",
        "data.max_length=4",
        "--json",
    ];
    assert_eq!(json(dir, &args)["cut_texts"]["max_length"], 4);
}

#[test]
fn the_truncation_of_a_tokenizer_file_follows_the_length() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir, 12, "run");
    let path = dir.join("run/model/tokenizer.json");
    let mut file = read(&path);
    file["truncation"] = json!({ "direction": "Right", "max_length": 99, "strategy": "LongestFirst", "stride": 0 });
    fs::write(&path, file.to_string()).unwrap();
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    let more = [
        "--set",
        "data.tokenizer=run/model",
        "--set",
        "data.max_length=9",
        "--steps",
        "1",
    ];
    succeed(
        dir,
        &train_on(&recipe, &data, &[&more[..], &["--out", "second"]].concat()),
    );
    let saved = read(&dir.join("second/model/tokenizer.json"));
    assert_eq!(saved["truncation"]["max_length"], 9);
    assert_eq!(saved["model"], file["model"]);
}
