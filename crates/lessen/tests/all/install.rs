//! What an installation has beside the program: completions and manual pages.

use crate::support::*;
use std::fs;
use std::path::Path;

/// What a shell is offered for the last of these words.
fn offered(dir: &Path, shell: &str, words: &[&str]) -> Vec<String> {
    let output = command(dir, &[&["--", "lessen"], words].concat())
        .env("LESSEN_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_string).collect()
}

#[test]
fn shells_are_offered_commands_recipes_keys_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for run in ["runs/adder-1", "runs/adder-2"] {
        fs::create_dir_all(dir.join(run)).unwrap();
        fs::write(dir.join(run).join("config.toml"), "").unwrap();
    }
    fs::create_dir_all(dir.join("runs/other")).unwrap();
    fs::write(dir.join("mine.toml"), "").unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(dir, &["completions", shell]);
        assert!(
            script.contains("LESSEN_COMPLETE") && script.contains("lessen"),
            "{shell}: {script}"
        );
        // Some shells show help after a tab or a colon.
        let offered = |words: &[&str]| -> Vec<String> {
            let found = offered(dir, shell, words).into_iter();
            found
                .map(|line| line.split(['\t', ':']).next().unwrap_or_default().to_string())
                .collect()
        };
        let has = |words: &[&str], expected: &[&str]| {
            let found = offered(words);
            for word in expected {
                assert!(found.iter().any(|own| own == word), "{shell} {words:?}: {found:?}");
            }
        };
        has(&["pre"], &["predict"]);
        has(&["predict", "run", "--str"], &["--stream"]);
        has(&["train", ""], &["adder", "gpt2-lm", "mine.toml"]);
        has(&["plan", "bert"], &["bert-classifier"]);
        has(&["recipes", "la"], &["labelled"]);
        has(&["train", "adder", "--set", "train.l"], &["train.lr=", "train.loss="]);
        has(&["eval", "run", "--set", "data.format=la"], &["data.format=labelled"]);
        has(&["eval", "ru"], &["runs/adder-1", "runs/adder-2"]);
        has(&["report", "x", "runs/adder-2"], &["runs/adder-2"]);
        assert_eq!(offered(&["train", "adder", "--set", "train.nonsense"]), [""; 0]);
        assert!(!offered(&["eval", "runs/o"]).contains(&"runs/adder-1".to_string()));
    }
    for shell in ["elvish", "powershell"] {
        assert!(succeed(dir, &["completions", shell]).contains("LESSEN_COMPLETE"));
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let page = succeed(dir, &["man"]);
    assert!(
        page.contains(".TH lessen 1") && page.contains("lessen\\-train(1)"),
        "{page}"
    );
    assert_eq!(succeed(dir, &["man", "share/man1"]), "");
    let read = |name: &str| fs::read_to_string(dir.join("share/man1").join(name)).unwrap();
    assert_eq!(read("lessen.1"), page);
    let predict = read("lessen-predict.1");
    assert!(
        predict.contains("\\-\\-probabilities") && predict.contains(".TH lessen-predict 1"),
        "{predict}"
    );
    assert!(read("lessen-bench-step.1").contains("bench step"));
}
