//! What is saved when and where: the history of settings, the report of all sessions, a disk that is full.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

const EVERY: &[&str] = &["--set", "train.checkpoint_every=2", "--set", "train.schedule=constant"];

#[test]
fn settings_that_change_on_the_way_are_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&[EVERY, &["--steps", "4", "--out", "run"]].concat()));
    assert!(!dir.join("run/settings.jsonl").exists(), "nothing has changed");
    let more = [
        "train",
        "--resume",
        "--out",
        "run",
        "--steps",
        "6",
        "--set",
        "train.lr=0.005",
    ];
    let output = lessen(dir, &more);
    assert!(output.status.success(), "{}", stderr(&output));
    let told = "from step 5 on, train.steps = 6 (4 before), train.lr = 0.005 (0.01 before)";
    assert!(
        stderr(&output).contains(&format!("note: {told}")),
        "{}",
        stderr(&output)
    );
    let history = fs::read_to_string(dir.join("run/settings.jsonl")).unwrap();
    assert_eq!(
        history,
        "{\"step\":4,\"changes\":{\"train.steps\":[\"4\",\"6\"],\"train.lr\":[\"0.01\",\"0.005\"]}}\n"
    );
    let page = fs::read_to_string(dir.join("run/report.md")).unwrap();
    assert!(page.contains(&format!("- {told}")), "{page}");
    let report = read_json(&dir.join("run/report.json"));
    assert_eq!(report["settings_changes"][0]["step"], 4);
    assert_eq!(report["sessions"], 2);

    // The run goes on from before the change: the steps in between are done again with the settings as they are.
    for step in ["step-4", "step-6"] {
        fs::remove_dir_all(dir.join("run/checkpoints").join(step)).unwrap();
    }
    let config = fs::read_to_string(dir.join("run/config.toml")).unwrap();
    assert!(config.contains("\nlr = 0.005\n"), "{config}");
}

#[test]
fn a_report_covers_all_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    succeed(dir, &tiny_adder(&[EVERY, &["--steps", "4", "--out", "run"]].concat()));
    // As if the first session had taken an hour, and its steps a second each.
    let path = dir.join("run/sessions.json");
    let mut first = read_json(&path);
    assert_eq!(first["sessions"], 1);
    first["seconds"] = 3600.into();
    first["planned"] = (1u64 << 40).into();
    fs::write(&path, first.to_string()).unwrap();
    let path = dir.join("run/metrics.jsonl");
    let slow = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line.get("step_ms").is_some() {
            line["step_ms"] = 1000.into();
        }
        format!("{line}\n")
    };
    let lines: String = fs::read_to_string(&path).unwrap().lines().map(slow).collect();
    fs::write(&path, lines).unwrap();
    let report = json(dir, &["train", "--resume", "--out", "run", "--steps", "6", "--json"]);
    assert_eq!((&report["sessions"], &report["step_ms"]), (&2.into(), &1000.0.into()));
    assert!(report["seconds"].as_f64().unwrap() > 3600.0);
    let rate = report["samples_per_s"].as_f64().unwrap();
    assert!(rate > 15.0 && rate < 6.0 * 16.0 / 4.0 + 1e-9, "{rate}");
    assert_eq!(report["peak_bytes"]["planned"], 1u64 << 40);
    let page = fs::read_to_string(dir.join("run/report.md")).unwrap();
    assert!(
        page.starts_with("# adder: 6 of 6 steps in 1 h 00 min in 2 sessions, loss "),
        "{page}"
    );
}

/// Runs the command where no file can be larger than some KiB, as on a full disk.
fn limited(dir: &Path, args: &[&str]) -> std::process::Output {
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_lessen")])
        .args(args);
    command.current_dir(dir).env("LESSEN_THREADS", "1").output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_last_good_checkpoint_and_training_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Wide enough that weights do not fit, though metrics do.
    let wide = ["--set", "model.ffn=256"];
    let new = |steps: &'static str, out: &'static str| {
        tiny_adder(
            &[
                EVERY,
                &wide,
                &["--steps", steps, "--out", out, "--set", "train.eval_every=0"],
            ]
            .concat(),
        )
    };
    succeed(dir, &new("6", "whole"));
    succeed(dir, &new("2", "run"));
    let good = fs::read(dir.join("run/checkpoints/step-2/training.json")).unwrap();
    let output = limited(dir, &["train", "--resume", "--out", "run", "--steps", "6"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for step in [4, 6] {
        let warning = format!("warning: the checkpoint after step {step} is not saved, training goes on: ");
        assert!(message.contains(&warning), "{message}");
    }
    assert!(
        message.contains("run/checkpoints/step-2 is the last good one"),
        "{message}"
    );
    let last = message.lines().last().unwrap();
    assert!(
        last.starts_with("error: ") && last.contains("cannot be written"),
        "{message}"
    );
    assert_eq!(
        fs::read(dir.join("run/checkpoints/step-2/training.json")).unwrap(),
        good
    );
    let left: Vec<_> = fs::read_dir(dir.join("run/checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["step-2"], "nothing half-written");
    // With room on the disk, it goes on from there and ends as if nothing had been.
    succeed(dir, &["train", "--resume", "--out", "run"]);
    for file in ["model/model.safetensors", "checkpoints/step-6/training.safetensors"] {
        assert!(
            fs::read(dir.join("run").join(file)).unwrap() == fs::read(dir.join("whole").join(file)).unwrap(),
            "{file}"
        );
    }
}

/// Stops a process and waits until none of its threads runs.
#[cfg(target_os = "linux")]
fn pause(process: u32) {
    send(process, "-STOP");
    let is_stopped = || {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        tasks.flatten().all(|task| {
            let about = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            about
                .rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with(['T', 't', 'Z']))
        })
    };
    while !is_stopped() {
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
fn send(process: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_to_leaves_the_last_good_checkpoint() {
    use std::process::Stdio;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let args = |out: &'static str| {
        let more = [
            "--set",
            "train.checkpoint_every=40",
            "--set",
            "train.eval_every=0",
            "--out",
            out,
        ];
        tiny_adder(&[&["--steps", "1200"], &more[..]].concat())
    };
    succeed(dir, &args("whole"));
    let child = command(dir, &args("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (checkpoints, aside) = (dir.join("run/checkpoints"), dir.join("aside"));
    let names = |dir: &Path| -> Vec<String> {
        let names = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        names.filter_map(|name| name.into_string().ok()).collect()
    };
    while !names(&checkpoints).iter().any(|name| name.starts_with("step-")) {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    // While it stands still, a file takes the place of the folder.
    pause(child.id());
    fs::rename(&checkpoints, &aside).unwrap();
    fs::write(&checkpoints, "no folder").unwrap();
    let bytes = |step: &str| fs::read(aside.join(step).join("training.safetensors")).unwrap();
    let good: Vec<(String, Vec<u8>)> = names(&aside)
        .into_iter()
        .filter(|name| name.starts_with("step-"))
        .map(|name| (name.clone(), bytes(&name)))
        .collect();
    send(child.id(), "-CONT");
    let output = child.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("is not saved, training goes on: "), "{message}");
    let last = message.lines().last().unwrap();
    assert!(
        last.starts_with("error: the last checkpoint, after step 1200, is not saved: ")
            && !message.contains("panicked"),
        "{message}"
    );
    assert_eq!(fs::read(&checkpoints).unwrap(), b"no folder");

    // What was saved before is whole, and training goes on from there.
    fs::remove_file(&checkpoints).unwrap();
    fs::rename(&aside, &checkpoints).unwrap();
    for (name, before) in good {
        assert!(
            fs::read(checkpoints.join(&name).join("training.safetensors")).unwrap() == before,
            "{name}"
        );
    }
    let output = lessen(dir, &["train", "--resume", "--out", "run"]);
    assert!(
        output.status.success() && !stderr(&output).contains("cannot be used"),
        "{}",
        stderr(&output)
    );
    for file in ["model/model.safetensors", "checkpoints/step-1200/training.safetensors"] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read("run") == read("whole"), "{file}");
    }
}

#[test]
fn checkpoints_come_by_time_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Some microseconds: as often as saving allows.
    let often = [
        "--steps",
        "400",
        "--set",
        "train.checkpoint_every=0",
        "--set",
        "train.checkpoint_minutes=1e-7",
    ];
    let keep = [
        "--set",
        "train.keep=1000",
        "--set",
        "train.eval_every=0",
        "--out",
        "run",
    ];
    succeed(dir, &tiny_adder(&[&often[..], &keep].concat()));
    let count = fs::read_dir(dir.join("run/checkpoints")).unwrap().count();
    assert!(count >= 2 && dir.join("run/checkpoints/step-400").is_dir(), "{count}");
}
