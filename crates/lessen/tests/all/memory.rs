//! The memory of whole runs: what is announced before the first step, what is counted, and what is resident.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Checks the account of a run: what was counted is what was planned within 1 MiB, and never more, and the process has
/// grown by hardly more.
fn check(what: &str, report: &Value) {
    let bytes = |key: &str| report["peak_bytes"][key].as_u64().unwrap();
    let (planned, measured) = (bytes("planned"), bytes("measured"));
    assert!(
        measured <= planned && planned - measured <= MIB,
        "{what}: {measured} bytes counted, {planned} planned"
    );
    assert!(bytes("plans") < planned, "{what}");
    if let Some(resident) = report["peak_bytes"]["resident"].as_u64() {
        let most = planned + planned / 20 + 24 * MIB;
        assert!(resident <= most, "{what}: {resident} bytes resident, {planned} planned");
    }
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
    check("sums", &json(dir, &args));

    let data = texts(dir);
    for kind in ["bert", "encoder"] {
        let recipe = classifier(dir, kind, "");
        let more = [
            "--set",
            "model.width=128",
            "--set",
            "model.layers=3",
            "--set",
            "model.ffn=512",
        ];
        let length = ["--set", "data.max_length=48", "--steps", "30", "--out", kind];
        let more = [&more[..], &length, &saving].concat();
        check(kind, &json(dir, &train_on(&recipe, &data, &more)));
        let more = ["train", "--resume", "--out", kind, "--steps", "40", "--json"];
        check(&format!("{kind}, resumed"), &json(dir, &more));
    }
}
