//! `lessen plan`: the time of a step, the choices in words, the sweep over budgets, batches of several sizes.

use crate::phases::{GROWING, write};
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// An adder that takes less memory under a budget.
const ADDER: &[&str] = &["plan", "adder", "--set", "train.batch=64", "--set", "model.layers=3"];

fn planned(dir: &Path, more: &[&str]) -> Value {
    json(dir, &[ADDER, more, &["--json"]].concat())
}

fn bytes(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"))
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

#[test]
fn a_plan_says_how_long_a_step_takes_and_what_it_recomputes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let free = planned(dir, &[]);
    let budget = format!("{}B", free["floor_bytes"]);
    let tight = planned(dir, &["--budget", &budget]);
    let (fast, slow) = (number(&free, "estimated_step_ms"), number(&tight, "estimated_step_ms"));
    assert!(0.0 < fast && fast < slow, "{fast} ms, {slow} ms at the floor");

    // Without a budget nothing has to be explained; with one each value is in a group of its operation.
    let printed = succeed(dir, ADDER);
    assert!(
        printed.contains("\nestimated step ") && !printed.contains(" place"),
        "{printed}"
    );
    let printed = succeed(dir, &[ADDER, &["--budget", &budget]].concat());
    // A plan under a budget says how far it may be from the fastest one.
    assert!(free["slower_than_best"].is_null(), "{free}");
    let share = number(&tight, "slower_than_best");
    assert!((0.0..0.5).contains(&share), "{share}");
    let line = format!(
        "\nwithin        {:>8.1} % of the best that the planner could choose\n",
        100.0 * share
    );
    assert!(printed.contains(&line), "{printed}");
    let places = |line: &str| -> Option<u64> {
        let places = line.strip_suffix(" places").or(line.strip_suffix(" place"))?;
        Some(places.rsplit(' ').next()?.parse().unwrap())
    };
    let lines: Vec<&str> = printed.lines().filter(|line| places(line).is_some()).collect();
    let in_words: u64 = lines.iter().filter_map(|line| places(line)).sum();
    let choices = tight["choices"].as_array().unwrap();
    assert_eq!(in_words, choices.len() as u64, "{printed}");
    let gelus = choices
        .iter()
        .filter(|choice| choice["value"].as_str().unwrap().ends_with(" gelu"))
        .count();
    let gelu = lines.iter().find(|line| line.starts_with("  gelu ")).unwrap();
    assert_eq!(places(gelu), Some(gelus as u64), "{printed}");

    // A step of four batches takes four times as long as one.
    let four = planned(dir, &["--set", "train.accumulate=4"]);
    let ratio = number(&four, "estimated_step_ms") / fast;
    assert!((3.5..8.0).contains(&ratio), "{ratio}");
    let output = lessen(dir, &[ADDER, &["--budget", "1KiB", "--json"]].concat());
    let under: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(under["estimated_step_ms"].is_null(), "{under}");
}

#[test]
fn a_sweep_goes_from_the_floor_to_what_is_taken_without_a_budget() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let plan = planned(dir, &["--sweep"]);
    let rows = plan["sweep"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert_eq!(rows[0]["budget_bytes"], plan["floor_bytes"]);
    assert_eq!(rows[11]["budget_bytes"], plan["unbounded_bytes"]);
    assert_eq!(rows[11]["peak_bytes"], plan["peak_bytes"]);
    assert_eq!(rows[11]["estimated_step_ms"], plan["estimated_step_ms"]);
    for row in rows {
        assert!(bytes(row, "peak_bytes") <= bytes(row, "budget_bytes"), "{row}");
    }
    for pair in rows.windows(2) {
        assert!(
            bytes(&pair[0], "budget_bytes") < bytes(&pair[1], "budget_bytes")
                && bytes(&pair[0], "peak_bytes") <= bytes(&pair[1], "peak_bytes")
                && number(&pair[0], "estimated_step_ms") >= number(&pair[1], "estimated_step_ms"),
            "{pair:?}"
        );
    }
    let ratios: Vec<f64> = rows.iter().map(|row| number(row, "ratio")).collect();
    assert!(ratios[0] > 1.0 && ratios[11] == 1.0, "{ratios:?}");
    assert!(bytes(&rows[0], "recomputed_bytes") > bytes(&rows[11], "recomputed_bytes"));

    // Each row is what a plan under its budget says, and the sweep changes nothing else.
    let budget = format!("{}B", rows[5]["budget_bytes"]);
    let own = planned(dir, &["--budget", &budget]);
    assert_eq!(own["estimated_step_ms"], rows[5]["estimated_step_ms"]);
    assert!(bytes(&own, "peak_bytes").abs_diff(bytes(&rows[5], "peak_bytes")) <= 128 << 10);
    let plain = planned(dir, &[]);
    assert!(plain.get("sweep").is_none());
    assert_eq!(plain["peak_bytes"], plan["peak_bytes"]);
    let printed = succeed(dir, &[ADDER, &["--sweep"]].concat());
    let table = printed
        .split_once("\nbudgets from the floor to none, steps by analytic costs\n")
        .unwrap()
        .1;
    assert_eq!(table.lines().count(), 13, "{table}");
}

#[test]
fn phases_have_a_sweep_each() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, "growing.toml", GROWING);
    let plan = json(dir, &["plan", "growing.toml", "--sweep", "--json"]);
    let phases = plan["phases"].as_array().unwrap();
    let times = phases.iter().map(|phase| number(phase, "estimated_step_ms"));
    assert_eq!(number(&plan, "estimated_step_ms"), times.fold(0.0, f64::max));
    assert!(
        phases
            .iter()
            .all(|phase| !phase["sweep"].as_array().unwrap().is_empty()),
        "{plan}"
    );
    let printed = succeed(dir, &["plan", "growing.toml", "--sweep"]);
    assert_eq!(printed.matches("budgets from the floor to none").count(), 3);
    let sentence = refuse(dir, &["plan", "growing.toml", "--batches", "1,2"]);
    assert!(
        sentence.contains("--batches") && sentence.contains("the recipe has phases"),
        "{sentence}"
    );
}

#[test]
fn batches_of_several_sizes_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let plan = planned(dir, &["--batches", "16,1,4,64,4", "--set", "train.accumulate=2"]);
    let rows = plan["batches"].as_array().unwrap();
    let sizes: Vec<u64> = rows.iter().map(|row| bytes(row, "batch")).collect();
    assert_eq!(sizes, [1, 4, 16, 64]);
    for pair in rows.windows(2) {
        for key in ["peak_bytes", "floor_bytes"] {
            assert!(bytes(&pair[0], key) < bytes(&pair[1], key), "{pair:?}");
        }
    }
    let times: Vec<f64> = rows.iter().map(|row| number(row, "estimated_ms_per_example")).collect();
    let best = (0..4).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap();
    assert_eq!(plan["best_batch"], rows[best]["batch"]);
    for (row, ms) in rows.iter().zip(times) {
        let examples = 2.0 * number(row, "batch");
        assert!(
            (ms * examples / number(row, "estimated_step_ms") - 1.0).abs() < 1e-9,
            "{row}"
        );
    }

    // A budget between the floors leaves the small ones.
    let plain = planned(dir, &["--batches", "1,64"]);
    let floors = plain["batches"].as_array().unwrap();
    let (small, large) = (bytes(&floors[0], "floor_bytes"), bytes(&floors[1], "floor_bytes"));
    let budget = format!("{}B", small.midpoint(large));
    let under = planned(dir, &["--batches", "1,64", "--budget", &budget]);
    let rows = under["batches"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["feasible"], &rows[1]["feasible"]),
        (&true.into(), &false.into())
    );
    assert!(rows[1]["peak_bytes"].is_null() && rows[1]["estimated_step_ms"].is_null());
    assert!(bytes(&rows[1], "floor_bytes").abs_diff(large) <= 128 << 10, "{under}");
    assert_eq!(under["best_batch"], 1);
    let printed = succeed(dir, &[ADDER, &["--batches", "1,64", "--budget", &budget]].concat());
    assert!(
        printed.contains("below the floor\n") && printed.ends_with("batches of 1 have the best throughput\n"),
        "{printed}"
    );
    let output = lessen(dir, &[ADDER, &["--batches", "64", "--budget", &budget]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: the budget of "));
}

#[test]
fn a_batch_has_no_more_examples_than_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    let args = [
        "plan",
        text(&recipe),
        "--data",
        text(&data),
        "--batches",
        "8,1000",
        "--json",
    ];
    let plan = json(dir, &args);
    for (row, examples) in plan["batches"].as_array().unwrap().iter().zip([8.0, 40.0]) {
        let own = number(row, "estimated_step_ms") / number(row, "estimated_ms_per_example");
        assert!((own - examples).abs() < 1e-6, "{row}");
    }
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (sizes, word) in [
        ("1,0", "0"),
        ("1,two", "two"),
        ("-4", "-4"),
        ("1,,2", ""),
        ("1.5", "1.5"),
    ] {
        assert_eq!(
            refuse(dir, &[ADDER, &["--batches", sizes]].concat()),
            format!("error: --batches: '{word}' is no batch size; write whole numbers from 1 on, such as 1,2,4,8")
        );
    }
    let sentence = refuse(dir, &[ADDER, &["--batches", "1,9999999999999"]].concat());
    assert!(sentence.contains("--batches 9999999999999: train.batch"), "{sentence}");
    let recipe = classifier(dir, "bert", "tokens = 64\n");
    let sentence = refuse(dir, &["plan", text(&recipe), "--batches", "1,2"]);
    assert!(
        sentence.contains("train.tokens = 64") && sentence.contains("leave out --batches"),
        "{sentence}"
    );
    for flag in [&["--sweep"][..], &["--batches", "1"], &["--html", "page.html"]] {
        let output = lessen(dir, &[ADDER, flag, &["--dump", "graph"]].concat());
        assert_eq!(output.status.code(), Some(2), "{flag:?}");
        assert!(stderr(&output).contains("cannot be used with"), "{flag:?}");
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing is written");
}
