//! `/v1/chat/completions`.

use crate::support::*;
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::folder::WhichModel;
use lessen_train::Sampling;
use serde_json::{Value, json};
use std::path::PathBuf;

const PATH: &str = "/v1/chat/completions";

/// The model of the tests with a template whose prompts are letters that it knows.
fn chat_model() -> PathBuf {
    let template = "{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system') }}\
                    {% endif %}{{ message.content }}{% endfor %}{% if add_generation_prompt %}ab{% endif %}";
    language_model_with(&[("chat_template.jinja", template)])
}

fn messages(texts: &[&str]) -> Value {
    texts
        .iter()
        .map(|text| json!({ "role": "user", "content": text }))
        .collect()
}

#[test]
fn answers_continue_the_prompt_of_the_template() {
    let model = chat_model();
    let server = Server::start(&model, |_| {});
    let run = SavedRun::open(&model, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let how = Continuation::new(Sampling::greedy(9));
    let wanted = run.generate(&["cabab".to_string()], &how, &mut |_, _| Ok(())).unwrap();
    let ask = |more: Value| {
        let mut body = json!({ "messages": messages(&["c", "ab"]), "temperature": 0, "max_completion_tokens": 9 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(PATH, &body.to_string())
    };
    let whole = ask(json!({ "model": "tiny", "store": false })).ok();
    let choice = &whole["choices"][0];
    assert_eq!(
        (&whole["object"], &choice["finish_reason"]),
        (&json!("chat.completion"), &json!("length"))
    );
    assert_eq!(
        (&choice["message"]["role"], &choice["message"]["content"]),
        (&json!("assistant"), &json!(wanted[0]))
    );
    assert_eq!(
        whole["usage"],
        json!({ "prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14 })
    );
    let parts = json!([{ "type": "text", "text": "c" }]);
    let same = ask(json!({ "messages": [{ "role": "user", "content": parts }, { "role": "user", "content": "ab" }] }));
    assert_eq!(same.ok()["choices"], whole["choices"]);
    let events = ask(json!({ "stream": true, "stream_options": { "include_usage": true } })).events();
    assert_eq!(
        events[0]["choices"][0]["delta"],
        json!({ "role": "assistant", "content": "" })
    );
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk"));
    let said = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(said.collect::<String>(), wanted[0]);
    assert_eq!(events.last().unwrap()["usage"], whole["usage"]);
    // Where nothing is said, the answer may fill the context.
    let full = ask(json!({ "max_completion_tokens": null })).ok();
    assert_eq!(full["usage"]["total_tokens"], 64);
}

#[test]
fn messages_that_are_wrong_are_named() {
    let server = Server::start(&chat_model(), |_| {});
    let refused = |body: Value, param: &str, says: &str| {
        let message = server.post(PATH, &body.to_string()).refusal(400, param);
        assert!(message.contains(says), "{message}");
    };
    refused(json!({}), "messages", "missing");
    refused(json!({ "messages": [] }), "messages", "no messages");
    refused(json!({ "messages": "hello" }), "messages", "a list");
    refused(
        json!({ "messages": messages(&["a"]), "prompt": "b" }),
        "prompt",
        "/v1/completions",
    );
    refused(
        json!({ "messages": [{ "role": "system", "content": "a" }] }),
        "messages",
        "no system",
    );
    refused(
        json!({ "messages": [{ "content": "a" }] }),
        "messages[0].role",
        "missing",
    );
    refused(
        json!({ "messages": [{ "role": "user" }] }),
        "messages[0].content",
        "missing",
    );
    refused(
        json!({ "messages": [{ "role": "user", "content": 1 }] }),
        "messages[0].content",
        "string",
    );
    let image = json!([{ "role": "user", "content": [{ "type": "image_url", "text": "x" }] }]);
    refused(json!({ "messages": image }), "messages[0].content", "image_url");
    let named = json!([{ "role": "user", "content": "a", "name": "me" }]);
    refused(json!({ "messages": named }), "messages.name", "not read");
    refused(
        json!({ "messages": messages(&["a"]), "tools": [{ "type": "function" }] }),
        "tools",
        "not built",
    );
    refused(
        json!({ "messages": messages(&["a"]), "max_tokens": 3, "max_completion_tokens": 4 }),
        "max_tokens",
        "one",
    );
    refused(json!({ "messages": messages(&[&"a".repeat(70)]) }), "messages", "64");
    let plain = Server::start(language_model(), |_| {});
    let message = plain
        .post(PATH, &json!({ "messages": messages(&["a"]) }).to_string())
        .refusal(400, "");
    assert!(message.contains("no chat template"), "{message}");
    plain
        .post("/v1/completions", r#"{"prompt":"a","messages":[]}"#)
        .refusal(400, "messages");
}

#[test]
fn a_template_without_bounds_is_an_answer_of_status_500_and_the_server_goes_on() {
    let unary = format!("{{{{ {}1 }}}}", "-".repeat(100_000));
    let doubled =
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    for template in [
        &unary,
        doubled,
        "{{ '{:>99999999999999}'.format(1) }}",
        "{% set a = namespace() %}{% set a.a = a %}{{ a }}",
    ] {
        let server = Server::start(&language_model_with(&[("chat_template.jinja", template)]), |_| {});
        let ask = || server.post(PATH, &json!({ "messages": messages(&["a"]) }).to_string());
        let message = ask().refusal(500, "");
        assert!(message.contains("the chat template default of"), "{message}");
        ask().refusal(500, "");
        server.post("/v1/completions", r#"{"prompt":"a","max_tokens":1}"#).ok();
    }
}
