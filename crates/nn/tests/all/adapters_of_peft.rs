//! Folders of adapters against what peft computes with them: each gives its logits, or is refused.

use crate::support::{Folder, difference, fixture, floats, logits, recorded, write};
use lessen_graph::{Array, Type};
use lessen_nn::checkpoint::{self, Entry, ModelFolder, WeightDtype};
use lessen_nn::models::llama::{LlamaConfig, LlamaForCausalLM};
use lessen_nn::{Lora, Model, Result, initialize};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The tokens of the recorded logits.
const TOKENS: [i32; 4] = [5, 7, 9, 11];

/// The relative difference of logits: peft computes in `f32`.
const TOLERANCE: f64 = 1e-4;

/// Cases that Lessen refuses although peft computes something: adapters that Lessen does not have, and files that name
/// other layers than they have tensors for, of which peft leaves tensors or layers out.
const REFUSED: [&str; 12] = [
    "dora",
    "excluded_after",
    "fewer",
    "layers_other",
    "lora_bias",
    "more",
    "other_kind",
    "parameters",
    "pissa",
    "regex_part",
    "replicated",
    "token_indices",
];

/// The logits of the model in a folder.
pub fn read<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<Array> {
    let folder = folder.into();
    let model = Model::from_dir(folder)?;
    let loaded = checkpoint::load(folder, &model.parameters(), &|_| false)?;
    Ok(logits(&model, &loaded.weights, &TOKENS))
}

/// Writes the folder of a base model.
pub fn write_base(dir: &Path, file: &SafeTensors<'_>, name: &str, config: &Value) {
    let target = dir.join(format!("base-{name}"));
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("config.json"), config.to_string()).unwrap();
    let folder = Folder::new();
    write(&folder, "tensors", &recorded(file, &format!("base-{name}/")));
    fs::copy(folder.file("tensors"), target.join("model.safetensors")).unwrap();
}

/// Writes the folder of a case beside its base model.
pub fn write_case(dir: &Path, file: &SafeTensors<'_>, name: &str, config: &Value) {
    fs::create_dir_all(dir.join(name)).unwrap();
    fs::write(dir.join(name).join("adapter_config.json"), config.to_string()).unwrap();
    let folder = Folder::new();
    write(&folder, "tensors", &recorded(file, &format!("{name}/")));
    fs::copy(folder.file("tensors"), dir.join(name).join("adapter_model.safetensors")).unwrap();
}

#[test]
fn adapters_compute_what_peft_computes_or_are_refused() {
    let record: Value = serde_json::from_slice(&fs::read(fixture("adapters.json")).unwrap()).unwrap();
    let bytes = fs::read(fixture("adapters.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let folder = Folder::new();
    for (base, config) in record["bases"].as_object().unwrap() {
        write_base(&folder.0, &file, base, config);
    }
    let outcomes = recorded(&file, "logits/");
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for (name, config) in record["cases"].as_object().unwrap() {
        write_case(&folder.0, &file, name, config);
        let dir = folder.0.join(name);
        let base = config["base_model_name_or_path"].as_str().unwrap();
        let base = folder.0.join(format!("base-{base}"));
        let found = read(ModelFolder::from(&dir).with_base(Some(&base)));
        let (Ok(found), Some((_, shape, bytes))) = (&found, outcomes.get(name)) else {
            match found {
                Err(error) if outcomes.contains_key(name) => refused.push((name.as_str(), error.to_string())),
                Err(_) => {}
                Ok(_) => wrong.push(format!("{name} is read, and peft refuses it")),
            }
            continue;
        };
        let expected = floats(shape, bytes);
        match difference(found, &expected) {
            difference if difference > TOLERANCE => wrong.push(format!("{name} differs by {difference}")),
            _ => {}
        }
        // The model of its own that they are merged to computes the same.
        let merged = folder.0.join(format!("{name}-merged"));
        let source = ModelFolder::from(&dir).with_base(Some(&base));
        checkpoint::convert(source, &merged, WeightDtype::F32).unwrap();
        match difference(&read(&merged).unwrap(), &expected) {
            difference if difference > TOLERANCE => wrong.push(format!("{name} differs by {difference} when merged")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}, refused: {refused:#?}");
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let mut known = REFUSED.to_vec();
    known.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, known, "{refused:#?}");
    for (name, sentence) in &refused {
        assert!(
            !sentence.contains('\n') && sentence.contains("adapter_"),
            "{name}: {sentence}"
        );
    }
}

/// Embeddings that are trained whole stay tied for peft only where its file says so, and the head lies beside them.
#[test]
fn trained_embeddings_of_a_tied_model_are_written_as_tied() {
    let folder = Folder::new();
    let config = LlamaConfig {
        vocab_size: 7,
        hidden_size: 4,
        intermediate_size: 6,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        num_key_value_heads: 1,
        head_dim: 4,
        tie_word_embeddings: true,
        ..LlamaConfig::default()
    };
    let model = Model::from(LlamaForCausalLM { config });
    let base = initialize(&model.parameters(), 1);
    checkpoint::save(&folder.file("base"), &model.config_json(), &base).unwrap();
    let lora = Lora {
        rank: 1,
        alpha: 1.0,
        rank_stabilized: false,
        dropout: 0.0,
        targets: vec!["q_proj".into()],
        fan_in_fan_out: false,
        base: folder.file("base").display().to_string(),
        whole: "*embed_tokens*".parse().unwrap(),
    };
    let params = model.parameters_with(Some(&lora));
    let mut trained = initialize(&params, 2);
    trained.retain(|name, _| lora.trains(name));
    let entries: Vec<Entry> = trained
        .iter()
        .map(|(name, weight)| Entry {
            name: name.clone(),
            ty: Type::f32(&weight.shape),
        })
        .collect();
    let target = folder.file("adapters");
    checkpoint::save_adapters(
        &target,
        &model.config_json(),
        &lora,
        WeightDtype::F32,
        &entries,
        |entry, sink| sink(&trained[&entry.name].data),
    )
    .unwrap();
    let config: Value = serde_json::from_slice(&fs::read(target.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(config["ensure_weight_tying"], true);
    assert_eq!(
        config["modules_to_save"],
        serde_json::json!(["lm_head", "model.embed_tokens"])
    );
    let file = checkpoint::TensorFile::open(&target.join("adapter_model.safetensors")).unwrap();
    assert!(file.names().contains(&"base_model.model.lm_head.weight".to_string()));
    let again = Model::from_dir(&target).unwrap();
    assert_eq!(again.config_json()["tie_word_embeddings"], true);
    let loaded = checkpoint::load(&target, &again.parameters(), &|_| false).unwrap();
    let words = "model.embed_tokens.weight";
    assert_eq!((&loaded.weights[words], loaded.missing), (&trained[words], Vec::new()));
}

/// Writes the adapters of a recorded model with its head, in a folder beside a copy of the model.
fn adapters_of(name: &str, targets: &[&str]) -> (Folder, Model) {
    let folder = Folder::new();
    let model = Model::from_dir(&fixture(name)).unwrap();
    let lora = Lora {
        rank: 1,
        alpha: 1.0,
        rank_stabilized: false,
        dropout: 0.0,
        targets: targets.iter().map(|target| target.to_string()).collect(),
        fan_in_fan_out: model.fan_in_fan_out(),
        base: fixture(name).display().to_string(),
        whole: "*classifier*,qa_outputs.*".parse().unwrap(),
    };
    let params = model.parameters_with(Some(&lora));
    let mut trained = initialize(&params, 2);
    trained.retain(|name, _| lora.trains(name));
    let entries = trained.iter().map(|(name, weight)| Entry {
        name: name.clone(),
        ty: Type::f32(&weight.shape),
    });
    let (entries, json): (Vec<Entry>, _) = (entries.collect(), model.config_json());
    checkpoint::save_adapters(&folder.0, &json, &lora, WeightDtype::F32, &entries, |entry, sink| {
        sink(&trained[&entry.name].data)
    })
    .unwrap();
    (folder, model)
}

/// transformers takes a folder with a `config.json` for a whole model, and peft asks for the task or the class.
#[test]
fn written_adapters_name_the_task_or_the_class_and_are_no_whole_model() {
    let mapping = json!({ "base_model_class": "BertForMaskedLM", "parent_library": "transformers" });
    for (name, targets, task, mapping, whole) in [
        (
            "bert-tiny-cls",
            &["query"],
            json!("SEQ_CLS"),
            Value::Null,
            json!(["classifier"]),
        ),
        (
            "roberta-tiny-cls",
            &["query"],
            json!("SEQ_CLS"),
            Value::Null,
            json!(["classifier"]),
        ),
        (
            "mpnet-tiny-token",
            &["attn.q"],
            json!("TOKEN_CLS"),
            Value::Null,
            json!(["classifier"]),
        ),
        (
            "distilbert-tiny-qa",
            &["q_lin"],
            json!("QUESTION_ANS"),
            Value::Null,
            json!(["qa_outputs"]),
        ),
        ("bert-tiny-mlm", &["query"], Value::Null, mapping, Value::Null),
        ("gpt2-tiny", &["c_attn"], json!("CAUSAL_LM"), Value::Null, Value::Null),
        ("llama-tiny", &["q_proj"], json!("CAUSAL_LM"), Value::Null, Value::Null),
    ] {
        let (folder, model) = adapters_of(name, targets);
        let config: Value = serde_json::from_slice(&fs::read(folder.file("adapter_config.json")).unwrap()).unwrap();
        assert_eq!(
            [
                &config["task_type"],
                &config["auto_mapping"],
                &config["modules_to_save"]
            ],
            [&task, &mapping, &whole],
            "{name}"
        );
        assert!(!folder.file("config.json").exists());
        let read = || {
            let model = Model::from_dir(&folder.0).unwrap();
            let loaded = checkpoint::load(&folder.0, &model.parameters(), &|_| false).unwrap();
            (model.config_json(), loaded.weights)
        };
        let now = read();
        assert_eq!(now.0["architectures"], model.config_json()["architectures"]);
        // As older versions wrote it.
        fs::rename(folder.file("adapter_model_config.json"), folder.file("config.json")).unwrap();
        assert!(read() == now, "{name}");
    }
}
