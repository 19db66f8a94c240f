//! `lessen experiment` with a table `[training]`: networks are searched, trained from scratch and judged, and points
//! follow others.

use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const FILE: &str = r#"
title = "Bits"
recipe = "mnist"
page = "pages/bits.md"
keep = true
seeds = [1]

[set]
data.path = "bars"

[set.search]
width = 0.125
depth = 1
kernels = "3"
expansions = "1,2"
bits = "2,8"
batch = 16
epochs = 2
frozen_epochs = 1
checkpoint_minutes = 1e-9

[training]
train = { steps = 6, batch = 16 }

[[variant]]
name = "exact"
architecture_of = "architecture"
limit_of = "joint"
share = 0.5
search = { method = "allocation", bits = "2,4,8" }

[[variant]]
name = "joint"
search.lambda = 0.1

[[variant]]
name = "architecture"
trained = false
search = { method = "architecture", bits = "8" }

[[measure]]
name = "error, %"
value = "test_error"
scale = 100

[[measure]]
value = "energy_mj"

[[measure]]
value = "bits_ratio"

[[measure]]
value = "peak_bytes"

[[claim]]
text = "Together is better."
measure = "error, %"
better = "joint"
than = "exact"

[[plot]]
title = "Error over energy"
measure = "error, %"
over = "energy_mj"
"#;

fn prepare(dir: &Path, file: &str) {
    bars(dir);
    fs::write(dir.join("bits.toml"), file).unwrap();
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

/// The numbers of the runs of a seed, by point.
fn of_seed(found: &Value, seed: u64) -> Vec<(Value, Value)> {
    let runs = found["runs"].as_array().unwrap().iter();
    let own = runs.filter(|run| run["seed"] == seed);
    let numbers = |run: &Value| {
        let mut numbers = run["measures"].clone();
        // What a process has beside its plans is another number in the next one.
        assert!(
            numbers
                .as_object_mut()
                .unwrap()
                .remove("peak_bytes")
                .is_some_and(|peak| peak.is_f64())
        );
        (run["point"].clone(), numbers)
    };
    own.map(numbers).collect()
}

#[test]
fn points_follow_others_and_seeds_are_added_when_the_folders_of_others_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(dir, FILE);
    let mut child = command(dir, &["experiment", "bits.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !dir.join("runs/bits/joint/seed-1/checkpoint").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no checkpoint after a minute"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !dir.join("runs/bits/exact").exists(),
        "a point was before those that it follows"
    );
    let found = json(dir, &["experiment", "bits.toml", "--json"]);
    let whole = [
        "experiment",
        "bits.toml",
        "--out",
        "whole",
        "--page",
        "whole.md",
        "--json",
    ];
    assert_eq!(of_seed(&json(dir, &whole), 1), of_seed(&found, 1));
    assert_eq!(found["runs"].as_array().unwrap().len(), 2);

    // The point that follows has the network of one point and the cost of another, or half of the way.
    let folder = |point: &str| dir.join("runs/bits").join(point).join("seed-1");
    let settings = fs::read_to_string(folder("exact").join("search.toml")).unwrap();
    assert!(settings.contains("architecture/seed-1/architecture.json"), "{settings}");
    let (exact, wish) = (report(&folder("exact")), &report(&folder("joint"))["value"]);
    let [least, most, wish, limit] =
        [&exact["least"], &exact["most"], wish, &exact["limit"]].map(|number| number.as_f64().unwrap());
    let half = least + 0.5 * (most - least);
    let is_met = (least..=most).contains(&wish);
    assert_eq!(limit, if is_met { wish } else { half });
    assert!(!folder("architecture").join("trained").exists());
    let eval = ["eval", "runs/bits/exact/seed-1/trained", "--split", "test", "--json"];
    let error = 1.0 - json(dir, &eval)["test_accuracy"].as_f64().unwrap();
    let of_exact = &of_seed(&found, 1)
        .into_iter()
        .find(|(point, _)| point == "exact")
        .unwrap()
        .1;
    assert_eq!(of_exact["error, %"], error);
    assert_eq!(of_exact["energy_mj"], exact["energy_mj"]);
    let page = fs::read_to_string(dir.join("pages/bits.md")).unwrap();
    for part in [
        "2 points, seeds 1, 2 runs in ",
        " of trainings\n- Training of each network from scratch: `train.batch = 16`, `train.steps = 6`\n",
        "- **energy_mj**: `energy_mj` of the whole run; lower is better\n",
        "![Error over energy](bits/1-Error-over-energy.svg)\n",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("| architecture |"), "{page}");

    // Without the folder of a seed, its numbers are kept, and another seed is added.
    fs::remove_dir_all(dir.join("runs")).unwrap();
    fs::write(dir.join("bits.toml"), FILE.replace("seeds = [1]", "seeds = [1, 2]")).unwrap();
    let output = lessen(dir, &["experiment", "bits.toml", "--json"]);
    let told = stderr(&output);
    assert!(
        output.status.success() && told.contains("6 runs in runs/bits, 3 left to do"),
        "{told}"
    );
    let both: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(of_seed(&both, 1), of_seed(&found, 1));
    assert_eq!(of_seed(&both, 2).len(), 2);
    assert!(!folder("joint").exists());
    assert_eq!(both["claims"][0]["ratio"]["paired"], true);
    let told = stderr(&lessen(dir, &["experiment", "bits.toml"]));
    assert!(told.contains("6 runs in runs/bits, 0 left to do"), "{told}");
    // What is kept needs no data.
    fs::remove_dir_all(dir.join("runs")).unwrap();
    fs::rename(dir.join("bars"), dir.join("away")).unwrap();
    assert_eq!(json(dir, &["experiment", "bits.toml", "--json"]), both);
    fs::rename(dir.join("away"), dir.join("bars")).unwrap();

    for (set, key, before, now) in [
        ("search.batch=8", "search.batch", "16", "8"),
        ("training.train.steps=3", "training.train.steps", "6", "3"),
    ] {
        assert_eq!(
            refuse(dir, &["experiment", "bits.toml", "--set", set]),
            format!(
                "error: pages/bits/runs.json has runs of 'joint' with {key} = {before}, and the experiment says {now}; \
                 remove 'joint' from that file, or name another page with --page"
            )
        );
    }
    // A run that follows one whose folder is gone cannot be done alone.
    let path = dir.join("pages/bits/runs.json");
    let mut kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    kept["exact"]["seeds"].as_object_mut().unwrap().remove("2");
    fs::write(&path, kept.to_string()).unwrap();
    assert_eq!(
        refuse(dir, &["experiment", "bits.toml"]),
        "error: the run 'exact', seed 2 follows 'joint', seed 2, whose folder runs/bits/joint/seed-2 is gone; remove that run \
         from pages/bits/runs.json, so that it is done again"
    );
}

#[test]
fn a_training_that_diverges_has_the_costs_of_its_network() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(dir, FILE);
    let all = [
        "experiment",
        "bits.toml",
        "--only",
        "exact",
        "--set",
        "training.train.lr=1e38",
    ];
    let output = lessen(dir, &all);
    let told = stderr(&output);
    assert!(output.status.success() && told.contains("warning: "), "{told}");
    // What it follows is done, too.
    let page = fs::read_to_string(dir.join("pages/bits.md")).unwrap();
    for point in ["exact", "joint"] {
        assert!(page.contains(&format!("| {point} | 1 diverged | 0.")), "{page}");
    }
    let told = stderr(&lessen(dir, &all));
    assert!(told.contains("3 runs in runs/bits, 0 left to do"), "{told}");
    let sentence = refuse(dir, &["experiment", "bits.toml", "--page", "other.md"]);
    assert!(
        sentence.contains("the run in runs/bits/joint/seed-1/trained has train.lr = "),
        "{sentence}"
    );
}

#[test]
fn mistakes_in_searches_are_told_before_the_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for (from, to, expected) in [
        (
            "search.lambda = 0.1",
            "search.lambda = 0.1\nlimit_of = \"exact\"",
            "the points 'exact', 'joint' follow each other in a circle; let one of them have an architecture or a limit",
        ),
        (
            "limit_of = \"joint\"",
            "limit_of = \"jiont\"",
            "the point 'exact' follows 'jiont', and there is no such point",
        ),
        (
            "share = 0.5",
            "share = 2",
            "variant.share must be a number from 0 to 1, not 2",
        ),
        (
            "limit_of = \"joint\"",
            "",
            "variant.share is of variant.limit_of, which is missing",
        ),
        (
            "bits = \"2,4,8\" }",
            "bits = \"2,4,8\", limit = \"1mJ\" }",
            "stands beside what the point takes from another one",
        ),
        (
            "search.lambda = 0.1",
            "search.lambda = -1",
            "search.lambda must be a number, at least 0",
        ),
        (
            "search.lambda = 0.1",
            "search.episodes = 3",
            "has no part in search.method = \"joint\"",
        ),
        ("search.lambda = 0.1", "train.epochs = 4", "train.epochs = 4"),
        (
            "train = {",
            "model.width = 3\ntrain = {",
            "is of no training of a network that a search found",
        ),
        (
            "train = {",
            "train = { seed = 3,",
            "is of no training of a network that a search found",
        ),
        (
            "[training]",
            "[evaluation]\n[training]",
            "there are tables [evaluation] and [training]",
        ),
        (
            "value = \"bits_ratio\"",
            "value = \"dev_loss\"",
            "which searches do not record; there are test_error, ",
        ),
        (
            "value = \"bits_ratio\"",
            "value = \"bits_ratio\"\nat = 3",
            "numbers of searches do not have",
        ),
        (
            "page = \"pages/bits.md\"",
            "",
            "keep = true keeps numbers beside the page, and there is none",
        ),
        (
            "over = \"energy_mj\"",
            "over = \"energy\"",
            "plot.over must be one of step, not energy",
        ),
    ] {
        assert!(FILE.contains(from), "{from}");
        fs::write(dir.join("bits.toml"), FILE.replacen(from, to, 1)).unwrap();
        let sentence = refuse(dir, &["experiment", "bits.toml"]);
        assert!(sentence.contains(expected), "{to}: {sentence}");
        assert!(!dir.join("runs").exists() && !dir.join("pages").exists(), "{sentence}");
    }
    fs::write(dir.join("bits.toml"), FILE).unwrap();
    let sentence = refuse(dir, &["experiment", "bits.toml", "--set", "evaluation.epochs=3"]);
    assert!(
        sentence.contains("the runs of Bits are searches; leave it out"),
        "{sentence}"
    );
    for name in ["images-idx3", "labels-idx1"] {
        fs::remove_file(dir.join(format!("bars/t10k-{name}-ubyte"))).unwrap();
    }
    let sentence = refuse(dir, &["experiment", "bits.toml"]);
    assert!(
        sentence.contains("has no test split, by which networks are judged"),
        "{sentence}"
    );
}
