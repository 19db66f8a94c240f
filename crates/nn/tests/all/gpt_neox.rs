//! GPT-NeoX and GPT-J: what their `config.json` says, what is refused, and what is saved.

use crate::support::{Folder, fixture, load, model, read, write};
use lessen_graph::ops::attention::RopeScaling;
use lessen_nn::models::gpt_neox::{GPTNeoXForCausalLM, GptNeoxConfig};
use lessen_nn::models::gptj::{GPTJForCausalLM, GptjConfig};
use lessen_nn::{Architecture, AttentionConfig, Head, Model, Position, Rotary, Task, checkpoint};
use safetensors::Dtype;
use serde_json::{Map, Value, json};
use std::fs;

const NAMES: [&str; 3] = ["gpt-neox-tiny", "gpt-neox-sequential-tiny", "gptj-tiny"];

fn fields(name: &str) -> Map<String, Value> {
    serde_json::from_str(&fs::read_to_string(fixture(name).join("config.json")).unwrap()).unwrap()
}

/// The model that a recorded configuration describes after some changes.
fn changed(name: &str, changes: Value, removed: &[&str]) -> Result<Model, String> {
    let mut map = fields(name);
    map.extend(changes.as_object().unwrap().clone());
    removed.iter().for_each(|field| drop(map.remove(*field)));
    of_fields(map)
}

fn of_fields(map: Map<String, Value>) -> Result<Model, String> {
    let folder = Folder::new();
    fs::write(folder.file("config.json"), Value::Object(map).to_string()).unwrap();
    let message = |error: lessen_nn::Error| error.to_string().replace(&folder.0.display().to_string(), "DIR");
    Model::from_dir(&folder.0).map_err(message)
}

#[test]
fn every_field_is_read_and_kept() {
    for (name, architecture) in [
        (NAMES[0], Architecture::GPTNeoXForCausalLM),
        (NAMES[1], Architecture::GPTNeoXForCausalLM),
        (NAMES[2], Architecture::GPTJForCausalLM),
    ] {
        let (model, _) = model(name);
        assert_eq!(
            (model.architecture(), model.task()),
            (architecture, Task::LanguageModelling)
        );
        assert_eq!((model.vocab_size(), model.max_length()), (60, None));
        assert_eq!(model.config_json(), fields(name), "transformers' own file comes back");
        let family = Model::family(&fixture(name)).unwrap();
        assert_eq!(Architecture::language_model(&family), Some(architecture));
        assert!(Model::from_dir_with(&fixture(name), Head::MaskedLM).is_err());
    }
}

#[test]
fn saving_gives_the_same_folder() {
    for name in NAMES {
        let ((model, weights), folder) = (model(name), Folder::new());
        checkpoint::save(&folder.0, &model.config_json(), &weights).unwrap();
        assert_eq!(model, Model::from_dir(&folder.0).unwrap());
        let written: Value = serde_json::from_slice(&fs::read(folder.file("config.json")).unwrap()).unwrap();
        assert_eq!(written, Value::Object(fields(name)));
        let bytes = fs::read(folder.file("model.safetensors")).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let theirs = read(name);
        assert_eq!(file.len(), theirs.len());
        for (tensor, view) in file.iter() {
            let (dtype, shape, data) = &theirs[tensor];
            let own = (view.dtype(), view.shape(), view.data());
            assert_eq!(own, (*dtype, shape.as_slice(), data.as_slice()), "{tensor}");
        }
    }
}

#[test]
fn another_attention_stands_beside_what_transformers_reads() {
    for name in NAMES {
        let (plain, _) = model(name);
        for position in Position::ALL {
            let (mut model, folder) = (plain.clone(), Folder::new());
            let attention = AttentionConfig {
                weighting: "norm_softmax".parse().unwrap(),
                position,
                ..plain.attention()
            };
            model.set_attention(attention).unwrap();
            let json = model.config_json();
            fs::write(folder.file("config.json"), Value::Object(json.clone()).to_string()).unwrap();
            let read = Model::from_dir(&folder.0).unwrap();
            assert_eq!((read.attention(), read.config_json()), (attention, json.clone()));
            assert_eq!(json.contains_key("lessen_position"), position != Position::Rope);
            let known = json.into_iter().filter(|(field, _)| !field.starts_with("lessen_"));
            assert_eq!(known.collect::<Map<String, Value>>(), fields(name));
        }
    }
}

#[test]
fn angles_are_read_in_both_forms() {
    let rotary = |changes: Value| {
        let model = changed("gpt-neox-tiny", changes, &["rope_parameters"]);
        model.map(|model| model.attention().rotary)
    };
    // Heads have 8 elements.
    let quarter = Rotary {
        width: Some(2),
        ..Rotary::DEFAULT
    };
    assert_eq!(rotary(json!({})), Ok(quarter));
    assert_eq!(rotary(json!({ "rotary_pct": 1 })), Ok(Rotary::DEFAULT));
    let old = json!({
        "rotary_pct": 0.8,
        "rotary_emb_base": 500,
        "rope_scaling": { "type": "linear", "factor": 2.0 },
    });
    let new = json!({ "rope_parameters": {
        "rope_type": "linear", "factor": 2.0, "rope_theta": 500.0, "partial_rotary_factor": 0.75,
    } });
    let expected = Rotary {
        base: 500.0,
        scaling: RopeScaling::Linear { factor: 2.0 },
        width: Some(6),
        interleaved: false,
    };
    assert_eq!(rotary(old), Ok(expected));
    assert_eq!(changed("gpt-neox-tiny", new, &[]).unwrap().attention().rotary, expected);
}

#[test]
fn every_part_of_a_head_is_written_and_read() {
    for width in [3, 16, 47, 98, 106] {
        for rotated in (2..=width).step_by(2) {
            let rotary = Rotary {
                width: (rotated < width).then_some(rotated),
                ..Rotary::DEFAULT
            };
            let config = GptNeoxConfig {
                hidden_size: 2 * width,
                num_attention_heads: 2,
                attention: AttentionConfig {
                    rotary,
                    ..GptNeoxConfig::attention(width)
                },
                ..GptNeoxConfig::default()
            };
            let map = Model::from(GPTNeoXForCausalLM { config }).config_json();
            let share = map["rotary_pct"].as_f64().unwrap();
            assert_eq!((share * width as f64) as usize, rotated, "{share}");
            assert_eq!(of_fields(map).unwrap().attention().rotary, rotary);
        }
    }
}

#[test]
fn what_is_no_pair_is_refused() {
    let fault = |name, changes: Value, removed: &[&str]| changed(name, changes, removed).unwrap_err();
    assert_eq!(
        fault("gptj-tiny", json!({ "rotary_dim": 5 }), &[]),
        "DIR/config.json: the field `rotary_dim` is 5 of the 16 elements of a head, and Lessen rotates pairs; give an \
         even number from 2 to 16"
    );
    assert!(fault("gptj-tiny", json!({}), &["rotary_dim"]).contains("`rotary_dim` is 64 of the 16 elements"));
    for share in [0.1, 0.4, 1.3] {
        let sentence = fault("gpt-neox-tiny", json!({ "rotary_pct": share }), &["rope_parameters"]);
        assert!(sentence.contains("the field `rotary_pct`"), "{sentence}");
    }
    let sentence = fault(
        "gpt-neox-tiny",
        json!({ "rope_parameters": { "partial_rotary_factor": 0.4 } }),
        &[],
    );
    assert!(sentence.contains("`rope_parameters`"), "{sentence}");
    // Other positions rotate nothing.
    let other = json!({ "rotary_dim": 5, "lessen_position": "alibi" });
    let (model, sentence) = (changed("gptj-tiny", other, &[]).unwrap(), "heads have 16, 5 to rotate");
    let rope = AttentionConfig {
        position: Position::Rope,
        ..model.attention()
    };
    let error = model.clone().set_attention(rope).unwrap_err().to_string();
    assert!(error.contains(sentence), "{error}");
}

#[test]
fn settings_reach_every_field() {
    for (name, dropouts) in [("gpt-neox-tiny", 2), ("gptj-tiny", 3)] {
        let (mut model, _) = model(name);
        model.set_dropout(0.25);
        let json = model.config_json();
        let own =
            |field: &str| (field.ends_with("pdrop") || field.contains("dropout")) && field != "classifier_dropout";
        let values: Vec<&Value> = json
            .iter()
            .filter(|(field, _)| own(field))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(values, vec![&json!(0.25); dropouts], "{json:?}");
        model.set_vocab_size(7);
        assert_eq!(model.config_json()["vocab_size"], 7);
    }
    let tied: Model = GPTJForCausalLM {
        config: GptjConfig {
            n_embd: 16,
            n_head: 2,
            n_layer: 1,
            tie_word_embeddings: true,
            ..GptjConfig::default()
        },
    }
    .into();
    let names: Vec<String> = tied.parameters().into_iter().map(|param| param.name).collect();
    assert!(names.contains(&"lm_head.bias".to_string()) && !names.contains(&"lm_head.weight".to_string()));
    assert!(tied.is_head("lm_head.bias") && !tied.is_head("transformer.wte.weight"));
}

#[test]
fn other_names_and_constants_of_checkpoints_are_understood() {
    for (name, buffers) in [
        (
            "gpt-neox-tiny",
            [
                "gpt_neox.layers.0.attention.bias",
                "gpt_neox.layers.0.attention.masked_bias",
                "gpt_neox.layers.0.attention.rotary_emb.inv_freq",
            ],
        ),
        (
            "gptj-tiny",
            [
                "transformer.h.0.attn.bias",
                "transformer.h.0.attn.masked_bias",
                "transformer.h.1.attn.bias",
            ],
        ),
    ] {
        let ((model, weights), mut tensors, folder) = (model(name), read(name), Folder::new());
        // The name of the head in transformers 5, and old constants.
        if let Some(head) = tensors.remove("embed_out.weight") {
            tensors.insert("lm_head.weight".into(), head);
        }
        for buffer in buffers {
            // A mask is of four axes; a tensor of one axis by its name would be a bias.
            let shape = vec![1; if buffer.ends_with(".bias") { 4 } else { 1 }];
            tensors.insert(buffer.into(), (Dtype::F32, shape, vec![0; 4]));
        }
        write(&folder, "model.safetensors", &tensors);
        let loaded = load(&folder, &model.parameters()).unwrap();
        assert_eq!(loaded.weights, weights);
        assert!(loaded.extra.is_empty(), "{:?}", loaded.extra);
    }
    // A copy of the table of a tied model, and a head that is missing.
    let (tied, weights) = model("gpt-neox-sequential-tiny");
    let (mut tensors, folder) = (read("gpt-neox-sequential-tiny"), Folder::new());
    tensors.insert("embed_out.weight".into(), tensors["gpt_neox.embed_in.weight"].clone());
    write(&folder, "model.safetensors", &tensors);
    assert_eq!(load(&folder, &tied.parameters()).unwrap().weights, weights);
    for (name, head) in [("gpt-neox-tiny", "embed_out.weight"), ("gptj-tiny", "lm_head.weight")] {
        let ((model, _), mut tensors) = (model(name), read(name));
        assert!(model.is_head(head));
        tensors.remove(head);
        write(&folder, "model.safetensors", &tensors);
        let sentence = load(&folder, &model.parameters()).unwrap_err().to_string();
        assert!(sentence.contains(&format!("has no tensor `{head}`")), "{sentence}");
    }
}
