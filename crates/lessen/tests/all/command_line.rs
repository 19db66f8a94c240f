//! What stands between the shell and a run: recipes and their paths, texts that look like flags, closed pipes, signals.

use crate::support::*;
use std::fs::{self, File};
use std::io::PipeWriter;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn what_names_no_recipe_is_told_from_what_does() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("titles")).unwrap();
    assert_eq!(
        refuse(dir, &["train", "titles"]),
        "error: 'titles' is a folder; name a recipe (`lessen recipes` lists the built-in ones) or a TOML file, and a \
         folder of data with --data"
    );
    fs::write(dir.join("empty.toml"), "").unwrap();
    let sentence = refuse(dir, &["train", "empty.toml"]);
    assert!(
        sentence.starts_with("error: the recipe empty has no data.format; say what the data is with data.format"),
        "{sentence}"
    );
    fs::write(dir.join("half.toml"), "data.format = \"labelled\"\n").unwrap();
    let sentence = refuse(dir, &["plan", "half.toml"]);
    assert!(
        sentence.starts_with("error: the recipe half has no model.kind; say what learns it with model.kind"),
        "{sentence}"
    );
}

#[test]
fn devices_are_chosen_by_name_and_unknown_ones_are_told_with_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "run", "--device", "cpu"]));
    for args in [
        &["train", "adder"][..],
        &["plan", "adder"],
        &["eval", "run"],
        &["predict", "run", "--text", "1+2"],
        &["generate", "run", "--prompt", "1+2="],
    ] {
        assert_eq!(
            refuse(dir, &[args, &["--device", "abacus"]].concat()),
            "error: there is no device 'abacus'; choose one of: cpu"
        );
    }
    assert!(!dir.join("runs").exists());
}

#[test]
fn a_recipe_finds_its_data_from_every_folder() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    titles(dir);
    let recipe = classifier(dir, "encoder", "");
    let written = fs::read_to_string(&recipe).unwrap();
    fs::write(&recipe, written.replace("[data]\n", "[data]\npath = \"titles\"\n")).unwrap();
    let below = dir.join("below");
    fs::create_dir(&below).unwrap();
    succeed(&below, &["train", "../encoder.toml", "--out", "run"]);
    succeed(dir, &["eval", "below/run"]);
    // A flag is as seen from where it is written.
    let sentence = refuse(&below, &["train", "../encoder.toml", "--data", "titles"]);
    assert_eq!(
        sentence,
        "error: --data titles: there is no file or folder titles; check the path"
    );
    fs::rename(dir.join("titles"), dir.join("gone")).unwrap();
    let sentence = refuse(&below, &["train", "../encoder.toml"]);
    assert_eq!(
        sentence,
        "error: ../encoder.toml line 9: there is no file or folder ../titles; check the path"
    );
}

#[test]
fn values_may_begin_with_a_hyphen() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "encoder", ""));
    let flags = ["--data", text(&data), "--out", "titles-run"];
    succeed(dir, &[&["train", text(&recipe)], &flags[..]].concat());
    succeed(dir, &["predict", "titles-run", "--text", "-5 degrees"]);
    succeed(dir, &["predict", "titles-run", "--text", "--json"]);
    succeed(dir, &tiny_adder(&["--steps", "1", "--out", "run"]));
    let sentence = refuse(dir, &["predict", "run", "--text", "-1+2"]);
    assert!(sentence.contains("'-1+2' is no sum"), "{sentence}");
    let printed = succeed(dir, &["generate", "run", "--prompt", "-1+2="]);
    assert!(printed.starts_with("-1+2="), "{printed}");
    let warm = ["generate", "run", "--prompt", "1+2=", "--temperature", "-1"];
    assert_eq!(
        refuse(dir, &warm),
        "error: --temperature -1 makes no sense; choose a number from 0, such as 0.8"
    );
    let sentence = refuse(dir, &["train", "adder", "--budget", "-5MiB"]);
    assert!(sentence.contains("'-5MiB' is no size"), "{sentence}");
}

#[test]
fn seed_threads_and_quiet_are_flags() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = |out: &str, flags: &[&str]| {
        let output = lessen(dir, &tiny_adder(&[&["--steps", "2", "--out", out], flags].concat()));
        assert!(output.status.success(), "{}", stderr(&output));
        (
            fs::read(dir.join(out).join("model/model.safetensors")).unwrap(),
            stderr(&output),
        )
    };
    let (weights, said) = run("plain", &["--seed", "5"]);
    assert!(
        said.contains("adder: GPT2LMHeadModel with ") && said.contains("step 2: dev "),
        "{said}"
    );
    assert!(weights == run("set", &["--set", "train.seed=5"]).0 && weights != run("other", &[]).0);
    let (quiet, said) = run("quiet", &["--seed", "5", "--threads", "2", "--quiet"]);
    assert!(quiet == weights && said.is_empty(), "{said}");
    // A warning is told in any case.
    let output = lessen(dir, &["-q", "generate", "plain", "--prompt", "x", "--tokens", "1"]);
    assert!(stderr(&output).starts_with("warning: the model knows no character of the prompt"));
    let config = fs::read_to_string(dir.join("plain/config.toml")).unwrap();
    assert!(config.contains("\nseed = 5\n"), "{config}");
}

/// A pipe that nobody reads from any more.
fn closed() -> PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
fn that_nobody_listens_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let deaf = |args: &[&str]| {
        let mut command = command(dir, args);
        command.stdout(closed()).stderr(closed()).status().unwrap().code()
    };
    assert_eq!(deaf(&tiny_adder(&["--steps", "4", "--out", "run"])), Some(0));
    assert!(dir.join("run/report.json").is_file());
    let longer = ["train", "--resume", "--out", "run", "--steps", "5"];
    assert_eq!(deaf(&longer), Some(0));
    assert_eq!(deaf(&["train", "adder", "--out", "run"]), Some(2));
    assert_eq!(deaf(&["recipes", "--keys"]), Some(0));
    assert_eq!(deaf(&["plan", "adder"]), Some(0));
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill")
        .args([name, &process.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// [`command`] with every signal at its default: a shell has what it starts in the background ignore Ctrl-C, and so
/// would all that the tests start. Where `env` cannot do that, the command as it is.
fn undisturbed(dir: &Path, args: &[&str]) -> Command {
    let plain = command(dir, args);
    let mut clean = Command::new("env");
    clean.arg("--default-signal");
    if !clean.output().is_ok_and(|output| output.status.success()) {
        return plain;
    }
    clean.arg(plain.get_program()).args(plain.get_args());
    clean.current_dir(dir).env("LESSEN_THREADS", "1");
    clean
}

/// A signal while the tokenizer is read: it comes through a pipe that nobody writes to.
fn ends_at_once(dir: &Path, name: &str, number: i32) {
    let pipe = dir.join("tokenizer/tokenizer.json");
    if !pipe.exists() {
        fs::write(dir.join("text.txt"), "to be or not to be").unwrap();
        fs::create_dir(dir.join("tokenizer")).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    }
    let args = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--set",
        "data.tokenizer=tokenizer",
    ];
    let mut child = undisturbed(dir, &args).stderr(Stdio::null()).spawn().unwrap();
    // Opens as soon as the run reads.
    let writer = File::options().write(true).open(&pipe).unwrap();
    signal(name, child.id());
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > Duration::from_secs(20) => {
                child.kill().unwrap();
                panic!("{name} is swallowed");
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    drop(writer);
    assert_eq!(status.signal(), Some(number));
    assert!(!dir.join("runs").exists());
}

#[test]
fn a_signal_before_the_first_step_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    ends_at_once(dir.path(), "-INT", 2);
    ends_at_once(dir.path(), "-TERM", 15);
}
