//! Fine-tuning: frozen parameters, rates by layer, averages, class weights, and that all of it resumes.

use crate::support::*;
use lessen::nn::{Model, Weights, checkpoint};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tiny BERT that has been trained on the titles, in `first/model`.
pub fn checkpoint_of(dir: &Path) -> PathBuf {
    crate::support::checkpoint(dir, "bert")
}

/// Arguments that train from `first/model` on the titles, with these settings.
pub fn from_first<'a>(dir: &Path, out: &'a str, settings: &[&'a str]) -> Vec<String> {
    let (data, recipe) = (dir.join("titles"), dir.join("bert.toml"));
    let fixed = [
        "train",
        text(&recipe),
        "--init",
        "first/model",
        "--data",
        text(&data),
        "--out",
        out,
    ];
    let mut all: Vec<String> = fixed.map(str::to_string).to_vec();
    for setting in settings {
        all.extend(["--set".to_string(), setting.to_string()]);
    }
    all
}

pub fn run(dir: &Path, out: &str, settings: &[&str]) -> Value {
    let mut args = from_first(dir, out, settings);
    args.push("--json".to_string());
    json(dir, &args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn refused(dir: &Path, settings: &[&str]) -> String {
    let args = from_first(dir, "refused", settings);
    let sentence = refuse(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!dir.join("refused").exists());
    sentence
}

pub fn weights(dir: &Path) -> Weights {
    let model = Model::from_dir(dir).unwrap();
    checkpoint::load(dir, &model.parameters(), &|_| false).unwrap().weights
}

/// All files below a folder with their bytes.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn frozen_parameters_stay_and_take_no_memory_beside_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint_of(dir);
    let frozen = "train.freeze=[\"bert.embeddings.*\", \"bert.encoder.layer.0.*\"]";
    run(dir, "all", &[]);
    let report = run(dir, "some", &[frozen]);
    let (before, after) = (weights(&init), weights(&dir.join("some/model")));
    let mut states = 0;
    for (name, weight) in &before {
        let is_frozen = name.starts_with("bert.embeddings.") || name.starts_with("bert.encoder.layer.0.");
        assert_eq!(*weight == after[name], is_frozen, "{name}");
        states += if is_frozen { 2 * 4 * weight.data.len() } else { 0 };
    }
    let plan = |settings: &[&str]| -> u64 {
        let mut args = from_first(dir, "x", settings);
        args.retain(|arg| arg != "--out" && arg != "x");
        args[0] = "plan".into();
        args.push("--json".into());
        let plan = json(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
        plan["state_bytes"].as_u64().unwrap()
    };
    assert_eq!(
        plan(&[]) - plan(&[frozen]),
        states as u64,
        "the moments of what is frozen"
    );
    assert!(report["steps"] == 4);
    let manifest: Value =
        serde_json::from_slice(&fs::read(dir.join("some/checkpoints/step-4/training.json")).unwrap()).unwrap();
    let kept = manifest["states"].as_object().unwrap();
    assert!(!kept.is_empty() && kept.keys().all(|name| !name.contains("embeddings")));
}

/// Settings of the runs that the test below resumes. With them a run saves states, averages or adapters.
const TUNED: [&[&str]; 4] = [
    &["train.ema=0.9", "train.weight_decay=0.1", "train.no_decay=classifier.*"],
    &[
        "lora.rank=2",
        "lora.targets=query,value",
        "lora.dropout=0.1",
        "train.ema=0.5",
    ],
    &[
        "train.freeze=bert.embeddings.*",
        "train.layer_decay=0.8",
        "train.class_weights=balanced",
        "train.label_smoothing=0.1",
        "train.accumulate=2",
    ],
    &[
        "train.save_dtype=\"bf16\"",
        "train.ema=0.9",
        "lora.rank=1",
        "lora.targets=[\"dense\"]",
    ],
];

#[test]
fn a_tuned_run_resumes_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    for (number, tuned) in TUNED.iter().enumerate() {
        let common = [
            "train.steps=6",
            "train.checkpoint_every=3",
            "train.eval_every=2",
            "train.warmup=0.5",
        ];
        let settings = [&common[..], tuned].concat();
        let (whole, cut) = (format!("whole{number}"), format!("cut{number}"));
        for out in [&whole, &cut] {
            run(dir, out, &settings);
        }
        // The run is now as if it had been killed after the fifth step.
        let cut = dir.join(cut);
        fs::remove_dir_all(cut.join("checkpoints/step-6")).unwrap();
        succeed(dir, &["train", "--resume", "--out", text(&cut)]);
        let mut compared = 0;
        for (path, bytes) in files(&dir.join(&whole)) {
            let name = path.strip_prefix(dir.join(&whole)).unwrap();
            if name.extension().is_some_and(|extension| extension == "safetensors") && !name.ends_with("step-3") {
                assert!(
                    bytes == fs::read(cut.join(name)).unwrap(),
                    "{name:?} of {tuned:?} differs"
                );
                compared += 1;
            }
        }
        assert!(compared >= 6, "model, best and two checkpoints");
        // The saved model is the evaluated model.
        let report: Value = serde_json::from_slice(&fs::read(cut.join("report.json")).unwrap()).unwrap();
        let score = json(dir, &["eval", text(&cut), "--json"]);
        let (saved, evaluated) = (
            score["dev_loss"].as_f64().unwrap(),
            report["dev_loss"].as_f64().unwrap(),
        );
        let bound = if tuned[0].contains("bf16") { 2e-2 } else { 1e-5 };
        assert!(
            (saved - evaluated).abs() < bound,
            "{saved} for {evaluated} with {tuned:?}"
        );
        succeed(dir, &["predict", text(&cut), "--text", "day 3 sun"]);
    }
}

#[test]
fn mistakes_in_tuning_get_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    for (settings, expected) in [
        (
            &["train.freeze=bert.embedding.*"][..],
            "nothing of the model is called bert.embedding.*; it has bert.",
        ),
        (&["train.freeze=*"], "leaves no parameter to train; name fewer"),
        (&["train.no_decay=norms"], "nothing of the model is called norms"),
        (
            &["train.class_weights=[1, 2, 3]"],
            "has 3 weights, but the data has the 2 classes fair, foul",
        ),
        (
            &["train.class_weights=even"],
            "must be a list of numbers, one for each class, or \"balanced\", not \"even\"",
        ),
        (
            &["train.best=pearson"],
            "is no score of this data; choose one of accuracy, f1, matthews, loss",
        ),
        (
            &["train.label_smoothing=1"],
            "= 1 would leave nothing of the labels; choose a number below 1",
        ),
        (
            &["train.layer_decay=0"],
            "choose a number above 0, or name what stays with train.freeze",
        ),
        (
            &["train.warmup=120%"],
            "must be a whole number, or a share such as 0.06 or \"6%\", not \"120%\"",
        ),
        (
            &["lora.rank=2"],
            "lora.targets (the default) names no layers; the model has classifier, dense, key, query, value",
        ),
        (
            &["lora.rank=2", "lora.targets=querry"],
            "is for no layer called querry; the model has",
        ),
        (
            &["lora.rank=2", "lora.targets=query", "train.freeze=bert.*"],
            "has no effect beside lora.rank",
        ),
    ] {
        let sentence = refused(dir, settings);
        assert!(sentence.contains(expected), "{settings:?}: {sentence}");
    }
    let data = dir.join("titles");
    let scratch = [
        "train",
        text(&dir.join("bert.toml")),
        "--data",
        text(&data),
        "--set",
        "lora.rank=2",
    ]
    .map(String::from);
    let sentence = refuse(dir, &scratch.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        sentence.contains("needs a checkpoint whose weights stay as they are; name its folder with --init"),
        "{sentence}"
    );
}

#[test]
fn checkpoints_without_optimizer_say_what_they_cannot_do() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    let settings = [
        "train.steps=6",
        "train.checkpoint_every=3",
        "train.save_optimizer=false",
    ];
    run(dir, "run", &settings);
    let states = fs::metadata(dir.join("run/checkpoints/step-3/training.safetensors"))
        .unwrap()
        .len();
    assert!(states < 200, "{states} bytes of states");
    fs::remove_dir_all(dir.join("run/checkpoints/step-6")).unwrap();
    let output = lessen(dir, &["train", "--resume", "--out", "run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the checkpoint has no optimizer state"),
        "{}",
        stderr(&output)
    );
    let manifest = fs::read_to_string(dir.join("run/checkpoints/step-6/training.json")).unwrap();
    assert!(manifest.contains("\"optimizer_since\": 3"), "{manifest}");
}

#[test]
fn class_weights_and_smoothing_change_training_but_not_what_is_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    checkpoint_of(dir);
    let plain = run(dir, "plain", &["train.lr=0", "model.dropout=0"]);
    let tuned = [
        "train.lr=0",
        "model.dropout=0",
        "train.class_weights=[1, 5]",
        "train.label_smoothing=0.2",
    ];
    let tuned = run(dir, "tuned", &tuned);
    assert_eq!(plain["dev_loss"], tuned["dev_loss"]);
    assert_ne!(plain["loss_history"], tuned["loss_history"]);
    // With classes of equal sizes, balanced weights are all 1.
    let balanced = run(
        dir,
        "balanced",
        &["train.lr=0", "model.dropout=0", "train.class_weights=balanced"],
    );
    let losses = |report: &Value| -> Vec<f64> {
        let losses = report["loss_history"].as_array().unwrap().iter();
        losses.map(|loss| loss.as_f64().unwrap()).collect()
    };
    for (a, b) in losses(&plain).into_iter().zip(losses(&balanced)) {
        assert!((a - b).abs() < 1e-6, "{a} and {b}");
    }
}
