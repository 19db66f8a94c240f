//! `generation_config.json` against the tokens that transformers generates by it.

use lessen_cpu::CpuBackend;
use lessen_nn::Model;
use lessen_nn::checkpoint;
use lessen_task::generation_config::GenerationConfig;
use lessen_train::{Generator, Sampling, Session};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../nn/tests/fixtures")
        .join(name)
}

fn tokens(value: &Value) -> Vec<i32> {
    let tokens = value.as_array().unwrap().iter();
    tokens.map(|token| token.as_i64().unwrap() as i32).collect()
}

/// The configuration of a file with these fields.
fn config(fields: &str) -> lessen_base::Result<GenerationConfig> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("generation_config.json"), fields).unwrap();
    GenerationConfig::read(dir.path().into()).map(Option::unwrap)
}

fn generator(name: &str) -> Generator {
    let dir = fixture(name);
    let model = Model::from_dir(&dir).unwrap();
    let weights = checkpoint::load(&dir, &model.parameters(), &|_| false).unwrap().weights;
    let backend = Box::new(CpuBackend::new(1).unwrap());
    let session = Session::new(backend, model.parameters(), &weights).unwrap();
    Generator::new(session, &model, 32).unwrap()
}

#[test]
fn fields_of_generation_configurations_have_the_effects_of_transformers() {
    let record: Vec<Value> = serde_json::from_slice(&fs::read(fixture("generation.json")).unwrap()).unwrap();
    let mut generators = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &record {
        let config = config(&case["fields"].to_string()).unwrap();
        assert!(config.not_followed.is_empty(), "{case}");
        let name = case["model"].as_str().unwrap();
        let generator = generators.entry(name).or_insert_with(|| generator(name));
        generator.end_at(config.ends.clone().unwrap_or_default());
        let found = generator.generate(&tokens(&case["prompt"]), &config.over(Sampling::greedy(14)));
        match found {
            Ok(found) if found == tokens(&case["added"]) => {}
            found => wrong.push(format!("{found:?} for {case}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), record.len());
    assert!(record.len() > 100);
}

#[test]
fn fields_that_are_not_followed_are_named() {
    for (fields, expected) in [
        (r#"{"guidance_scale": 1.5, "max_new_tokens": 3}"#, "guidance_scale"),
        (
            r#"{"guidance_scale": 1.0, "penalty_alpha": 0, "num_beam_groups": 1}"#,
            "",
        ),
        (r#"{"penalty_alpha": 0.6, "top_k": 4}"#, "penalty_alpha"),
        (
            r#"{"num_beam_groups": 2, "num_beams": 4, "diversity_penalty": 0.5}"#,
            "num_beam_groups,diversity_penalty",
        ),
        (r#"{"num_beams": 4, "do_sample": true}"#, "do_sample"),
        (
            r#"{"watermarking_config": {"bias": 2.0}, "token_healing": false}"#,
            "watermarking_config",
        ),
        (
            r#"{"num_return_sequences": 3, "max_time": 5.0}"#,
            "num_return_sequences,max_time",
        ),
        (r#"{"force_words_ids": [[4]], "constraints": null}"#, "force_words_ids"),
        (r#"{"a_new_field": 1, "another": null}"#, "a_new_field"),
        (
            r#"{"use_cache": false, "pad_token_id": 0, "transformers_version": "5.24.0", "output_scores": true}"#,
            "",
        ),
    ] {
        let found = config(fields).unwrap().not_followed.join(",");
        let sorted = |text: &str| {
            let mut names: Vec<String> = text.split(',').map(str::to_string).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(&found), sorted(expected), "{fields}");
    }
}

#[test]
fn mistakes_in_fields_name_the_field() {
    for (fields, expected) in [
        (r#"{"bad_words_ids": [[]]}"#, "bad_words has a sequence without tokens"),
        (
            r#"{"bad_words_ids": 3}"#,
            "the field `bad_words_ids` must be a list of lists of tokens",
        ),
        (
            r#"{"suppress_tokens": ["a"]}"#,
            "the field `suppress_tokens` must be the number of a token",
        ),
        (
            r#"{"early_stopping": "soon"}"#,
            "the field `early_stopping` must be true, false or \"never\"",
        ),
        (r#"{"num_beams": 0}"#, "beams 0 makes no sense"),
        (r#"{"min_p": 2}"#, "min_p 2 makes no sense"),
        (r#"{"typical_p": 0}"#, "typical_p 0 makes no sense"),
        (r#"{"eta_cutoff": 1}"#, "eta_cutoff 1 makes no sense"),
        (
            r#"{"stop_strings": [""]}"#,
            "the field `stop_strings` must be a text that is not empty",
        ),
        (
            r#"{"exponential_decay_length_penalty": [1]}"#,
            "the field `exponential_decay_length_penalty` must be a list",
        ),
        (
            r#"{"min_new_tokens": -1}"#,
            "the field `min_new_tokens` must be a whole number, at least 0",
        ),
    ] {
        let sentence = config(fields).unwrap_err().to_string();
        assert!(sentence.contains(expected) && !sentence.contains('\n'), "{sentence}");
    }
}
