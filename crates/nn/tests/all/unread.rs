//! Tensors of a checkpoint that nothing reads: refused where the model would answer otherwise, named where they are
//! heads of other tasks, and no word of constants.

use crate::support::{Folder, Tensors, load, read, write};
use lessen_base::Result;
use lessen_nn::checkpoint::{self, ModelFolder, Rest};
use lessen_nn::{Model, ParamSpec};
use safetensors::Dtype;
use serde_json::json;
use std::fs;

const LAYERED: [(&str, &str); 6] = [
    ("bert-tiny-cls", "bert.encoder.layer."),
    ("roberta-tiny-mlm", "roberta.encoder.layer."),
    ("distilbert-tiny-qa", "distilbert.transformer.layer."),
    ("gpt2-tiny", "transformer.h."),
    ("gpt-neox-tiny", "gpt_neox.layers."),
    ("llama-tiny", "model.layers."),
];

/// A folder of a recorded model with other tensors.
fn changed(name: &str, change: impl Fn(&mut Tensors)) -> (Folder, Vec<ParamSpec>) {
    let folder = Folder::copy_of(name);
    let mut tensors = read(name);
    change(&mut tensors);
    write(&folder, "model.safetensors", &tensors);
    let params = Model::from_dir(&folder.0).unwrap().parameters();
    (folder, params)
}

fn rest<'a>(folder: impl Into<ModelFolder<'a>>, params: &[ParamSpec]) -> Result<Rest> {
    checkpoint::load_with(folder, params, &|_| false, &mut |_, _, _| Ok(()))
}

#[track_caller]
fn refused(folder: &Folder, params: &[ParamSpec], parts: &[&str]) {
    let sentence = load(folder, params).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{sentence} lacks {part}");
    }
}

fn vector() -> (Dtype, Vec<usize>, Vec<u8>) {
    (Dtype::F32, vec![2], vec![0; 8])
}

/// Copies the first layer to number 9.
fn deepen(tensors: &mut Tensors, layers: &str) {
    let first = format!("{layers}0.");
    let copies = tensors.iter().filter(|(name, _)| name.starts_with(&first));
    let copies = copies.map(|(name, tensor)| (name.replace(&first, &format!("{layers}9.")), tensor.clone()));
    let copies: Tensors = copies.collect();
    assert!(!copies.is_empty(), "{layers}");
    tensors.extend(copies);
}

#[test]
fn layers_that_the_config_does_not_count_are_refused_but_to_start_from() {
    for (name, layers) in LAYERED {
        let (folder, params) = changed(name, |tensors| deepen(tensors, layers));
        let layer = format!("counts too few layers for `{layers}9`");
        refused(&folder, &params, &["model.safetensors", &layer, "correct their number"]);
        let start = ModelFolder::from(&folder.0).to_start_from();
        let rest = rest(start, &params).unwrap();
        assert!(rest.extra.iter().all(|name| name.contains(".9.")) && !rest.extra.is_empty());
        assert!(rest.unread.is_empty());
    }
    let headless = |tensors: &mut Tensors| {
        deepen(tensors, "transformer.h.");
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, tensor)| (name.replace("transformer.", ""), tensor))
            .collect();
    };
    let (folder, params) = changed("gpt2-tiny", headless);
    refused(&folder, &params, &["counts too few layers for `h.9`"]);
}

#[test]
fn shards_have_no_tensor_that_is_passed_over() {
    let (folder, params) = changed("llama-tiny", |_| {});
    fs::remove_file(folder.file("model.safetensors")).unwrap();
    let mut tensors = read("llama-tiny");
    deepen(&mut tensors, "model.layers.");
    let (more, first): (Tensors, Tensors) = tensors.into_iter().partition(|(name, _)| name.contains(".9."));
    let listed = |with_more: bool| {
        let names = first.keys().map(|name| (name.clone(), json!("model-1.safetensors")));
        let others = more.keys().map(|name| (name.clone(), json!("model-2.safetensors")));
        let map: serde_json::Map<_, _> = names.chain(others.filter(|_| with_more)).collect();
        let index = json!({ "metadata": {}, "weight_map": map }).to_string();
        fs::write(folder.file("model.safetensors.index.json"), index).unwrap();
    };
    write(&folder, "model-1.safetensors", &first);
    write(&folder, "model-2.safetensors", &more);
    listed(true);
    let layer = "counts too few layers for `model.layers.9`";
    refused(&folder, &params, &["model.safetensors.index.json", layer]);
    // Tensors of a file that its index leaves out.
    let both: Tensors = first
        .iter()
        .chain(&more)
        .map(|(name, tensor)| (name.clone(), tensor.clone()))
        .collect();
    write(&folder, "model-1.safetensors", &both);
    listed(false);
    refused(&folder, &params, &[layer]);
}

#[test]
fn what_changes_a_module_that_is_read_is_refused() {
    for (name, tensor) in [
        ("llama-tiny", "model.layers.0.self_attn.q_norm.weight"),
        ("llama-tiny", "model.layers.0.self_attn.k_proj.bias"),
        ("llama-tiny", "model.embed_positions.weight"),
        ("llama-tiny", "lm_head.bias"),
        ("gpt2-tiny", "transformer.h.0.attn.bias"),
        ("gpt2-tiny", "lm_head.bias"),
        (
            "bert-tiny-cls",
            "bert.encoder.layer.0.attention.self.distance_embedding.weight",
        ),
        ("bert-tiny-cls", "classifier.out_proj.weight"),
        ("roberta-tiny-mlm", "lm_head.second.weight"),
    ] {
        let (folder, params) = changed(name, |tensors| {
            tensors.insert(tensor.into(), vector());
        });
        let named = format!("nothing reads the tensor `{tensor}`, without which the model answers otherwise");
        refused(&folder, &params, &[&named, "name in config.json"]);
        // Training does not start from it, either.
        assert!(rest(ModelFolder::from(&folder.0).to_start_from(), &params).is_err());
    }
}

#[test]
fn adapters_that_are_not_merged_are_refused() {
    for wrapped in [false, true] {
        let layer = "bert.encoder.layer.0.attention.self.query";
        let (folder, params) = changed("bert-tiny-cls", |tensors| {
            for matrix in ["lora_A", "lora_B"] {
                tensors.insert(format!("{layer}.{matrix}.default.weight"), vector());
            }
            if wrapped {
                let weight = tensors.remove(&format!("{layer}.weight")).unwrap();
                tensors.insert(format!("{layer}.base_layer.weight"), weight);
            }
        });
        refused(
            &folder,
            &params,
            &["adapters that are not merged", "merge_and_unload", layer],
        );
    }
    let (folder, params) = changed("bert-tiny-cls", |_| {});
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::write(folder.file(file), "{}").unwrap();
    }
    let parts = ["has a whole model and adapter_config.json", "merge_and_unload"];
    refused(&folder, &params, &parts);
}

#[test]
fn heads_of_other_tasks_are_named_and_constants_are_not() {
    let extras = |name: &str, heads: &[&str], constants: &[&str]| {
        let (folder, params) = changed(name, |tensors| {
            for name in heads.iter().chain(constants) {
                tensors.insert(name.to_string(), vector());
            }
        });
        assert_eq!(rest(&folder.0, &params).unwrap().unread, heads, "{name}");
    };
    let heads = [
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
        "qa_outputs.weight",
    ];
    extras("bert-tiny-cls", &heads, &["bert.embeddings.position_ids"]);
    extras(
        "bert-tiny-mlm",
        &["classifier.weight", "cls.seq_relationship.bias"],
        &["bert.pooler.dense.weight"],
    );
    let constants = ["transformer.h.0.attn.masked_bias", "transformer.rotary_emb.inv_freq"];
    extras("gpt2-tiny", &["score.weight", "v_head.summary.weight"], &constants);
    extras(
        "roberta-tiny-cls",
        &["lm_head.bias", "lm_head.dense.weight"],
        &["roberta.embeddings.token_type_ids"],
    );
    extras(
        "llama-tiny",
        &["score.weight"],
        &["model.layers.0.self_attn.rotary_emb.inv_freq"],
    );
}

#[test]
fn the_head_of_the_folder_is_known_where_another_one_is_asked_for() {
    let (folder, _) = changed("bert-tiny-mlm", |_| {});
    let model = Model::from_dir_for_states(&folder.0).unwrap();
    let rest = rest(&folder.0, &model.parameters_of_states()).unwrap();
    assert!(
        rest.extra.iter().all(|name| name.starts_with("cls.predictions.")),
        "{:?}",
        rest.extra
    );
    assert!(rest.unread.is_empty() && !rest.extra.is_empty());
}
