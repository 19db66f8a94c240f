//! Adapters of LoRA: saved as `peft` does, read as it distributes them, merged and exported.

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
    assert_eq!(config["task_type"], "SEQ_CLS");
    assert!(
        !model.join("config.json").exists(),
        "transformers would look for a whole model"
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
        sentence
            .contains("which is no folder of a model here; name its folder with --base DIR, or model.base in a recipe"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["eval", "lora", "--base", "nowhere"]);
    assert!(
        sentence.contains("--base nowhere: there is no folder nowhere; check the path"),
        "{sentence}"
    );
    let scores = json(dir, &["eval", "lora", "--base", "moved", "--json"]);
    assert!(
        (loss(&scores) - loss(&report)).abs() < 1e-5,
        "the model is where the flag says"
    );
    let sentence = refuse(dir, &["eval", "moved", "--base", "lora/model", "--data", "titles"]);
    assert!(
        sentence.contains("moved has a model of its own and no adapters"),
        "{sentence}"
    );
}

#[test]
fn adapters_alone_are_exported_and_asked_without_a_config() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let init = checkpoint_of(dir);
    let lora = [
        "lora.rank=2",
        "lora.rank_stabilized=true",
        "lora.targets=all-linear",
        "train.lr=0.05",
    ];
    let report = run(dir, "lora", &lora);
    let config: Value = serde_json::from_slice(&fs::read(dir.join("lora/model/adapter_config.json")).unwrap()).unwrap();
    assert_eq!(config["use_rslora"], true);
    let targets: Vec<&str> = config["target_modules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(targets.len(), 6, "{targets:?}");
    assert!(
        targets.iter().all(|target| target.starts_with("bert.encoder.layer.0.")),
        "{targets:?}"
    );

    let said = succeed(dir, &["export", "lora", "alone", "--adapters"]);
    assert_eq!(said, "lora/model is in alone as f32\n");
    let read = |file: &str| fs::read(dir.join(file)).unwrap();
    assert!(read("alone/adapter_config.json") == read("lora/model/adapter_config.json"));
    assert!(!dir.join("alone/model.safetensors").exists() && dir.join("alone/tokenizer.json").exists());
    // As peft distributes them: what else there is to know is the base model's.
    assert!(
        !dir.join("alone/config.json").exists(),
        "transformers would look for a whole model"
    );
    for file in ["adapter_model_config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::remove_file(dir.join("alone").join(file)).unwrap();
    }
    fs::rename(&init, dir.join("moved")).unwrap();
    let titles = [
        "--data",
        "titles",
        "--set",
        "data.format=\"labelled\"",
        "--base",
        "moved",
        "--json",
    ];
    let scores = json(dir, &[&["eval", "alone"], &titles[..]].concat());
    let loss = |report: &Value| report["dev_loss"].as_f64().unwrap();
    assert!((loss(&scores) - loss(&report)).abs() < 1e-5, "{scores}");
    // Merged, they need no base.
    succeed(
        dir,
        &["export", "alone", "merged", "--base", "moved", "--dtype", "bf16"],
    );
    let scores = json(dir, &[&["eval", "merged"], &titles[..4], &titles[6..]].concat());
    assert!((loss(&scores) - loss(&report)).abs() < 2e-2, "{scores}");
    // Training goes on from them, but not with adapters over adapters.
    let again = |setting: &str| -> Vec<String> {
        let recipe = dir.join("bert.toml");
        let args = [
            "train",
            text(&recipe),
            "--init",
            "alone",
            "--data",
            "titles",
            "--out",
            "again",
            "--set",
            setting,
        ];
        args.map(str::to_string).to_vec()
    };
    let args = |setting: &str, base: &str| -> Vec<String> {
        [again(setting), vec!["--base".to_string(), base.to_string()]].concat()
    };
    let refused = |args: &[String]| refuse(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    let sentence = refused(&args("lora.rank=2", "moved"));
    assert!(
        sentence.contains("alone has adapters; merge them first, with `lessen export`"),
        "{sentence}"
    );
    assert!(refused(&again("train.lr=0")).contains("name its folder with --base DIR"));
    let said = args("train.lr=0", "moved");
    succeed(dir, &said.iter().map(String::as_str).collect::<Vec<_>>());
    let sentence = refuse(dir, &["export", "merged", "other", "--adapters"]);
    assert!(
        sentence.contains("merged holds a whole model and no adapters; leave out --adapters"),
        "{sentence}"
    );
}
