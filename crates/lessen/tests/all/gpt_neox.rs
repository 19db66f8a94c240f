//! A GPT-NeoX and a GPT-J from a recipe: trained, continued as a text, adapted, merged, and the start of another run.

use crate::support::*;
use serde_json::{Value, json as value};
use std::fs;
use std::path::Path;

const SIZES: &[&str] = &[
    "--set",
    "model.layers=2",
    "--set",
    "model.width=32",
    "--set",
    "model.heads=2",
    "--set",
    "model.ffn=48",
    "--set",
    "train.batch=4",
    "--set",
    "data.max_length=16",
    "--set",
    "train.lr=0.02",
    "--set",
    "train.warmup=5",
];

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn check(kind: &str, fields: &[(&str, Value)], targets: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "to be or not to be that is the question\n".repeat(40);
    fs::write(dir.join("text.txt"), text).unwrap();
    let kind = format!("model.kind={kind}");
    let own = ["train", "shakespeare", "--data", "text.txt", "--set", &kind];
    let rest = ["--steps", "30", "--json", "--out", "first"];
    let report = json(dir, &[&own[..], SIZES, &rest].concat());
    let losses = report["loss_history"].as_array().unwrap();
    let loss = |place: usize| losses[place].as_f64().unwrap();
    assert!(loss(losses.len() - 1) < 0.8 * loss(0), "{losses:?}");
    let config = read(&dir.join("first/model/config.json"));
    for (field, expected) in fields {
        assert_eq!(&config[field], expected, "{field}");
    }

    let said = |model: &str| {
        let prompt = ["--prompt", "to be", "--tokens", "40", "--temperature", "0"];
        succeed(dir, &[&["generate", model], &prompt[..]].concat())
    };
    let first = said("first");
    assert!(
        first.starts_with("to be") && first.len() == "to be".len() + 40 + 1,
        "{first:?}"
    );

    // With a rate of 0 a run that starts from it says the same; with adapters it says what the merged model says.
    let tuned = [
        "train",
        "llama-lm",
        "--init",
        "first/model",
        "--data",
        "text.txt",
        "--set",
        "data.max_length=16",
    ];
    let still = ["--steps", "1", "--set", "train.lr=0", "--out", "second"];
    succeed(dir, &[&tuned[..], &still].concat());
    assert_eq!(said("second"), first);
    let adapted = [
        "--set",
        "lora.rank=2",
        "--set",
        "lora.targets=all-linear",
        "--set",
        "train.lr=0.05",
    ];
    succeed(
        dir,
        &[&tuned[..], &adapted, &["--steps", "5", "--out", "lora"]].concat(),
    );
    let adapters = read(&dir.join("lora/model/adapter_config.json"));
    let named: Vec<&str> = adapters["target_modules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(named.len(), 2 * targets.len(), "{named:?}");
    assert!(
        named
            .iter()
            .all(|name| targets.iter().any(|target| name.ends_with(target))),
        "{named:?}"
    );
    succeed(dir, &["export", "lora", "merged"]);
    assert!(!dir.join("merged/adapter_config.json").exists());
    assert_eq!(said("merged"), said("lora"));
}

#[test]
fn a_gpt_neox_is_trained_generates_and_is_adapted() {
    let fields = [
        ("model_type", value!("gpt_neox")),
        ("architectures", value!(["GPTNeoXForCausalLM"])),
        ("rotary_pct", value!(0.25)),
        ("rotary_emb_base", value!(10000.0)),
        ("hidden_act", value!("gelu")),
        ("eos_token_id", Value::Null),
    ];
    check(
        "gpt_neox",
        &fields,
        &["query_key_value", "attention.dense", "dense_h_to_4h", "dense_4h_to_h"],
    );
}

#[test]
fn a_gptj_is_trained_generates_and_is_adapted() {
    let fields = [
        ("model_type", value!("gptj")),
        ("architectures", value!(["GPTJForCausalLM"])),
        ("rotary_dim", value!(4)),
        ("n_positions", value!(2048)),
        ("activation_function", value!("gelu_new")),
        ("eos_token_id", Value::Null),
    ];
    check(
        "gptj",
        &fields,
        &["q_proj", "k_proj", "v_proj", "out_proj", "fc_in", "fc_out"],
    );
}
