//! Coresets by the command: real images in a folder as that of condensed ones.

use crate::condense::TINY;
use crate::images::bars;
use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The first arguments of a choice of two images of each class.
const CHOICE: &[&str] = &[
    "condense",
    "mnist",
    "--data",
    "bars",
    "--per-class",
    "2",
    "--set",
    "condense.width=4",
    "--set",
    "condense.depth=1",
];

fn manifest(dir: &Path, out: &str) -> Value {
    serde_json::from_slice(&fs::read(dir.join(out).join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn every_coreset_is_a_folder_that_is_evaluated_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for method in ["random", "herding", "k-center", "forgetting"] {
        let trains: &[&str] = if method == "random" {
            &[]
        } else {
            &["--set", "condense.epochs=2"]
        };
        let choice = [CHOICE, trains, &["--method", method, "--out", method, "--json"]].concat();
        let report = json(dir, &choice);
        assert_eq!((&report["images"], &report["done"]), (&6.into(), &0.into()), "{report}");
        let manifest = manifest(dir, method);
        assert_eq!(manifest["settings"]["method"], method);
        assert_eq!(
            manifest["settings"].get("epochs").is_some(),
            method != "random",
            "{manifest}"
        );
        // The same on two threads, to the byte.
        let again = [&choice[..choice.len() - 2], &["again", "--json", "--threads", "2"]].concat();
        json(dir, &again);
        for file in ["condensed.npz", "images.png", "manifest.json"] {
            let read = |out: &str| fs::read(dir.join(out).join(file)).unwrap();
            assert_eq!(read(method), read("again"), "{method}: {file}");
        }
        fs::remove_dir_all(dir.join("again")).unwrap();
        let eval = [
            "condense",
            "eval",
            method,
            "--networks",
            "1",
            "--epochs",
            "40",
            "--augment",
            "none",
            "--json",
        ];
        let found = json(dir, &eval);
        assert!(
            found["networks"][0]["mean"].as_f64().unwrap() > 0.6,
            "{method}: {found}"
        );
        let resumed = lessen(dir, &["condense", "--resume", "--out", method]);
        assert!(resumed.status.success(), "{}", stderr(&resumed));
    }
}

#[test]
fn images_learn_slower_from_an_mlp() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for (network, rate) in [("mlp", "0.01"), ("convnet-3", "0.1")] {
        let own = format!("condense.network={network}");
        let few = [
            "condense",
            "mnist",
            "--data",
            "bars",
            "--per-class",
            "1",
            "--iterations",
            "1",
            "--method",
            "md",
        ];
        let more = ["--set", "condense.real_batch=8", "--set", &own, "--out", network];
        succeed(dir, &[&few[..], &more].concat());
        assert_eq!(manifest(dir, network)["settings"]["image_rate"], rate);
    }
}

#[test]
fn keys_without_a_part_in_a_coreset_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bars(dir);
    for (method, key) in [
        ("herding", "condense.iterations=3"),
        ("herding", "condense.distance=d1"),
        ("forgetting", "condense.augment=crop"),
        ("k-center", "condense.experts=2"),
        ("random", "condense.epochs=2"),
        ("random", "condense.network_rate=0.1"),
    ] {
        let sentence = refuse(
            dir,
            &[CHOICE, &["--method", method, "--set", key, "--out", "none"]].concat(),
        );
        let name = key.split('=').next().unwrap();
        let expected = format!("has no part in condense.method = \"{method}\"");
        assert!(
            sentence.contains(name) && sentence.contains(&expected),
            "{key}: {sentence}"
        );
        assert!(!dir.join("none").exists());
    }
    // Images that are made differ from those that are chosen, so one is not resumed as the other.
    succeed(dir, &[TINY, &["--iterations", "1", "--out", "made"]].concat());
    let sentence = refuse(dir, &["condense", "--resume", "--out", "made", "--method", "random"]);
    assert!(sentence.starts_with("error: "), "{sentence}");
}
