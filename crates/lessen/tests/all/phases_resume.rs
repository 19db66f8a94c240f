//! A run in phases can be stopped anywhere and goes on with the same bits.

use crate::phases::{GROWING, metrics, write};
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps of the checkpoints that a run has.
fn checkpoints(run: &Path) -> BTreeSet<u64> {
    let entries = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
        .collect()
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    succeed(dir, &["train", "growing.toml", "--out", "whole"]);
    let run = dir.join("killed");
    let (mut seen, mut args) = (BTreeSet::new(), vec!["train", "growing.toml", "--out", "killed"]);
    while !run.join("report.json").exists() {
        let mut child = command(dir, &args)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let newest = seen.last().copied().unwrap_or(0);
        let is_done = |child: &mut std::process::Child| child.try_wait().unwrap().is_some();
        while checkpoints(&run).last().is_none_or(|&step| step <= newest) && !is_done(&mut child) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no checkpoint after a minute"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().ok();
        child.wait().unwrap();
        seen.extend(checkpoints(&run));
        args = vec!["train", "--resume", "--out", "killed"];
    }
    assert!(seen.len() >= 2, "it was killed at {seen:?} only");
    assert_same_end(dir, "whole", "killed");
}

fn assert_same_end(dir: &Path, a: &str, b: &str) {
    for file in [
        "model/model.safetensors",
        "checkpoints/step-45/training.safetensors",
        "checkpoints/step-45/training.json",
        "best/model.safetensors",
        "best/best.json",
    ] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read(a) == read(b), "{file} differs");
    }
    assert_eq!(metrics(&dir.join(a)), metrics(&dir.join(b)));
}

#[test]
fn the_end_of_a_phase_is_a_place_to_go_on_from() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    let own = ["train", "growing.toml", "--set", "train.checkpoint_every=0"];
    succeed(dir, &[&own[..], &["--out", "whole"]].concat());
    succeed(dir, &[&own[..], &["--out", "run"]].concat());
    assert_eq!(checkpoints(&dir.join("run")), [35, 45].into());
    // As if it had been killed right after the second phase, or in the third before its first checkpoint.
    for _ in 0..2 {
        fs::remove_dir_all(dir.join("run/checkpoints/step-45")).unwrap();
        let output = lessen(dir, &["train", "--resume", "--out", "run"]);
        let message = stderr(&output);
        assert!(
            output.status.success() && message.contains("resuming after step 35 from "),
            "{message}"
        );
        assert!(
            message.contains("growing, phase three: GPT2LMHeadModel with "),
            "{message}"
        );
        assert_same_end(dir, "whole", "run");
    }
    // A run in its second phase is asked by the model of that phase.
    fs::remove_dir_all(dir.join("run/checkpoints/step-45")).unwrap();
    fs::remove_dir_all(dir.join("run/model")).unwrap();
    let score = json(dir, &["eval", "run", "--json"]);
    assert_eq!(score["model"], "run/checkpoints/step-35");
    let second = metrics(&dir.join("whole"))
        .into_iter()
        .find(|line| line["step"] == 35 && line["dev_loss"].is_number());
    assert_eq!(score["dev_loss"], second.unwrap()["dev_loss"]);
}

#[test]
fn a_phase_can_be_longer_when_the_run_goes_on_but_not_one_that_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    succeed(dir, &["train", "growing.toml", "--out", "run"]);
    let resume = |set: &'static str| ["train", "--resume", "--out", "run", "--set", set];
    assert_eq!(
        refuse(dir, &resume("phase.two.train.steps=20")),
        "error: train.steps = 20 (--set phase.two.train.steps=20) is too late for the phase two, which the run has \
         finished; leave it out"
    );
    assert!(refuse(dir, &resume("phase.three.train.steps=4")).starts_with(
        "error: phase three: train.steps = 4 (--set phase.three.train.steps=4) ends after 4 steps, but the run run has \
         done 10 already; "
    ));
    assert_eq!(
        refuse(dir, &resume("phase.three.model.ffn=32")),
        "error: phase.three.model.ffn was 24 in the run run and is 32 now; resume with the same settings, or start \
         another run"
    );
    let report = succeed(dir, &resume("phase.three.train.steps=12"));
    assert!(report.contains("growing: 47 of 47 steps"), "{report}");
    assert_eq!(metrics(&dir.join("run")).last().unwrap()["step"], 47);
}

#[test]
fn phases_may_start_from_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (init, data) = (checkpoint(dir, "bert"), dir.join("titles"));
    let recipe = |second: &str| {
        let phases = format!("[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\ntrain.steps = 1\n{second}\n");
        classifier(dir, "bert", &format!("checkpoint_every = 2\n{phases}"))
    };
    let args = |out: &'static str| ["--init", "first/model", "--out", out];
    let sentence = refuse(dir, &train_on(&recipe("model.layers = 2"), &data, &args("run")));
    assert!(
        sentence.starts_with("error: phase b: model.layers = 2 (")
            && sentence.ends_with("/first/model; leave it out of the phase"),
        "{sentence}"
    );
    let sound = recipe("model.dropout = 0.25");
    for run in ["whole", "run"] {
        succeed(dir, &train_on(&sound, &data, &args(run)));
    }
    // What it started from may be gone, also for the phases that have not begun.
    fs::remove_dir_all(init).unwrap();
    fs::remove_dir_all(dir.join("run/checkpoints/step-5")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "run"]);
    for file in ["model/model.safetensors", "model/config.json"] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read("whole") == read("run"), "{file} differs");
    }
    assert_eq!(metrics(&dir.join("whole")), metrics(&dir.join("run")));
}
