//! `lessen eval --length`: the loss at other lengths than in training.

use crate::support::*;
use std::fs;
use std::path::Path;

/// A language model that was trained for a moment at 16 tokens, on a text of 600 characters.
fn language_model(dir: &Path) {
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let start = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "20",
        "--out",
        "run",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 2];
    let more = [
        "--set",
        "data.max_length=16",
        "--set",
        "train.batch=4",
        "--set",
        "train.warmup=2",
    ];
    succeed(dir, &[&start[..], tiny, &more].concat());
}

#[test]
fn the_loss_at_the_length_of_training_is_that_of_the_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    language_model(dir);
    let whole = json(dir, &["eval", "run", "--json"]);
    let found = json(dir, &["eval", "run", "--length", "1x,0.5x,4,16", "--json"]);
    let lengths = found["lengths"].as_array().unwrap();
    let tokens: Vec<u64> = lengths
        .iter()
        .map(|length| length["length"].as_u64().unwrap())
        .collect();
    assert_eq!(tokens, [16, 8, 4, 16]);
    assert_eq!(lengths[0]["dev_loss"], whole["dev_loss"]);
    assert_eq!(lengths[0], lengths[3]);
    assert_eq!((&found["split"], &found["model"]), (&whole["split"], &whole["model"]));
    // The text of 60 held-out characters has 59 to predict, whatever the window.
    let windows: Vec<u64> = lengths
        .iter()
        .map(|length| length["examples"].as_u64().unwrap())
        .collect();
    assert_eq!(windows, [4, 8, 15, 4]);
    let loss = |index: usize| lengths[index]["dev_loss"].as_f64().unwrap();
    assert!(loss(0) != loss(1) && loss(1) != loss(2));
    let text = succeed(dir, &["eval", "run", "--length", "0.5x"]);
    assert!(
        text.contains(&format!(
            "       8     0.5x  loss {:.4}, perplexity {:.3}\n",
            loss(1),
            loss(1).exp()
        )),
        "{text}"
    );
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    language_model(dir);
    let eval = |length: &'static str| ["eval", "run", "--length", length];
    assert_eq!(
        refuse(dir, &eval("2x")),
        "error: --length 2x: run/model has learned positions for 16 tokens only; of models with model.position = none, \
         rope, alibi or fire any length can be asked"
    );
    for length in ["many", "-1x", "0"] {
        let sentence = refuse(dir, &eval(length));
        assert!(
            sentence.starts_with(&format!("error: '{length}' is no length; ")),
            "{sentence}"
        );
    }
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "adder"]));
    assert_eq!(
        refuse(dir, &["eval", "adder", "--length", "2x"]),
        "error: --length is for language models on texts; adder/model is of a run on data.format = adder"
    );
}
