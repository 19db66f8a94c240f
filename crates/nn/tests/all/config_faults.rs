//! Mistakes in `config.json`: errors name file and field.

use std::fs;

use crate::config::changed;
use crate::support::{Folder, fixture};
use lessen_nn::{Architecture, Family, Head, Model};
use serde_json::{Value, json};

/// The message of the error for such a configuration.
fn fault(name: &str, changes: Value) -> String {
    let folder = changed(name, changes);
    let sentence = Model::from_dir(&folder.0).unwrap_err().to_string();
    sentence.replace(&folder.0.display().to_string(), "DIR")
}

#[test]
fn mistakes_name_file_and_field() {
    let cases = [
        (
            "bert-tiny-cls",
            json!({ "hidden_size": null }),
            "the field `hidden_size` is missing",
        ),
        (
            "bert-tiny-cls",
            json!({ "hidden_size": "wide" }),
            "the field `hidden_size` must be a whole number from 1 to 16777216, it is \"wide\"",
        ),
        (
            "gpt2-tiny",
            json!({ "n_layer": 99_999_999_999_u64 }),
            "the field `n_layer` must be a whole number from 1 to 16777216, it is 99999999999",
        ),
        (
            "gpt2-tiny",
            json!({ "n_layer": 1025 }),
            "the field `n_layer` is 1025, but a model has at most 1024 layers",
        ),
        (
            "bert-tiny-cls",
            json!({ "num_attention_heads": 0 }),
            "the field `num_attention_heads` must be a whole number from 1 to 16777216, it is 0",
        ),
        (
            "gpt2-tiny",
            json!({ "n_head": 5 }),
            "the field `n_embd` is 32, which `n_head` (5) does not divide",
        ),
        (
            "gpt2-tiny",
            json!({ "attn_pdrop": 1.0 }),
            "the field `attn_pdrop` must be at least 0 and below 1, it is 1",
        ),
        (
            "gpt2-tiny",
            json!({ "layer_norm_epsilon": 0 }),
            "the field `layer_norm_epsilon` must be above 0, it is 0",
        ),
        (
            "bert-tiny-mlm",
            json!({ "hidden_act": "mish" }),
            "the field `hidden_act` names the activation `mish`, which Lessen does not have; it has gelu, \
             gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, relu6, silu, swish, hardswish, tanh, elu, \
             elu:ALPHA, helu:ALPHA with a number ALPHA from 0 on",
        ),
        (
            "bert-tiny-cls",
            json!({ "hidden_act": "relu", "lessen_activation": "helu:-1" }),
            "the field `lessen_activation` names the activation `helu:-1`, which Lessen does not have; it has gelu, \
             gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, relu6, silu, swish, hardswish, tanh, elu, \
             elu:ALPHA, helu:ALPHA with a number ALPHA from 0 on",
        ),
        (
            "gpt2-tiny",
            json!({ "activation_function": "gelu", "lessen_activation": "helu:0.05" }),
            "the field `lessen_activation` is `helu:0.05`, for which `activation_function` must be `relu`, not `gelu`; \
             correct one of the two",
        ),
        (
            "bert-tiny-mlm",
            json!({ "position_embedding_type": "relative_key" }),
            "the field `position_embedding_type` is \"relative_key\", and Lessen computes this model only \
             with \"absolute\"",
        ),
        (
            "gpt2-tiny",
            json!({ "architectures": ["GPT2DoubleHeadsModel"] }),
            "the field `architectures` is [\"GPT2DoubleHeadsModel\"], and Lessen has only CLASSES",
        ),
        (
            "bert-tiny-cls",
            json!({ "architectures": null }),
            "the field `architectures` is missing; it names the model's class, one of CLASSES",
        ),
        (
            "bert-tiny-cls",
            json!({ "model_type": "gpt2" }),
            "the field `model_type` is `gpt2`, but BertForSequenceClassification needs a `bert` model",
        ),
        (
            "bert-tiny-cls",
            json!({ "id2label": { "1": "a", "2": "b" } }),
            "the field `id2label` must name the classes by their numbers \"0\", \"1\" and so on",
        ),
        (
            "bert-tiny-cls",
            json!({ "problem_type": "ranking" }),
            "the field `problem_type` is `ranking`, which Lessen does not have",
        ),
        (
            "bert-tiny-cls",
            json!({ "problem_type": "regression" }),
            "the field `problem_type` is `regression`, which does not go with the number of classes, 5; \
             correct one of the two",
        ),
        (
            "roberta-tiny-cls",
            json!({ "max_position_embeddings": 2 }),
            "the field `max_position_embeddings` is 2, which leaves no positions, as they begin at 2 \
             (`pad_token_id` + 1)",
        ),
        (
            "mpnet-tiny-cls",
            json!({ "max_position_embeddings": 2, "pad_token_id": 0 }),
            "the field `max_position_embeddings` is 2, which leaves no positions, as they begin at 2",
        ),
        (
            "mpnet-tiny-cls",
            json!({ "relative_attention_num_buckets": 16 }),
            "the field `relative_attention_num_buckets` is 16, but distances have 32 buckets",
        ),
        (
            "distilbert-tiny-cls",
            json!({ "sinusoidal_pos_embds": true }),
            "the field `sinusoidal_pos_embds` is true, and Lessen computes this model only with false",
        ),
        (
            "distilbert-tiny-cls",
            json!({ "n_heads": 3 }),
            "the field `dim` is 16, which `n_heads` (3) does not divide",
        ),
        (
            "bert-tiny-mlm",
            json!({ "tie_word_embeddings": false }),
            "the field `tie_word_embeddings` is false, and Lessen computes this model only with true",
        ),
    ];
    let classes = Architecture::all()
        .map(Architecture::name)
        .collect::<Vec<_>>()
        .join(", ");
    for (name, changes, expected) in cases {
        let expected = expected.replace("CLASSES", &classes);
        assert_eq!(fault(name, changes), format!("DIR/config.json: {expected}"));
    }
}

#[test]
fn a_file_that_is_no_configuration_is_told() {
    let folder = Folder::new();
    let sentence = || Model::from_dir(&folder.0).unwrap_err().to_string();
    let path = folder.file("config.json").display().to_string();
    assert_eq!(
        sentence(),
        format!(
            "there is no {path}; name a folder with config.json and model.safetensors, as transformers' \
             save_pretrained writes it"
        )
    );
    fs::write(&path, b"{\"model_type\": \"\xff\"}").unwrap();
    assert_eq!(sentence(), format!("{path} is not valid UTF-8; restore the file"));
    fs::write(&path, "{\"model_type\": ").unwrap();
    assert!(sentence().starts_with(&format!("{path} is no valid JSON: ")));
    fs::write(&path, "[]").unwrap();
    assert_eq!(sentence(), format!("{path} must hold a JSON object"));
}

#[test]
fn a_class_that_contradicts_the_family_is_refused() {
    for (name, family) in [
        ("bert-tiny-cls", "roberta"),
        ("bert-tiny-mlm", "gpt2"),
        ("gpt2-tiny", "bert"),
    ] {
        let sentence = fault(name, json!({ "model_type": family }));
        assert!(
            sentence.contains(&format!("the field `model_type` is `{family}`, but ")),
            "{sentence}"
        );
    }
}

#[test]
fn another_family_is_refused() {
    let dir = fixture("gpt2-tiny");
    let sentence = Model::from_dir_as(&dir, Architecture::Bert(Family::Bert, Head::SequenceClassification))
        .unwrap_err()
        .to_string();
    let place = dir.join("config.json").display().to_string();
    assert_eq!(
        sentence,
        format!(
            "{place}: the field `model_type` is `gpt2`, but BertForSequenceClassification needs \
             a `bert` model"
        )
    );
}

#[test]
fn lengths_are_checked_before_anything_is_traced() {
    for name in ["bert-tiny-cls", "bert-tiny-mlm", "gpt2-tiny"] {
        let model = Model::from_dir(&fixture(name)).unwrap();
        for length in [1, 31, 32] {
            assert_eq!(model.check_length(length), Ok(()), "{name}");
        }
        for length in [0, 33, usize::MAX] {
            let sentence = model.check_length(length).unwrap_err().to_string();
            assert_eq!(
                sentence,
                format!(
                    "sequences of {length} tokens do not fit the model, which has position embeddings for 32; \
                     set data.max_length to a number from 1 to 32"
                )
            );
        }
    }
}
