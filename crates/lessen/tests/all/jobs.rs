//! What all long jobs have alike: trainings, condensations, coresets and searches stop when they are asked to, resume
//! to the same bytes, go on where a checkpoint cannot be written, and have their folder for themselves.
#![cfg(target_os = "linux")]

use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A kind of job.
struct JobCase {
    /// Arguments of a job that takes about a second.
    args: String,
    /// The file or folder in its folder by which it is told to be under way, mostly its first checkpoint.
    mark: &'static str,
    /// The folder of its checkpoints.
    checkpoints: &'static str,
    /// What is said where a checkpoint cannot be written.
    goes_on: &'static str,
}

const CONDENSE: &str = "condense mnist --data bars --per-class 2 --set condense.width=4 --set condense.depth=1 \
                        --set condense.checkpoint_minutes=1e-9";

const SEARCH: &str = "search mnist --data bars --set search.batch=16 --set search.checkpoint_minutes=1e-9";

/// A network of two blocks whose bits are searched.
const NETWORK: &str = r#"{"stem": 4, "stem_stride": 2, "blocks": [
    {"out": 4, "stride": 1, "expansion": 2, "kernel": 3, "bits": [8, 8]},
    {"out": 8, "stride": 2, "expansion": 2, "kernel": 3, "bits": [8, 8]}
], "last": 16, "bits": 8}"#;

fn training() -> JobCase {
    let more = "--steps 400 --set train.checkpoint_every=20 --set train.eval_every=100";
    JobCase {
        args: format!("{} {more}", tiny_adder(&[]).join(" ")),
        mark: "checkpoints/step-20",
        checkpoints: "checkpoints",
        goes_on: "is not saved, training goes on: ",
    }
}

fn job(args: String, goes_on: &'static str) -> JobCase {
    JobCase {
        args,
        mark: "checkpoint",
        checkpoints: "checkpoint",
        goes_on,
    }
}

fn condensation(more: &str) -> JobCase {
    job(
        format!("{CONDENSE} {more}"),
        "are not saved, the condensation goes on: ",
    )
}

fn search(more: &str) -> JobCase {
    job(format!("{SEARCH} {more}"), "is not saved, the search goes on: ")
}

fn bits(more: &str) -> JobCase {
    search(&format!(
        "--limit 1000mJ --set search.architecture=network.json --set search.bits=2,4,8 {more}"
    ))
}

/// Runs the command `args` for the folder `out`, in which it is resumed where `args` has no words.
fn words<'a>(args: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    args.split_whitespace().chain(more.iter().copied()).collect()
}

/// Sends a signal to a process.
fn send(process: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Stops a process and waits until none of its threads runs.
fn pause(process: &Child) {
    send(process, "-STOP");
    let is_stopped = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
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

/// The files of a job that no clock decides, by path, and its metrics without times.
fn results(root: &Path) -> (BTreeMap<String, Vec<u8>>, Vec<Value>) {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    let is_training = root.join("config.toml").exists();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let is_timed = ["metrics.jsonl", "sessions.json"].contains(&&*name) || name.starts_with("events.");
            // Names of folders are written into recipes, and times into reports of trainings.
            let differs = is_timed || name == "recipe.toml" || is_training && name.starts_with("report.");
            match path.is_dir() {
                true => folders.push(path),
                false if differs => {}
                false => drop(found.insert(name, fs::read(&path).unwrap())),
            }
        }
    }
    let text = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_ms"));
        line
    };
    (found, text.lines().map(line).collect())
}

impl JobCase {
    /// Starts the job in a folder, and pauses it after its first checkpoint.
    fn paused(&self, dir: &Path, out: &str) -> Child {
        let child = command(dir, &words(&self.args, &["--json", "--out", out]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !dir.join(out).join(self.mark).exists() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{out} is not under way after a minute"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        pause(&child);
        assert!(!dir.join(out).join("report.json").exists(), "{out} has ended");
        child
    }

    /// The words that resume the job in a folder.
    fn resuming<'a>(&'a self, out: &'a str) -> [&'a str; 4] {
        let command = self.args.split_whitespace().next().unwrap();
        [command, "--resume", "--out", out]
    }

    /// Resumes the job, which ends with the bytes of one that was not stopped.
    fn ends_as_whole(&self, dir: &Path, out: &str) {
        succeed(dir, &self.resuming(out));
        let ([files, whole], [lines, all]) = {
            let (files, lines) = results(&dir.join(out));
            let (whole, all) = results(&dir.join("whole"));
            ([files, whole], [lines, all])
        };
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            whole.keys().collect::<Vec<_>>(),
            "{out}"
        );
        for (name, bytes) in &files {
            assert!(*bytes == whole[name], "{out}/{name} differs");
        }
        assert_eq!(lines, all, "{out}");
    }

    /// Goes on and sends signals, after which the process ends with exit code 130.
    fn ended_by(&self, dir: &Path, out: &str, signals: &[&str]) -> Output {
        let child = self.paused(dir, out);
        signals.iter().for_each(|signal| send(&child, signal));
        send(&child, "-CONT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{out}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
        output
    }

    /// Checks all that jobs have alike.
    fn check(&self) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        bars(dir);
        fs::write(dir.join("network.json"), NETWORK).unwrap();
        succeed(dir, &words(&self.args, &["--out", "whole"]));

        // Ctrl-C and SIGTERM save the state, and the object is printed.
        for (out, signal) in [("interrupted", "-INT"), ("terminated", "-TERM")] {
            let output = self.ended_by(dir, out, &[signal]);
            let printed = String::from_utf8(output.stdout.clone()).unwrap();
            let object: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
            assert_eq!(object["interrupted"], true, "{object}");
            let how = format!("go on with `lessen {}`", self.resuming(out).join(" "));
            assert!(stderr(&output).contains(&how), "{}", stderr(&output));
            self.ends_as_whole(dir, out);
        }

        // A second signal ends the process at once.
        self.ended_by(dir, "twice", &["-INT", "-TERM"]);
        self.ends_as_whole(dir, "twice");

        // Another process is refused, and one that is killed leaves what it saved.
        let mut child = self.paused(dir, "killed");
        let sentence = refuse(dir, &self.resuming("killed"));
        let process = format!("by process {}; wait for its end", child.id());
        assert!(sentence.contains(&process), "{sentence}");
        child.kill().unwrap();
        child.wait().unwrap();
        self.ends_as_whole(dir, "killed");

        self.goes_on_unsaved(dir);
    }

    /// Where checkpoints cannot be written, the job goes on and ends with an error, and can be resumed.
    fn goes_on_unsaved(&self, dir: &Path) {
        let child = self.paused(dir, "unsaved");
        let (checkpoints, aside) = (dir.join("unsaved").join(self.checkpoints), dir.join("aside"));
        let has_some = checkpoints.exists();
        if has_some {
            fs::rename(&checkpoints, &aside).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", &checkpoints).unwrap();
        send(&child, "-CONT");
        let output = child.wait_with_output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(self.goes_on) && !told.contains("panicked"), "{told}");
        let last = told.lines().last().unwrap();
        assert!(last.starts_with("error: ") && last.contains(" not saved: "), "{told}");
        if has_some {
            fs::remove_file(&checkpoints).unwrap();
            fs::rename(&aside, &checkpoints).unwrap();
            self.ends_as_whole(dir, "unsaved");
        } else {
            assert!(!dir.join("unsaved").exists(), "nothing of it was done and saved");
        }
    }
}

#[test]
fn trainings_stop_and_resume() {
    training().check();
}

#[test]
fn condensations_by_gradients_stop_and_resume() {
    condensation("--set condense.real_batch=8 --set condense.updates=2 --set condense.epochs=1 --iterations 150")
        .check();
}

#[test]
fn coresets_stop_and_resume() {
    let args = CONDENSE.replace(" --set condense.checkpoint_minutes=1e-9", "");
    JobCase {
        args: format!("{args} --method forgetting --set condense.epochs=300"),
        mark: "metrics.jsonl",
        ..condensation("")
    }
    .check();
}

#[test]
fn searches_by_gradients_stop_and_resume() {
    search(
        "--set search.width=0.125 --set search.depth=1 --set search.kernels=3,5 --set search.expansions=1,2 \
         --set search.bits=2,8 --set search.frozen_epochs=1 --set search.logit_rate=0.1 --epochs 6",
    )
    .check();
}

#[test]
fn exact_choices_of_bits_stop_and_resume() {
    bits("--set search.method=allocation --epochs 40").check();
}

#[test]
fn choices_of_bits_by_an_agent_stop_and_resume() {
    bits("--set search.method=haq --set search.episodes=40 --epochs 1").check();
}
