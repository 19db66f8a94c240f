//! `/predict`, and what a server says of itself.

use crate::support::*;
use lessen_saved::saved_run::{AdapterOptions, Prediction, SavedRun};
use lessen_task::folder::WhichModel;
use serde_json::{Value, json};
use std::thread;

/// Texts of all lengths, with a seed of their own.
fn texts(count: usize) -> Vec<String> {
    let words = ["day", "sun", "rain", "1", "22", "333", "ü", "!"];
    (0..count)
        .map(|i| {
            (0..1 + i * 7 % 5)
                .map(|j| words[(i * 3 + j * 5) % 8])
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// The answer of the library as the endpoint gives it.
fn expected(run: &SavedRun, text: &str) -> Value {
    let Prediction::Class(_, shares) = run.predict(text).unwrap() else {
        panic!("no class")
    };
    let mut all: Vec<(f64, &String)> = shares.into_iter().zip(run.labels()).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.iter()
        .map(|(score, label)| json!({ "score": score, "label": label }))
        .collect()
}

#[test]
fn many_clients_get_the_answers_of_predict_to_the_bit() {
    let server = Server::start(classifier(), |limits| limits.tokens = 64);
    let run = SavedRun::open(classifier(), WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let texts = texts(48);
    thread::scope(|scope| {
        let (server, texts) = (&server, &texts);
        let ask = |client: usize| {
            let own: Vec<Vec<&String>> = texts.iter().skip(client * 6).take(6).map(|text| vec![text]).collect();
            let body = json!({ "inputs": own, "truncate": true }).to_string();
            server.post("/predict", &body).ok()
        };
        let clients: Vec<_> = (0..8).map(|client| scope.spawn(move || ask(client))).collect();
        let answers = clients.into_iter().flat_map(|client| match client.join().unwrap() {
            Value::Array(answers) => answers,
            other => panic!("{other}"),
        });
        for (text, answer) in texts.iter().zip(answers) {
            let (text, _) = text.split_at(text.char_indices().nth(12).map_or(text.len(), |(end, _)| end));
            assert_eq!(answer, expected(&run, text), "{text}");
        }
    });
}

#[test]
fn inputs_have_the_shapes_of_text_embeddings_inference() {
    let server = Server::start(classifier(), |_| {});
    let ask = |body: Value| server.post("/predict", &body.to_string()).ok();
    let one = ask(json!({ "inputs": "sun" }));
    let labels: Vec<&str> = one
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["label"].as_str().unwrap())
        .collect();
    assert!(labels == ["fair", "foul"] || labels == ["foul", "fair"], "{one}");
    assert!(one[0]["score"].as_f64() >= one[1]["score"].as_f64());
    // Two strings are a pair; lists of lists are several texts.
    assert_eq!(ask(json!({ "inputs": ["sun"] })), one);
    let pair = ask(json!({ "inputs": ["sun", "rain"] }));
    assert!(pair[0]["score"].is_f64() && pair != one, "{pair}");
    assert_eq!(ask(json!({ "inputs": [["sun"], ["sun", "rain"]] })), json!([one, pair]));
    let raw = ask(json!({ "inputs": "sun", "raw_scores": true, "truncation_direction": "Right" }));
    let logits: Vec<f64> = raw
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["score"].as_f64().unwrap())
        .collect();
    let share = 1.0 / (1.0 + (logits[1] - logits[0]).exp());
    assert!((share - one[0]["score"].as_f64().unwrap()).abs() < 1e-6);
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let server = Server::start(classifier(), |limits| limits.texts = 3);
    let refused = |body: &str, status: u16, param: &str, says: &str| {
        let message = server.post("/predict", body).refusal(status, param);
        assert!(message.contains(says), "{message}");
    };
    for (body, status, param, says) in [
        (r#"{"inputs":"sun","inptus":"x"}"#, 400, "inptus", "unknown field"),
        (r#"{"truncate":true}"#, 400, "inputs", "missing field"),
        (r#"{"inputs":"a","inputs":"b"}"#, 400, "inputs", "duplicate"),
        (r#"{"inputs":7}"#, 400, "inputs", "a string"),
        (r#"{"inputs":["a","b","c"]}"#, 400, "inputs", "a pair"),
        (r#"{"inputs":["a",["b"]]}"#, 400, "inputs", "a pair"),
        (r#"{"inputs":[["a"],[]]}"#, 400, "inputs", "one or two"),
        (r#"{"inputs":[["a"],[3]]}"#, 400, "inputs[1][0]", "string"),
        (r#"{"inputs":[]}"#, 400, "inputs", "empty"),
        (r#"{"inputs":" "}"#, 400, "inputs", "text 1 is empty"),
        (r#"{"inputs":[["a"],["b"],["c"],["d"]]}"#, 413, "inputs", "--max-texts"),
        (r#"{"inputs":"a much longer text"}"#, 413, "inputs", "18 tokens"),
        (r#"{"inputs":"a","truncate":"yes"}"#, 400, "truncate", "boolean"),
        (
            r#"{"inputs":"a","truncation_direction":"Left"}"#,
            400,
            "truncation_direction",
            "end",
        ),
        (r#"{"inputs":"a""#, 400, "", "no JSON"),
        (r#"{"inputs":"a"} {}"#, 400, "", "more than one"),
        ("", 400, "", "no JSON"),
        ("\u{1}", 400, "", "no JSON"),
        (r#"["sun"]"#, 400, "", "no JSON object"),
        (r#""sun""#, 400, "", "no JSON object"),
        (r#"{"inputs":"\ud800"}"#, 400, "", "no JSON"),
        ("[[[[[[[[", 400, "", "no JSON object"),
    ] {
        refused(body, status, param, says);
    }
    let deep = format!(
        r#"{{"inputs":"a","truncation_direction":{}1{}}}"#,
        "[".repeat(9000),
        "]".repeat(9000)
    );
    assert_eq!(server.post("/predict", &deep).status, 400);
    let broken = [
        &b"POST /predict HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{\"inputs\":\"\xff\"}"
            [..],
    ];
    assert_eq!(server.send(broken[0]).status, 400);
    assert_eq!(server.post("/v1/completions", r#"{"prompt":"a"}"#).status, 400);
    assert_eq!(server.get("/predict").status, 405);
    assert!(server.get("/predict").head.contains("allow: post"));
    assert!(server.get("/nothing").refusal(404, "").contains("/predict"));
    let plain = "POST /predict HTTP/1.0\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    assert!(
        server
            .send(plain.as_bytes())
            .refusal(415, "")
            .contains("application/json")
    );
    let zipped = "POST /predict HTTP/1.0\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}";
    assert!(server.send(zipped.as_bytes()).refusal(415, "").contains("gzip"));
    // It still answers.
    server.post("/predict", r#"{"inputs":"sun"}"#).ok();
}

#[test]
fn a_server_says_what_it_serves_and_counts() {
    let server = Server::start(classifier(), |_| {});
    let models = server.get("/v1/models").ok();
    assert_eq!(
        (&models["object"], &models["data"][0]["id"]),
        (&json!("list"), &json!("tiny"))
    );
    assert_eq!(server.get("/v1/models/tiny").ok()["object"], "model");
    server.get("/v1/models/other").refusal(404, "model");
    assert_eq!(server.get("/health").ok()["status"], "ok");
    server.post("/predict", r#"{"inputs":"sun"}"#).ok();
    server.post("/predict", r#"{"inputs":1}"#).refusal(400, "inputs");
    let counters = server.get("/metrics");
    for line in [
        "lessen_requests_total{endpoint=\"/predict\",status=\"200\"} 1",
        "lessen_requests_total{endpoint=\"/predict\",status=\"400\"} 1",
        "lessen_waiting_requests 0",
        "# EOF",
    ] {
        assert!(counters.body.contains(line), "{line} in {}", counters.body);
    }
}
