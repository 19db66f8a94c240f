//! `generation_config.json` of served models: what requests do not say is as it says.

use crate::support::*;
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_serve::leaves_out_beams;
use lessen_task::folder::WhichModel;
use lessen_train::{Beams, Sampling};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::thread;

fn model(config: &Value) -> PathBuf {
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    language_model_with(&[
        ("generation_config.json", &config.to_string()),
        ("chat_template.jinja", template),
    ])
}

/// The answer to a request for continuations of a prompt.
fn ask(server: &Server, prompt: &str, more: &Value) -> Answer {
    let mut body = json!({ "prompt": prompt });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/v1/completions", &body.to_string())
}

fn texts(answer: &Answer) -> Vec<String> {
    let choices = answer.ok()["choices"].as_array().unwrap().clone();
    let text = |choice: &Value| choice["text"].as_str().unwrap().to_string();
    choices.iter().map(text).collect()
}

/// What the library adds to a prompt.
fn generated(model: &Path, prompt: &str, sampling: Sampling, samples: usize) -> Vec<String> {
    let run = SavedRun::open(model, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let how = Continuation {
        samples,
        ..Continuation::new(sampling)
    };
    run.generate(&[prompt.to_string()], &how, &mut |_, _| Ok(())).unwrap()
}

#[test]
fn lengths_and_stop_strings_are_those_of_the_file_unless_a_request_says_others() {
    let greedy = generated(language_model(), "ab", Sampling::greedy(20), 1).remove(0);
    let stop = &greedy[3..5];
    let before = &greedy[..greedy.find(stop).unwrap()];
    let config = json!({ "do_sample": false, "max_new_tokens": 7, "stop_strings": [stop, "zz"] });
    let model = model(&config);
    let server = Server::start(&model, |_| {});
    let stopped = ask(&server, "ab", &json!({}));
    assert_eq!(texts(&stopped), [before], "a stop string is no part of the text");
    assert_eq!(stopped.ok()["choices"][0]["finish_reason"], "stop");
    let whole = ask(&server, "ab", &json!({ "stop": [] }));
    assert_eq!(texts(&whole), [&greedy[..7]]);
    assert_eq!(whole.ok()["choices"][0]["finish_reason"], "length");
    assert_eq!(
        texts(&ask(&server, "ab", &json!({ "stop": [], "max_tokens": 3 }))),
        [&greedy[..3]]
    );
    assert_eq!(
        texts(&ask(&server, "ab", &json!({ "stop": "zz", "max_tokens": 12 }))),
        [&greedy[..12]]
    );
    let chat = json!({ "messages": [{ "role": "user", "content": "ab" }], "stop": [] }).to_string();
    let chat = server.post("/v1/chat/completions", &chat).ok();
    assert_eq!(chat["choices"][0]["message"]["content"], greedy[..7]);
    // A string that begins in the prompt is none of the added text.
    assert_eq!(
        texts(&ask(&server, "ab", &json!({ "stop": format!("b{}", &greedy[..1]) })))[0].len(),
        7
    );
}

#[test]
fn a_length_with_the_prompt_leaves_less_for_longer_prompts_and_none_for_the_longest() {
    let model = model(&json!({ "do_sample": false, "max_length": 9 }));
    let server = Server::start(&model, |limits| limits.context = Some(16));
    let added = |prompt: &str| texts(&ask(&server, prompt, &json!({})))[0].len();
    assert_eq!((added("ab"), added("abcabc")), (7, 3));
    let message = ask(&server, "abcabcabc", &json!({})).refusal(400, "prompt");
    assert!(
        message.contains("max_length of the model's generation_config.json"),
        "{message}"
    );
    assert_eq!(
        texts(&ask(&server, "abcabcabc", &json!({ "max_tokens": 4 })))[0].len(),
        4
    );
    // The file's number is a wish, which the context bounds.
    let long = self::model(&json!({ "do_sample": false, "max_new_tokens": 100 }));
    let server = Server::start(&long, |limits| limits.context = Some(16));
    assert_eq!(texts(&ask(&server, "ab", &json!({})))[0].len(), 14);
}

#[test]
fn a_special_token_can_be_a_stop_string() {
    // Each text begins with the token of padding, which no decoded text shows.
    let config =
        json!({ "do_sample": false, "forced_eos_token_id": 0, "max_new_tokens": 4, "stop_strings": ["[PAD]"] });
    let model = model(&config);
    let server = Server::start(&model, |_| {});
    let stopped = ask(&server, "ab", &json!({})).ok();
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(stopped["choices"][0]["text"].as_str().unwrap().len(), 3);
}

#[test]
fn beams_of_the_file_find_what_generate_finds_beside_draws_and_streams() {
    let config = json!({ "num_beams": 3, "max_new_tokens": 9, "length_penalty": 0.5 });
    let model = model(&config);
    let server = Server::start(&model, |limits| limits.sequences = 5);
    let searched = Sampling {
        beams: Some(Beams {
            length_penalty: 0.5,
            ..Beams::new(3)
        }),
        ..Sampling::greedy(9)
    };
    let drawn = |seed| Sampling {
        tokens: 9,
        temperature: 2.0,
        seed,
        ..Sampling::default()
    };
    thread::scope(|scope| {
        let (server, model, searched) = (&server, model.as_path(), &searched);
        for (number, prompt) in ["ab", "c", "bcab", "aabb"].into_iter().enumerate() {
            scope.spawn(move || {
                let n = number % 3 + 1;
                let wanted = generated(model, prompt, searched.clone(), n);
                assert_eq!(texts(&ask(server, prompt, &json!({ "n": n }))), wanted);
                let events = ask(server, prompt, &json!({ "stream": true, "temperature": 0 })).events();
                let said = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap());
                assert_eq!(said.collect::<String>(), wanted[0]);
            });
            scope.spawn(move || {
                let wanted = generated(model, prompt, drawn(number as u64), 4);
                let more = json!({ "n": 4, "temperature": 2.0, "seed": number });
                assert_eq!(texts(&ask(server, prompt, &more)), wanted);
            });
        }
    });
    let message = ask(&server, "ab", &json!({ "n": 4 })).refusal(400, "n");
    assert!(message.contains("the 3 beams"), "{message}");
    // Beams look for stop strings on their way.
    let stopped = ask(&server, "ab", &json!({ "stop": "bc" })).ok();
    let text = stopped["choices"][0]["text"].as_str().unwrap();
    assert!(
        !text.contains("bc") && stopped["choices"][0]["finish_reason"] == "stop",
        "{stopped}"
    );
    let run = SavedRun::open(&model, WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let few = |sequences| lessen_serve::Limits {
        sequences,
        ..lessen_serve::Limits::default()
    };
    assert!(leaves_out_beams(&run, &few(2)) && !leaves_out_beams(&run, &few(3)));
    let narrow = Server::start(&model, |limits| limits.sequences = 2);
    assert_eq!(
        texts(&ask(&narrow, "ab", &json!({}))),
        generated(&model, "ab", Sampling::greedy(9), 1)
    );
}
