//! `config.json`: fields are honoured, unknown ones preserved.

use std::fs;

use crate::support::{Folder, fixture};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::{Activation, Architecture, Family, Head, Model, Task, Weights, checkpoint, numbered_labels};
use serde_json::{Map, Value, json};

fn config(name: &str) -> Map<String, Value> {
    serde_json::from_str(&fs::read_to_string(fixture(name).join("config.json")).unwrap()).unwrap()
}

/// A folder with a recorded configuration in which some fields are replaced; `null` removes a field.
pub fn changed(name: &str, changes: Value) -> Folder {
    let folder = Folder::new();
    let mut map = config(name);
    map.extend(changes.as_object().unwrap().clone());
    fs::write(folder.file("config.json"), Value::Object(map).to_string()).unwrap();
    folder
}

#[test]
fn models_are_recognised_and_their_configurations_kept() {
    let cases = [
        (
            "bert-tiny-cls",
            Architecture::Bert(Family::Bert, Head::SequenceClassification),
            Task::Classification { classes: 5 },
            32,
        ),
        (
            "bert-tiny-mlm",
            Architecture::Bert(Family::Bert, Head::MaskedLM),
            Task::MaskedLanguageModelling,
            32,
        ),
        // Two of its 16 positions are not for tokens.
        (
            "roberta-tiny-cls",
            Architecture::Bert(Family::Roberta, Head::SequenceClassification),
            Task::Classification { classes: 3 },
            14,
        ),
        (
            "roberta-tiny-mlm",
            Architecture::Bert(Family::Roberta, Head::MaskedLM),
            Task::MaskedLanguageModelling,
            14,
        ),
        (
            "roberta-tiny-token",
            Architecture::Bert(Family::Roberta, Head::TokenClassification),
            Task::TokenClassification { classes: 3 },
            14,
        ),
        (
            "distilbert-tiny-qa",
            Architecture::Bert(Family::DistilBert, Head::QuestionAnswering),
            Task::QuestionAnswering,
            16,
        ),
        (
            "distilbert-tiny-cls",
            Architecture::Bert(Family::DistilBert, Head::SequenceClassification),
            Task::Classification { classes: 3 },
            16,
        ),
        (
            "distilbert-tiny-mlm",
            Architecture::Bert(Family::DistilBert, Head::MaskedLM),
            Task::MaskedLanguageModelling,
            16,
        ),
        (
            "mpnet-tiny-cls",
            Architecture::Bert(Family::MPNet, Head::SequenceClassification),
            Task::Classification { classes: 3 },
            14,
        ),
        (
            "mpnet-tiny-mlm",
            Architecture::Bert(Family::MPNet, Head::MaskedLM),
            Task::MaskedLanguageModelling,
            14,
        ),
        (
            "mpnet-tiny-qa",
            Architecture::Bert(Family::MPNet, Head::QuestionAnswering),
            Task::QuestionAnswering,
            14,
        ),
        ("gpt2-tiny", Architecture::GPT2LMHeadModel, Task::LanguageModelling, 32),
    ];
    for (name, architecture, task, length) in cases {
        let model = Model::from_dir(&fixture(name)).unwrap();
        assert_eq!((model.architecture(), model.task()), (architecture, task));
        assert_eq!((model.vocab_size(), model.max_length()), (60, Some(length)));
        assert_eq!(model.config_json(), config(name), "transformers' own file comes back");
    }
}

#[test]
fn a_head_is_put_on_an_encoder_of_its_own_family() {
    let with = |name, head| Model::from_dir_with(&fixture(name), head).map(|model| model.architecture());
    for (name, family) in [
        ("bert-tiny-mlm", Family::Bert),
        ("roberta-tiny-mlm", Family::Roberta),
        ("distilbert-tiny-mlm", Family::DistilBert),
        ("mpnet-tiny-mlm", Family::MPNet),
    ] {
        for head in Head::ALL {
            assert_eq!(with(name, head), Ok(Architecture::Bert(family, head)));
        }
    }
    let sentence = with("gpt2-tiny", Head::MaskedLM).unwrap_err().to_string();
    assert!(
        sentence.ends_with("the field `model_type` is `gpt2`, but BertForMaskedLM needs a `bert` model"),
        "{sentence}"
    );
}

#[test]
fn unknown_fields_are_written_back() {
    let folder = Folder::new();
    let mut map = config("gpt2-tiny");
    map.insert("torch_dtype".into(), json!("bfloat16"));
    map.insert("someone's own".into(), json!("a text"));
    fs::write(folder.file("config.json"), Value::Object(map.clone()).to_string()).unwrap();
    let written = Model::from_dir(&folder.0).unwrap().config_json();
    assert_eq!(written, map);
    // The dtype is that of the weights that are saved, in the field that was there.
    checkpoint::save(&folder.0, &written, &Weights::new()).unwrap();
    map.insert("torch_dtype".into(), json!("float32"));
    let saved: Value = serde_json::from_slice(&fs::read(folder.file("config.json")).unwrap()).unwrap();
    assert_eq!(saved, Value::Object(map));
}

#[test]
fn a_classifier_can_be_given_other_classes() {
    let mut model = Model::from_dir_as(
        &fixture("bert-tiny-mlm"),
        Architecture::Bert(Family::Bert, Head::SequenceClassification),
    )
    .unwrap();
    assert_eq!(model.labels(), numbered_labels(2));
    model.set_labels(vec!["sport".into(), "money".into(), "games".into()]);
    let json = model.config_json();
    assert_eq!(json["architectures"], json!(["BertForSequenceClassification"]));
    assert_eq!(json["id2label"], json!({ "0": "sport", "1": "money", "2": "games" }));
    assert_eq!(json["label2id"], json!({ "sport": 0, "money": 1, "games": 2 }));
    let head = model
        .parameters()
        .into_iter()
        .find(|p| p.name == "classifier.weight")
        .unwrap();
    assert_eq!(head.shape, [3, 32]);
    model.set_labels(vec!["score".into()]);
    assert_eq!(model.task(), Task::Regression);
}

#[test]
fn what_belongs_to_a_replaced_head_does_not_matter() {
    let changes = json!({ "problem_type": "multi_label_classification", "tie_word_embeddings": false });
    let folder = changed("bert-tiny-cls", changes);
    let model = Model::from_dir_as(
        &folder.0,
        Architecture::Bert(Family::Bert, Head::SequenceClassification),
    )
    .unwrap();
    let json = model.config_json();
    assert_eq!(
        json.get("problem_type"),
        None,
        "transformers derives it from the classes"
    );
    assert_eq!(json["tie_word_embeddings"], json!(false));
    assert_eq!(Model::family(&folder.0).unwrap(), "bert");
}

#[test]
fn a_problem_type_follows_the_classes() {
    let folder = changed(
        "bert-tiny-cls",
        json!({ "problem_type": "single_label_classification" }),
    );
    let mut model = Model::from_dir(&folder.0).unwrap();
    assert_eq!(model.config_json()["problem_type"], "single_label_classification");
    model.set_labels(numbered_labels(1));
    // A pipeline of transformers would take the number for a logit.
    assert_eq!(model.config_json()["problem_type"], "regression");
}

#[test]
fn activations_have_the_names_of_transformers() {
    for (name, written) in [("gelu_python", "gelu"), ("tanh", "tanh"), ("swish", "silu")] {
        let folder = changed("bert-tiny-cls", json!({ "hidden_act": name }));
        let model = Model::from_dir(&folder.0).unwrap();
        assert_eq!(model.config_json()["hidden_act"], written);
    }
}

#[test]
fn activations_of_our_own_leave_a_file_that_transformers_reads() {
    for (name, field) in [("bert-tiny-cls", "hidden_act"), ("gpt2-tiny", "activation_function")] {
        let folder = Folder::new();
        for (activation, shown, own) in [
            (Activation::Helu(0.05), "relu", json!("helu:0.05")),
            (Activation::Elu(0.5), "relu", json!("elu:0.5")),
            (Activation::Elu(1.0), "relu", json!("elu")),
            (Activation::Silu, "silu", Value::Null),
        ] {
            // The same file again, so that a field of an earlier activation must go.
            let mut model = Model::from_dir(&fixture(name)).unwrap();
            model.set_activation(Activation::Helu(1.0));
            fs::write(
                folder.file("config.json"),
                Value::Object(model.config_json()).to_string(),
            )
            .unwrap();
            let mut model = Model::from_dir(&folder.0).unwrap();
            assert_eq!(model.activation(), Activation::Helu(1.0));
            model.set_activation(activation);
            let json = model.config_json();
            assert_eq!(json[field], shown);
            assert_eq!(json.get("lessen_activation").unwrap_or(&Value::Null), &own);
            fs::write(folder.file("config.json"), Value::Object(json).to_string()).unwrap();
            assert_eq!(Model::from_dir(&folder.0).unwrap().activation(), activation);
        }
    }
    let config = EncoderConfig {
        activation: Activation::Helu(0.01),
        ..EncoderConfig::default()
    };
    let model = Model::from(LessenEncoder { config });
    let folder = Folder::new();
    assert_eq!(model.config_json()["activation"], "helu:0.01");
    fs::write(
        folder.file("config.json"),
        Value::Object(model.config_json()).to_string(),
    )
    .unwrap();
    assert_eq!(Model::from_dir(&folder.0).unwrap().activation(), Activation::Helu(0.01));
}

#[test]
fn dropout_is_overridden_everywhere() {
    for (name, changes, dropouts) in [
        ("bert-tiny-cls", json!({ "classifier_dropout": 0.4 }), 3),
        ("gpt2-tiny", json!({}), 3),
        ("distilbert-tiny-cls", json!({}), 4),
    ] {
        let mut model = Model::from_dir(&changed(name, changes).0).unwrap();
        model.set_dropout(0.25);
        let json = model.config_json();
        // `summary_*` belongs to a model with two heads.
        let own =
            |field: &str| (field.ends_with("pdrop") || field.contains("dropout")) && !field.starts_with("summary");
        let fields = json.iter().filter(|(field, _)| own(field));
        let values: Vec<&Value> = fields.map(|(_, value)| value).collect();
        assert_eq!(values, vec![&json!(0.25); dropouts], "{json:?}");
    }
    let mut model = Model::from_dir(&fixture("bert-tiny-cls")).unwrap();
    model.set_dropout(0.25);
    let classifier = &model.config_json()["classifier_dropout"];
    assert!(classifier.is_null(), "it follows hidden_dropout_prob");
}

#[test]
fn a_config_without_a_class_is_that_of_the_only_class_of_its_family() {
    let folder = changed("gpt2-tiny", json!({ "architectures": null }));
    let model = Model::from_dir(&folder.0).unwrap();
    assert_eq!(model.architecture(), Architecture::GPT2LMHeadModel);
}
