//! `lessen embed`: texts in, vectors out.

use crate::support::*;
use lessen_data::arrays::npy;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn model() -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../saved/tests/fixtures/embeddings/mean-normalize")
        .display()
        .to_string()
}

/// Texts and vectors of JSON lines.
fn rows(printed: &str) -> Vec<(String, Vec<f32>)> {
    let row = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let numbers = value["embedding"]
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_f64().unwrap() as f32);
        (value["text"].as_str().unwrap().to_string(), numbers.collect())
    };
    printed.lines().map(row).collect()
}

#[test]
fn texts_of_flags_lines_columns_and_stdin_have_the_same_vectors() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let model = model();
    fs::write(dir.join("t.txt"), "the cat\na dog\n").unwrap();
    fs::write(dir.join("t.csv"), "id,said\n1,the cat\n2,a dog\n").unwrap();
    fs::write(dir.join("t.jsonl"), "{\"text\":\"the cat\"}\n{\"text\":\"a dog\"}\n").unwrap();
    let expected = rows(&succeed(
        dir,
        &["embed", &model, "--text", "the cat", "--text", "a dog"],
    ));
    assert_eq!(
        expected.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(),
        ["the cat", "a dog"]
    );
    assert!(expected.iter().all(|(_, row)| row.len() == 16));
    for flags in [
        &["--input", "t.txt"][..],
        &["--input", "t.csv", "--column", "said"],
        &["--input", "t.jsonl"],
    ] {
        assert_eq!(
            rows(&succeed(dir, &[&["embed", &model], flags].concat())),
            expected,
            "{flags:?}"
        );
    }
    let printed = succeed(dir, &["embed", &model, "--input", "t.txt", "--output", "out.npy"]);
    assert_eq!(printed, "");
    let array = npy::read(&dir.join("out.npy")).unwrap();
    assert_eq!(array.shape(), [2, 16]);
    let bytes: Vec<u8> = expected
        .iter()
        .flat_map(|(_, row)| row.iter().flat_map(|x| x.to_le_bytes()))
        .collect();
    assert_eq!(array.bytes(), bytes);
    succeed(dir, &["embed", &model, "--input", "t.txt", "--output", "out.jsonl"]);
    assert_eq!(rows(&fs::read_to_string(dir.join("out.jsonl")).unwrap()), expected);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 5, "nothing else is written");

    let with = |flags: &[&str]| {
        rows(&succeed(
            dir,
            &[&["embed", &model, "--text", "the cat"], flags].concat(),
        ))
    };
    assert_eq!(with(&["--prompt-name", "query"]), with(&["--prompt", "query: "]));
    assert_ne!(with(&["--prompt-name", "query"]), with(&[]));
    assert_eq!(with(&["--pooling", "cls+max"])[0].1.len(), 32);
    assert_ne!(with(&["--normalize", "false"]), with(&[]));
    let long = lessen(dir, &["embed", &model, "--text", &"cat ".repeat(20), "--text", "a"]);
    let warning = stderr(&long);
    assert!(
        warning.contains("warning: 1 of 2 texts (50.0 %) were cut at 12 tokens"),
        "{warning}"
    );
}

#[test]
fn mistakes_of_embed_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let model = model();
    fs::write(dir.join("pairs.csv"), "sentence1,sentence2\na,b\n").unwrap();
    fs::write(dir.join("t.txt"), "a\n").unwrap();
    for (flags, expected) in [
        (
            &["--text", "a", "--output", "x.parquet"][..],
            "x.parquet: vectors are written to .jsonl or .npy",
        ),
        (&["--text", "a", "--prompt-name", "title"], "no prompt `title`"),
        (&["--text", "a", "--pooling", "median"], "no pooling `median`"),
        (&["--text", "a", "--max-length", "99"], "--max-length 99"),
        (&["--input", "pairs.csv"], "name one column with --column"),
        (&["--input", "pairs.csv", "--column", "none"], "none"),
        (&["--input", "t.txt", "--column", "a"], "leave it out"),
        (&["--input", "missing.txt"], "there is no file missing.txt"),
        (&["--text", "a", "--output", "nowhere/x.npy"], "nowhere/x.npy"),
        (&["--text", "a", "--best"], "leave out --best"),
    ] {
        let sentence = refuse(dir, &[&["embed", &model], flags].concat());
        assert!(sentence.contains(expected), "{flags:?}: {sentence}");
    }
}
