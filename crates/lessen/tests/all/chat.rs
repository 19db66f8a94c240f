//! `lessen generate --chat`, and chat templates wherever models are saved.

use crate::support::*;
use std::fs;
use std::path::{Path, PathBuf};

const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}\
                        {% if tools %}t{{ tools | length }}{% endif %}{{ mood }}{% if add_generation_prompt %}a:{% endif %}";

/// A language model of characters that was trained in a folder whose tokenizer has a chat template.
fn trained(dir: &Path) -> PathBuf {
    fs::write(dir.join("text.txt"), "u:ab\na:abc\ns:x\n".repeat(60)).unwrap();
    let start = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "2",
        "--out",
        "run",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 6];
    let more = [
        "--set",
        "data.max_length=32",
        "--set",
        "train.batch=4",
        "--set",
        "train.eval_every=0",
    ];
    succeed(dir, &[&start[..], tiny, &more].concat());
    succeed(dir, &["export", "run", "chat"]);
    let chat = dir.join("chat");
    fs::write(chat.join("chat_template.jinja"), TEMPLATE).unwrap();
    fs::create_dir(chat.join("additional_chat_templates")).unwrap();
    fs::write(chat.join("additional_chat_templates/short.jinja"), "ab").unwrap();
    chat
}

#[test]
fn chats_are_prompts_by_the_template_and_it_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let prompt = |model: &str, flags: &[&str]| {
        let args = ["generate", model, "--chat", "--json", "--tokens", "2"];
        json(dir, &[&args[..], flags].concat())["prompt"]
            .as_str()
            .unwrap()
            .to_string()
    };
    fs::write(
        dir.join("m.jsonl"),
        "{\"role\":\"user\",\"content\":\"ab\"}\n{\"role\":\"assistant\",\"content\":\"abc\"}\n",
    )
    .unwrap();
    fs::write(dir.join("tools.json"), "[{\"type\":\"function\"}]").unwrap();
    assert_eq!(prompt("chat", &["--prompt", "ab"]), "u:ab\na:");
    assert_eq!(prompt("chat", &["--prompt", "ab", "--system", "x"]), "s:x\nu:ab\na:");
    assert_eq!(
        prompt("chat", &["--prompt", "ab", "--tools", "tools.json"]),
        "u:ab\nt1a:"
    );
    assert_eq!(
        prompt("chat", &["--prompt", "ab", "--chat-variable", "mood=b"]),
        "u:ab\nba:"
    );
    assert_eq!(prompt("chat", &["--prompt", "ab", "--chat-template", "short"]), "ab");
    assert_eq!(prompt("chat", &["--messages", "m.jsonl"]), "u:ab\na:abc\na:");
    assert_eq!(
        prompt("chat", &["--messages", "m.jsonl", "--continue-final-message"]),
        "u:ab\na:abc"
    );
    let shown = succeed(dir, &["generate", "chat", "--chat", "--prompt", "ab", "--tokens", "1"]);
    assert!(!shown.contains("u:ab"), "the answer alone is shown: {shown}");

    succeed(dir, &["export", "chat", "copy"]);
    assert_eq!(prompt("copy", &["--prompt", "ab"]), "u:ab\na:");
    assert_eq!(prompt("copy", &["--prompt", "ab", "--chat-template", "short"]), "ab");

    // The template of older folders.
    fs::remove_file(dir.join("copy/chat_template.jinja")).unwrap();
    fs::remove_dir_all(dir.join("copy/additional_chat_templates")).unwrap();
    let object = serde_json::json!({ "chat_template": TEMPLATE }).to_string();
    fs::write(dir.join("copy/chat_template.json"), object).unwrap();
    succeed(dir, &["export", "copy", "older"]);
    assert!(!dir.join("older/chat_template.jinja").exists());
    assert_eq!(prompt("older", &["--prompt", "ab"]), "u:ab\na:");

    fs::write(
        dir.join("two.jsonl"),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"}]}\n".repeat(2),
    )
    .unwrap();
    let two = [
        "generate",
        "chat",
        "--chat",
        "--messages",
        "two.jsonl",
        "--json",
        "--tokens",
        "1",
    ];
    assert_eq!(json(dir, &two)["texts"].as_array().unwrap().len(), 2);

    fs::write(dir.join("bad.jsonl"), "{\"role\":\"user\"}\n").unwrap();
    for (flags, expected) in [
        (
            &["generate", "run", "--chat", "--prompt", "a"][..],
            "run/model has no chat template",
        ),
        (
            &["generate", "chat", "--chat", "--messages", "bad.jsonl"],
            "bad.jsonl line 1",
        ),
        (
            &["generate", "chat", "--chat", "--messages", "text.txt"],
            "text.txt line 1 is no JSON",
        ),
        (
            &["generate", "chat", "--chat", "--prompt", "a", "--chat-template", "long"],
            "choose among default, short",
        ),
        (
            &["generate", "chat", "--chat", "--prompt", "a", "--chat-variable", "x"],
            "write NAME=VALUE",
        ),
        (
            &["generate", "chat", "--chat", "--prompt", "a", "--tools", "text.txt"],
            "is no JSON list",
        ),
    ] {
        let sentence = refuse(dir, flags);
        assert!(sentence.contains(expected), "{flags:?}: {sentence}");
    }
}
