//! `lessen generate`: what is drawn, where a text ends, many texts at once.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A language model that has learned to go on with `abc`.
pub fn trained(dir: &Path) {
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let start = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "150",
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
        "train.lr=0.02",
        "--set",
        "train.eval_every=0",
        "--set",
        "train.warmup=80%",
    ];
    succeed(dir, &[&start[..], tiny, &more].concat());
}

/// What is added to `ab`, with these flags.
fn added(dir: &Path, flags: &[&str]) -> String {
    let args = ["generate", "run", "--prompt", "ab", "--tokens", "24", "--json"];
    let found = json(dir, &[&args[..], flags].concat());
    assert_eq!(found["prompt"], "ab");
    found["text"].as_str().unwrap().to_string()
}

const GREEDY: [&str; 2] = ["--temperature", "0"];

#[test]
fn flags_decide_what_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let greedy = added(dir, &GREEDY);
    assert!(
        greedy.starts_with("cabcabc") && greedy.chars().count() == 24,
        "{greedy}"
    );
    // One token is left to draw from, however wild it would be.
    for one in [["--top-k", "1"], ["--top-p", "0.0001"]] {
        assert_eq!(added(dir, &[&one[..], &["--temperature", "5"]].concat()), greedy);
    }
    let wild = |seed| added(dir, &["--temperature", "3", "--seed", seed]);
    assert_eq!(wild("7"), wild("7"));
    assert!(wild("7") != wild("8") && wild("7") != greedy);
    let penalized = added(dir, &[&GREEDY[..], &["--repetition-penalty", "1000000"]].concat());
    assert_ne!(&penalized[..1], "a", "the prompt counts as well");
    assert_ne!(penalized, greedy);
}

#[test]
fn a_text_ends_with_a_stop_string_and_is_printed_behind_its_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let greedy = added(dir, &GREEDY);
    let stopped = |stop: &[&str]| added(dir, &[&GREEDY[..], stop].concat());
    assert_eq!(
        stopped(&["--stop", "bca"]),
        "ca",
        "as transformers, where a string may begin in the prompt"
    );
    assert_eq!(stopped(&["--stop", "cabc"]), "cabc");
    assert_eq!(stopped(&["--stop", "xyz", "--stop", "a"]), "ca");
    let line = greedy.find('\n').map_or(greedy.as_str(), |end| &greedy[..=end]);
    assert_eq!(stopped(&["--stop", "\\n"]), line);
    let found = added(dir, &["--beams", "2", "--stop", "cabc"]);
    assert_eq!(found, "cabc", "beams end with it, too");
    let args = ["generate", "run", "--prompt", "ab", "--tokens", "24"];
    let printed = succeed(dir, &[&args[..], &GREEDY].concat());
    assert_eq!(printed, format!("ab{greedy}\n"));
}

#[test]
fn prompts_of_a_file_are_continued_together() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    fs::write(dir.join("prompts.txt"), "ab\nabcabca\r\nbc").unwrap();
    let many = ["generate", "run", "--prompts", "prompts.txt", "--tokens", "6"];
    let found = json(dir, &[&many[..], &GREEDY, &["--json"]].concat());
    let texts = found["texts"].as_array().unwrap();
    let prompts: Vec<&str> = texts.iter().map(|text| text["prompt"].as_str().unwrap()).collect();
    assert_eq!(prompts, ["ab", "abcabca", "bc"]);
    for text in texts {
        let prompt = text["prompt"].as_str().unwrap();
        let alone = ["generate", "run", "--prompt", prompt, "--tokens", "6", "--json"];
        assert_eq!(
            json(dir, &[&alone[..], &GREEDY].concat())["text"],
            text["text"],
            "{prompt}"
        );
    }
    let samples = ["--samples", "2", "--temperature", "3", "--json"];
    let found = json(dir, &[&many[..], &samples].concat());
    let texts: Vec<(&Value, &Value)> = found["texts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| (&text["prompt"], &text["sample"]))
        .collect();
    assert_eq!(texts.len(), 6);
    assert!(texts[0] == (&"ab".into(), &1.into()) && texts[3] == (&"abcabca".into(), &2.into()));
    assert_ne!(found["texts"][0]["text"], found["texts"][1]["text"]);
    let printed = succeed(dir, &[&many[..], &["--samples", "2"]].concat());
    let heads: Vec<&str> = printed.lines().filter(|line| line.starts_with("---")).collect();
    assert!(heads.len() == 6 && heads[5] == "--- prompt 3, sample 2", "{printed}");
    assert!(printed.starts_with("--- prompt 1, sample 1\nab"), "{printed}");
}

#[test]
fn what_cannot_be_continued_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let refused = |flags: &[&str]| refuse(dir, &[&["generate", "run", "--prompt", "ab"], flags].concat());
    assert_eq!(
        refused(&["--samples", "0"]),
        "error: --samples 0 makes no text; choose at least 1"
    );
    assert_eq!(
        refused(&["--stop", ""]),
        "error: --stop has an empty string, which is everywhere; leave it out"
    );
    assert!(refused(&["--top-k", "0"]).contains("--top-k 0 makes no sense; choose at least 1"));
    assert!(refused(&["--top-p", "-1"]).contains("--top-p -1 makes no sense; choose a share above 0"));
    assert!(refused(&["--repetition-penalty", "0"]).contains("--repetition-penalty 0 makes no sense"));
    fs::write(dir.join("prompts.txt"), "ab\n\nc\n").unwrap();
    let file = |name: &str| refuse(dir, &["generate", "run", "--prompts", name]);
    assert_eq!(
        file("prompts.txt"),
        "error: prompts.txt line 2 is empty; write a prompt on each line"
    );
    assert_eq!(
        file("none.txt"),
        "error: --prompts: there is no file none.txt; check the path"
    );
    let warned = |prompt| {
        let output = lessen(dir, &["generate", "run", "--prompt", prompt, "--tokens", "1"]);
        assert!(output.status.success());
        stderr(&output)
    };
    assert_eq!(warned("abc"), "");
    assert_eq!(
        warned("a零b"),
        "warning: the model does not know 1 of the 3 tokens of the prompt\n"
    );
    assert_eq!(
        warned("零一"),
        "warning: the model knows no character of the prompt, so the text does not follow from it\n"
    );
}

#[test]
fn weights_in_bf16_continue_a_text_and_predict() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let narrow = added(dir, &[&GREEDY[..], &["--precision", "bf16"]].concat());
    assert!(narrow.starts_with("cabcabc"), "{narrow}");
    let eval = |precision: &str| {
        let args = ["eval", "run", "--data", "text.txt", "--json", "--precision", precision];
        json(dir, &args)["dev_loss"].as_f64().unwrap()
    };
    let (wide, narrow) = (eval("f32"), eval("bf16"));
    assert!(
        wide != narrow && (wide - narrow).abs() < 0.02 * wide.max(0.1),
        "{wide}, {narrow}"
    );
}

#[test]
fn fields_of_a_generation_configuration_are_followed_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let greedy = added(dir, &GREEDY);
    let with = |fields: &str, flags: &[&str]| {
        fs::write(dir.join("run/model/generation_config.json"), fields).unwrap();
        let args = ["generate", "run", "--prompt", "ab", "--json"];
        let output = lessen(dir, &[&args[..], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        (said["text"].as_str().unwrap().to_string(), stderr(&output))
    };
    let (text, told) = with(r#"{"do_sample": false, "max_new_tokens": 6}"#, &[]);
    assert_eq!((text.as_str(), told.as_str()), (&greedy[..6], ""));
    // The prompt has two tokens.
    assert_eq!(with(r#"{"do_sample": false, "max_length": 7}"#, &[]).0, greedy[..5]);
    assert_eq!(
        with(r#"{"do_sample": false, "max_length": 7}"#, &["--tokens", "9"]).0,
        greedy[..9]
    );
    let (text, _) = with(
        r#"{"do_sample": false, "max_new_tokens": 9, "stop_strings": ["abc"]}"#,
        &[],
    );
    assert_eq!(text, "c");
    let (text, _) = with(
        r#"{"do_sample": false, "max_new_tokens": 5}"#,
        &["--no-repeat-ngram", "2"],
    );
    let pairs: Vec<String> = format!("ab{text}")
        .chars()
        .collect::<Vec<_>>()
        .windows(2)
        .map(|pair| pair.iter().collect())
        .collect();
    let distinct: std::collections::BTreeSet<&String> = pairs.iter().collect();
    assert_eq!(distinct.len(), pairs.len(), "{text}");
    let (text, told) = with(r#"{"num_beams": 3, "max_new_tokens": 6, "penalty_alpha": 0.6}"#, &[]);
    assert_eq!(
        text,
        greedy[..6],
        "the text that has been learned is the most likely one"
    );
    assert_eq!(
        told,
        "note: generation_config.json has fields that are not followed: penalty_alpha\n"
    );
    assert_eq!(
        with("{}", &["--beams", "2", "--tokens", "6", "--length-penalty", "2"]).0,
        greedy[..6]
    );
    let refused = |flags: &[&str]| refuse(dir, &[&["generate", "run", "--prompt", "ab"][..], flags].concat());
    assert!(refused(&["--beams", "2", "--temperature", "1"]).contains("--temperature 1 makes no sense beside beams"));
    assert!(refused(&["--beams", "2", "--samples", "3"]).contains("samples 3 makes no sense with 2 beams"));
    assert!(refused(&["--length-penalty", "2"]).contains("--length-penalty has no effect without beams"));
    assert!(refused(&["--min-p", "2"]).contains("--min-p 2 makes no sense"));
}
