//! Folders of adapters as `peft` distributes them, without a `config.json`.

use lessen_nn::checkpoint::{self, ModelFolder, WeightDtype};
use lessen_nn::models::bert::BertConfig;
use lessen_nn::models::bert::{Bert, Family, Head};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::llama::{LlamaConfig, LlamaForCausalLM};
use lessen_nn::{Model, Task, Weight, Weights, initialize};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const WIDTH: usize = 4;

/// A tiny masked language model with random weights in `DIR/base`.
fn bert_base(dir: &Path) -> Weights {
    let config = BertConfig {
        vocab_size: 7,
        hidden_size: WIDTH,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        intermediate_size: 6,
        max_position_embeddings: 8,
        ..BertConfig::of(Family::Bert)
    };
    base(
        dir,
        Bert {
            config,
            head: Head::MaskedLM,
        }
        .into(),
    )
}

fn base(dir: &Path, model: Model) -> Weights {
    let weights = initialize(&model.parameters(), 1);
    checkpoint::save(&dir.join("base"), &model.config_json(), &weights).unwrap();
    weights
}

/// Numbers that follow from a name.
fn numbers(name: &str, shape: &[usize]) -> Weight {
    let sum: usize = name.bytes().map(usize::from).sum();
    let number = |i: usize| ((sum + 7 * i) % 11) as f32 / 11.0 - 0.4;
    Weight {
        shape: shape.to_vec(),
        data: (0..shape.iter().product()).map(number).collect(),
    }
}

/// Writes adapters with these tensors and fields to `DIR/adapters`; returns the tensors by name.
fn adapters(dir: &Path, tensors: &[(&str, &[usize])], fields: Value) -> Weights {
    let target = dir.join("adapters");
    let tensors: Weights = tensors
        .iter()
        .map(|(name, shape)| (format!("base_model.model.{name}"), numbers(name, shape)))
        .collect();
    checkpoint::save(&target, &Default::default(), &tensors).unwrap();
    fs::rename(
        target.join("model.safetensors"),
        target.join("adapter_model.safetensors"),
    )
    .unwrap();
    fs::remove_file(target.join("config.json")).unwrap();
    let mut config = json!({
        "peft_type": "LORA", "r": 2, "lora_alpha": 8, "base_model_name_or_path": dir.join("base").to_str(),
        "target_modules": ".*\\.(query|value)", "bias": "all", "use_dora": false, "rank_pattern": {"value": 1},
        "alpha_pattern": {}, "lora_dropout": 0.1, "modules_to_save": ["classifier"], "task_type": "SEQ_CLS",
    });
    let more = fields.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(more);
    fs::write(target.join("adapter_config.json"), config.to_string()).unwrap();
    let short = |name: String| name.strip_prefix("base_model.model.").unwrap().to_string();
    tensors
        .into_iter()
        .map(|(name, weight)| (short(name), weight))
        .collect()
}

const SELF: &str = "bert.encoder.layer.0.attention.self";

/// A layer with a rank of its own, a bias, and a head of three classes.
const TENSORS: [(&str, &[usize]); 8] = [
    ("bert.encoder.layer.0.attention.self.query.lora_A.weight", &[2, WIDTH]),
    ("bert.encoder.layer.0.attention.self.query.lora_B.weight", &[WIDTH, 2]),
    ("bert.encoder.layer.0.attention.self.value.lora_A.weight", &[1, WIDTH]),
    ("bert.encoder.layer.0.attention.self.value.lora_B.weight", &[WIDTH, 1]),
    ("bert.encoder.layer.0.attention.self.value.base_layer.bias", &[WIDTH]),
    ("bert.pooler.dense.weight", &[WIDTH, WIDTH]),
    ("bert.pooler.dense.bias", &[WIDTH]),
    ("classifier.weight", &[3, WIDTH]),
];

/// [`TENSORS`] with the head's bias.
fn tensors() -> Vec<(&'static str, &'static [usize])> {
    TENSORS.into_iter().chain([("classifier.bias", &[3][..])]).collect()
}

fn load<'a>(folder: impl Into<ModelFolder<'a>>) -> (Model, Weights) {
    let folder = folder.into();
    let model = Model::from_dir(folder).unwrap();
    let weights = checkpoint::load(folder, &model.parameters(), &|_| false)
        .unwrap()
        .weights;
    (model, weights)
}

/// The weight `W + scale B A` of a layer.
fn merged(base: &Weights, adapters: &Weights, layer: &str, scale: f64) -> Vec<f64> {
    let [weight, a, b] = [
        &base[&format!("{layer}.weight")],
        &adapters[&format!("{layer}.lora_A.weight")],
        &adapters[&format!("{layer}.lora_B.weight")],
    ];
    let (rank, inputs) = (a.shape[0], a.shape[1]);
    let element = |i: usize| {
        let (row, column) = (i / inputs, i % inputs);
        let products = (0..rank).map(|k| f64::from(b.data[row * rank + k]) * f64::from(a.data[k * inputs + column]));
        f64::from(weight.data[i]) + scale * products.sum::<f64>()
    };
    (0..weight.data.len()).map(element).collect()
}

fn assert_close(found: &Weight, expected: &[f64]) {
    assert_eq!(found.data.len(), expected.len());
    for (found, expected) in found.data.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

#[test]
fn what_peft_leaves_out_is_taken_from_the_base_model_and_the_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let base = bert_base(dir);
    let mut all = tensors();
    // With biases, peft saves the head as it was before training, too.
    all.push(("classifier.original_module.bias", &[3]));
    let own = adapters(dir, &all, json!({}));
    let (model, weights) = load(&dir.join("adapters"));
    assert_eq!(model.task(), Task::Classification { classes: 3 });
    // Ranks are the tensors' ranks; alpha is 8.
    let query = format!("{SELF}.query");
    assert_close(&weights[&format!("{query}.weight")], &merged(&base, &own, &query, 4.0));
    let value = format!("{SELF}.value");
    assert_close(&weights[&format!("{value}.weight")], &merged(&base, &own, &value, 8.0));
    assert_eq!(
        weights[&format!("{value}.bias")],
        own[&format!("{value}.base_layer.bias")]
    );
    assert_eq!(weights["classifier.weight"], own["classifier.weight"]);
    let key = format!("{SELF}.key.weight");
    assert_eq!(weights[&key], base[&key]);

    // Merged into the base model, the adapters give a model of their own.
    checkpoint::convert(&dir.join("adapters"), &dir.join("merged"), WeightDtype::F32).unwrap();
    assert_eq!(load(&dir.join("merged")).1, weights);
    // Copied without the base model, the adapters stay as they were.
    checkpoint::copy_adapters((&dir.join("adapters")).into(), &dir.join("copy"), WeightDtype::F32).unwrap();
    let read = |file: &str| fs::read(dir.join(file)).unwrap();
    assert!(!dir.join("copy/config.json").exists());
    assert_eq!(load(&dir.join("copy")).1, weights);
    let config = |file| serde_json::from_slice::<Value>(&read(file)).unwrap();
    assert_eq!(
        config("copy/adapter_config.json"),
        config("adapters/adapter_config.json")
    );
}

#[test]
fn factors_are_those_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let base = bert_base(dir);
    let cases = [
        (json!({ "use_rslora": true }), 8.0 / 2f64.sqrt(), 8.0),
        (json!({ "alpha_pattern": { "self.value": 3 } }), 4.0, 3.0),
        (json!({ "alpha_pattern": { format!("^{SELF}.query"): 1 } }), 0.5, 8.0),
        (json!({ "alpha_pattern": { "^query": 1 } }), 4.0, 8.0),
        (json!({ "alpha_pattern": { "alue": 3 } }), 4.0, 8.0),
    ];
    for (fields, of_query, of_value) in cases {
        let own = adapters(dir, &tensors(), fields);
        let (_, weights) = load(&dir.join("adapters"));
        for (layer, scale) in [("query", of_query), ("value", of_value)] {
            let layer = format!("{SELF}.{layer}");
            assert_close(
                &weights[&format!("{layer}.weight")],
                &merged(&base, &own, &layer, scale),
            );
        }
    }
}

#[test]
fn adapters_of_a_model_without_head_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let base = bert_base(dir);
    let layer = "encoder.layer.0.attention.self.query";
    let names = [format!("{layer}.lora_A.weight"), format!("{layer}.lora_B.weight")];
    let tensors = [(&*names[0], &[2, WIDTH][..]), (&*names[1], &[WIDTH, 2])];
    let own = adapters(
        dir,
        &tensors,
        json!({ "task_type": "FEATURE_EXTRACTION", "target_modules": ["query"] }),
    );
    let (model, weights) = load(&dir.join("adapters"));
    assert_eq!(model.task(), Task::MaskedLanguageModelling);
    let short: Weights = [(
        "encoder.layer.0.attention.self.query.weight",
        &base[&format!("{SELF}.query.weight")],
    )]
    .map(|(name, weight)| (name.to_string(), weight.clone()))
    .into();
    assert_close(
        &weights[&format!("{SELF}.query.weight")],
        &merged(&short, &own, layer, 4.0),
    );
}

#[test]
fn weights_that_lie_the_other_way_get_their_product_transposed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let config = Gpt2Config {
        vocab_size: 7,
        n_positions: 8,
        n_embd: WIDTH,
        n_layer: 1,
        n_head: 2,
        ..Gpt2Config::default()
    };
    let base = base(dir, GPT2LMHeadModel { config }.into());
    let layer = "transformer.h.0.attn.c_attn";
    let names = [format!("{layer}.lora_A.weight"), format!("{layer}.lora_B.weight")];
    let tensors = [(&*names[0], &[2, WIDTH][..]), (&*names[1], &[3 * WIDTH, 2])];
    // Whatever the file says: `peft` corrects the field, too.
    for fan_in_fan_out in [true, false] {
        let own = adapters(
            dir,
            &tensors,
            json!({ "task_type": "CAUSAL_LM", "fan_in_fan_out": fan_in_fan_out, "target_modules": ["c_attn"] }),
        );
        let (_, weights) = load(&dir.join("adapters"));
        let (a, b) = (&own[&names[0]].data, &own[&names[1]].data);
        let weight = &base[&format!("{layer}.weight")];
        let expected = weight.data.iter().enumerate().map(|(i, w)| {
            let (input, output) = (i / (3 * WIDTH), i % (3 * WIDTH));
            let products = (0..2).map(|k| f64::from(b[output * 2 + k]) * f64::from(a[k * WIDTH + input]));
            f64::from(*w) + 4.0 * products.sum::<f64>()
        });
        assert_close(&weights[&format!("{layer}.weight")], &expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_head_that_is_not_tied_is_merged_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let config = LlamaConfig {
        vocab_size: 7,
        hidden_size: WIDTH,
        intermediate_size: 6,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        num_key_value_heads: 1,
        head_dim: WIDTH,
        tie_word_embeddings: false,
        ..LlamaConfig::default()
    };
    let base = base(dir, LlamaForCausalLM { config }.into());
    assert_ne!(base["lm_head.weight"], base["model.embed_tokens.weight"]);
    let layer = "model.layers.0.self_attn.q_proj";
    let names = [format!("{layer}.lora_A.weight"), format!("{layer}.lora_B.weight")];
    let own = adapters(
        dir,
        &[(&*names[0], &[2, WIDTH][..]), (&*names[1], &[WIDTH, 2])],
        json!({ "task_type": "CAUSAL_LM", "target_modules": ["q_proj"] }),
    );
    checkpoint::convert(&dir.join("adapters"), &dir.join("merged"), WeightDtype::F32).unwrap();
    let (_, weights) = load(&dir.join("merged"));
    assert_eq!(weights["lm_head.weight"], base["lm_head.weight"]);
    assert_close(&weights[&format!("{layer}.weight")], &merged(&base, &own, layer, 4.0));
    // Neither is one that was trained whole.
    let own = adapters(
        dir,
        &[("lm_head.weight", &[7, WIDTH])],
        json!({ "task_type": "CAUSAL_LM" }),
    );
    let (_, weights) = load(&dir.join("adapters"));
    assert_eq!(weights["lm_head.weight"], own["lm_head.weight"]);
    assert_eq!(weights["model.embed_tokens.weight"], base["model.embed_tokens.weight"]);
}

#[test]
fn the_base_model_is_the_one_that_is_given_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bert_base(dir);
    adapters(
        dir,
        &tensors(),
        json!({ "base_model_name_or_path": "google-bert/bert-base-uncased" }),
    );
    let place = dir.join("adapters");
    let folder = ModelFolder::from(&place);
    let sentence = Model::from_dir(folder).unwrap_err().to_string();
    assert!(
        sentence.ends_with(
            "adapter_config.json: the field `base_model_name_or_path` names the model that the adapters belong to, \
             \"google-bert/bert-base-uncased\", which is no folder of a model here; name its folder with --base DIR, or model.base \
             in a recipe"
        ),
        "{sentence}"
    );
    let base = dir.join("base");
    let (_, weights) = load(folder.with_base(Some(&base)));
    // A relative path is one from the folder of the adapters, too.
    adapters(dir, &tensors(), json!({ "base_model_name_or_path": "../base" }));
    assert_eq!(load(&place).1, weights);
    let itself = Model::from_dir(folder.with_base(Some(&place))).unwrap_err().to_string();
    assert!(itself.contains("a folder of adapters; merge those first"), "{itself}");
}

#[test]
fn other_adapters_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    bert_base(dir);
    let refused = |tensors: &[(&str, &[usize])], fields: Value| {
        adapters(dir, tensors, fields);
        let place = dir.join("adapters");
        let model = Model::from_dir(&place);
        let loaded = model.and_then(|model| checkpoint::load(&place, &model.parameters(), &|_| false));
        loaded.unwrap_err().to_string()
    };
    for (fields, expected) in [
        (
            json!({ "use_dora": true }),
            "the field `use_dora` is true, and Lessen has no adapters of this kind; merge",
        ),
        (json!({ "peft_type": "IA3" }), "the field `peft_type` is \"IA3\""),
        (json!({ "lora_bias": true }), "the field `lora_bias` is true"),
        (
            json!({ "init_lora_weights": "pissa" }),
            "the field `init_lora_weights` is \"pissa\"",
        ),
        (
            json!({ "layer_replication": [[0, 1]] }),
            "the field `layer_replication` is [[0,1]]",
        ),
        (
            json!({ "alpha_pattern": { "(query": 3 } }),
            "the field `alpha_pattern` has a regular expression that cannot be read",
        ),
        (
            json!({ "new_kind": 3 }),
            "the field `new_kind` is 3, and Lessen does not know whether it changes the computation",
        ),
        (
            json!({ "rank_pattern": { "value": 2 } }),
            "the field `rank_pattern` gives `bert.encoder.layer.0.attention.self.value` the rank 2",
        ),
        (
            json!({ "target_modules": ["query"] }),
            "the field `target_modules` does not name `bert.encoder.layer.0.attention.self.value`",
        ),
        (
            json!({ "lora_alpha": "much" }),
            "the field `lora_alpha` must be a number",
        ),
        (
            json!({ "task_type": "CAUSAL_LM" }),
            "is CAUSAL_LM, which Lessen does not have for a bert model",
        ),
    ] {
        let sentence = refused(&tensors(), fields);
        assert!(sentence.contains(expected), "{sentence}");
    }
    let mut more = tensors();
    more.push(("bert.embeddings.unknown.lora_embedding_A", &[2, 7]));
    let sentence = refused(&more, json!({}));
    assert!(
        sentence.contains("lora_embedding_A` belongs to no parameter of the model"),
        "{sentence}"
    );
    fs::rename(
        dir.join("adapters/adapter_model.safetensors"),
        dir.join("adapters/adapter_model.bin"),
    )
    .unwrap();
    let place = dir.join("adapters");
    let model = Model::from_dir(&dir.join("base")).unwrap();
    let sentence = checkpoint::load(&place, &model.parameters(), &|_| false)
        .unwrap_err()
        .to_string();
    assert!(
        sentence.contains("has an adapter_model.bin but no adapter_model.safetensors"),
        "{sentence}"
    );
}
