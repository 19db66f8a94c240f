//! Parquet files as the Hub has them: training, evaluation and prediction.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A dataset as it lies on the Hub.
fn dataset() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tests/fixtures/parquet")
}

#[test]
fn a_dataset_of_the_hub_is_trained_on_evaluated_and_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (dataset(), classifier(dir, "encoder", "schedule = \"linear\"\n"));
    let args = train_on(&recipe, &data, &["--steps", "60", "--out", "run", "--json"]);
    assert_eq!(json(dir, &args)["dev_accuracy"], 1.0);
    let config: Value = serde_json::from_str(&fs::read_to_string(dir.join("run/model/config.json")).unwrap()).unwrap();
    assert_eq!(config["id2label"], serde_json::json!({ "0": "foul", "1": "fair" }));
    let found = json(dir, &["eval", "run", "--split", "test", "--json"]);
    assert_eq!((&found["examples"], &found["test_accuracy"]), (&6.into(), &1.0.into()));
    // A file alone, whose whole numbers are the classes of the model by their names.
    let file = data.join("data/train-00000-of-00002.parquet");
    let found = json(dir, &["eval", "run/model", "--data", text(&file), "--json"]);
    assert_eq!(found["examples"], 24);
    // Columns stay, with the types that they have.
    let file = data.join("data/test-00000-of-00001.parquet");
    let args = ["predict", "run", "--input", text(&file)];
    let printed = succeed(dir, &args);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "id,text,label,predicted_label,probability");
    assert!(
        lines.len() == 7 && lines[1].starts_with("52,day 52 sun,1,fair,"),
        "{printed}"
    );
    let printed = succeed(dir, &[&args[..], &["--format", "jsonl"]].concat());
    let line = printed.lines().nth(1).unwrap();
    assert!(
        line.starts_with(r#"{"id":53,"text":"day 53 rain","label":0,"predicted_label":"foul","#),
        "{line}"
    );
}

#[test]
fn a_compression_that_is_not_read_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (file, recipe) = (dataset().join("zstd.parquet"), classifier(dir, "encoder", ""));
    let sentence = refuse(dir, &train_on(&recipe, &file, &[]));
    assert!(
        sentence
            .contains("zstd.parquet is compressed with zstd, which Lessen does not read; write it again with snappy"),
        "{sentence}"
    );
}
