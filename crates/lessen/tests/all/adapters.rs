//! LoRA: adapters are saved as `peft` saves them, and merged on export.

use crate::fine_tuning::{checkpoint_of, run, weights};
use crate::support::*;
use lessen::nn::checkpoint::{self, WeightDtype, convert};
use serde_json::Value;
use std::fs;

#[test]
fn adapters_are_saved_as_peft_does_and_merged_on_export() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint_of(dir);
    let lora = [
        "lora.rank=2",
        "lora.alpha=8",
        "lora.targets=[\"query\", \"value\"]",
        "train.lr=0.05",
    ];
    let report = run(dir, "lora", &lora);
    let model = dir.join("lora/model");
    assert!(!model.join("model.safetensors").exists());
    let config: Value = serde_json::from_slice(&fs::read(model.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["peft_type"], &config["r"], &config["lora_alpha"]),
        (&"LORA".into(), &2.into(), &8.into())
    );
    assert_eq!(config["target_modules"], serde_json::json!(["query", "value"]));
    assert_eq!(
        config["modules_to_save"],
        serde_json::json!(["bert.pooler.dense", "classifier"])
    );
    let base = init.canonicalize().unwrap();
    assert_eq!(config["base_model_name_or_path"], text(&base));
    let names = checkpoint::TensorFile::open(&model.join("adapter_model.safetensors"))
        .unwrap()
        .names();
    for name in ["query.lora_A.weight", "value.lora_B.weight"] {
        let full = format!("base_model.model.bert.encoder.layer.0.attention.self.{name}");
        assert!(names.contains(&full), "{names:?}");
    }
    assert!(
        names.contains(&"base_model.model.classifier.bias".to_string()) && names.len() == 4 + 4,
        "{names:?}"
    );

    // The base weights that have no adapter are as they were.
    let (before, merged) = (weights(&init), weights(&model));
    for (name, weight) in &before {
        let is_trained = ["query.weight", "value.weight", "pooler.dense", "classifier."];
        let is_trained = is_trained.iter().any(|part| name.contains(part));
        assert_eq!(*weight != merged[name], is_trained, "{name}");
    }
    convert(&model, &dir.join("merged"), WeightDtype::F32).unwrap();
    assert_eq!(weights(&dir.join("merged")), merged);
    for file in fs::read_dir(&model).unwrap() {
        let path = file.unwrap().path();
        let to = dir.join("merged").join(path.file_name().unwrap());
        if !to.exists() && !path.to_string_lossy().contains("adapter_") {
            fs::copy(&path, to).unwrap();
        }
    }
    let recipe = dir.join("bert.toml");
    let again = [
        "train",
        text(&recipe),
        "--init",
        "merged",
        "--data",
        "titles",
        "--set",
        "train.lr=0",
        "--steps",
        "1",
        "--json",
    ];
    let again = json(dir, &again);
    let loss = |report: &Value| report["dev_loss"].as_f64().unwrap();
    assert!(
        (loss(&again) - loss(&report)).abs() < 1e-5,
        "the merged model is the adapted one"
    );

    // Without the base model, nothing can be made of the adapters.
    fs::rename(&init, dir.join("moved")).unwrap();
    let sentence = refuse(dir, &["eval", "lora"]);
    assert!(
        sentence.contains("which is no folder here; put the model there, or correct the path"),
        "{sentence}"
    );
}
