//! Training that starts from a checkpoint: what is kept, what begins anew, what is refused.

mod common;

use common::*;
use std::fs;
use std::path::Path;

#[test]
fn training_starts_from_a_checkpoint_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "bert");
    let args = [
        "train",
        "bert-classifier",
        "--init",
        text(&init),
        "--data",
        "titles",
        "--steps",
        "1",
        "--json",
    ];
    let more = [
        "--set",
        "train.batch=4",
        "--set",
        "data.max_length=12",
        "--set",
        "train.lr=0",
        "--out",
        "second",
    ];
    let report = json(dir, &[&args[..], &more].concat());
    let first = json(dir, &["eval", "first", "--json"]);
    let loss = |value: &serde_json::Value| value["dev_loss"].as_f64().unwrap();
    assert!(
        (loss(&report) - loss(&first)).abs() < 1e-6,
        "with a rate of 0 nothing changes"
    );
    let flags = ["--set", "model.layers=3"];
    let sentence = refuse(dir, &[&args[..8], &flags].concat());
    assert!(
        sentence.contains("--set model.layers=3 cannot change the checkpoint"),
        "{sentence}"
    );
}

/// Trains from `first/model` at a rate of 0, so that the scores are those of the first weights.
fn again<'a>(recipe: &'a Path, data: &'a Path, out: &'a str) -> Vec<&'a str> {
    vec![
        "train",
        text(recipe),
        "--init",
        "first/model",
        "--data",
        text(data),
        "--set",
        "train.lr=0",
        "--steps",
        "1",
        "--out",
        out,
    ]
}

#[test]
fn a_class_keeps_its_row_when_the_data_numbers_it_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let first = [
        "train",
        text(&recipe),
        "--data",
        text(&data),
        "--steps",
        "60",
        "--out",
        "first",
        "--json",
    ];
    assert_eq!(json(dir, &first)["dev_accuracy"], 1.0);
    for file in ["train.txt", "dev.txt"] {
        let lines = fs::read_to_string(data.join(file)).unwrap();
        let turned = lines.lines().map(|line| match line.split_once('\t') {
            Some((title, "0")) => format!("{title}\t1\n"),
            Some((title, _)) => format!("{title}\t0\n"),
            None => panic!("{line}"),
        });
        fs::write(data.join(file), turned.collect::<String>()).unwrap();
    }
    fs::write(data.join("class.txt"), "foul\nfair\n").unwrap();
    let report = json(dir, &[&again(&recipe, &data, "second")[..], &["--json"]].concat());
    assert_eq!(report["dev_accuracy"], 1.0, "{report}");
    let config = fs::read_to_string(dir.join("second/model/config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        config["id2label"],
        serde_json::json!({ "0": "foul", "1": "fair" })
    );
    let answer = json(dir, &["predict", "second", "--text", "day 7 rain", "--json"]);
    assert_eq!(answer["label"], "foul");
}

#[test]
fn other_classes_get_a_new_classifier_which_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for kind in ["bert", "encoder"] {
        checkpoint(dir, kind);
        let (data, recipe) = (titles(dir), classifier(dir, kind, ""));
        fs::write(data.join("class.txt"), "fair\nfoul\nwindy\n").unwrap();
        let out = format!("{kind}-again");
        let output = lessen(dir, &again(&recipe, &data, &out));
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let drawn =
            "classifier.weight of shape [3, 16], classifier.bias of shape [3]; starting with new ones";
        assert!(said.contains(drawn) && !said.contains("pooler"), "{said}");
        fs::remove_dir_all(dir.join("first")).unwrap();
    }
}

#[test]
fn a_checkpoint_brings_its_vocabulary_and_its_faults_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint(dir, "encoder");
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let flag = ["--set", "data.tokenizer=characters"];
    let sentence = refuse(dir, &[&again(&recipe, &data, "second")[..], &flag].concat());
    assert!(
        sentence.contains("--set data.tokenizer=characters cannot change the vocabulary of the checkpoint"),
        "{sentence}"
    );
    let config = init.join("config.json");
    let sound = fs::read_to_string(&config).unwrap();
    let damaged = sound.replace("\"dropout\": 0.1", "\"dropout\": 2");
    assert_ne!(damaged, sound);
    fs::write(&config, damaged).unwrap();
    let sentence = refuse(dir, &again(&recipe, &data, "second"));
    assert!(
        sentence.contains("config.json: the field `dropout` must be at least 0 and below 1, it is 2"),
        "{sentence}"
    );
    assert!(!dir.join("second").exists());
}
