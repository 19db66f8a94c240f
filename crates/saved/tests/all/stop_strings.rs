//! Texts that stop strings end against those of transformers, drawn and searched, with tokenizers of every sort.

use lessen_cpu::CpuBackend;
use lessen_data::{StopStrings, Tokenizer};
use lessen_nn::{Model, checkpoint};
use lessen_task::generation_config::GenerationConfig;
use lessen_train::{Generator, Sampling, Session};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stop_strings")
}

fn generator(name: &str) -> Generator {
    let dir = fixtures().join("../../../../nn/tests/fixtures").join(name);
    let model = Model::from_dir(&dir).unwrap();
    let weights = checkpoint::load(&dir, &model.parameters(), &|_| false).unwrap().weights;
    let backend = Box::new(CpuBackend::new(1).unwrap());
    let session = Session::new(backend, model.parameters(), &weights).unwrap();
    Generator::new(session, &model, 32).unwrap()
}

fn tokens(value: &Value) -> Vec<i32> {
    let tokens = value.as_array().unwrap().iter();
    tokens.map(|token| token.as_i64().unwrap() as i32).collect()
}

#[test]
fn texts_end_with_the_token_that_completes_a_stop_string_as_in_transformers() {
    let record = fs::read(fixtures().join("expected.json")).unwrap();
    let record: Vec<Value> = serde_json::from_slice(&record).unwrap();
    let (mut generators, mut tokenizers) = (BTreeMap::new(), BTreeMap::new());
    let (mut wrong, mut early) = (Vec::new(), 0);
    for case in &record {
        let text = |field: &str| case[field].as_str().unwrap();
        let generator = generators
            .entry(text("model"))
            .or_insert_with(|| generator(text("model")));
        let tokenizer = tokenizers.entry(text("tokenizer"));
        let tokenizer = tokenizer.or_insert_with(|| Tokenizer::from_dir(&fixtures().join(text("tokenizer"))).unwrap());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("generation_config.json"), case["fields"].to_string()).unwrap();
        let config = GenerationConfig::read(dir.path().into()).unwrap().unwrap();
        generator.end_at(config.ends.clone().unwrap_or_default());
        let stops = StopStrings::new(tokenizer, &config.stops).unwrap();
        let (prompt, sampling) = (tokens(&case["prompt"]), config.over(Sampling::greedy(14)));
        let is_complete = |tokens: &[i32], _: usize| stops.are_completed(tokens);
        let found = generator.generate_all(&[&prompt], 1, &sampling, &is_complete, &mut |_, _| Ok(()));
        let found = found.unwrap().remove(0);
        if found != tokens(&case["added"]) || tokenizer.decode(&found).unwrap() != text("text") {
            wrong.push(format!("{found:?} for {case}"));
        }
        early += usize::from(found.len() < 14);
    }
    assert!(
        wrong.is_empty(),
        "{} of {}: {:#?}",
        wrong.len(),
        record.len(),
        &wrong[..wrong.len().min(9)]
    );
    assert!(record.len() > 600 && early > 300);
}
