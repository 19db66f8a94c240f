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
fn words_are_told_apart_by_bert_and_roberta() {
    tell_words_apart([("model.kind=bert", "Bert"), ("model.kind=roberta", "Roberta")]);
}

#[test]
fn words_are_told_apart_by_distilbert_and_mpnet() {
    tell_words_apart([("model.kind=distilbert", "DistilBert"), ("model.kind=mpnet", "MPNet")]);
}

fn tell_words_apart(families: [(&str, &str); 2]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sentences(dir);
    for (kind, class) in families {
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
        sentence.contains("has the label 'B-ORG', but the 4 classes of train.txt are O, B-LOC, B-PER, I-PER"),
        "{sentence}"
    );
    assert!(!dir.join("runs").exists());
}

#[test]
fn words_of_texts_and_files_get_their_classes_and_entities() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sentences(dir);
    json(dir, &train("model.kind=bert", &["--steps", "60", "--out", "run"]));
    let one = json(dir, &["predict", "run", "--text", " Ann Lee is  in Rome", "--json"]);
    assert_eq!(one["text"], "Ann Lee is in Rome");
    assert_eq!(one["labels"], serde_json::json!(["B-PER", "I-PER", "O", "O", "B-LOC"]));
    let entities = one["entities"].as_array().unwrap();
    let place = |entity: &Value| (entity["kind"].clone(), entity["words"].clone(), entity["text"].clone());
    assert_eq!(
        place(&entities[0]),
        ("PER".into(), serde_json::json!([0, 2]), "Ann Lee".into())
    );
    assert_eq!((&entities[1]["start"], &entities[1]["end"]), (&14.into(), &18.into()));
    let shares: Vec<f64> = one["probabilities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p.as_f64().unwrap())
        .collect();
    assert!(shares.iter().all(|share| (0.2..=1.0).contains(share)), "{shares:?}");
    let mean = entities[0]["probability"].as_f64().unwrap();
    assert!((mean - (shares[0] + shares[1]) / 2.0).abs() < 1e-12);
    // A plain folder answers as the run does.
    let plain = json(dir, &["predict", "run/model", "--text", "Ann Lee is in Rome", "--json"]);
    assert_eq!(plain["labels"], one["labels"]);
    let shown = succeed(dir, &["predict", "run", "--text", "Ann is"]);
    assert!(
        shown.starts_with("Ann  B-PER (") && shown.contains("\nPER: Ann ("),
        "{shown}"
    );

    // Words in lines with classes that are not read, in objects, and texts.
    fs::write(dir.join("a.txt"), "Ann\tX\nis\tO\n\n-DOCSTART- O\n\nRome\tO\n").unwrap();
    fs::write(
        dir.join("a.jsonl"),
        "{\"tokens\": [\"Ann\", \"is\"]}\n{\"text\": \"Rome\"}\n",
    )
    .unwrap();
    fs::write(dir.join("b.txt"), "Ann is\nRome\n").unwrap();
    for input in ["a.txt", "a.jsonl", "b.txt"] {
        succeed(dir, &["predict", "run", "--input", input, "--output", "out.conll"]);
        let found = fs::read_to_string(dir.join("out.conll")).unwrap();
        assert_eq!(found, "Ann\tB-PER\nis\tO\n\nRome\tB-LOC\n\n", "{input}");
    }
    let table = succeed(dir, &["predict", "run", "--input", "a.jsonl", "--probabilities"]);
    let head = "sentence,word,label,probability,probability_O,probability_B-LOC,probability_B-PER,probability_I-PER\n";
    assert!(
        table.starts_with(head) && table.lines().nth(3).unwrap().starts_with("2,Rome,B-LOC,0."),
        "{table}"
    );
    let objects = succeed(dir, &["predict", "run", "--input", "b.txt", "--format", "jsonl"]);
    let second: Value = serde_json::from_str(objects.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (objects.lines().count(), &second["entities"][0]["kind"]),
        (2, &"LOC".into())
    );

    // A text that is longer than an example is asked about in parts.
    let long = "Ann Lee is in Rome ".repeat(9);
    let labels = &json(dir, &["predict", "run", "--text", &long, "--json"])["labels"];
    assert!(labels.as_array().unwrap().len() == 45 && labels.as_array().unwrap().iter().all(Value::is_string));

    for (args, what) in [
        (vec!["--text", " "], "give at least one word"),
        (
            vec!["--text", "a", "--question", "b"],
            "--question is for models that find answers",
        ),
        (
            vec!["--input", "a.txt", "--format", "squad"],
            "--format squad is for answers",
        ),
        (vec!["--input", "none.conll"], "there is no file none.conll"),
    ] {
        let sentence = refuse(dir, &[&["predict", "run"], &args[..]].concat());
        assert!(sentence.contains(what), "{sentence}");
    }
}

#[test]
fn sentences_are_grouped_bounded_and_cached() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sentences(dir);
    let loss = |out: &str, more: &[&str]| -> f64 {
        let args = [&["--steps", "3", "--out", out], more].concat();
        json(dir, &train("model.kind=bert", &args))["dev_loss"]
            .as_f64()
            .unwrap()
    };
    let cached = ["--set", "data.cache=cache", "--set", "data.cache_from=1B"];
    assert_eq!(loss("plain", &[]), loss("cached", &cached));
    assert_eq!(fs::read_dir(dir.join("cache")).unwrap().count(), 2);
    assert_ne!(loss("plain2", &[]), loss("grouped", &["--set", "data.group=true"]));
    let bounded: Vec<&str> = train(
        "model.kind=bert",
        &["--steps", "3", "--out", "bounded", "--set", "train.tokens=64"],
    );
    let at = bounded.iter().position(|arg| *arg == "train.batch=5").unwrap();
    let bounded = [&bounded[..at - 1], &bounded[at + 1..]].concat();
    assert!(json(dir, &bounded)["dev_loss"].as_f64().unwrap() > 0.0);

    // What was cut off is told.
    for entry in fs::read_dir(dir.join("cache")).unwrap() {
        fs::write(entry.unwrap().path().join("tokens"), b"1").unwrap();
    }
    let sentence = refuse(dir, &["eval", "cached"]);
    assert!(sentence.contains("is damaged; remove the folder"), "{sentence}");
}
