//! What an installation has beside the program: completions and manual pages.

use crate::support::*;
use std::fs;

#[test]
fn shells_complete_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(dir.path(), &["completions", shell]);
        for word in ["predict", "checkpoint after N steps", "top-k"] {
            // Bash shows no help.
            let is_there = script.contains(word) || (shell == "bash" && word.contains(' '));
            assert!(is_there, "{shell}: {word}");
        }
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
