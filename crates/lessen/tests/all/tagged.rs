//! Sentences whose words have labels.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Writes sentences with names, which begin with a capital letter.
fn sentences(dir: &Path) {
    let folder = dir.join("names");
    fs::create_dir(&folder).unwrap();
    let sentence = |i: u32| match i % 3 {
        0 => "Ann\tB-PER\nLee\tI-PER\nis\tO\nin\tO\nRome\tB-LOC\n\n",
        1 => "in\tO\nRome\tB-LOC\nis\tO\nAnn\tB-PER\n\n",
        _ => "Rome\tB-LOC\nis\tO\nold\tO\n\n",
    };
    fs::write(folder.join("train.txt"), (0..30).map(sentence).collect::<String>()).unwrap();
    fs::write(folder.join("dev.txt"), (1..9).map(sentence).collect::<String>()).unwrap();
}

/// Arguments of a tagger that trains in a moment.
fn train<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let tiny = [
        "train",
        "ner",
        "--data",
        "names",
        "--set",
        kind,
        "--set",
        "model.layers=1",
        "--set",
        "model.width=32",
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=32",
        "--set",
        "data.max_length=32",
        "--set",
        "train.batch=5",
        "--set",
        "train.lr=0.01",
        "--set",
        "train.warmup=0",
        "--json",
    ];
    [&tiny[..], more].concat()
}

#[test]
fn words_are_told_apart_by_every_family() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sentences(dir);
    for (kind, class) in [
        ("model.kind=bert", "Bert"),
        ("model.kind=roberta", "Roberta"),
        ("model.kind=distilbert", "DistilBert"),
    ] {
        let report = json(dir, &train(kind, &["--steps", "60", "--out", "run"]));
        assert_eq!(
            (report["dev_f1"].as_f64(), report["dev_accuracy"].as_f64()),
            (Some(1.0), Some(1.0)),
            "{report}"
        );
        let config: Value =
            serde_json::from_str(&fs::read_to_string(dir.join("run/model/config.json")).unwrap()).unwrap();
        assert_eq!(config["architectures"][0], format!("{class}ForTokenClassification"));
        assert_eq!(config["id2label"]["1"], "B-LOC");
        let again = json(dir, &["eval", "run", "--json"]);
        assert_eq!(again["dev_f1"], 1.0);
        let on = [
            "--init",
            "run/model",
            "--set",
            "train.lr=0",
            "--steps",
            "1",
            "--out",
            "on",
        ];
        let base = [
            "train",
            "ner",
            "--data",
            "names",
            "--set",
            "data.max_length=32",
            "--json",
        ];
        assert_eq!(json(dir, &[&base[..], &on].concat())["dev_f1"], 1.0);
        for run in ["run", "on"] {
            fs::remove_dir_all(dir.join(run)).unwrap();
        }
    }
}

#[test]
fn mistakes_in_tagged_data_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sentences(dir);
    let sentence = refuse(dir, &train("model.kind=encoder", &[]));
    assert!(
        sentence.contains("model.kind = encoder cannot learn data.format = tagged; choose bert"),
        "{sentence}"
    );
    fs::write(dir.join("names/dev.txt"), "Ann\tB-ORG\n").unwrap();
    let sentence = refuse(dir, &train("model.kind=bert", &[]));
    assert!(
        sentence.contains("has the label 'B-ORG', which train.txt does not have"),
        "{sentence}"
    );
    assert!(!dir.join("runs").exists());
}
