//! Models whose numbers are NaN: every endpoint answers with status 500 and a sentence.

use crate::support::*;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of a folder with a model whose weights are NaN; it stays until the process ends.
fn poisoned(folder: &Path) -> PathBuf {
    let dir = tempfile::tempdir().unwrap().keep();
    copy(folder, &dir);
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    // Four bytes of ones are a NaN of 32 bits.
    bytes[8 + header..].fill(0xff);
    fs::write(path, bytes).unwrap();
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

#[test]
fn predictions_that_are_no_numbers_are_failures_of_the_server() {
    let server = Server::start(&poisoned(&classifier().join("model")), |_| {});
    for body in [
        json!({ "inputs": "sun" }),
        json!({ "inputs": [["sun"], ["rain"]] }),
        json!({ "inputs": "sun", "raw_scores": true }),
    ] {
        let message = server.post("/predict", &body.to_string()).refusal(500, "inputs");
        assert!(
            message.starts_with("inputs: text 1: the model's answer is NaN"),
            "{message}"
        );
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn vectors_that_are_no_numbers_are_failures_of_the_server() {
    for name in ["mean-normalize", "max-dense"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../saved/tests/fixtures/embeddings");
        let server = Server::start_with(&poisoned(&Path::new(folder).join(name)), 0, true, |_| {});
        let refused = |path: &str, body: serde_json::Value, field: &str| {
            let message = server.post(path, &body.to_string()).refusal(500, field);
            assert!(
                message.starts_with(&format!("{field}: text 1: the model's answer is NaN")),
                "{message}"
            );
        };
        refused("/embed", json!({ "inputs": ["the cat", "a dog"] }), "inputs");
        for encoding in ["float", "base64"] {
            refused(
                "/v1/embeddings",
                json!({ "input": "the cat", "encoding_format": encoding }),
                "input",
            );
        }
    }
}

#[test]
fn texts_without_sound_logits_are_failures_of_the_server() {
    let server = Server::start(&poisoned(&language_model().join("model")), |_| {});
    for body in [
        json!({ "prompt": "abc", "max_tokens": 4 }),
        json!({ "prompt": "abc", "max_tokens": 4, "temperature": 0.8, "n": 2 }),
    ] {
        let message = server.post("/v1/completions", &body.to_string()).refusal(500, "");
        assert!(message.contains("NaN"), "{message}");
    }
}
