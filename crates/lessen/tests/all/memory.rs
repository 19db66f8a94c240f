//! The memory of whole runs: what is announced before the first step, what is counted, and what is resident.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::process::Command;

const MIB: u64 = 1 << 20;

/// Checks the account of a run: what was counted is what was planned within 1 MiB, and never more, and the process has
/// grown by hardly more.
fn check(what: &str, report: &Value) {
    for account in [&report["session_bytes"], &report["peak_bytes"]] {
        let bytes = |key: &str| account[key].as_u64().unwrap();
        let (planned, measured) = (bytes("planned"), bytes("measured"));
        assert!(
            measured <= planned && planned - measured <= MIB,
            "{what}: {measured} bytes counted, {planned} planned"
        );
        assert!(report["peak_bytes"]["plans"].as_u64().unwrap() < planned, "{what}");
        if let Some(resident) = account["resident"].as_u64() {
            let most = planned + planned / 20 + 24 * MIB;
            assert!(resident <= most, "{what}: {resident} bytes resident, {planned} planned");
        }
    }
}

/// Settings of a classifier with some MiB of forward values.
const MIDDLE: [&str; 12] = [
    "--set",
    "model.width=128",
    "--set",
    "model.layers=3",
    "--set",
    "model.ffn=512",
    "--set",
    "data.max_length=48",
    "--set",
    "train.eval_every=5",
    "--set",
    "train.checkpoint_every=4",
];

/// Checks that a plan announces what the run announced, up to the flags and the folder of its process.
fn check_plan(what: &str, plan: &Value, report: &Value) {
    let of_plan = plan["peak_bytes"].as_u64().unwrap();
    let of_run = report["peak_bytes"]["planned"].as_u64().unwrap();
    assert!(
        of_plan.abs_diff(of_run) <= 128 << 10,
        "{what}: {of_plan} bytes in the plan, {of_run} in the run"
    );
    assert_eq!(plan["plans_bytes"], report["peak_bytes"]["plans"], "{what}");
    let parts = plan["account_bytes"].as_object().unwrap();
    let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
    assert_eq!(sum, of_plan, "{what}");
}

/// Writes labelled texts of 1 to 40 characters.
fn texts(dir: &Path) -> PathBuf {
    let folder = dir.join("texts");
    fs::create_dir_all(&folder).unwrap();
    let line = |i: usize| format!("{}\t{}\n", "ab c".repeat(1 + i * i % 10), i % 2);
    fs::write(folder.join("train.txt"), (0..400).map(line).collect::<String>()).unwrap();
    fs::write(folder.join("dev.txt"), (0..90).map(line).collect::<String>()).unwrap();
    folder
}

#[test]
fn a_run_takes_the_memory_that_it_announces() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let saving = [
        "--set",
        "train.checkpoint_every=4",
        "--set",
        "train.eval_every=5",
        "--json",
    ];
    let args = [&tiny_adder(&["--steps", "12", "--out", "sums"])[..], &saving].concat();
    let report = json(dir, &args);
    check("sums", &report);
    let plan = [&["plan", "adder", "--set", "train.steps=12"], TINY_ADDER, &saving].concat();
    check_plan("sums", &json(dir, &plan), &report);
    let events = fs::read_dir(dir.join("sums"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut events = events.filter(|path| text(path).contains("tfevents"));
    let events = String::from_utf8_lossy(&fs::read(events.next().unwrap()).unwrap()).into_owned();
    for tag in ["memory/planned_mib", "memory/measured_mib"] {
        // At the first step, in the two evaluations, and in the evaluation of the last step.
        assert_eq!(events.matches(tag).count(), 4, "{tag}");
    }

    let data = texts(dir);
    for kind in ["bert", "encoder"] {
        let recipe = classifier(dir, kind, "");
        let more = [&MIDDLE[..], &["--set", "train.steps=30", "--json"]].concat();
        let report = json(dir, &[&train_on(&recipe, &data, &more)[..], &["--out", kind]].concat());
        check(kind, &report);
        let plan = [&["plan", text(&recipe), "--data", text(&data)], &more[..]].concat();
        check_plan(kind, &json(dir, &plan), &report);
        let more = ["train", "--resume", "--out", kind, "--steps", "40", "--json"];
        check(&format!("{kind}, resumed"), &json(dir, &more));
    }
}

#[test]
fn updates_in_the_next_step_take_the_memory_that_is_announced() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (texts(dir), classifier(dir, "encoder", ""));
    for placement in ["forward-fused", "planned"] {
        let placed = format!("optimizer.placement={placement}");
        let late = ["--set", &placed, "--set", "train.steps=20", "--json"];
        let more = [&MIDDLE[..], &late].concat();
        let plan = json(
            dir,
            &[&["plan", text(&recipe), "--data", text(&data)], &more[..]].concat(),
        );
        assert_eq!(plan["update_placement"], placement);
        let placements = plan["placements"].as_object().unwrap();
        let is_late = |name: &str| placements[name] == "forward-fused";
        assert!(placements.len() > 10);
        assert!(placement == "planned" || placements.keys().all(|name| is_late(name)));
        let floor = format!("{}B", plan["floor_bytes"].as_u64().unwrap());
        for (out, budget) in [("free", &[][..]), ("floor", &["--budget", &floor])] {
            let out = format!("{placement}-{out}");
            let report = json(
                dir,
                &[&train_on(&recipe, &data, &more)[..], budget, &["--out", &out]].concat(),
            );
            check(&out, &report);
            if budget.is_empty() {
                check_plan(&out, &plan, &report);
            }
        }
    }
}

#[test]
fn a_budget_binds_the_whole_process() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (texts(dir), classifier(dir, "bert", ""));
    let more = [&MIDDLE[..], &["--set", "train.batch=32", "--json"]].concat();
    let args = train_on(&recipe, &data, &[&more[..], &["--steps", "8"]].concat());
    let run = |budget: u64, out: &str| {
        let budget = format!("{budget}B");
        let report = json(dir, &[&args[..], &["--budget", &budget, "--out", out]].concat());
        check(out, &report);
        report
    };
    let free = json(dir, &[&args[..], &["--out", "free"]].concat());
    let needed = free["peak_bytes"]["planned"].as_u64().unwrap();

    // Too small a budget is refused with the smallest one, which is enough.
    let sentence = refuse(dir, &[&args[..], &["--budget", "1MiB", "--out", "none"]].concat());
    assert!(
        sentence.contains("the budget of 1.0 MiB is below the floor of ") && sentence.contains("arena "),
        "{sentence}"
    );
    assert!(!dir.join("none").exists());
    let bytes = sentence.split_once(" bytes)").unwrap().0;
    let floor: u64 = bytes.rsplit_once('(').unwrap().1.parse().unwrap();
    assert!(floor + 2 * MIB < needed, "{floor} of {needed}");
    let weights = |out: &str| fs::read(dir.join(out).join("model/model.safetensors")).unwrap();
    for (budget, out) in [(floor, "floor"), (floor.midpoint(needed), "middle")] {
        let report = run(budget, out);
        assert!(report["peak_bytes"]["measured"].as_u64().unwrap() <= budget, "{report}");
        assert!(report["peak_bytes"]["planned"].as_u64().unwrap() <= budget, "{report}");
        assert!(weights(out) == weights("free"), "{out}");
    }
    let plan = [
        &["plan", text(&recipe), "--data", text(&data), "--set", "train.steps=8"],
        &more[..],
    ]
    .concat();
    let plan = json(dir, &plan);
    assert!(
        plan["floor_bytes"].as_u64().unwrap().abs_diff(floor) <= 128 << 10,
        "{plan}"
    );
}

/// Runs the command in a process that cannot have more than `kib` KiB of data.
#[cfg(target_os = "linux")]
fn limited(dir: &Path, kib: u32, args: &[&str]) -> std::process::Output {
    let script = format!("ulimit -d {kib}; exec \"$@\"");
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
    let output = limited(dir, 1 << 20, &large);
    let sentence = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{sentence}");
    assert!(
        sentence.starts_with("error: the run needs ") && sentence.contains(" are available to this process; "),
        "{sentence}"
    );
    assert!(!dir.join("run").exists());
    let small = tiny_adder(&["--steps", "2", "--budget", "8GiB", "--out", "run"]);
    let output = limited(dir, 1 << 20, &small);
    let said = stderr(&output);
    assert!(
        output.status.success() && said.contains("warning: the budget of 8.0 GiB is more than the "),
        "{said}"
    );
}
