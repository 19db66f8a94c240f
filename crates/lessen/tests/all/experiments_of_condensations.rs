//! `lessen experiment` with a table `[evaluation]`: images are condensed, and judged by networks that learn from them.

use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const FILE: &str = r#"
title = "Bars"
recipe = "mnist"
page = "pages/bars.md"
seeds = [1, 2]

[set]
data = { path = "bars" }
condense = { per_class = 1, width = 4, depth = 1, iterations = 4, real_batch = 8, updates = 1 }

[evaluation]
networks = 3
epochs = 20
augment = "none"
at = [2]
whole = 2

[[variant]]
name = "intra"
condense.method = "baseline"

[[variant]]
name = "multi"
text = "Both levels."
condense.method = "m"

[[variant]]
name = "random"
condense.method = "random"

[[measure]]
name = "right, %"
value = "accuracy"
scale = 100.0

[[measure]]
value = "accuracy"
at = 2
optional = true

[[measure]]
value = "relative"

[[measure]]
value = "distance"

[[measure]]
value = "iteration_ms"

[[paper]]
point = "multi"
measure = "right, %"
value = 0.909

[[claim]]
text = "Several levels teach more."
measure = "right, %"
better = "multi"
than = "intra"

[[plot]]
measure = "right, %"
"#;

fn prepare(dir: &Path, file: &str) {
    bars(dir);
    fs::write(dir.join("bars.toml"), file).unwrap();
}

#[test]
fn condensations_of_a_grid_are_judged_by_several_networks_each() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(dir, FILE);
    let out = lessen(dir, &["experiment", "bars.toml", "--json"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3 * 2 * 3);

    // Each network is a record; numbers of the images are those of the first one alone.
    let of = |point: &str, seed: u64| -> Vec<&Value> {
        let own = runs.iter().filter(|run| run["point"] == point && run["seed"] == seed);
        own.map(|run| &run["measures"]).collect()
    };
    let folder = dir.join("runs/bars/multi/seed-2");
    let judged: Value = serde_json::from_slice(&fs::read(folder.join("evaluation.json")).unwrap()).unwrap();
    let stages = judged["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| &stage["iterations"]).collect::<Vec<_>>(),
        [2, 4]
    );
    for (network, own) in of("multi", 2).into_iter().enumerate() {
        let accuracy = |stage: usize| stages[stage]["accuracies"]["accuracy"][network].as_f64().unwrap();
        assert_eq!(own["right, %"], accuracy(1));
        assert_eq!(own["accuracy after step 2"], accuracy(0));
        assert_eq!(own["distance"].is_null(), network > 0);
    }
    assert!(of("random", 1).iter().all(|own| own["distance"].is_null()));

    // The images are those of `lessen condense`, and the networks those of `lessen condense eval`.
    let more = [
        "--per-class",
        "1",
        "--method",
        "m",
        "--iterations",
        "4",
        "--seed",
        "2",
        "--set",
        "condense.width=4",
        "--set",
        "condense.depth=1",
        "--set",
        "condense.real_batch=8",
        "--set",
        "condense.updates=1",
        "--out",
        "alone",
    ];
    succeed(dir, &[&["condense", "mnist", "--data", "bars"], &more[..]].concat());
    let arrays =
        ["alone", "runs/bars/multi/seed-2"].map(|root| fs::read(dir.join(root).join("condensed.npz")).unwrap());
    assert!(arrays[0] == arrays[1]);
    let eval = [
        "--networks",
        "3",
        "--epochs",
        "20",
        "--augment",
        "none",
        "--seed",
        "2",
        "--json",
    ];
    let alone = json(dir, &[&["condense", "eval", "alone"], &eval[..]].concat());
    assert_eq!(alone["networks"][0]["accuracies"], stages[1]["accuracies"]["accuracy"]);

    let page = fs::read_to_string(dir.join("pages/bars.md")).unwrap();
    for part in [
        "3 points, seeds 1, 2, 6 sets of images made in ",
        "- Evaluation: 3 networks learn from each set, epochs 20, augmentation none, f32; judged after iterations [2], too\n",
        "- Whole training split: ",
        "(convnet-3 width 4 depth 1 on bars, 2 epochs, augmentation none, f32)\n",
        "| multi | ",
        " (6) | 90.9000 | ",
        "Networks of one set share its images, so they are not independent.",
        " of 6 pairs, set by set ",
        "![right, % over step](bars/1-right-over-step.svg)\n",
        "`condense.real_batch = 8`",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let claim = &found["claims"][0];
    assert_eq!(claim["pairs"]["pairs"], 6);
    assert_eq!(claim["pairs"]["seeds"].as_array().unwrap().len(), 2);

    // Again, nothing is left to do; a set that was not judged yet is, and ends with the same numbers.
    let told = stderr(&lessen(dir, &["experiment", "bars.toml"]));
    assert!(told.contains("6 runs in runs/bars, 0 left to do"), "{told}");
    fs::remove_file(folder.join("evaluation.json")).unwrap();
    let sentence = refuse(dir, &["experiment", "bars.toml"]);
    assert!(
        sentence.contains("are those after 4 iterations, and those after 2 were not judged; remove that folder"),
        "{sentence}"
    );
    fs::remove_dir_all(&folder).unwrap();
    fs::remove_dir_all(dir.join("runs/bars/random")).unwrap();
    let again = json(
        dir,
        &["experiment", "bars.toml", "--json", "--set", "condense.iterations=4"],
    );
    let without_times = |found: &Value| {
        let mut runs = found["runs"].clone();
        for run in runs.as_array_mut().unwrap() {
            run["measures"].as_object_mut().unwrap().remove("iteration_ms");
        }
        runs
    };
    assert_eq!(without_times(&again), without_times(&found));
    assert_eq!(
        refuse(dir, &["experiment", "bars.toml", "--set", "evaluation.epochs=5"]),
        "error: the images in runs/bars/intra/seed-1 were judged with evaluation.epochs = 20, and the experiment says 5; \
         remove that folder, or name another for the experiment with --out"
    );
    let sentence = refuse(
        dir,
        &["experiment", "bars.toml", "--set", "evaluation.learning_rate=0.02"],
    );
    assert!(
        sentence.contains("were judged with evaluation.learning_rate = nothing, and the experiment says 0.02"),
        "{sentence}"
    );
    assert_eq!(
        refuse(dir, &["experiment", "bars.toml", "--set", "condense.real_batch=4"]),
        "error: the images in runs/bars/intra/seed-1 have condense.real_batch = 8, and the experiment says 4; remove that \
         folder, or name another for the experiment with --out"
    );
}

#[test]
fn networks_that_diverge_are_counted_and_the_experiment_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(
        dir,
        &FILE
            .replace("seeds = [1, 2]", "seeds = [1]")
            .replace("whole = 2", "learning_rate = 1e30")
            .replace("[[measure]]\nvalue = \"relative\"\n", ""),
    );
    let out = lessen(dir, &["experiment", "bars.toml"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let told = stderr(&out);
    assert!(
        told.contains("warning: 3 of 3 networks diverged (the loss is "),
        "{told}"
    );
    let page = fs::read_to_string(dir.join("pages/bars.md")).unwrap();
    assert!(
        page.contains("| multi | 3 diverged | 90.9000 | 3 diverged | "),
        "{page}"
    );

    // One network that diverged in the end, and not after step 2, is left out of the mean of the end alone.
    let path = dir.join("runs/bars/multi/seed-1/evaluation.json");
    let mut judged: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    judged["stages"][0]["accuracies"]["accuracy"] = serde_json::json!([0.5, 0.5, 0.5]);
    judged["stages"][1]["accuracies"]["accuracy"] = serde_json::json!([0.75, null, 0.75]);
    fs::write(&path, judged.to_string()).unwrap();
    let found = json(dir, &["experiment", "bars.toml", "--json"]);
    let page = fs::read_to_string(dir.join("pages/bars.md")).unwrap();
    assert!(
        page.contains("| multi | 75.0000 ± 0 (2, 1 diverged) | 90.9000 | 0.5000 ± 0 (3) | "),
        "{page}"
    );
    let runs = found["runs"].as_array().unwrap();
    let diverged: Vec<&Value> = runs
        .iter()
        .filter(|run| run["point"] == "multi")
        .map(|run| &run["diverged"])
        .collect();
    assert_eq!(diverged, [false, true, false]);
}

#[test]
fn points_that_are_not_asked_for_stay_empty() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prepare(
        dir,
        &FILE.replace("seeds = [1, 2]", "seeds = [1]").replace("whole = 2", ""),
    );
    // Without the whole training split there is nothing to be relative to.
    let sentence = refuse(dir, &["experiment", "bars.toml"]);
    assert!(sentence.contains("the measure relative has the value 'relative', which condensations do not record"));
    let file = fs::read_to_string(dir.join("bars.toml")).unwrap();
    fs::write(
        dir.join("bars.toml"),
        file.replace("[[measure]]\nvalue = \"relative\"\n", "")
            .replace("[[measure]]\nvalue = \"accuracy\"\nat = 2\noptional = true\n", ""),
    )
    .unwrap();
    let found = json(
        dir,
        &[
            "experiment",
            "bars.toml",
            "--only",
            "multi",
            "--set",
            "evaluation.at=[]",
            "--set",
            "evaluation.networks=2",
            "--json",
        ],
    );
    assert_eq!(found["runs"].as_array().unwrap().len(), 2);
    assert_eq!(found["claims"][0]["verdict"], "not measured");
    assert!(!dir.join("runs/bars/intra").exists());
    let page = fs::read_to_string(dir.join("pages/bars.md")).unwrap();
    assert!(page.contains("| intra | – | "), "{page}");
    assert!(
        page.contains(" --set evaluation.at=[] --set evaluation.networks=2 --only \"multi\"\n"),
        "{page}"
    );
    let sentence = refuse(dir, &["experiment", "bars.toml", "--only", "mluti"]);
    assert_eq!(
        sentence,
        "error: --only: there is no point called 'mluti'; there are intra; multi; random"
    );
}

#[test]
fn mistakes_in_condensations_are_told_before_the_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for (from, to, expected) in [
        (
            "epochs = 20",
            "epoch = 20",
            "there is no key 'evaluation.epoch'; did you mean evaluation.epochs?",
        ),
        (
            "networks = 3",
            "networks = 0",
            "evaluation.networks must be a whole number from 1, not 0",
        ),
        (
            "networks = 3",
            "learning_rate = 0",
            "evaluation.learning_rate must be a number above 0, not 0",
        ),
        (
            "at = [2]",
            "at = [9]",
            "evaluation.at has 9, and condense.iterations = 4",
        ),
        (
            "at = [2]",
            "network = [\"convnet-3\"]",
            "evaluation.whole is of the network that was matched, and evaluation.network names others",
        ),
        (
            "at = [2]",
            "network = [\"lnet\"]",
            "evaluation.network: there is no network 'lnet'; choose of ",
        ),
        (
            "augment = \"none\"",
            "augment = \"crp\"",
            "evaluation.augment: there is no augmentation `crp`",
        ),
        ("iterations = 4, ", "", "the number of iterations is not said"),
        ("per_class = 1", "per_class = 90", "the class top has only "),
        ("depth = 1", "depth = 9", "do not fit the network"),
        (
            "value = \"distance\"",
            "value = \"dev_loss\"",
            "which condensations do not record; there are accuracy, relative",
        ),
        (
            "at = 2\noptional",
            "at = 3\noptional",
            "is after iteration 3, when no image is judged",
        ),
        (
            "data = { path = \"bars\" }",
            "data = { path = \"bars\" }\ntrain.epochs = 7",
            "train.epochs = 7",
        ),
        (
            "condense.method = \"random\"",
            "condense = { method = \"random\", distance = \"d1\" }",
            "condense.distance",
        ),
    ] {
        assert!(FILE.contains(from), "{from}");
        fs::write(dir.join("bars.toml"), FILE.replacen(from, to, 1)).unwrap();
        let sentence = refuse(dir, &["experiment", "bars.toml"]);
        assert!(sentence.contains(expected), "{to}: {sentence}");
        assert!(!dir.join("runs").exists() && !dir.join("pages").exists(), "{sentence}");
    }
    fs::write(dir.join("bars.toml"), FILE).unwrap();
    let sentence = refuse(dir, &["experiment", "bars.toml", "--set", "evaluation.epochs=few"]);
    assert!(
        sentence.contains("evaluation.epochs must be a whole number from 1"),
        "{sentence}"
    );
}
