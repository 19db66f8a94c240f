//! The best model, and runs that end when they get no better.

use crate::fine_tuning::{checkpoint_of, files, run};
use crate::support::*;
use std::fs;

#[test]
fn a_run_that_gets_no_better_ends_and_yields_its_best_model() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    // A rate at which the loss soon gets worse.
    let settings = [
        "train.steps=40",
        "train.lr=0.3",
        "train.eval_every=1",
        "train.checkpoint_every=2",
        "train.best=loss",
        "train.patience=3",
        "train.keep=3",
    ];
    let report = run(dir, "run", &settings);
    let (steps, best) = (report["steps"].as_u64().unwrap(), report["best_step"].as_u64().unwrap());
    assert_eq!(
        (steps, &report["stopped_early"], &report["model"]),
        (best + 3, &true.into(), &"best".into())
    );
    let run_dir = dir.join("run");
    let read = |name: &str| fs::read(run_dir.join(name)).unwrap();
    assert!(read("model/model.safetensors") == read("best/model.safetensors"));
    assert!(!run_dir.join("model/best.json").exists());
    let page = fs::read_to_string(run_dir.join("report.md")).unwrap();
    for part in [
        &format!("- ended early: no evaluation was better than that after step {best}"),
        &format!("- best after step {best}, which model/ is"),
        "## Loss",
        "## Evaluations",
        "| step | dev_accuracy | dev_loss |",
        "## Settings",
        "patience = 3",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let kept = fs::read_dir(run_dir.join("checkpoints")).unwrap().count();
    assert!((1..=3).contains(&kept), "{kept}");

    // It has ended: resuming it changes nothing, byte for byte.
    let before = files(&run_dir);
    let said = succeed(dir, &["train", "--resume", "--out", "run"]);
    assert!(
        said.contains(&format!("ended after {steps} steps; nothing is left to do")),
        "{said}"
    );
    assert!(files(&run_dir) == before);
    // Unless it is to wait longer.
    let more = [
        "train",
        "--resume",
        "--out",
        "run",
        "--set",
        "train.patience=5",
        "--json",
    ];
    let longer = json(dir, &more);
    assert!(longer["steps"].as_u64().unwrap() > steps, "{longer}");
}

#[test]
fn evaluations_wait_through_a_resume() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    // Nothing changes, so that every evaluation after the first is one more without a better one.
    let settings = [
        "train.steps=40",
        "train.lr=0",
        "train.eval_every=1",
        "train.checkpoint_every=1",
        "train.patience=6",
    ];
    assert_eq!(run(dir, "whole", &settings)["steps"], 7);
    let short = [&settings[1..], &["train.steps=4"]].concat();
    assert_eq!(run(dir, "run", &short)["steps"], 4);
    let report = json(dir, &["train", "--resume", "--out", "run", "--steps", "40", "--json"]);
    assert_eq!((&report["steps"], &report["sessions"]), (&7.into(), &2.into()));
}
