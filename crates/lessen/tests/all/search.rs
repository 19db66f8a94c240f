//! Search for architecture and precision from data to a folder: what it leaves, that its network trains, that a killed
//! search resumes to the same bytes, and what is refused.

use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A search over networks that compute in a moment.
const TINY: &[&str] = &[
    "search",
    "mnist",
    "--data",
    "bars",
    "--set",
    "search.width=0.125",
    "--set",
    "search.depth=1",
    "--set",
    "search.kernels=3,5",
    "--set",
    "search.expansions=1,2",
    "--set",
    "search.bits=2,8",
    "--set",
    "search.batch=16",
    "--set",
    "search.frozen_epochs=1",
    "--set",
    "search.logit_rate=0.1",
];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [TINY, more].concat()
}

/// The files of a search that no clock decides, by name.
fn results(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in [root.to_path_buf(), root.join("checkpoint")] {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let is_timed = ["metrics.jsonl", "sessions.json"].contains(&&*name) || name.starts_with("events.");
            // Names of folders are written into the recipe.
            if path.is_file() && !is_timed && name != "recipe.toml" && name != "search.toml" {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The metrics of a search without what a clock decides.
fn metrics(root: &Path) -> Vec<Value> {
    let text = fs::read_to_string(root.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("epoch_ms");
        line
    };
    text.lines().map(line).collect()
}

#[test]
fn a_search_leaves_a_network_within_its_limit_that_trains_with_its_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let free = json(dir, &tiny(&["--epochs", "2", "--out", "free", "--json"]));
    let [least, most] = ["least", "most"].map(|key| free[key].as_f64().unwrap());
    assert!(0.0 < least && least < most, "{free}");
    let limit = format!("{}mJ", least + 0.1 * (most - least));
    let found = json(
        dir,
        &tiny(&["--epochs", "2", "--limit", &limit, "--out", "found", "--json"]),
    );
    let value = found["value"].as_f64().unwrap();
    assert!(value <= least + 0.1 * (most - least) * (1.0 + 1e-9), "{found}");
    assert!(
        (value - found["energy_mj"].as_f64().unwrap()).abs() <= 1e-9 * value,
        "{found}"
    );
    let root = dir.join("found");
    for name in [
        "report.md",
        "curves.svg",
        "choices.json",
        "metrics.jsonl",
        "manifest.json",
    ] {
        assert!(root.join(name).is_file(), "{name}");
    }
    let described: Value = serde_json::from_slice(&fs::read(root.join("architecture.json")).unwrap()).unwrap();
    let blocks = described["blocks"].as_array().unwrap().len();
    assert_eq!(found["blocks"], blocks);

    let steps = ["--set", "train.steps=30", "--set", "train.batch=16"];
    let recipe = ["train", "found/recipe.toml", "--data", "bars", "--out", "trained"];
    succeed(dir, &[&recipe[..], &steps].concat());
    let config: Value = serde_json::from_slice(&fs::read(dir.join("trained/model/config.json")).unwrap()).unwrap();
    assert_eq!(config["architecture"], described);
    assert!(config.to_string().contains("\"dynamic\""), "{config}");
    let scores = json(dir, &["eval", "trained", "--split", "test", "--json"]);
    assert_eq!(scores["examples"], 21);
    succeed(dir, &["export", "trained", "exported"]);

    // Bits of the network that was found, by the other two methods: with its own bits it keeps to the limit.
    let fixed = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--limit",
        &limit,
        "--epochs",
        "2",
        "--set",
        "search.batch=16",
        "--set",
        "search.bits=2,4,8",
        "--set",
        "search.architecture=found/architecture.json",
        "--json",
    ];
    let allocated = json(
        dir,
        &[&fixed[..], &["--set", "search.method=allocation", "--out", "a"]].concat(),
    );
    assert!(allocated["value"].as_f64().unwrap() <= least + 0.1 * (most - least) * (1.0 + 1e-9));
    assert_eq!(allocated["sensitivities"].as_array().unwrap().len(), blocks);
    let haq = ["--set", "search.method=haq", "--set", "search.episodes=3", "--out", "h"];
    let haq = json(dir, &[&fixed[..], &haq].concat());
    assert_eq!(haq["episodes"], 3);
    assert!(haq["value"].as_f64().unwrap() <= least + 0.1 * (most - least) * (1.0 + 1e-9));
}

#[test]
fn a_killed_search_resumes_and_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let often = ["--set", "search.checkpoint_minutes=1e-9", "--epochs", "8"];
    let all = |out| tiny(&[&often[..], &["--out", out]].concat());
    succeed(dir, &all("whole"));
    let mut child = command(dir, &all("killed"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !dir.join("killed/checkpoint").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.join("killed/report.json").exists(), "the search had ended");
    let output = lessen(dir, &["search", "--resume", "--out", "killed"]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("resuming after epoch "), "{told}");
    assert_eq!(results(&dir.join("killed")), results(&dir.join("whole")));
    assert_eq!(metrics(&dir.join("killed")), metrics(&dir.join("whole")));
    // A finished one stays as it is, and other settings are another search.
    let before = results(&dir.join("killed"));
    succeed(dir, &["search", "--resume", "--out", "killed"]);
    assert_eq!(results(&dir.join("killed")), before);
    let sentence = refuse(dir, &["search", "--resume", "--out", "killed", "--seed", "7"]);
    assert!(sentence.contains("search.seed was"), "{sentence}");
}

#[test]
fn searches_that_cannot_be_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    let few_bits = "name = \"four\"\nclock_hz = 500000000\nrows = 4\ncolumns = 4\nhigh_bits = 4\nlow_bits = 2\nweight_buffer = \
                    65536\nactivation_buffer = 32768\noutput_buffer = 16384\nmemory_bits = 64\n[energy]\ncore_cycle = \
                    1.0\nweight_read = 0.02\nweight_write = 0.03\nactivation_read = 0.06\nactivation_write = 0.1\noutput_read = \
                    0.03\noutput_write = 0.07\ndram = 15.0\n";
    fs::write(dir.join("four.toml"), few_bits).unwrap();
    fs::write(dir.join("none.toml"), few_bits.replace("rows = 4\n", "")).unwrap();
    for (more, expected) in [
        (&["--limit", "1nJ"][..], "the least that one takes is "),
        (&["--limit", "1ms"], "the limit `1ms` is no energy"),
        (&["--cost", "energy", "--accelerator", "haq"], "has no energy"),
        (&["--accelerator", "four.toml"], "bits"),
        (&["--accelerator", "none.toml"], "rows"),
        (&["--accelerator", "nowhere"], "nowhere"),
        (&["--set", "search.kernels=4"], "odd kernel"),
        (&["--set", "search.kernels=three"], "is no list of numbers"),
        (&["--set", "search.bits=1,8"], "give 2 to 8"),
        (&["--set", "search.batch=1000"], "a batch has 1000"),
        (
            &["--set", "search.episodes=5"],
            "has no part in search.method = \"joint\"",
        ),
        (&["--set", "search.method=allocation"], "search.width"),
        (&["--set", "train.lr=1"], "train.lr has no part in a search"),
        (&["--set", "search.temperature=0"], "temperature is 0"),
    ] {
        let sentence = refuse(dir, &tiny(&[more, &["--out", "none"]].concat()));
        assert!(sentence.contains(expected), "{more:?}: {sentence}");
        assert!(!dir.join("none").exists(), "{more:?}");
    }
    let allocation = [
        "search",
        "mnist",
        "--data",
        "bars",
        "--set",
        "search.method=allocation",
        "--out",
        "none",
    ];
    let sentence = refuse(dir, &allocation);
    assert!(sentence.contains("name it with --limit"), "{sentence}");
    let train = ["train", "mnist", "--data", "bars", "--out", "none", "--set"];
    let sentence = refuse(dir, &[&train[..], &["search.epochs=3"]].concat());
    assert!(sentence.contains("is for `lessen search`"), "{sentence}");
    let sentence = refuse(dir, &[&train[..], &["model.architecture=four.toml"]].concat());
    assert!(sentence.contains("mixed-mobilenet"), "{sentence}");
    let kind = ["model.kind=mixed-mobilenet", "--set", "model.architecture=four.toml"];
    let sentence = refuse(dir, &[&train[..], &kind].concat());
    assert!(sentence.contains("no description of an architecture"), "{sentence}");
}
