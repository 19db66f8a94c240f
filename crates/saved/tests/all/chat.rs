//! Prompts of chats against those of transformers.

use lessen_saved::chat::{ChatOptions, ChatTemplate, Message};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chats")
}

fn messages(chat: &Value) -> Vec<Message> {
    let all = chat.as_array().unwrap().iter();
    all.map(|message| Message::from_json(message.clone()).unwrap())
        .collect()
}

fn options(given: &Value) -> ChatOptions {
    let is_true = |name: &str| given[name] == true;
    let thinks = given
        .get("enable_thinking")
        .map(|value| ("enable_thinking".to_string(), value.clone()));
    ChatOptions {
        add_generation_prompt: is_true("add_generation_prompt"),
        continue_final_message: is_true("continue_final_message"),
        tools: given["tools"].as_array().cloned(),
        variables: thinks.into_iter().collect(),
        ..ChatOptions::default()
    }
}

/// A folder with a tokenizer's configuration and other files.
fn folder(config: &Value, files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

#[test]
fn prompts_are_those_of_transformers() {
    let expected: Value = serde_json::from_str(&fs::read_to_string(fixtures().join("expected.json")).unwrap()).unwrap();
    let (mut prompts, mut refused) = (0, 0);
    for case in expected["cases"].as_array().unwrap() {
        let name = case["template"].as_str().unwrap();
        let template = fs::read_to_string(fixtures().join(name)).unwrap();
        let tokens = json!({ "bos_token": "<s>", "eos_token": { "content": "</s>" }, "unk_token": "<unk>" });
        let dir = folder(&tokens, &[("chat_template.jinja", &template)]);
        let chat = ChatTemplate::read(dir.path()).unwrap().unwrap();
        let messages = messages(&expected["chats"][case["chat"].as_str().unwrap()]);
        let found = chat.prompt(&messages, &options(&case["options"]));
        let shown = format!("{name} {} {}", case["chat"], case["options"]);
        match (&case["prompt"], found) {
            (Value::String(prompt), found) => {
                assert_eq!(found.as_ref().map_err(|error| error.to_string()), Ok(prompt), "{shown}");
                prompts += 1;
            }
            (_, Err(error)) => {
                assert_eq!(error.exit_code(), 2, "{shown}");
                refused += 1;
            }
            (_, Ok(found)) => panic!("{shown} is refused by transformers ({}): {found}", case["refused"]),
        }
    }
    assert_eq!((prompts, refused), (335, 65));
}

#[test]
fn values_are_written_as_transformers_writes_them() {
    let recorded: Value = serde_json::from_slice(&fs::read(fixtures().join("values.json")).unwrap()).unwrap();
    let options = ChatOptions {
        variables: recorded["variables"].as_object().unwrap().clone(),
        add_generation_prompt: false,
        ..ChatOptions::default()
    };
    let mut wrong = Vec::new();
    for case in recorded["cases"].as_array().unwrap() {
        let (template, expected) = (case[0].as_str().unwrap(), case[1].as_str());
        let found = ChatTemplate::of_source(template).prompt(&[Message::new("user", "hi")], &options);
        if found.as_deref().ok() != expected {
            wrong.push(format!("{template}: {found:?}, in transformers {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

#[test]
fn templates_are_found_in_every_place_and_by_name() {
    let options = |template: Option<&str>, tools: bool| ChatOptions {
        template: template.map(str::to_string),
        tools: tools.then(|| vec![json!({ "type": "function" })]),
        ..ChatOptions::default()
    };
    let hello = [Message::new("user", "hello")];
    let prompt = |dir: &tempfile::TempDir, options: &ChatOptions| {
        let chat = ChatTemplate::read(dir.path()).unwrap().unwrap();
        chat.prompt(&hello, options)
    };
    let both = json!([{ "name": "default", "template": "one {{ messages[0].content }}" },
                      { "name": "tool_use", "template": "two" }]);
    let in_config = folder(&json!({ "chat_template": both }), &[]);
    assert_eq!(prompt(&in_config, &options(None, false)).unwrap(), "one hello");
    assert_eq!(prompt(&in_config, &options(None, true)).unwrap(), "two");
    assert_eq!(prompt(&in_config, &options(Some("tool_use"), false)).unwrap(), "two");
    let sentence = prompt(&in_config, &options(Some("three"), false))
        .unwrap_err()
        .to_string();
    assert!(
        sentence.contains("no chat template three; choose among default, tool_use"),
        "{sentence}"
    );

    // Files go before the configuration.
    let files = [
        ("chat_template.jinja", "file"),
        ("additional_chat_templates/short.jinja", "short"),
    ];
    let in_files = folder(&json!({ "chat_template": "config" }), &files);
    assert_eq!(prompt(&in_files, &options(None, true)).unwrap(), "file");
    assert_eq!(prompt(&in_files, &options(Some("short"), false)).unwrap(), "short");
    assert_eq!(
        prompt(
            &folder(&json!({ "chat_template": "config" }), &[]),
            &options(None, false)
        )
        .unwrap(),
        "config"
    );
    // chat_template.json of older folders goes after both.
    let object = ("chat_template.json", r#"{ "chat_template": "object" }"#);
    let with_object = |config: Value, more: &[(&str, &str)]| {
        let dir = folder(&config, &[&[object][..], more].concat());
        prompt(&dir, &options(None, false)).unwrap()
    };
    assert_eq!(with_object(json!({}), &[]), "object");
    assert_eq!(with_object(json!({ "chat_template": "config" }), &[]), "config");
    assert_eq!(with_object(json!({}), &[("chat_template.jinja", "file")]), "file");
    let wrong = folder(&json!({}), &[("chat_template.json", r#"{ "chat_template": 3 }"#)]);
    let sentence = ChatTemplate::read(wrong.path()).unwrap_err().to_string();
    assert!(
        sentence.contains("chat_template.json: the field `chat_template` must be a text, or a list"),
        "{sentence}"
    );
    assert_eq!(ChatTemplate::read(folder(&json!({}), &[]).path()), Ok(None));
    assert_eq!(ChatTemplate::read(tempfile::tempdir().unwrap().path()), Ok(None));
    let wrong = folder(&json!({ "chat_template": { "a": 1 } }), &[]);
    let sentence = ChatTemplate::read(wrong.path()).unwrap_err().to_string();
    assert!(
        sentence.contains("`chat_template` must be a text, or a list"),
        "{sentence}"
    );
}

#[test]
fn mistakes_of_templates_and_messages_are_one_sentence() {
    let hello = [Message::new("user", "hello")];
    for (template, expected) in [
        ("{{ raise_exception('No such role') }}", "No such role"),
        ("a\n{{ messages[0]['content'] +  }}", "line 2"),
        ("{% for x in %}", "line 1"),
        ("{{ messages | nothing }}", "nothing"),
        (
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
            "chat template default",
        ),
        ("{{ strftime_now('%') }}", "strftime_now"),
        ("{{ 1 | tojson(depth=2) }}", "depth"),
    ] {
        let error = ChatTemplate::of_source(template)
            .prompt(&hello, &ChatOptions::default())
            .unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.contains(expected) && !sentence.contains('\n'),
            "{template}: {sentence}"
        );
        assert_eq!(error.exit_code(), 2);
    }
    let plain = ChatTemplate::of_source("{{ messages[0].content }}");
    assert!(
        plain
            .prompt(&[], &ChatOptions::default())
            .unwrap_err()
            .to_string()
            .contains("no messages")
    );
    let both = ChatOptions {
        continue_final_message: true,
        ..ChatOptions::default()
    };
    assert!(
        plain
            .prompt(&hello, &both)
            .unwrap_err()
            .to_string()
            .contains("choose one of the two")
    );
    for (value, expected) in [
        (json!("hello"), "a message is \"hello\""),
        (json!({ "content": "x" }), "has no role"),
        (json!({ "role": 1, "content": "x" }), "the role of a message is 1"),
        (json!({ "role": "user" }), "has no content"),
        (json!({ "role": "user", "content": null }), "has no content"),
        (json!({ "role": "user", "content": 2 }), "the content of a message is 2"),
    ] {
        let sentence = Message::from_json(value).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
    }
}

#[test]
fn dates_are_written_by_their_format() {
    let chat = ChatTemplate::of_source("{{ strftime_now('%Y-%m-%d') }}");
    let date = chat
        .prompt(&[Message::new("user", "x")], &ChatOptions::default())
        .unwrap();
    let parts: Vec<usize> = date.split('-').map(|part| part.parse().unwrap()).collect();
    assert!(
        parts[0] >= 2025 && (1..=12).contains(&parts[1]) && (1..=31).contains(&parts[2]),
        "{date}"
    );
}
