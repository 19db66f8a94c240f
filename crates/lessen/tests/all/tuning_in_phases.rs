//! Fine-tuning in phases: adapters go on through them, and a phase ends early where it gets no better.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The bytes of a file in the folder of a run.
fn bytes(dir: &Path, run: &str, file: &str) -> Vec<u8> {
    let path = dir.join(run).join(file);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_same(dir: &Path, runs: [&str; 2], files: &[&str]) {
    for file in files {
        let [a, b] = runs.map(|run| bytes(dir, run, file));
        assert!(a == b, "{file} of {} and {} differ", runs[0], runs[1]);
    }
}

const LORA: &str = "warmup = 2\nschedule = \"constant\"\ncheckpoint_every = 2\n[lora]\nrank = 2\n\
                    targets = [\"query\", \"value\"]\ndropout = 0.1\n";

#[test]
fn adapters_go_on_through_phases() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint(dir, "bert");
    let data = dir.join("titles");
    let two = "[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\ntrain.steps = 3\ntrain.warmup = 0\n";
    let recipe = classifier(dir, "bert", &format!("{LORA}{two}"));
    for out in ["run", "killed"] {
        let more = ["--init", "first/model", "--set", "train.keep=3", "--out", out];
        succeed(dir, &train_on(&recipe, &data, &more));
    }
    // One phase of as many steps is the same training: the rate of the second phase is the rate at the end of the first
    // phase.
    let recipe = classifier(dir, "bert", LORA);
    let more = ["--init", "first/model", "--out", "whole", "--steps", "7"];
    succeed(dir, &train_on(&recipe, &data, &more));
    let results = [
        "model/adapter_model.safetensors",
        "checkpoints/step-7/training.safetensors",
    ];
    assert_same(dir, ["run", "whole"], &results);

    // As if it had been killed at the end of the first phase, and in the second one.
    for left in [["step-6", "step-7"], ["step-7", "step-7"]] {
        for step in left {
            fs::remove_dir_all(dir.join("killed/checkpoints").join(step)).ok();
        }
        let output = lessen(dir, &["train", "--resume", "--out", "killed"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            !stderr(&output).contains("starting with new ones"),
            "{}",
            stderr(&output)
        );
        assert_same(dir, ["killed", "run"], &results);
        assert_same(
            dir,
            ["killed", "run"],
            &["best/adapter_model.safetensors", "best/best.json"],
        );
    }
    let report: Value = serde_json::from_slice(&bytes(dir, "run", "report.json")).unwrap();
    let score = json(dir, &["eval", "run", "--json"]);
    let [saved, evaluated] = [&score, &report].map(|scores| scores["dev_loss"].as_f64().unwrap());
    assert!((saved - evaluated).abs() < 1e-5, "{saved} for {evaluated}");
}

#[test]
fn adapters_are_the_same_in_all_phases() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint(dir, "bert");
    let two = "[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\nlora.rank = 4\n";
    let recipe = classifier(dir, "bert", &format!("{LORA}{two}"));
    let sentence = refuse(dir, &train_on(&recipe, &dir.join("titles"), &["--init", "first/model"]));
    assert!(
        sentence.contains("phase.b.lora.rank cannot be, since lora.rank is the same in all phases"),
        "{sentence}"
    );
}

/// Two training phases on batches of all the data. A layer joins in the second phase; the first phase gets no better.
fn ending_early(first: &str) -> String {
    format!(
        "batch = 40\nwarmup = 0\nschedule = \"one-cycle\"\nlr = 0\neval_every = 1\n{first}\n[[phase]]\nname = \"a\"\n\
         [[phase]]\nname = \"b\"\nmodel.layers = 2\ntrain = {{ steps = 4, lr = 0.01, patience = 0 }}\n"
    )
}

#[test]
fn a_phase_that_gets_no_better_ends_and_the_next_one_begins() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = titles(dir);
    let run = |out: &str, first: &str| {
        let recipe = dir.join(format!("{out}.toml"));
        let text = fs::read_to_string(classifier(dir, "encoder", "")).unwrap();
        let text = text.replace("batch = 8\nsteps = 4\nlr = 0.01\n", &ending_early(first));
        fs::write(&recipe, text).unwrap();
        let more = [
            "--out",
            out,
            "--set",
            "data.shuffle=false",
            "--set",
            "model.dropout=0.1",
            "--json",
        ];
        json(dir, &train_on(&recipe, &data, &more))
    };
    let report = run("early", "steps = 10\npatience = 2");
    let phases = report["phases"].as_array().unwrap();
    let of = |name: &str| -> Vec<Value> { phases.iter().map(|phase| phase[name].clone()).collect() };
    assert_eq!(of("steps"), [3, 4], "the first evaluation, and two that are no better");
    assert_eq!(of("ended_early"), [Value::Bool(true), Value::Null]);
    assert_eq!((&report["steps"], &report["stopped_early"]), (&7.into(), &false.into()));
    let page = fs::read_to_string(dir.join("early/report.md")).unwrap();
    assert!(page.contains("- phase a: 3 steps, ended early, loss "), "{page}");
    assert!(page.contains(": 7 of 7 steps"), "{page}");

    // The run equals a run whose first phase was planned with 3 steps: it has the same rates, bias corrections and
    // dropout.
    run("planned", "steps = 3\npatience = 0");
    let results = ["model/model.safetensors", "checkpoints/step-7/training.safetensors"];
    assert_same(dir, ["early", "planned"], &results);

    // As if it had been killed before the first checkpoint of the second phase.
    fs::remove_dir_all(dir.join("early/checkpoints/step-7")).unwrap();
    let report = json(dir, &["train", "--resume", "--out", "early", "--json"]);
    assert_eq!(report["steps"], 7);
    assert_same(dir, ["early", "planned"], &results);
    // It has ended.
    let said = succeed(dir, &["train", "--resume", "--out", "early"]);
    assert!(said.contains("nothing is left to do"), "{said}");
}

#[test]
fn the_last_phase_that_gets_no_better_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = titles(dir);
    let phases = "eval_every = 1\npatience = 2\n[[phase]]\nname = \"a\"\n[[phase]]\nname = \"b\"\n\
                  train = { steps = 20, lr = 0 }\n";
    let recipe = classifier(dir, "encoder", phases);
    let report = json(dir, &train_on(&recipe, &data, &["--out", "run", "--json"]));
    let first = report["phases"][0]["steps"].as_u64().unwrap();
    assert_eq!(report["steps"], first + 3);
    assert_eq!(
        (&report["stopped_early"], &report["model"]),
        (&true.into(), &"best".into())
    );
    assert_eq!(report["best_step"], first + 1, "the best evaluation of the last phase");
    let said = succeed(dir, &["train", "--resume", "--out", "run"]);
    assert!(said.contains("nothing is left to do"), "{said}");
}
