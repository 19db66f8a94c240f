//! Helpers that the tests of the command share: they run it, and write data and recipes so small that a run takes a
//! moment.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command with these arguments, in the folder `dir`, on one thread. Plans do not depend on the machine, unless the
/// arguments ask for it.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lessen"));
    command.args(args).current_dir(dir).env("LESSEN_THREADS", "1");
    let plans = matches!(args.first(), Some(&"train" | &"plan"));
    let measures = |arg: &&str| ["--budget", "--sweep", "--html"].contains(arg);
    if plans && args.iter().any(measures) && !args.contains(&"--cost") {
        command.args(["--cost", "analytic"]);
    }
    command
}

/// Runs the command to its end.
pub fn lessen(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Runs the command, which must succeed; what it printed.
pub fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = lessen(dir, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command, which must print one JSON object and nothing else.
pub fn json(dir: &Path, args: &[&str]) -> Value {
    let printed = succeed(dir, args);
    let value: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert!(
        value.is_object() && printed.ends_with("}\n") && printed.lines().count() == 1,
        "{printed}"
    );
    value
}

/// Runs the command, which must refuse with exit code 2, nothing on stdout, and one sentence; that sentence.
pub fn refuse(dir: &Path, args: &[&str]) -> String {
    let output = lessen(dir, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let sentence = message.lines().last().unwrap_or_default().to_string();
    assert!(sentence.starts_with("error: "), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    sentence
}

/// The text that a command printed on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An adder that trains in a moment.
pub const TINY_ADDER: &[&str] = &[
    "--set",
    "model.layers=1",
    "--set",
    "model.width=16",
    "--set",
    "model.heads=2",
    "--set",
    "model.ffn=32",
    "--set",
    "train.batch=16",
    "--set",
    "train.lr=0.01",
    "--set",
    "train.warmup=1",
];

/// Arguments of `lessen train adder` for the tiny adder, followed by `more`.
pub fn tiny_adder<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["train", "adder"]
        .iter()
        .chain(TINY_ADDER)
        .chain(more)
        .copied()
        .collect()
}

/// Writes a folder of titles with labels: two classes that a word decides.
pub fn titles(dir: &Path) -> PathBuf {
    let folder = dir.join("titles");
    fs::create_dir_all(&folder).unwrap();
    let line = |i: u32| {
        let (word, label) = if i.is_multiple_of(2) { ("sun", 0) } else { ("rain", 1) };
        format!("day {i} {word}\t{label}\n")
    };
    fs::write(folder.join("train.txt"), (0..40).map(line).collect::<String>()).unwrap();
    fs::write(folder.join("dev.txt"), (40..52).map(line).collect::<String>()).unwrap();
    fs::write(folder.join("class.txt"), "fair\nfoul\n").unwrap();
    folder
}

/// Writes a recipe for a tiny classifier of kind `kind`, with the lines `more` at its end.
pub fn classifier(dir: &Path, kind: &str, more: &str) -> PathBuf {
    let path = dir.join(format!("{kind}.toml"));
    let text = format!(
        "# A tiny classifier.\n[model]\nkind = \"{kind}\"\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\n\
         [data]\nformat = \"labelled\"\nmax_length = 12\n\
         [train]\nbatch = 8\nsteps = 4\nlr = 0.01\n{more}"
    );
    fs::write(&path, text).unwrap();
    path
}

/// Arguments of `lessen train` for a recipe and its data, followed by `more`.
pub fn train_on<'a>(recipe: &'a Path, data: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", text(recipe), "--data", text(data)], more].concat()
}

/// Trains a tiny classifier of this kind on [`titles`] and returns the Hugging Face folder of its model.
pub fn checkpoint(dir: &Path, kind: &str) -> PathBuf {
    let (data, recipe) = (titles(dir), classifier(dir, kind, ""));
    let out = dir.join("first");
    succeed(dir, &train_on(&recipe, &data, &["--out", text(&out)]));
    out.join("model")
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
