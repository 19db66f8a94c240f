//! Limits that a run cannot keep to: what the system allows, and budgets below the floor.

use crate::support::*;
#[cfg(target_os = "linux")]
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::{Command, Output};

/// Runs the command in a process that cannot have more than so many KiB of what `flag` of `ulimit` says.
#[cfg(target_os = "linux")]
fn limited(dir: &Path, (flag, kib): (&str, usize), args: &[&str]) -> Output {
    let script = format!("ulimit {flag} {kib}; exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_lessen")])
        .args(args);
    command.current_dir(dir).env("LESSEN_THREADS", "1").output().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_process_cannot_have_is_refused_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let large = [
        "train",
        "adder",
        "--set",
        "model.width=2048",
        "--set",
        "model.layers=6",
        "--out",
        "run",
    ];
    let output = limited(dir, ("-d", 1 << 20), &large);
    let sentence = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    assert!(
        sentence.starts_with("error: the run needs ") && sentence.contains(" are available to this process; "),
        "{sentence}"
    );
    assert!(!dir.join("run").exists());
    let small = tiny_adder(&["--steps", "2", "--budget", "8GiB", "--out", "run"]);
    let output = limited(dir, ("-d", 1 << 20), &small);
    let said = stderr(&output);
    assert!(
        output.status.success() && said.contains("warning: the budget of 8.0 GiB is more than the "),
        "{said}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn no_limit_of_the_address_space_ends_a_run_midway() {
    /// KiB that a process takes beyond what its start needs before it looks at limits.
    const START: usize = 6 << 10;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let starts = |kib: &usize| limited(dir, ("-v", *kib), &["--version"]).status.success();
    let least = (16 << 10..1 << 20).step_by(2 << 10).find(starts).unwrap();
    let sizes = [
        "train",
        "adder",
        "--set",
        "model.layers=1",
        "--set",
        "train.batch=64",
        "--steps",
        "4",
    ];
    let mut ended = Vec::new();
    for kib in (least + START..).step_by(2 << 10) {
        let out = format!("run-{kib}");
        let output = limited(dir, ("-v", kib), &[&sizes[..], &["--out", &out]].concat());
        let code = output.status.code();
        assert!(
            [Some(0), Some(2)].contains(&code),
            "{kib} KiB: {code:?}, {}",
            stderr(&output)
        );
        assert!(code == Some(0) || !dir.join(&out).exists(), "{kib} KiB");
        ended.push(code == Some(0));
        if ended.iter().filter(|success| **success).count() == 3 {
            break;
        }
    }
    // Once it is enough, more is.
    assert!(!ended[0] && ended.is_sorted(), "{ended:?}");
}

#[test]
fn a_budget_below_the_floor_names_settings_that_help() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sizes = [
        "adder",
        "--set",
        "model.width=256",
        "--set",
        "model.ffn=1024",
        "--set",
        "model.layers=1",
    ];
    let of = |more: &[&str]| -> Vec<String> {
        let all = sizes.iter().chain(more);
        all.map(|arg| arg.to_string()).collect()
    };
    let floor = |more: &[&str]| {
        let more = of(&[&["--json"][..], more].concat());
        let args: Vec<&str> = std::iter::once("plan").chain(more.iter().map(String::as_str)).collect();
        json(dir, &args)["floor_bytes"].as_u64().unwrap()
    };
    let refused = |more: &[&str]| {
        let more = of(more);
        let args: Vec<&str> = std::iter::once("train")
            .chain(more.iter().map(String::as_str))
            .collect();
        refuse(dir, &[&args[..], &["--out", "run"]].concat())
    };
    // Most of it is of parameters, gradients and moments: fewer examples do not help.
    let few = ["--set", "train.batch=2"];
    let budget = format!("{}B", floor(&few) - (2 << 20));
    let sentence = refused(&[&few[..], &["--budget", budget.as_str()]].concat());
    let (_, remedy) = sentence.split_once("; allow at least that, or set ").unwrap();
    assert!(
        remedy.contains("train.clip_norm=0 (with a floor of ") && !remedy.contains("train.batch"),
        "{sentence}"
    );
    for setting in ["train.clip_norm=0", "optimizer.kind=adamw_8bit"] {
        assert!(remedy.contains(setting), "{sentence}");
        let more = of(&[
            &few[..],
            &[
                "--budget",
                budget.as_str(),
                "--set",
                setting,
                "--steps",
                "2",
                "--out",
                setting,
            ],
        ]
        .concat());
        let args: Vec<&str> = std::iter::once("train")
            .chain(more.iter().map(String::as_str))
            .collect();
        succeed(dir, &args);
    }
    // Most of it is of activations.
    let many = ["--set", "train.batch=512"];
    let budget = format!("{}B", floor(&many) * 2 / 3);
    let sentence = refused(&[&many[..], &["--budget", budget.as_str()]].concat());
    assert!(sentence.contains("train.batch="), "{sentence}");
    let sentence = refused(&[&many[..], &["--budget", "40MiB"]].concat());
    assert!(
        sentence.ends_with("; allow at least that, or take a smaller model"),
        "{sentence}"
    );
}
