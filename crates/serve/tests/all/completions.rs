//! `/v1/completions`: whole and streamed, many at once, and what is refused.

use crate::support::*;
use lessen_saved::continuation::Continuation;
use lessen_saved::saved_run::{AdapterOptions, SavedRun};
use lessen_task::folder::WhichModel;
use lessen_train::{Beams, Rules, Sampling};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const PATH: &str = "/v1/completions";

/// What the library adds to prompts, up to the first of `stops`.
fn expected(prompts: &[&str], sampling: Sampling, samples: usize, stops: &[&str]) -> Vec<String> {
    let run = SavedRun::open(language_model(), WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    let prompts: Vec<String> = prompts.iter().map(|prompt| prompt.to_string()).collect();
    let how = Continuation {
        samples,
        ..Continuation::new(sampling)
    };
    let mut texts = run.generate(&prompts, &how, &mut |_, _| Ok(())).unwrap();
    for text in &mut texts {
        let end = stops.iter().filter_map(|stop| text.find(stop)).min();
        text.truncate(end.unwrap_or(text.len()));
    }
    texts
}

fn texts(answer: &Value) -> Vec<String> {
    let choices = answer["choices"].as_array().unwrap().iter().enumerate();
    choices
        .map(|(number, choice)| {
            assert_eq!(choice["index"], number);
            choice["text"].as_str().unwrap().to_string()
        })
        .collect()
}

#[test]
fn texts_are_those_of_generate_whole_and_streamed_alone_and_together() {
    let server = Server::start(language_model(), |limits| limits.sequences = 3);
    let drawn = Sampling {
        tokens: 20,
        temperature: 1.5,
        top_p: Some(0.9),
        top_k: Some(5),
        rules: Rules {
            repetition_penalty: 1.1,
            ..Rules::default()
        },
        seed: 7,
        ..Sampling::default()
    };
    let (prompts, samples) = (["ab", "c", "bcab"], 3);
    let wanted = expected(&prompts, drawn, samples, &["cc"]);
    let body = |stream: bool| {
        json!({
            "model": "tiny", "prompt": prompts, "n": samples, "max_tokens": 20, "temperature": 1.5, "top_p": 0.9,
            "top_k": 5, "repetition_penalty": 1.1, "seed": 7, "stop": ["cc"], "stream": stream, "user": "me",
            "presence_penalty": 0, "logprobs": null,
        })
        .to_string()
    };
    thread::scope(|scope| {
        let ask = |stream: bool| {
            let (server, body) = (&server, body(stream));
            scope.spawn(move || server.post(PATH, &body))
        };
        let all: Vec<_> = [false, true, false, true].map(|stream| (stream, ask(stream))).into();
        for (stream, answer) in all {
            let answer = answer.join().unwrap();
            let found = if stream {
                let mut texts = vec![String::new(); wanted.len()];
                for event in answer.events() {
                    assert_eq!(event["object"], "text_completion");
                    let choice = &event["choices"][0];
                    texts[choice["index"].as_u64().unwrap() as usize] += choice["text"].as_str().unwrap();
                }
                texts
            } else {
                texts(&answer.ok())
            };
            assert_eq!(found, wanted);
        }
    });
}

#[test]
fn ends_and_numbers_of_tokens_are_said() {
    let server = Server::start(language_model(), |_| {});
    let ask = |more: Value| {
        let mut body = json!({ "prompt": "ab", "temperature": 0, "max_tokens": 6 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(PATH, &body.to_string())
    };
    let whole = ask(json!({})).ok();
    assert_eq!(texts(&whole), expected(&["ab"], Sampling::greedy(6), 1, &[]));
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(
        whole["usage"],
        json!({ "prompt_tokens": 2, "completion_tokens": 6, "total_tokens": 8 })
    );
    let stop: String = texts(&whole)[0].chars().skip(2).take(1).collect();
    let stopped = ask(json!({ "stop": stop })).ok();
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(texts(&stopped), expected(&["ab"], Sampling::greedy(6), 1, &[&stop]));
    // Where nothing is said, 16 tokens are added.
    let body = json!({ "prompt": "ab", "temperature": 0 }).to_string();
    assert_eq!(server.post(PATH, &body).ok()["usage"]["completion_tokens"], 16);
    let events = ask(json!({ "stream": true, "stream_options": { "include_usage": true } })).events();
    let (last, before) = events.split_last().unwrap();
    assert_eq!(
        (&last["choices"], &last["usage"]["total_tokens"]),
        (&json!([]), &json!(8))
    );
    assert!(
        before
            .iter()
            .all(|event| event["usage"].is_null() && event["id"] == last["id"])
    );
    assert_eq!(before.last().unwrap()["choices"][0]["finish_reason"], "length");
    // Tokens in place of a text.
    let tokens = server
        .post(PATH, r#"{"prompt":[2,3],"temperature":0,"max_tokens":3}"#)
        .ok();
    assert_eq!(tokens["usage"]["prompt_tokens"], 2);
    // Penalties of what has been added.
    let plain = texts(&ask(json!({ "max_tokens": 30 })).ok());
    for field in ["presence_penalty", "frequency_penalty"] {
        let penalty = |own: &str| if own == field { 2.0 } else { 0.0 };
        let rules = Rules {
            presence_penalty: penalty("presence_penalty"),
            frequency_penalty: penalty("frequency_penalty"),
            ..Rules::default()
        };
        let sampling = Sampling {
            rules,
            ..Sampling::greedy(30)
        };
        let found = texts(&ask(json!({ "max_tokens": 30, field: 2 })).ok());
        assert_eq!(found, expected(&["ab"], sampling, 1, &[]), "{field}");
        assert_ne!(found, plain, "{field}");
    }
    // Without a seed, requests draw anew; with one, the same.
    let draw = |seed: Value| texts(&ask(json!({ "temperature": 3.0, "seed": seed, "n": 4 })).ok());
    assert_ne!(draw(json!(null)), draw(json!(null)));
    assert_eq!(draw(json!(-5)), draw(json!(-5)));
}

#[test]
fn fields_that_are_wrong_or_not_built_are_named() {
    let server = Server::start(language_model(), |limits| limits.texts = 4);
    for (field, value, status, says) in [
        ("prompt", json!([]), 400, "empty"),
        ("prompt", json!(""), 400, "no tokens"),
        ("prompt", json!([1, 99999]), 400, "99999"),
        ("prompt", json!([1, "a"]), 400, "token ids beside prompts"),
        ("prompt", json!(["a", "b", "c", "d", "e"]), 413, "--max-texts"),
        ("prompt", json!("a".repeat(64)), 400, "64 tokens"),
        ("prompt", json!("a".repeat(5000)), 400, "bytes"),
        ("max_tokens", json!(0), 400, "at least 1"),
        ("max_tokens", json!(63), 400, "at most 62"),
        ("max_tokens", json!(-1), 400, "invalid"),
        ("max_completion_tokens", json!(3), 400, "max_tokens"),
        ("temperature", json!(-0.5), 400, "temperature -0.5"),
        ("temperature", json!("hot"), 400, "invalid type"),
        ("top_p", json!(1.5), 400, "top-p 1.5"),
        ("top_k", json!(-3), 400, "-3"),
        ("repetition_penalty", json!(0), 400, "repetition-penalty 0"),
        ("n", json!(0), 400, "0 cannot be"),
        ("stop", json!([""]), 400, "empty"),
        ("stop", json!("x".repeat(2000)), 400, "1024"),
        (
            "stream_options",
            json!({ "include_usage": true }),
            400,
            "\"stream\": true",
        ),
        ("stream_options.include", json!(true), 400, "unknown field"),
        ("model", json!("gpt-9"), 404, "'tiny'"),
        ("presence_penalty", json!(2.5), 400, "from -2 to 2"),
        ("frequency_penalty", json!(-3), 400, "from -2 to 2"),
        ("logprobs", json!(5), 400, "not given"),
        ("logit_bias", json!({ "5": 1 }), 400, "not built"),
        ("echo", json!(true), 400, "not built"),
        ("best_of", json!(2), 400, "not built"),
        ("suffix", json!("x"), 400, "end"),
        ("tools", json!([{}]), 400, "tools"),
        ("response_format", json!({ "type": "json_object" }), 400, "plain"),
        ("messages", json!([]), 400, ""),
        ("guided_regex", json!("a"), 400, "unknown field"),
    ] {
        let mut body = json!({ "prompt": "ab", "max_tokens": 2 });
        match field.split_once('.') {
            Some((outer, inner)) => body[outer] = json!({ inner: value }),
            None => body[field] = value,
        }
        let message = server.post(PATH, &body.to_string()).refusal(status, field);
        assert!(message.contains(says), "{field}: {message}");
    }
    for (field, value) in [
        ("presence_penalty", json!(0.0)),
        ("frequency_penalty", json!(0)),
        ("logprobs", json!(null)),
        ("logit_bias", json!({})),
        ("echo", json!(false)),
        ("best_of", json!(1)),
        ("n", json!(null)),
        ("seed", json!(-1)),
        ("top_k", json!(-1)),
        ("response_format", json!({ "type": "text" })),
        ("user", json!({ "any": ["thing"] })),
    ] {
        let mut body = json!({ "prompt": "ab", "max_tokens": 2 });
        body[field] = value;
        server.post(PATH, &body.to_string()).ok();
    }
}

#[test]
fn a_client_that_goes_away_makes_room() {
    let server = Server::start(language_model(), |limits| {
        (limits.sequences, limits.context) = (1, Some(64))
    });
    // Many long texts, one at a time, of clients that do not wait.
    let body = json!({ "prompt": "ab", "max_tokens": 60, "n": 100, "stream": true }).to_string();
    for _ in 0..20 {
        let mut stream = server.connect();
        stream.write_all(&request(PATH, &body)).unwrap();
    }
    let start = Instant::now();
    let mine = json!({ "prompt": "ab", "max_tokens": 2 }).to_string();
    server.post(PATH, &mine).ok();
    let counters = server.get("/metrics").body;
    let generated = counters
        .lines()
        .find_map(|line| line.strip_prefix("lessen_generated_tokens_total "));
    let generated: u64 = generated.unwrap().parse().unwrap();
    assert!(generated < 20 * 100 * 60, "{generated} tokens in {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// The language model of the tests with words of a letter in place of letters, as SentencePiece writes them.
fn words() -> PathBuf {
    let file = language_model().join("model/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap().clone();
    let word = |token: String| match token.as_str() {
        "\n" => "<0x0A>".to_string(),
        letter if letter.len() == 1 => format!("▁{letter}"),
        special => special.to_string(),
    };
    tokenizer["model"]["vocab"] = vocab.into_iter().map(|(token, id)| (word(token), id)).collect();
    tokenizer["pre_tokenizer"] =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
    let space = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
    let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
    let parts = [
        space,
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
        strip,
    ];
    tokenizer["decoder"] = json!({ "type": "Sequence", "decoders": parts });
    let template = r#"{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}"#;
    language_model_with(&[
        ("tokenizer.json", &tokenizer.to_string()),
        ("tokenizer_config.json", template),
    ])
}

#[test]
fn what_is_added_begins_with_the_space_of_its_first_word() {
    let server = Server::start(&words(), |_| {});
    let ask = |path: &str, more: Value| {
        let mut body = json!({ "max_tokens": 4, "temperature": 0 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(path, &body.to_string())
    };
    let text = |more: Value| {
        let choice = &ask(PATH, more).ok()["choices"][0];
        (
            choice["text"].as_str().unwrap().to_string(),
            choice["finish_reason"].clone(),
        )
    };
    let (whole, _) = text(json!({ "prompt": "a" }));
    let parts: Vec<&str> = whole.split(' ').collect();
    assert!(
        parts.len() == 5 && parts[0].is_empty() && parts[1].len() == 1,
        "{whole:?}"
    );
    // Stop strings with and without the space.
    for stop in [
        format!(" {}", parts[1]),
        parts[1].to_string(),
        format!(" {} {}", parts[2], parts[3]),
    ] {
        let expected = whole[..whole.find(&stop).unwrap()].to_string();
        let found = text(json!({ "prompt": "a", "stop": stop }));
        assert_eq!(found, (expected, "stop".into()), "{stop:?} in {whole:?}");
    }
    let streamed = ask(PATH, json!({ "prompt": "a", "stream": true })).events();
    let pieces = streamed.iter().filter_map(|event| event["choices"][0]["text"].as_str());
    assert_eq!(pieces.collect::<String>(), whole);
    let said = json!({ "messages": [{ "role": "user", "content": "a" }] });
    let answer = ask("/v1/chat/completions", said).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], whole.as_str());
    // What the library adds, drawn and searched.
    let run = SavedRun::open(&words(), WhichModel::Last, AdapterOptions::default(), &cpu()).unwrap();
    for beams in [None, Some(Beams::new(2))] {
        let sampling = Sampling {
            beams,
            ..Sampling::greedy(4)
        };
        let how = Continuation {
            samples: 2,
            ..Continuation::new(sampling)
        };
        let mut pieces = vec![String::new(); 4];
        let mut show = |text: usize, piece: &str| {
            pieces[text] += piece;
            Ok(())
        };
        let texts = run
            .generate(&["a".to_string(), "b".to_string()], &how, &mut show)
            .unwrap();
        assert!(texts.iter().all(|text| text.starts_with(' ')), "{texts:?}");
        assert!(texts.contains(&whole), "{texts:?}");
        assert_eq!(pieces, texts);
    }
}

#[test]
fn a_text_is_no_longer_than_the_positions_that_a_model_was_made_for() {
    let server = Server::start(rotary_language_model(), |_| {});
    let ask = |prompt: String, tokens: usize| {
        let body = json!({ "prompt": prompt, "max_tokens": tokens, "temperature": 0 });
        server.post(PATH, &body.to_string())
    };
    assert_eq!(ask("a".repeat(60), 4).ok()["usage"]["total_tokens"], 64);
    let message = ask("a".repeat(100), 2).refusal(400, "prompt");
    assert!(message.contains("a text can have 64"), "{message}");
    let message = ask("a".repeat(60), 5).refusal(400, "max_tokens");
    assert!(message.contains("at most 4"), "{message}");
    let run = SavedRun::open(
        rotary_language_model(),
        WhichModel::Last,
        AdapterOptions::default(),
        &cpu(),
    )
    .unwrap();
    let message = run.sequences(Some(65), 1).err().unwrap().to_string();
    assert!(
        message.contains("--context 65") && message.contains("64 positions"),
        "{message}"
    );
}
