//! Several adapters at once against what peft computes with them, and those that do not go together.

use crate::adapters_of_peft::{read, write_base, write_case};
use crate::support::{Folder, Tensors, difference, fixture, floats, recorded};
use lessen_nn::checkpoint::{self, ModelFolder, WeightDtype, WeightedAdapter};
use lessen_nn::{Model, Result};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The relative difference of logits: peft computes in `f32`.
const TOLERANCE: f64 = 1e-5;

/// The recorded base models and adapters in a folder.
struct Recorded {
    folder: Folder,
    record: Value,
    logits: Tensors,
}

impl Recorded {
    fn new() -> Recorded {
        let record: Value = serde_json::from_slice(&fs::read(fixture("adapter_sums.json")).unwrap()).unwrap();
        let bytes = fs::read(fixture("adapter_sums.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let folder = Folder::new();
        for (base, config) in record["bases"].as_object().unwrap() {
            write_base(&folder.0, &file, base, config);
        }
        for (name, config) in record["adapters"].as_object().unwrap() {
            write_case(&folder.0, &file, name, config);
        }
        let logits = recorded(&file, "logits/");
        Recorded { folder, record, logits }
    }

    /// The folder of the base model of an adapter.
    fn base_of(&self, adapter: &str) -> PathBuf {
        let base = self.record["adapters"][adapter]["base_model_name_or_path"].as_str();
        self.folder.file(&format!("base-{}", base.unwrap()))
    }

    fn adapter(&self, name: &str, weight: f64) -> WeightedAdapter {
        WeightedAdapter {
            dir: self.folder.file(name),
            weight,
        }
    }

    /// The adapters of a recorded sum, and the folder of their base model.
    fn sum(&self, name: &str) -> (PathBuf, Vec<WeightedAdapter>) {
        let weights = self.record["sums"][name]["adapters"].as_object().unwrap();
        let adapters = weights
            .iter()
            .map(|(name, weight)| self.adapter(name, weight.as_f64().unwrap()));
        (self.base_of(weights.keys().next().unwrap()), adapters.collect())
    }

    /// Changes fields of `adapter_config.json` of an adapter.
    fn change(&self, adapter: &str, fields: &Value) {
        change(&self.folder.file(adapter).join("adapter_config.json"), fields);
    }

    /// The sentence that refuses these adapters of a base model.
    fn refused(&self, base: &str, adapters: &[&str]) -> String {
        let adapters: Vec<_> = adapters.iter().map(|name| self.adapter(name, 1.0)).collect();
        let base = self.folder.file(base);
        let sentence = read(ModelFolder::from(&base).with_adapters(&adapters))
            .unwrap_err()
            .to_string();
        assert!(!sentence.contains('\n'), "{sentence}");
        sentence.replace(&format!("{}/", self.folder.0.display()), "")
    }
}

/// Changes fields of a JSON file.
fn change(path: &Path, fields: &Value) {
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    config
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    fs::write(path, config.to_string()).unwrap();
}

#[test]
fn sums_of_adapters_compute_what_peft_computes_or_are_refused() {
    let recorded = Recorded::new();
    let (mut wrong, mut refused, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    for (name, sum) in recorded.record["sums"].as_object().unwrap() {
        let (base, adapters) = recorded.sum(name);
        let folder = ModelFolder::from(&base).with_adapters(&adapters);
        let Some((_, shape, bytes)) = recorded.logits.get(name) else {
            match read(folder) {
                Ok(_) => wrong.push(format!("{name} is read, and peft refuses it")),
                Err(_) => refused.push(name.as_str()),
            }
            continue;
        };
        ways.push(sum["by"].as_str().unwrap());
        let expected = floats(shape, bytes);
        // The model of its own that they are merged to computes the same, and so do the adapters in another order.
        let merged = recorded.folder.file(&format!("{name}-merged"));
        let converted = checkpoint::convert(folder, &merged, WeightDtype::F32).and_then(|()| read(&merged));
        let reversed: Vec<_> = adapters.iter().rev().cloned().collect();
        for (what, found) in [
            ("", read(folder)),
            (" when merged", converted),
            (" when reversed", read(folder.with_adapters(&reversed))),
        ] {
            match found.map(|found| difference(&found, &expected)) {
                Ok(difference) if difference > TOLERANCE => wrong.push(format!("{name} differs by {difference}{what}")),
                Ok(_) => {}
                Err(error) => wrong.push(format!("{name} is refused{what}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(refused, ["two_heads", "head_and_product", "two_classes"]);
    let by_cat = ways.iter().filter(|way| **way == "cat").count();
    assert!(by_cat >= 12 && ways.len() > by_cat, "{ways:?}");
}

#[test]
fn the_own_adapters_of_a_folder_stay_and_others_are_added() {
    let recorded = Recorded::new();
    let (base, adapters) = recorded.sum("three");
    let own = adapters.iter().find(|adapter| adapter.weight == 1.0).unwrap();
    let others: Vec<_> = adapters
        .iter()
        .filter(|adapter| adapter.weight != 1.0)
        .cloned()
        .collect();
    let folder = ModelFolder::from(&own.dir)
        .with_base(Some(&base))
        .with_adapters(&others);
    let (_, shape, bytes) = &recorded.logits["three"];
    let found = difference(&read(folder).unwrap(), &floats(shape, bytes));
    assert!(found < TOLERANCE, "{found}");
    let alone = difference(&read(folder.with_adapters(&[])).unwrap(), &floats(shape, bytes));
    assert!(alone > 0.1, "{alone}");
    let sentence = checkpoint::copy_adapters(folder, &recorded.folder.file("copy"), WeightDtype::F32).unwrap_err();
    assert!(sentence.to_string().contains("leave out one of the two"), "{sentence}");
    assert!(!recorded.folder.file("copy").exists());
}

#[test]
fn the_head_of_one_adapter_is_used_with_its_classes() {
    let recorded = Recorded::new();
    let (base, adapters) = recorded.sum("classes");
    let folder = ModelFolder::from(&base).with_adapters(&adapters);
    // The base model has no head at all; without that adapter it stays so, and its states are asked for.
    assert_eq!(Model::from_dir(folder).unwrap().labels().len(), 3);
    let without = [recorded.adapter("no_classes", 1.0)];
    let headless = ModelFolder::from(&base).with_adapters(&without);
    let sentence = Model::from_dir(headless).unwrap_err().to_string();
    assert!(
        sentence.contains("is [\"BertModel\"], and Lessen has only"),
        "{sentence}"
    );
    let states = |folder: ModelFolder<'_>| -> Result<_> {
        let model = Model::from_dir_for_states(folder)?;
        checkpoint::load(folder, &model.parameters_of_states(), &|_| false)
    };
    // The head is none of the parameters of the states.
    let query = "bert.encoder.layer.0.attention.self.query.weight";
    let (plain, one, both) = (
        states(ModelFolder::from(&base)).unwrap().weights,
        states(headless).unwrap().weights,
        states(folder).unwrap().weights,
    );
    assert!(plain[query] != one[query] && one[query] != both[query]);
    assert!(!both.contains_key("classifier.weight"));

    // Its own config.json names the classes.
    let config = Model::from_dir(folder).unwrap().config_json();
    let names = json!({ "id2label": { "0": "low", "1": "mid", "2": "high" } });
    let own = recorded.folder.file("classes/config.json");
    fs::write(&own, serde_json::to_string(&config).unwrap()).unwrap();
    change(&own, &names);
    assert_eq!(Model::from_dir(folder).unwrap().labels(), ["low", "mid", "high"]);

    // Another model than that which the adapters are added to is not.
    change(&own, &json!({ "lessen_activation": "helu:0.05", "hidden_act": "relu" }));
    let sentence = recorded.refused("base-bert", &["classes", "no_classes"]);
    assert!(
        sentence.starts_with("classes/config.json: the field `hidden_act` is \"relu\", but \"gelu\" in the model that"),
        "{sentence}"
    );
    change(
        &own,
        &json!({ "lessen_activation": null, "hidden_act": "gelu", "lessen_position": "alibi" }),
    );
    let sentence = recorded.refused("base-bert", &["classes", "no_classes"]);
    assert!(
        sentence.contains("the field `lessen_position` is \"alibi\", but missing in the model"),
        "{sentence}"
    );
}

#[test]
fn parameters_that_two_adapters_have_whole_must_be_the_same() {
    let recorded = Recorded::new();
    let sentence = recorded.refused("base-llama", &["head", "qv", "head_too"]);
    assert_eq!(
        sentence,
        "head/adapter_model.safetensors and head_too/adapter_model.safetensors both have `lm_head.weight` as a whole \
         (`modules_to_save`, or a bias), with other values, and only products are summed; leave out one of the two"
    );
    let sentence = recorded.refused("base-llama", &["patterns", "head"]);
    assert_eq!(
        sentence,
        "head/adapter_model.safetensors has `lm_head.weight` as a whole (`modules_to_save`), and \
         patterns/adapter_model.safetensors has an adapter of it, which belongs to the values that the base model has there; \
         leave out one of the two"
    );
    let sentence = recorded.refused("base-bert", &["classes", "classes_too"]);
    assert!(
        sentence.contains("both have `classifier.bias` as a whole")
            || sentence.contains("both have `classifier.weight`")
    );
    // A copy of the same adapters has the same head.
    fs::create_dir(recorded.folder.file("again")).unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(
            recorded.folder.file("head").join(file),
            recorded.folder.file("again").join(file),
        )
        .unwrap();
    }
    let sum = |adapters: &[WeightedAdapter]| {
        let base = recorded.folder.file("base-llama");
        read(ModelFolder::from(&base).with_adapters(adapters)).unwrap()
    };
    let halves = sum(&[recorded.adapter("head", 0.5), recorded.adapter("again", 0.5)]);
    assert!(difference(&halves, &sum(&[recorded.adapter("head", 1.0)])) < TOLERANCE);
}

#[test]
fn adapters_that_do_not_go_with_the_model_are_refused() {
    let recorded = Recorded::new();
    for (base, adapter, expected) in [
        (
            "base-gpt2",
            "qv",
            "qv/adapter_model.safetensors: the tensor `base_model.model.model.layers.",
        ),
        (
            "base-bert",
            "qv",
            "qv/adapter_config.json: the field `task_type` is CAUSAL_LM, which Lessen does not have for a bert model",
        ),
        ("base-llama", "nowhere", "there is no folder nowhere; check the path"),
        (
            "base-llama",
            "base-llama",
            "base-llama has no adapter_config.json; name a folder of adapters",
        ),
    ] {
        let sentence = recorded.refused(base, &[adapter]);
        assert!(sentence.contains(expected), "{sentence}");
    }

    // A base model of other widths, and one with fewer layers.
    let wide = recorded.folder.file("base-wide");
    let mut config = recorded.record["bases"]["llama"].clone();
    config["hidden_size"] = json!(12);
    let model = |config: &Value| {
        fs::create_dir_all(&wide).unwrap();
        fs::write(wide.join("config.json"), config.to_string()).unwrap();
        let model = Model::from_dir(&wide).unwrap();
        let weights = lessen_nn::initialize(&model.parameters(), 1);
        checkpoint::save(&wide, &model.config_json(), &weights).unwrap();
    };
    model(&config);
    let sentence = recorded.refused("base-wide", &["qv", "kv"]);
    assert!(
        sentence.contains("qv/adapter_model.safetensors: the adapter of `model.layers.0.self_attn.q_proj` is for 8 inputs and 8 outputs, but this layer of the model has 12 and "),
        "{sentence}"
    );
    config["hidden_size"] = json!(8);
    config["num_hidden_layers"] = json!(1);
    model(&config);
    let sentence = recorded.refused("base-wide", &["qv"]);
    assert!(sentence.contains("layers.1.") && sentence.contains("belongs to no parameter of the model"));

    // What is refused of one adapter is refused of several.
    recorded.change("kv", &json!({ "use_dora": true }));
    let sentence = recorded.refused("base-llama", &["qv", "kv"]);
    assert!(
        sentence
            .contains("kv/adapter_config.json: the field `use_dora` is true, and Lessen has no adapters of this kind"),
        "{sentence}"
    );
    recorded.change("kv", &json!({ "use_dora": false, "r": 5 }));
    let sentence = recorded.refused("base-llama", &["qv", "kv"]);
    assert!(
        sentence.contains("kv/adapter_config.json: the field `r` gives"),
        "{sentence}"
    );

    // A task whose head nobody has.
    recorded.change("no_classes", &json!({ "task_type": "TOKEN_CLS" }));
    let sentence = recorded.refused("base-bert", &["classes", "no_classes"]);
    assert!(
        sentence.contains(
            "no_classes/adapter_config.json: the field `task_type` asks for a BertForTokenClassification, but the model is a \
             BertForSequenceClassification, and the adapters have no head of their own"
        ),
        "{sentence}"
    );
    for weight in [f64::NAN, f64::INFINITY] {
        let adapters = [recorded.adapter("qv", weight)];
        let base = recorded.folder.file("base-llama");
        let sentence = read(ModelFolder::from(&base).with_adapters(&adapters))
            .unwrap_err()
            .to_string();
        assert!(
            sentence.contains("is no finite number; choose one such as 0.5"),
            "{sentence}"
        );
    }
}

#[test]
fn two_heads_of_other_kinds_are_refused() {
    let recorded = Recorded::new();
    // The same head as one of words.
    recorded.change("classes_too", &json!({ "task_type": "TOKEN_CLS" }));
    let sentence = recorded.refused("base-bert", &["classes", "classes_too"]);
    assert_eq!(
        sentence,
        "classes/adapter_model.safetensors and classes_too/adapter_model.safetensors each have a head, of \
         BertForSequenceClassification with 3 classes and of BertForTokenClassification with 3 classes; leave out one of the two"
    );
}
