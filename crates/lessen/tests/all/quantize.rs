//! `lessen quantize`: what it writes is read everywhere.

use std::fs;

use serde_json::Value;

use crate::support::{classifier, json, refuse, succeed, text, titles, train_on};

#[test]
fn a_quantized_model_is_scored_and_asked_as_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    let data = text(&data);
    let found = json(dir, &["quantize", "run", "-o", "small", "--data", data, "--json"]);
    let bytes = found["bytes"].as_array().unwrap();
    assert!(bytes[1].as_u64() < bytes[0].as_u64(), "{found}");
    assert!(found["quantized"].as_array().unwrap().len() >= 4, "{found}");
    assert!(found["difference"].as_f64().unwrap() < 0.05, "{found}");
    let accuracy = |scores: &Value| scores["dev_accuracy"].as_f64().unwrap();
    let [before, after] = ["f32", "int8"].map(|precision| accuracy(&found["scores"][precision]));
    assert!((before - after).abs() <= 0.1, "{found}");

    // The folder says by itself that products take integers.
    let config: Value = serde_json::from_slice(&fs::read(dir.join("small/config.json")).unwrap()).unwrap();
    assert_eq!(config["quantization_config"]["format"], "int-quantized");
    let score = |more: &[&str]| {
        let wanted = [&["eval", "small", "--data", data, "--json"], more].concat();
        json(dir, &wanted)["dev_loss"].as_f64().unwrap()
    };
    let own = score(&[]);
    assert_eq!(own, score(&["--precision", "int8"]));
    assert_eq!(own, score(&["--threads", "1"]));
    assert_ne!(own, score(&["--precision", "f32"]));
    let first = fs::read_to_string(dir.join("small/config.json")).unwrap();
    let answer = |model: &str, more: &[&str]| {
        let asked = [&["predict", model, "--text", "ab", "--json"], more].concat();
        json(dir, &asked)
    };
    answer("small", &[]);
    answer("run", &["--precision", "int8"]);

    // What is written with floats says nothing of integers.
    succeed(dir, &["export", "small", "wide"]);
    let config: Value = serde_json::from_slice(&fs::read(dir.join("wide/config.json")).unwrap()).unwrap();
    assert_eq!(config.get("quantization_config"), None);
    let wide = json(dir, &["eval", "wide", "--data", data, "--json"])["dev_loss"]
        .as_f64()
        .unwrap();
    assert_eq!(wide, score(&["--precision", "f32"]));
    let tuned = train_on(
        &recipe,
        std::path::Path::new(data),
        &["--init", "small", "--out", "tuned", "-q"],
    );
    succeed(dir, &tuned);
    let config: Value = serde_json::from_slice(&fs::read(dir.join("tuned/model/config.json")).unwrap()).unwrap();
    assert_eq!(config.get("quantization_config"), None);

    let sentence = refuse(dir, &["quantize", "small", "-o", "again"]);
    assert!(sentence.contains("the model is quantized"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "small"]);
    assert!(sentence.contains("small is not empty"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "again", "--base", "nowhere"]);
    assert!(sentence.contains("--base nowhere"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "run", "-o", "again", "--adapter", "run"]);
    assert!(sentence.contains("adapters"), "{sentence}");
    assert!(!dir.join("again").exists());
    assert_eq!(first, fs::read_to_string(dir.join("small/config.json")).unwrap());
}

#[test]
fn int8_is_no_precision_of_training_and_a_model_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    let asked = train_on(&recipe, &data, &["--out", "run", "--set", "train.precision=int8"]);
    let sentence = refuse(dir, &asked);
    assert!(
        sentence.contains("train.precision") && sentence.contains("f32, bf16"),
        "{sentence}"
    );
    let sentence = refuse(dir, &["quantize", "nothing", "-o", "small"]);
    assert!(sentence.contains("nothing"), "{sentence}");
}

/// An ONNX file with integers runs, and says nearly the same; convolutions need inputs that say their ranges.
#[test]
fn an_onnx_file_becomes_one_of_integers() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    succeed(dir, &["export", "run", "--onnx", "model.onnx"]);
    let found = json(dir, &["quantize", "model.onnx", "-o", "small.onnx", "--json"]);
    assert!(found["difference"].as_f64().unwrap() < 0.1, "{found}");
    assert!(!found["quantized"].as_array().unwrap().is_empty(), "{found}");
    let bytes = found["bytes"].as_array().unwrap();
    assert!(bytes[1].as_u64() < bytes[0].as_u64(), "{found}");
    succeed(dir, &["run", "small.onnx", "-o", "small.npz"]);

    let sentence = refuse(dir, &["quantize", "small.onnx", "-o", "again.onnx"]);
    assert!(sentence.contains("has integers already"), "{sentence}");
    let sentence = refuse(dir, &["quantize", "model.onnx", "-o", "small.onnx"]);
    assert!(sentence.contains("small.onnx exists"), "{sentence}");
    let sentence = refuse(
        dir,
        &["quantize", "model.onnx", "-o", "again.onnx", "--calibrate", "small.npz"],
    );
    assert!(sentence.contains("small.npz"), "{sentence}");
    assert!(!dir.join("again.onnx").exists());
}
