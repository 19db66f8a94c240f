//! Models whose numbers are NaN or infinite: every way of asking says so, and names what was asked.

use crate::images::bars;
use crate::support::*;
use lessen::data::images::{Image, png};
use lessen::nn::{Model, checkpoint};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Sets every element of the parameters whose names end like this, of which the first `rows` rows stay.
fn poison(folder: &Path, ending: &str, rows: usize, number: f32) {
    let model = Model::from_dir(folder).unwrap();
    let mut weights = checkpoint::load(folder, &model.parameters(), &|_| false)
        .unwrap()
        .weights;
    let found = weights.iter_mut().filter(|(name, _)| name.ends_with(ending));
    let changed = found.map(|(_, weight)| {
        let width = weight.data.len() / weight.shape[0];
        weight.data[rows * width..].fill(number);
    });
    assert!(changed.count() > 0, "{ending}");
    checkpoint::save(folder, &model.config_json(), &weights).unwrap();
}

#[track_caller]
fn refused(dir: &Path, args: &[&str], place: &str, what: &str) {
    let sentence = refuse(dir, args);
    let wanted = format!("error: {place}: the model's answer is {what}");
    assert!(
        sentence.starts_with(&wanted) && sentence.contains("name a sound model"),
        "{sentence}"
    );
}

/// A classifier of characters that knows no sound vector of those that came last into its vocabulary.
fn classifier_of(dir: &Path) -> (Value, String) {
    let (data, recipe) = (titles(dir), classifier(dir, "bert", ""));
    succeed(dir, &train_on(&recipe, &data, &["--steps", "1", "--out", "run"]));
    let tokenizer = fs::read(dir.join("run/model/tokenizer.json")).unwrap();
    let tokenizer: Value = serde_json::from_slice(&tokenizer).unwrap();
    let tokens = tokenizer["model"]["vocab"].as_object().unwrap().iter();
    let (last, id) = tokens.max_by_key(|(_, id)| id.as_u64()).unwrap();
    let (last, id) = (last.trim_start_matches("##").to_string(), id.as_u64().unwrap() as usize);
    poison(&dir.join("run/model"), "word_embeddings.weight", id, f32::NAN);
    let config = fs::read(dir.join("run/model/config.json")).unwrap();
    (serde_json::from_slice(&config).unwrap(), last)
}

#[test]
fn answers_about_texts_are_numbers_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut config, bad) = classifier_of(dir);
    let bad = bad.as_str();
    let model = dir.join("run/model");
    fs::write(dir.join("t.csv"), format!("id,text\n7,d\n8,{bad}\n9,d\n")).unwrap();
    fs::write(dir.join("t.txt"), format!("d\n\n{bad}\n")).unwrap();
    let written = |config: &Value| fs::write(model.join("config.json"), config.to_string()).unwrap();
    for problem in ["single_label_classification", "multi_label_classification"] {
        config["problem_type"] = problem.into();
        written(&config);
        for more in [&[][..], &["--json"]] {
            refused(
                dir,
                &[&["predict", "run/model", "--text", bad], more].concat(),
                "--text",
                "NaN",
            );
        }
        // Others are answered.
        succeed(dir, &["predict", "run/model", "--text", "d"]);
        refused(
            dir,
            &["predict", "run/model", "--input", "t.csv"],
            "t.csv line 3",
            "NaN",
        );
        refused(
            dir,
            &["predict", "run/model", "--input", "t.txt", "--output", "a.csv"],
            "t.txt line 3",
            "NaN",
        );
        assert!(!dir.join("a.csv").exists());
    }
}

#[test]
fn a_stream_names_the_line_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_, bad) = classifier_of(dir);
    let child = command(dir, &["predict", "run/model", "--stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    write!(child.stdin.take().unwrap(), "d\n{bad}\nd\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        lines.len() == 3 && lines[0]["label"].is_string() && lines[2]["label"].is_string(),
        "{printed}"
    );
    assert_eq!(lines[1]["line"], 2);
    let error = lines[1]["error"].as_str().unwrap();
    assert!(error.starts_with("stdin line 2: the model's answer is NaN"), "{error}");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains(&format!("error: {error}")),
        "{}",
        stderr(&output)
    );
}

#[test]
fn scores_and_infinite_answers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut config, _) = classifier_of(dir);
    let model = dir.join("run/model");
    poison(&model, "classifier.bias", 0, f32::INFINITY);
    refused(dir, &["predict", "run/model", "--text", "d"], "--text", "infinite");
    config["id2label"] = serde_json::json!({ "0": "LABEL_0" });
    config["label2id"] = serde_json::json!({ "LABEL_0": 0 });
    config["problem_type"] = "regression".into();
    let known = Model::from_dir(&model).unwrap();
    let mut weights = checkpoint::load(&model, &known.parameters(), &|_| false)
        .unwrap()
        .weights;
    for (_, weight) in weights.iter_mut().filter(|(name, _)| name.starts_with("classifier.")) {
        weight.data.truncate(weight.data.len() / weight.shape[0]);
        weight.shape[0] = 1;
    }
    checkpoint::save(&model, config.as_object().unwrap(), &weights).unwrap();
    refused(
        dir,
        &["predict", "run/model", "--text", "d", "--json"],
        "--text",
        "infinite",
    );
}

#[test]
fn words_and_images_without_sound_numbers_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let folder = dir.join("names");
    fs::create_dir(&folder).unwrap();
    let sentences = "Ann\tB-PER\nis\tO\n\nRome\tO\nis\tO\n\n".repeat(8);
    fs::write(folder.join("train.txt"), &sentences).unwrap();
    fs::write(folder.join("dev.txt"), &sentences).unwrap();
    let tiny = [
        "train",
        "ner",
        "--data",
        "names",
        "--set",
        "model.kind=bert",
        "--set",
        "model.layers=1",
        "--set",
        "model.width=16",
        "--set",
        "model.heads=2",
        "--set",
        "model.ffn=16",
        "--steps",
        "1",
        "--out",
        "tagger",
    ];
    succeed(dir, &tiny);
    poison(&dir.join("tagger/model"), "classifier.weight", 1, f32::NAN);
    refused(
        dir,
        &["predict", "tagger", "--text", "Ann is", "--json"],
        "--text",
        "NaN",
    );
    fs::write(dir.join("texts.txt"), "Ann is\n").unwrap();
    refused(
        dir,
        &["predict", "tagger", "--input", "texts.txt"],
        "texts.txt: sentence 1",
        "NaN",
    );

    let data = bars(dir);
    let recipe = dir.join("vit.toml");
    let text = "[model]\nkind = \"vit\"\nlayers = 1\nwidth = 16\nheads = 2\nffn = 32\npatch = 4\n[data]\nformat = \"images\"\n\
                held_out = 0.0\n[train]\nbatch = 16\nsteps = 1\n";
    fs::write(&recipe, text).unwrap();
    succeed(dir, &train_on(&recipe, &data, &["--out", "seer"]));
    poison(&dir.join("seer/model"), "classifier.bias", 2, f32::NAN);
    fs::write(dir.join("a.png"), png(&Image::new([8, 8, 1], vec![9; 64]))).unwrap();
    refused(dir, &["predict", "seer", "--image", "a.png"], "a.png", "NaN");
}
