//! A Llama from a recipe: trained, continued as a text, resumed, and the start of another run.

use crate::support::*;
use serde_json::{Value, json as value};
use std::fs;

const TINY: &[&str] = &[
    "--set",
    "model.layers=2",
    "--set",
    "model.width=24",
    "--set",
    "model.heads=4",
    "--set",
    "model.ffn=32",
    "--set",
    "train.batch=4",
    "--set",
    "data.max_length=16",
    "--set",
    "train.lr=0.02",
    "--set",
    "train.warmup=5",
];

#[test]
fn a_llama_is_trained_generates_resumes_and_is_fine_tuned() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(
        dir.join("text.txt"),
        "to be or not to be that is the question\n".repeat(40),
    )
    .unwrap();
    let own = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--set",
        "model.kind=llama",
        "--set",
        "model.kv_heads=2",
    ];
    let steps = ["--steps", "30", "--set", "train.checkpoint_every=20", "--json"];
    let report = json(dir, &[&own[..], TINY, &steps, &["--out", "first"]].concat());
    let history = report["loss_history"].as_array().unwrap();
    assert!(
        history.last().unwrap().as_f64().unwrap() < 0.8 * history[0].as_f64().unwrap(),
        "{history:?}"
    );

    let config: Value = serde_json::from_slice(&fs::read(dir.join("first/model/config.json")).unwrap()).unwrap();
    for (field, expected) in [
        ("model_type", value!("llama")),
        ("architectures", value!(["LlamaForCausalLM"])),
        ("num_key_value_heads", value!(2)),
        ("rope_theta", value!(10000.0)),
        ("eos_token_id", Value::Null),
    ] {
        assert_eq!(config[field], expected, "{field}");
    }

    let said = |run: &str| {
        succeed(
            dir,
            &[
                "generate",
                run,
                "--prompt",
                "to be",
                "--tokens",
                "40",
                "--temperature",
                "0",
            ],
        )
    };
    let first = said("first");
    assert!(
        first.starts_with("to be") && first.len() == "to be".len() + 40 + 1,
        "{first:?}"
    );

    // The same bits after a resume from the checkpoint before the end.
    let weights = || fs::read(dir.join("first/model/model.safetensors")).unwrap();
    let before = weights();
    fs::remove_dir_all(dir.join("first/checkpoints/step-30")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "first"]);
    assert!(weights() == before);

    // With a rate of 0 a run that starts from it says the same.
    let tuned = [
        "train",
        "llama-lm",
        "--init",
        "first/model",
        "--data",
        "text.txt",
        "--steps",
        "1",
    ];
    let still = ["--set", "train.lr=0", "--set", "data.max_length=16", "--out", "second"];
    succeed(dir, &[&tuned[..], &still].concat());
    assert_eq!(said("second"), first);
    let refused = refuse(dir, &[&tuned[..], &["--set", "model.kv_heads=4"]].concat());
    assert!(
        refused.contains("--set model.kv_heads=4 cannot change the checkpoint"),
        "{refused}"
    );
}
