//! Optional fields of requests that are `null` are as those that are left out.

use crate::support::*;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Checks that a request with each of the fields as `null`, and with all of them, is answered as without them.
#[track_caller]
fn check(server: &Server, path: &str, plain: &Value, fields: &[&str], part: &str) {
    let ask = |body: &Value| server.post(path, &body.to_string()).ok()[part].clone();
    let wanted = ask(plain);
    let mut all = plain.clone();
    for field in fields {
        let mut body = plain.clone();
        body[field] = Value::Null;
        all[field] = Value::Null;
        assert_eq!(ask(&body), wanted, "{field}");
    }
    assert_eq!(ask(&all), wanted);
}

/// The optional fields of both endpoints of continued texts.
const FIELDS: [&str; 24] = [
    "model",
    "max_tokens",
    "top_p",
    "top_k",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "n",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "logprobs",
    "logit_bias",
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "tools",
    "response_format",
    "parallel_tool_calls",
];

#[test]
fn of_completions() {
    let server = Server::start(language_model(), |_| {});
    let plain = json!({ "prompt": "ab", "temperature": 0 });
    check(&server, "/v1/completions", &plain, &FIELDS, "choices");
    check(
        &server,
        "/v1/completions",
        &plain,
        &["echo", "best_of", "suffix", "messages"],
        "choices",
    );
    for (field, value) in [
        ("logprobs", json!(0)),
        ("top_logprobs", json!(0)),
        ("logprobs", json!(false)),
        ("verbosity", json!("medium")),
    ] {
        let mut body = plain.clone();
        body[field] = value;
        let choice = server.post("/v1/completions", &body.to_string()).ok()["choices"][0].clone();
        assert_eq!(choice["logprobs"], Value::Null, "{field}");
    }
    for options in [
        json!({}),
        json!({ "include_usage": null }),
        json!({ "include_obfuscation": null }),
    ] {
        let body = json!({ "prompt": "ab", "temperature": 0, "stream": true, "stream_options": options });
        let events = server.post("/v1/completions", &body.to_string()).events();
        assert!(events.iter().all(|event| event.get("usage").is_none()), "{events:?}");
    }
}

#[test]
fn of_chats_and_of_their_messages() {
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let model = language_model_with(&[("chat_template.jinja", template)]);
    let server = Server::start(&model, |_| {});
    let path = "/v1/chat/completions";
    let plain = json!({ "messages": [{ "role": "user", "content": "ab" }], "temperature": 0 });
    check(&server, path, &plain, &FIELDS, "choices");
    let fields = [
        "prompt",
        "max_completion_tokens",
        "top_logprobs",
        "tool_choice",
        "functions",
        "function_call",
        "modalities",
        "audio",
        "web_search_options",
        "reasoning_effort",
        "verbosity",
        "prediction",
    ];
    check(&server, path, &plain, &fields, "choices");
    // A message as OpenAI's own answers have it.
    let said = json!({
        "role": "assistant", "content": "c", "refusal": null, "annotations": [], "audio": null, "function_call": null,
        "tool_calls": null, "tool_call_id": null, "name": null,
    });
    let mut silent = said.clone();
    silent["content"] = Value::Null;
    for (message, content) in [(said, "c"), (silent, "")] {
        let ask = |message: &Value| {
            let messages = json!([{ "role": "user", "content": "ab" }, message]);
            let body = json!({ "messages": messages, "temperature": 0, "max_tokens": 5 });
            server.post(path, &body.to_string()).ok()["choices"].clone()
        };
        assert_eq!(ask(&message), ask(&json!({ "role": "assistant", "content": content })));
    }
    let silent = json!({ "messages": [{ "role": "user", "content": null }] });
    server.post(path, &silent.to_string()).refusal(400, "messages.content");
}

#[test]
fn of_embeddings_and_predictions() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../saved/tests/fixtures/embeddings");
    let server = Server::start_with(&PathBuf::from(fixtures).join("cls"), 0, true, |_| {});
    let plain = json!({ "input": "the cat" });
    let fields = ["model", "encoding_format", "dimensions", "user"];
    check(&server, "/v1/embeddings", &plain, &fields, "data");
    let ask = |server: &Server, path: &str, body: Value| server.post(path, &body.to_string()).ok();
    let wanted = ask(&server, "/embed", json!({ "inputs": "the cat" }));
    for field in [
        "truncate",
        "truncation_direction",
        "normalize",
        "prompt_name",
        "dimensions",
    ] {
        assert_eq!(
            ask(&server, "/embed", json!({ "inputs": "the cat", field: null })),
            wanted,
            "{field}"
        );
    }
    let server = Server::start(classifier(), |_| {});
    let wanted = ask(&server, "/predict", json!({ "inputs": "sun" }));
    for field in ["truncate", "truncation_direction", "raw_scores"] {
        assert_eq!(
            ask(&server, "/predict", json!({ "inputs": "sun", field: null })),
            wanted,
            "{field}"
        );
    }
}
