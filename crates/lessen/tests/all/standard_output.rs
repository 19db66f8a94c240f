//! What becomes of results that cannot be printed: a full standard output is an error, a closed pipe is none.

use crate::support::*;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, pipe};
use std::path::Path;
use std::process::Stdio;

/// Runs the command with this standard output; exit code and what it said on stderr.
fn with_stdout(dir: &Path, args: &[&str], stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let output = command(dir, args).stdout(stdout).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    (output.status.code(), stderr(&output))
}

/// A classifier in `run`, an adder in `sums`, and an input of many more bytes than a pipe holds.
fn models(dir: &Path) {
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    succeed(dir, &train_on(&recipe, &data, &["--steps", "1", "--out", "run"]));
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "sums"]));
    fs::write(dir.join("texts.txt"), "a day of sun\n".repeat(6000)).unwrap();
}

/// Commands of all that print a result.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "train"],
    &["predict", "--help"],
    &["recipes"],
    &["recipes", "--keys"],
    &["recipes", "--json"],
    &["recipes", "adder"],
    &["recipes", "--data"],
    &["completions", "bash"],
    &["man"],
    &["plan", "adder"],
    &["plan", "adder", "--json"],
    &["report", "run"],
    &["report", "run", "--json"],
    &["eval", "run"],
    &["eval", "run", "--json"],
    &["predict", "run", "--text", "sun"],
    &["predict", "run", "--text", "sun", "--json"],
    &["predict", "run", "--input", "texts.txt"],
    &["predict", "run", "--input", "texts.txt", "--format", "jsonl"],
    &["predict", "sums", "--text", "1+2"],
    &["generate", "sums", "--prompt", "1+2=", "--tokens", "2"],
    &["generate", "sums", "--prompt", "1+2=", "--tokens", "2", "--json"],
    &["train", "--resume", "--out", "sums", "--steps", "1"],
    &["train", "--resume", "--out", "sums", "--steps", "1", "--json"],
];

#[test]
fn a_full_standard_output_is_an_error_of_every_command() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    models(dir);
    for args in COMMANDS {
        let (code, said) = with_stdout(dir, args, File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(code, Some(2), "{args:?}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: ") && last.contains(" cannot be written (No space left on device"),
            "{args:?}: {said}"
        );
        assert_eq!(said.matches("error: ").count(), 1, "{args:?}: {said}");
    }
}

#[test]
fn a_closed_pipe_is_no_error_of_any_command() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    models(dir);
    for args in COMMANDS {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let args = [&["-q"], *args].concat();
        let closed = with_stdout(dir, &args, writer);
        // What is said with a reader is said without one, and nothing more.
        assert_eq!(closed, with_stdout(dir, &args, Stdio::null()), "{args:?}");
        assert_eq!(closed.0, Some(0), "{args:?}: {}", closed.1);
    }
}

#[test]
fn a_reader_may_leave_in_the_middle_of_answers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    models(dir);
    for format in ["csv", "jsonl"] {
        let args = ["predict", "run", "--input", "texts.txt", "--format", format];
        let mut child = command(dir, &args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        drop(reader);
        assert!(line.contains("text"), "{line}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{format}");
    }
}
