//! Llama and its relatives: what their `config.json` says, and what is refused.

use crate::support::{Folder, fixture, load, model, read, write};
use lessen_graph::ops::attention::RopeScaling;
use lessen_nn::models::llama::{LlamaConfig, LlamaFamily, LlamaForCausalLM};
use lessen_nn::{Architecture, Model, Rotary, Task};
use serde_json::{Map, Value, json};
use std::fs;

fn fields(name: &str) -> Map<String, Value> {
    serde_json::from_str(&fs::read_to_string(fixture(name).join("config.json")).unwrap()).unwrap()
}

/// The model that a recorded configuration describes after some changes.
fn changed(name: &str, changes: Value, removed: &[&str]) -> Result<LlamaConfig, String> {
    let (folder, mut map) = (Folder::new(), fields(name));
    map.extend(changes.as_object().unwrap().clone());
    removed.iter().for_each(|field| drop(map.remove(*field)));
    fs::write(folder.file("config.json"), Value::Object(map).to_string()).unwrap();
    match Model::from_dir(&folder.0) {
        Ok(Model::LlamaForCausalLM(model)) => Ok(model.config),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string().replace(&folder.0.display().to_string(), "DIR")),
    }
}

#[test]
fn every_field_is_read_and_kept() {
    for (name, family) in [
        ("llama-tiny", LlamaFamily::Llama),
        ("llama-biased-tiny", LlamaFamily::Llama),
        ("olmo-tiny", LlamaFamily::Olmo),
        ("qwen2-tiny", LlamaFamily::Qwen2),
    ] {
        let (model, _) = model(name);
        assert_eq!(
            (model.architecture(), model.task()),
            (Architecture::Llama(family), Task::LanguageModelling)
        );
        assert_eq!(model.max_length(), None, "rotary positions have no limit");
        let (mut own, theirs) = (model.config_json(), fields(name));
        // transformers leaves out this field, because it follows from other fields.
        if matches!(family, LlamaFamily::Olmo | LlamaFamily::Qwen2) {
            assert_eq!(own.remove("head_dim"), Some(json!(8)));
        }
        assert_eq!(own, theirs);
    }
}

#[test]
fn the_base_and_the_scaling_of_angles_are_read_in_both_forms() {
    let rotary =
        |changes: Value| changed("llama-tiny", changes, &["rope_parameters"]).map(|config| config.attention.rotary);
    assert_eq!(rotary(json!({})), Ok(Rotary::DEFAULT));
    let linear = Rotary {
        base: 5e5,
        scaling: RopeScaling::Linear { factor: 2.0 },
        ..Rotary::DEFAULT
    };
    let old = json!({ "rope_theta": 5e5, "rope_scaling": { "type": "linear", "factor": 2.0 } });
    let new = json!({ "rope_theta": 5e5, "rope_scaling": { "rope_type": "linear", "factor": 2 } });
    assert_eq!((rotary(old), rotary(new)), (Ok(linear), Ok(linear)));
    let llama3 = changed("llama-tiny", json!({}), &[]).unwrap().attention.rotary;
    let scaling = RopeScaling::Llama3 {
        factor: 4.0,
        low: 1.0,
        high: 4.0,
        length: 32.0,
    };
    let expected = Rotary {
        base: 500.0,
        scaling,
        ..Rotary::DEFAULT
    };
    assert_eq!(llama3, expected);
    // A file without the fields of transformers 5 is written with the older fields.
    for rotary in [Rotary::DEFAULT, linear, llama3] {
        let mut config = LlamaConfig {
            vocab_size: 9,
            ..LlamaConfig::default()
        };
        config.attention.rotary = rotary;
        let map = Model::from(LlamaForCausalLM { config }).config_json();
        assert!(!map.contains_key("rope_parameters") && map["rope_theta"] == json!(rotary.base));
        let folder = Folder::new();
        fs::write(folder.file("config.json"), Value::Object(map).to_string()).unwrap();
        assert_eq!(Model::from_dir(&folder.0).unwrap().attention().rotary, rotary);
    }
}

#[test]
fn what_transformers_would_compute_otherwise_is_refused() {
    let fault = |changes: Value| changed("llama-tiny", changes, &[]).unwrap_err();
    assert_eq!(
        fault(json!({ "pretraining_tp": 2 })),
        "DIR/config.json: the field `pretraining_tp` is 2, and Lessen computes this model only with 1"
    );
    assert_eq!(
        fault(json!({ "rope_parameters": { "rope_type": "yarn", "factor": 4.0 } })),
        "DIR/config.json: the field `rope_parameters` has the type `yarn`, and Lessen has default, linear and llama3"
    );
    assert_eq!(
        fault(json!({ "rope_parameters": { "rope_type": "linear" } })),
        "DIR/config.json: within the field `rope_parameters`: the field `factor` is missing"
    );
    assert!(fault(json!({ "rope_parameters": { "rope_type": "linear", "factor": 0.5 } })).contains("at least 1"));
    assert!(fault(json!({ "num_key_value_heads": 3 })).ends_with("which `num_key_value_heads` (3) does not divide"));
    assert!(fault(json!({ "head_dim": 7 })).contains("heads of 7 are odd"));

    let mistral = json!({ "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": null });
    assert_eq!(
        changed("llama-tiny", mistral.clone(), &[]).unwrap().family,
        LlamaFamily::Mistral
    );
    let window = |window: Value| {
        let mut fields = mistral.clone();
        fields["sliding_window"] = window;
        fields
    };
    assert_eq!(
        fault(window(json!(4096))),
        "DIR/config.json: the field `sliding_window` is 4096, and Lessen computes this model only with null"
    );
    assert!(
        changed("llama-tiny", mistral, &["sliding_window"])
            .unwrap_err()
            .contains("is missing")
    );
    let window = changed("qwen2-tiny", json!({ "use_sliding_window": true }), &[]);
    assert!(window.unwrap_err().contains("`use_sliding_window` is true"));
    let clipped = changed("olmo-tiny", json!({ "clip_qkv": 8.0 }), &[]);
    assert_eq!(
        clipped.unwrap_err(),
        "DIR/config.json: the field `clip_qkv` is 8.0, and Lessen computes this model only with null"
    );
}

#[test]
fn biases_are_those_of_the_family() {
    let biases = |name: &str, changes: Value| {
        let config = changed(name, changes, &[]).unwrap();
        let params = Model::from(LlamaForCausalLM { config }).parameters().into_iter();
        let biases = params.filter(|param| param.name.starts_with("model.layers.0.") && param.name.ends_with(".bias"));
        biases.count()
    };
    let all = json!({ "attention_bias": true, "mlp_bias": true });
    assert_eq!(biases("llama-tiny", json!({})), 0);
    assert_eq!(biases("llama-tiny", all.clone()), 7);
    assert_eq!(biases("olmo-tiny", all.clone()), 4);
    assert_eq!(biases("olmo-tiny", json!({ "attention_bias": false })), 0);
    assert_eq!(biases("qwen2-tiny", all), 3);
}

#[test]
fn tied_heads_and_constants_of_old_checkpoints_are_understood() {
    let (tied, weights) = model("qwen2-tiny");
    let (mut tensors, folder) = (read("qwen2-tiny"), Folder::new());
    let words = tensors["model.embed_tokens.weight"].clone();
    tensors.insert("lm_head.weight".into(), words.clone());
    tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), words);
    write(&folder, "model.safetensors", &tensors);
    let loaded = load(&folder, &tied.parameters()).unwrap();
    assert_eq!(loaded.weights, weights);
    assert!(loaded.extra.is_empty(), "{:?}", loaded.extra);

    // Of an untied model neither stands for the other.
    let (untied, _) = model("llama-tiny");
    assert!(untied.is_head("lm_head.weight"));
    for missing in ["lm_head.weight", "model.embed_tokens.weight"] {
        let mut tensors = read("llama-tiny");
        tensors.remove(missing);
        write(&folder, "model.safetensors", &tensors);
        let sentence = load(&folder, &untied.parameters()).unwrap_err().to_string();
        assert!(sentence.contains(&format!("has no tensor `{missing}`")), "{sentence}");
    }
}
