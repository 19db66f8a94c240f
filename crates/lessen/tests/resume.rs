//! A run that was killed or interrupted goes on and ends with the same bits as one that was not.

mod common;

use common::*;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to be killed in its middle; with everything that could make a difference.
const ARGS: &[&str] = &[
    "--steps",
    "300",
    "--set",
    "model.dropout=0.1",
    "--set",
    "train.accumulate=2",
    "--set",
    "train.clip_norm=1",
    "--set",
    "train.checkpoint_every=20",
    "--set",
    "train.eval_every=100",
];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    tiny_adder(&[ARGS, more].concat())
}

/// Starts a run and waits until it has saved a checkpoint.
fn start(dir: &Path, out: &str) -> Child {
    let child = command(dir, &args(&["--out", out]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let first = dir.join(out).join("checkpoints/step-20");
    while !first.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn assert_same_end(dir: &Path, a: &str, b: &str) {
    for file in [
        "model/model.safetensors",
        "checkpoints/step-300/training.safetensors",
        "best/model.safetensors",
    ] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read(a) == read(b), "{file} differs");
    }
    let losses = |run: &str| -> Vec<String> {
        let report: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.join(run).join("report.json")).unwrap()).unwrap();
        report["loss_history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|loss| loss.to_string())
            .collect()
    };
    assert_eq!(losses(a).len(), 300);
    assert_eq!(losses(a), losses(b));
}

#[test]
fn a_killed_run_resumes_and_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &args(&["--out", "whole"]));
    let mut child = start(dir, "killed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !dir.join("killed/report.json").exists(),
        "it was killed before its end"
    );
    let output = lessen(dir, &["train", "--resume", "--out", "killed"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("resuming after step "),
        "{}",
        stderr(&output)
    );
    assert_same_end(dir, "whole", "killed");
}

#[test]
fn ctrl_c_saves_and_stops_and_the_run_can_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(
        dir,
        &args(&["--out", "whole", "--set", "optimizer.placement=separate"]),
    );
    let child = start(dir, "stopped");
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(
        message.contains("go on with `lessen train --resume --out stopped`"),
        "{message}"
    );
    // With the recipe named again and another number of threads, the bits are the same.
    let mut again = command(dir, &args(&["--out", "stopped", "--resume"]));
    let output = again.env("LESSEN_THREADS", "2").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_same_end(dir, "whole", "stopped");
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = |steps: &'static str, more: &[&'static str]| {
        let own = [
            "--steps",
            steps,
            "--set",
            "train.checkpoint_every=2",
            "--set",
            "train.schedule=constant",
        ];
        lessen(dir, &tiny_adder(&[&own[..], more].concat()))
    };
    assert!(run("6", &["--out", "a"]).status.success());
    assert!(run("8", &["--out", "b"]).status.success());
    let newest = dir.join("a/checkpoints/step-6/model.safetensors");
    let mut bytes = fs::read(&newest).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let output = run("8", &["--out", "a", "--resume"]);
    let message = stderr(&output);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("step-6/model.safetensors cannot be used (its checksum is wrong)"),
        "{message}"
    );
    assert!(
        message.contains("resuming after step 4 from a/checkpoints/step-4"),
        "{message}"
    );
    let read = |run: &str| fs::read(dir.join(run).join("model/model.safetensors")).unwrap();
    assert!(read("a") == read("b"));
}

#[test]
fn other_settings_are_no_resume() {
    let dir = tempfile::tempdir().unwrap();
    succeed(dir.path(), &tiny_adder(&["--steps", "2", "--out", "run"]));
    let sentence = refuse(
        dir.path(),
        &tiny_adder(&["--out", "run", "--resume", "--set", "train.seed=9"]),
    );
    assert!(
        sentence.contains("train.seed was 1 in the run run and is 9 now"),
        "{sentence}"
    );
}
