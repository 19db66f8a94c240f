//! A run that was killed or interrupted goes on and ends with the same bits as one that was not.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to be killed in its middle, with a best evaluation before that.
const LONG: &[&str] = &[
    "--steps",
    "300",
    "--set",
    "model.dropout=0.1",
    "--set",
    "train.checkpoint_every=20",
    "--set",
    "train.eval_every=10",
];

/// With sums of gradients, which are states of their own.
const ACCUMULATED: &[&str] = &["--set", "train.accumulate=2", "--set", "train.clip_norm=1"];

/// Where every update can go as soon as its gradient is there.
const FUSED: &[&str] = &["--set", "train.accumulate=1", "--set", "train.clip_norm=0"];

fn args<'a>(more: &[&[&'a str]]) -> Vec<&'a str> {
    tiny_adder(&[LONG, &more.concat()].concat())
}

/// Starts the command and waits until the run `out` has saved the checkpoint of this step.
fn start(dir: &Path, args: &[&str], out: &str, step: u64) -> Child {
    let child = command(dir, args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let checkpoint = dir.join(format!("{out}/checkpoints/step-{step}"));
    while !checkpoint.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The metrics of a run without what a clock decides.
fn metrics(dir: &Path, run: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(run).join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("step_ms");
        line
    };
    text.lines().map(line).collect()
}

fn assert_same_end(dir: &Path, a: &str, b: &str) {
    for file in [
        "model/model.safetensors",
        "checkpoints/step-300/training.safetensors",
        "best/model.safetensors",
        "best/best.json",
    ] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read(a) == read(b), "{file} differs");
    }
    let report = |run: &str| read_json(&dir.join(run).join("report.json"));
    for key in ["best_step", "dev_accuracy", "dev_loss", "loss_history"] {
        assert!(!report(a)[key].is_null(), "{key}");
        assert_eq!(report(a)[key], report(b)[key], "{key}");
    }
    let lines = metrics(dir, a);
    assert_eq!(lines.len(), 300 + 30, "a line for each step and each evaluation");
    assert_eq!(lines, metrics(dir, b));
}

#[test]
fn a_killed_run_resumes_and_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &args(&[ACCUMULATED, &["--out", "whole"]]));
    kill(start(dir, &args(&[ACCUMULATED, &["--out", "killed"]]), "killed", 20));
    assert!(!dir.join("killed/report.json").exists(), "it was killed before its end");
    assert!(dir.join("killed/best/best.json").is_file());
    let output = lessen(dir, &["train", "--resume", "--out", "killed"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("resuming after step "), "{}", stderr(&output));
    assert_same_end(dir, "whole", "killed");
}

#[test]
fn ctrl_c_saves_and_stops_and_the_run_can_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let separate = ["--out", "whole", "--set", "optimizer.placement=separate"];
    succeed(dir, &args(&[FUSED, &separate]));
    let fused = ["--out", "stopped", "--set", "optimizer.placement=backward-fused"];
    let child = start(dir, &args(&[FUSED, &fused]), "stopped", 20);
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
    // With another number of threads, the bits are the same.
    let mut again = command(dir, &["train", "--out", "stopped", "--resume"]);
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
    assert_eq!(
        refuse(dir.path(), &["train", "thucnews", "--resume", "--out", "run"]),
        "error: the run run is of the recipe adder, not thucnews; leave the recipe out, or name another folder with \
         --out"
    );
}

#[test]
fn settings_and_budget_are_those_of_the_folder_but_for_flags() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let more = ["--steps", "8", "--budget", "64MiB", "--set", "train.checkpoint_every=2"];
    succeed(dir, &tiny_adder(&[&more[..], &["--out", "run"]].concat()));
    let config = || fs::read_to_string(dir.join("run/config.toml")).unwrap();
    let before = config();
    assert!(before.contains("\nbudget = \"67108864B\"\n"), "{before}");
    let resume = |more: &[&str]| {
        fs::remove_dir_all(dir.join("run/checkpoints/step-8")).unwrap();
        let output = lessen(dir, &[&["train", "adder", "--resume", "--out", "run"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    // The recipe has more steps, another size and another rate.
    let message = resume(&[]);
    assert!(
        message.contains("resuming after step 6 from ") && !message.contains("note:"),
        "{message}"
    );
    assert_eq!(config(), before);
    assert_eq!(metrics(dir, "run").len(), 8 + 1);
    let message = resume(&["--steps", "9"]);
    assert!(
        message.contains(
            "note: the run was planned for 8 steps and has 9 now; from step 7 on, the learning rate follows a \
             one-cycle schedule over 9 steps"
        ),
        "{message}"
    );
    assert_eq!(config(), before.replace("steps = 8", "steps = 9"));

    // A run that cannot start leaves everything as it was.
    fs::write(dir.join("run/config.toml"), config().replace("67108864", "1000")).unwrap();
    let sentence = refuse(dir, &["train", "--resume", "--out", "run", "--steps", "12"]);
    assert!(
        sentence.contains("the budget of 1000 B is below the floor"),
        "{sentence}"
    );
    assert!(dir.join("run/report.json").is_file());
    assert_eq!(json(dir, &["eval", "run", "--json"])["model"], "run/model");
    let flags = ["train", "--resume", "--out", "run", "--steps", "12", "--budget", "60M"];
    succeed(dir, &flags);
    assert!(config().contains("\nbudget = \"62914560B\"\n"));
}

#[test]
fn a_run_that_is_extended_has_no_end_until_it_ends_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let more = ["--set", "train.checkpoint_every=2", "--set", "train.eval_every=0"];
    succeed(
        dir,
        &tiny_adder(&[&more[..], &["--steps", "4", "--out", "run"]].concat()),
    );
    let longer = ["train", "--resume", "--out", "run", "--steps", "1000000"];
    kill(start(dir, &longer, "run", 6));
    let run = dir.join("run");
    assert!(!run.join("model").exists() && !run.join("report.json").exists() && !run.join("report.md").exists());
    let score = json(dir, &["eval", "run", "--json"]);
    let model = score["model"].as_str().unwrap();
    let step: u64 = model.strip_prefix("run/checkpoints/step-").unwrap().parse().unwrap();
    assert!(step >= 6, "{model}");
}

/// Files and arguments of a language model whose loss goes down in every evaluation.
fn language_model(dir: &Path) -> Vec<&'static str> {
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let start = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--set",
        "data.max_length=16",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 2];
    let more = ["--set", "train.batch=4", "--set", "train.warmup=5"];
    [&start[..], tiny, &more].concat()
}

#[test]
fn the_best_model_and_what_is_said_of_it_agree() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let every = ["--set", "train.eval_every=10", "--set", "train.checkpoint_every=20"];
    let own = ["--steps", "30", "--out", "run"];
    succeed(dir, &[&language_model(dir)[..], &every, &own].concat());
    let best = || read_json(&dir.join("run/best/best.json"));
    assert_eq!(best()["step"], 30);
    // As if it had been killed after the last evaluation and before the checkpoint that follows.
    fs::remove_dir_all(dir.join("run/checkpoints/step-30")).unwrap();
    for (steps, expected) in [("22", 30), ("60", 60)] {
        let again = [
            "train",
            "--resume",
            "--out",
            "run",
            "--set",
            "train.eval_every=0",
            "--steps",
            steps,
        ];
        let report = json(dir, &[&again[..], &["--json"]].concat());
        assert_eq!(
            (&report["best_step"], &best()["step"]),
            (&expected.into(), &expected.into())
        );
        let score = json(dir, &["eval", "run", "--best", "--json"]);
        assert_eq!(score["dev_loss"], best()["score"]);
    }
}

#[test]
fn the_last_step_takes_what_the_epochs_have_left() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (
        titles(dir),
        classifier(dir, "encoder", "epochs = 1\ncheckpoint_every = 1\n"),
    );
    let steps = |accumulate: &str, out: &str| -> Vec<f64> {
        // The parameters stay as they are, so that the losses tell the batches.
        let own = train_on(&recipe, &data, &["--out", out, "--json"]);
        let set = [
            "train.steps=0",
            "train.lr=0",
            "model.dropout=0",
            "data.shuffle=false",
            accumulate,
        ];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let report = json(dir, &[&own[..], &set].concat());
        let losses = report["loss_history"].as_array().unwrap();
        losses.iter().map(|loss| loss.as_f64().unwrap()).collect()
    };
    let single = steps("train.accumulate=1", "single");
    let pairs = steps("train.accumulate=2", "pairs");
    let expected = [(single[0] + single[1]) / 2.0, (single[2] + single[3]) / 2.0, single[4]];
    assert_eq!((single.len(), pairs.len()), (5, 3));
    for (found, expected) in pairs.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{pairs:?} for {single:?}");
    }
    // The sixth batch would be the first one again.
    assert!((single[4] - (single[4] + single[0]) / 2.0).abs() > 1e-4, "{single:?}");

    let whole = metrics(dir, "pairs");
    fs::remove_dir_all(dir.join("pairs/checkpoints/step-3")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "pairs"]);
    assert_eq!(metrics(dir, "pairs"), whole);
}

#[test]
fn weights_in_another_dtype_change_no_bit_of_a_resumed_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let args = |out: &'static str, dtype: &'static str| {
        let own = [
            "--steps",
            "20",
            "--set",
            "train.checkpoint_every=10",
            "--out",
            out,
            "--set",
            dtype,
        ];
        tiny_adder(&own)
    };
    for (out, dtype) in [("exact", "train.save_dtype=f32"), ("whole", "train.save_dtype=bf16")] {
        succeed(dir, &args(out, dtype));
    }
    let read = |file: &str| fs::read(dir.join(file)).unwrap();
    let (exact, rounded) = (
        read("exact/model/model.safetensors"),
        read("whole/model/model.safetensors"),
    );
    assert!(
        2 * rounded.len() < exact.len() + exact.len() / 8,
        "two bytes for each weight"
    );
    let config = read_json(&dir.join("whole/model/config.json"));
    assert_eq!(config["dtype"], "bfloat16");

    // The run ends again, from the checkpoint before its end.
    let ends = [
        "whole/model/model.safetensors",
        "whole/checkpoints/step-20/training.safetensors",
    ];
    let before = ends.map(read);
    fs::remove_dir_all(dir.join("whole/checkpoints/step-20")).unwrap();
    let output = lessen(dir, &["train", "--resume", "--out", "whole"]);
    assert!(
        stderr(&output).contains("resuming after step 10"),
        "{}",
        stderr(&output)
    );
    assert!(output.status.success() && ends.map(read) == before);
}
