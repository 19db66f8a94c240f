//! `/embed` and `/v1/embeddings`.

use crate::support::*;
use lessen_saved::embedding::{EmbedOptions, Embedder, Prompt};
use lessen_serve::Limits;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread;

fn folder(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../saved/tests/fixtures/embeddings");
    PathBuf::from(fixtures).join(name)
}

fn start(name: &str, change: impl FnOnce(&mut Limits)) -> Server {
    Server::start_with(&folder(name), 0, true, change)
}

/// The vectors of the library.
fn expected(name: &str, texts: &[&str], normalize: Option<bool>) -> Vec<Vec<f32>> {
    let embedder = Embedder::open(&folder(name), &EmbedOptions::default(), &cpu()).unwrap();
    let normalize = normalize.unwrap_or(embedder.normalizes());
    embedder.embed_with(texts, Prompt::Default, normalize).unwrap().rows
}

/// A vector of an answer.
fn row(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap() as f32).collect()
}

/// A list of vectors.
fn rows(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(row).collect()
}

const TEXTS: [&str; 4] = ["the cat sat on the mat", "A dog!", "the the the", "it was a long day"];

#[test]
fn vectors_are_those_of_embed_for_every_pooling_and_encoding() {
    for name in ["mean-normalize", "cls", "last", "max-dense"] {
        let server = start(name, |limits| limits.tokens = 64);
        let ask = |path: &str, body: Value| server.post(path, &body.to_string()).ok();
        let normalized = expected(name, &TEXTS, Some(true));
        assert_eq!(rows(&ask("/embed", json!({ "inputs": TEXTS }))), normalized, "{name}");
        // One text is a list of one vector.
        assert_eq!(
            rows(&ask("/embed", json!({ "inputs": TEXTS[0] }))),
            normalized[..1],
            "{name}"
        );
        let plain = ask("/embed", json!({ "inputs": TEXTS, "normalize": false }));
        assert_eq!(rows(&plain), expected(name, &TEXTS, Some(false)), "{name}");
        let own = expected(name, &TEXTS, None);
        let whole = ask(
            "/v1/embeddings",
            json!({ "input": TEXTS, "model": "tiny", "user": "me" }),
        );
        assert_eq!((&whole["object"], &whole["model"]), (&json!("list"), &json!("tiny")));
        assert!(whole["usage"]["prompt_tokens"].as_u64() > Some(8));
        let coded = ask("/v1/embeddings", json!({ "input": TEXTS, "encoding_format": "base64" }));
        for (number, own) in own.iter().enumerate() {
            let found = &whole["data"][number];
            assert_eq!(
                (&found["index"], &found["object"]),
                (&json!(number), &json!("embedding"))
            );
            assert_eq!(&row(&found["embedding"]), own, "{name}");
            let bytes = base64::decode(coded["data"][number]["embedding"].as_str().unwrap()).unwrap();
            let numbers: Vec<f32> = bytes
                .chunks(4)
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect();
            assert_eq!(&numbers, own, "{name}");
        }
    }
}

#[test]
fn many_clients_get_the_vectors_of_their_own_texts() {
    let server = start("mean-normalize", |limits| limits.tokens = 64);
    let texts: Vec<String> = (0..60)
        .map(|i| format!("{} {}", TEXTS[i % 4], "cat ".repeat(i % 7)))
        .collect();
    let wanted = expected(
        "mean-normalize",
        &texts.iter().map(String::as_str).collect::<Vec<_>>(),
        Some(true),
    );
    thread::scope(|scope| {
        let (server, texts, wanted) = (&server, &texts, &wanted);
        for client in 0..12 {
            scope.spawn(move || {
                for number in (client..60).step_by(12) {
                    let found = server
                        .post(
                            "/embed",
                            &json!({ "inputs": texts[number], "truncate": true }).to_string(),
                        )
                        .ok();
                    assert_eq!(row(&found[0]), wanted[number], "{}", texts[number]);
                }
            });
        }
    });
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let server = start("cls", |limits| limits.texts = 3);
    let long = "the cat ".repeat(300);
    for (path, body, status, param, says) in [
        ("/embed", json!({ "inputs": [] }), 400, "inputs", "empty"),
        (
            "/embed",
            json!({ "inputs": ["a", ""] }),
            400,
            "inputs",
            "text 2 is empty",
        ),
        ("/embed", json!({ "inputs": [["a"]] }), 400, "inputs[0]", "string"),
        (
            "/embed",
            json!({ "inputs": ["a", "b", "c", "d"] }),
            413,
            "inputs",
            "--max-texts",
        ),
        ("/embed", json!({ "inputs": long }), 413, "inputs", "tokens"),
        (
            "/embed",
            json!({ "inputs": "a", "prompt_name": "query" }),
            400,
            "prompt_name",
            "default prompt",
        ),
        (
            "/embed",
            json!({ "inputs": "a", "dimensions": 3 }),
            400,
            "dimensions",
            "3 cannot be",
        ),
        (
            "/embed",
            json!({ "inputs": "a", "truncation_direction": "Left" }),
            400,
            "truncation_direction",
            "end",
        ),
        ("/embed", json!({ "input": "a" }), 400, "input", "unknown field"),
        ("/v1/embeddings", json!({ "input": [1, 2] }), 400, "input", "token ids"),
        (
            "/v1/embeddings",
            json!({ "input": "a", "model": "other" }),
            404,
            "model",
            "'tiny'",
        ),
        (
            "/v1/embeddings",
            json!({ "input": "a", "encoding_format": "int8" }),
            400,
            "encoding_format",
            "base64",
        ),
        ("/v1/embeddings", json!({ "input": long }), 413, "input", "tokens"),
        ("/v1/embeddings", json!({ "model": "tiny" }), 400, "input", "missing"),
        ("/predict", json!({ "inputs": "a" }), 400, "", "embeds texts"),
    ] {
        let message = server.post(path, &body.to_string()).refusal(status, param);
        assert!(message.contains(says), "{message}");
    }
    let refusal = server.post("/v1/embeddings", &json!({ "input": long }).to_string());
    assert!(
        !refusal.body.contains("truncate"),
        "a field that the endpoint does not have: {refusal:?}"
    );
    let cut = json!({ "inputs": long, "truncate": true }).to_string();
    assert!(server.post("/embed", &cut).ok()[0][0].is_f64());
}
