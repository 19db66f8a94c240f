//! Masked language models: training, resuming, and what is made of them.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Arguments of a masked language model that trains in a moment on `text.txt`.
fn train<'a>(kind: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let tiny = [
        "train",
        "bert-mlm",
        "--data",
        "text.txt",
        "--set",
        kind,
        "--set",
        "model.layers=1",
        "--set",
        "model.width=16",
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=32",
        "--set",
        "data.max_length=16",
        "--set",
        "train.batch=4",
        "--set",
        "train.lr=0.01",
        "--set",
        "train.warmup=0",
    ];
    [&tiny[..], more].concat()
}

fn write_text(dir: &Path) {
    let lines = (0..40).map(|i| format!("day {i} {}\n", if i % 2 == 0 { "sun" } else { "rain" }));
    fs::write(dir.join("text.txt"), lines.collect::<String>()).unwrap();
}

#[test]
fn a_pretrained_bert_or_roberta_becomes_a_classifier() {
    become_classifiers([
        ("model.kind=bert", "Bert", "bert.embeddings.word_embeddings.weight"),
        ("model.kind=roberta", "Roberta", "roberta.embeddings"),
    ]);
}

#[test]
fn a_pretrained_distilbert_or_mpnet_becomes_a_classifier() {
    become_classifiers([
        ("model.kind=distilbert", "DistilBert", "distilbert.embeddings"),
        ("model.kind=mpnet", "MPNet", "mpnet.embeddings"),
    ]);
}

/// Word, class and first parameters of families whose masked language models become classifiers.
fn become_classifiers(families: [(&str, &str, &str); 2]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_text(dir);
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    for (kind, class, first) in families {
        let lines = ["--set", "data.lines=true", "--steps", "3", "--out", "first", "--json"];
        let report = json(dir, &train(kind, &lines));
        let loss = report["dev_loss"].as_f64().unwrap();
        assert!(loss > 0.0 && report["dev_accuracy"].is_null(), "{report}");
        let evaluated = json(dir, &["eval", "first", "--json"]);
        assert_eq!(
            evaluated["dev_loss"], report["dev_loss"],
            "evaluations mask the same tokens"
        );
        let config = fs::read_to_string(dir.join("first/model/config.json")).unwrap();
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["architectures"][0], format!("{class}ForMaskedLM"));

        let init = ["--init", "first/model", "--out", "second"];
        let output = lessen(dir, &train_on(&recipe, &data, &init));
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains(&format!("{class}ForSequenceClassification")), "{said}");
        assert!(
            said.contains("starting with new ones") && !said.contains(first),
            "{said}"
        );
        let config = fs::read_to_string(dir.join("second/model/config.json")).unwrap();
        assert!(
            config.contains(&format!("\"{class}ForSequenceClassification\"")),
            "{config}"
        );
        succeed(dir, &["predict", "second", "--text", "day 7 rain"]);

        // Training goes on from the checkpoint, too.
        let on = [
            "--init",
            "first/model",
            "--set",
            "train.lr=0",
            "--steps",
            "1",
            "--out",
            "third",
            "--json",
        ];
        let on: Vec<&str> = ["train", "bert-mlm", "--data", "text.txt"]
            .iter()
            .chain(&on)
            .copied()
            .collect();
        let same = [
            "--set",
            "data.lines=true",
            "--set",
            "train.batch=4",
            "--set",
            "data.max_length=16",
        ];
        assert_eq!(json(dir, &[&on[..], &same].concat())["dev_loss"], report["dev_loss"]);
        for run in ["first", "second", "third"] {
            fs::remove_dir_all(dir.join(run)).unwrap();
        }
    }
}

#[test]
fn a_resumed_run_masks_what_the_whole_run_masks() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_text(dir);
    let every = ["--set", "train.checkpoint_every=2", "--steps", "6"];
    succeed(
        dir,
        &train("model.kind=bert", &[&every[..], &["--out", "whole"]].concat()),
    );
    succeed(
        dir,
        &train("model.kind=bert", &[&every[..], &["--out", "cut"]].concat()),
    );
    for entry in fs::read_dir(dir.join("cut/checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_str().unwrap().ends_with('2') {
            fs::remove_dir_all(path).unwrap();
        }
    }
    fs::remove_dir_all(dir.join("cut/model")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "cut"]);
    let weights = |run: &str| fs::read(dir.join(run).join("model/model.safetensors")).unwrap();
    assert!(weights("whole") == weights("cut"));
}

#[test]
fn what_a_masked_language_model_cannot_do_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_text(dir);
    succeed(dir, &train("model.kind=bert", &["--steps", "1", "--out", "run"]));
    let sentence = refuse(dir, &["predict", "run", "--text", "a"]);
    assert!(
        sentence.contains("start a classifier from it with --init"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["generate", "run", "--prompt", "a"]);
    assert!(sentence.contains("which continues no texts"), "{sentence}");

    let sentence = refuse(dir, &train("model.kind=gpt2", &[]));
    assert!(
        sentence.ends_with(
            "model.kind = gpt2 cannot learn data.format = masked; choose bert or roberta or distilbert or mpnet"
        ),
        "{sentence}"
    );
    for (share, what) in [
        ("0", "leaves nothing to predict"),
        ("1", "leaves nothing to predict from"),
    ] {
        let share = format!("data.mask={share}");
        let sentence = refuse(dir, &train("model.kind=bert", &["--set", &share]));
        assert!(
            sentence.contains(&format!("{what}; choose a number between 0 and 1")),
            "{sentence}"
        );
    }
    // A vocabulary of characters for classifiers has no mask.
    checkpoint(dir, "bert");
    let tokenizer = ["--set", "data.tokenizer=first/model"];
    let sentence = refuse(dir, &train("model.kind=bert", &tokenizer));
    assert!(sentence.contains("the tokenizer has no mask token"), "{sentence}");
}
