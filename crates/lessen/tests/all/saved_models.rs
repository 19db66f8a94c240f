//! Saved models in plain Hugging Face folders, at other steps than the last one, and what is said of them.

use crate::support::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A classifier that tells `sun` from `rain`; the folder of its model, without its run.
fn plain_classifier(dir: &Path, kind: &str) {
    let (data, recipe) = (titles(dir), classifier(dir, kind, "schedule = \"linear\"\n"));
    let args = train_on(&recipe, &data, &["--steps", "60", "--out", "run", "--json"]);
    assert_eq!(json(dir, &args)["dev_accuracy"], 1.0);
    fs::rename(dir.join("run/model"), dir.join("plain")).unwrap();
    fs::remove_dir_all(dir.join("run")).unwrap();
}

#[test]
fn a_classifier_in_a_plain_folder_is_scored_and_asked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    plain_classifier(dir, "bert");
    let scores = json(dir, &["eval", "plain", "--data", "titles", "--json"]);
    assert_eq!(
        (&scores["dev_accuracy"], &scores["model"]),
        (&json!(1.0), &json!("plain"))
    );
    let answer = json(dir, &["predict", "plain", "--text", "day 7 rain", "--json"]);
    assert_eq!(answer["label"], "foul");
    // A pair of texts, where the folder cannot say whether its model has learned pairs.
    let ask = |text: &str, more: &[&str]| {
        let args = ["predict", "plain", "--text", text, "--json"];
        json(dir, &[&args[..], more].concat())["probability"].clone()
    };
    assert_eq!(ask("day 7\train", &[]), ask("day 7~rain", &[]));
    assert_ne!(ask("day 7\train", &[]), ask("day 7\train", &["--pairs"]));
    fs::write(dir.join("pairs.txt"), "day 7\train\n\tsun, \"too\"\n").unwrap();
    let printed = succeed(dir, &["predict", "plain", "--input", "pairs.txt", "--pairs"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "text,text_pair,label,probability");
    assert!(
        lines[1].starts_with("day 7,rain,") && lines[2].starts_with(",\"sun, \"\"too\"\"\","),
        "{printed}"
    );
    let share: f64 = lines[1].rsplit(',').next().unwrap().parse().unwrap();
    assert!((share - ask("day 7\train", &["--pairs"]).as_f64().unwrap()).abs() < 1e-5);
    fs::write(dir.join("pairs.txt"), "a\tb\nc\n").unwrap();
    assert_eq!(
        refuse(dir, &["predict", "plain", "--input", "pairs.txt", "--pairs"]),
        "error: pairs.txt line 2 has no tab; write both texts with a tab between"
    );
    assert_eq!(
        refuse(dir, &["eval", "plain"]),
        "error: plain is a model without data; name the file or folder to score it on with --data"
    );
    for flag in [&["--best"][..], &["--step", "3"]] {
        assert_eq!(
            refuse(dir, &[&["eval", "plain", "--data", "titles"], flag].concat()),
            format!(
                "error: plain holds a single model and no run; leave out {}",
                flag.join(" ")
            )
        );
    }
    assert!(refuse(dir, &["generate", "plain", "--prompt", "x"]).contains("lessen predict"));
    fs::remove_file(dir.join("plain/model.safetensors")).unwrap();
    let sentence = refuse(dir, &["predict", "plain", "--text", "sun"]);
    assert!(sentence.contains("plain has no model.safetensors"), "{sentence}");
}

#[test]
fn a_language_model_in_a_plain_folder_is_scored_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcabcabc\n".repeat(60)).unwrap();
    let start = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "20",
        "--out",
        "run",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 2];
    let more = ["--set", "data.max_length=16", "--set", "train.warmup=2"];
    succeed(dir, &[&start[..], tiny, &more].concat());
    let of_run = json(dir, &["eval", "run", "--json"]);
    let loss = of_run["dev_loss"].as_f64().unwrap();
    assert_eq!(of_run["dev_perplexity"].as_f64(), Some(loss.exp()));
    let printed = succeed(dir, &["eval", "run"]);
    assert!(
        printed.ends_with(&format!("loss {loss:.4}, perplexity {:.3}\n", loss.exp())),
        "{printed}"
    );
    // The same windows of the last tenth: as many tokens as the model has positions. Batches are others.
    fs::create_dir(dir.join("split")).unwrap();
    fs::write(dir.join("split/train.txt"), "abcabcabc\n").unwrap();
    fs::write(dir.join("split/valid.txt"), "abcabcabc\n".repeat(6)).unwrap();
    let of_model = json(dir, &["eval", "run/model", "--data", "split", "--json"]);
    assert!(
        (of_model["dev_loss"].as_f64().unwrap() - loss).abs() < 1e-6,
        "{of_model}"
    );
    let text = |folder| succeed(dir, &["generate", folder, "--prompt", "abc", "--tokens", "20"]);
    assert_eq!(text("run"), text("run/model"));
    let lengths = json(
        dir,
        &["eval", "run/model", "--data", "text.txt", "--length", "8", "--json"],
    );
    assert!(lengths["lengths"][0]["dev_perplexity"].is_number(), "{lengths}");
}

#[test]
fn an_evaluation_reports_every_class() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    plain_classifier(dir, "encoder");
    // Of ten that are fair, six are called foul by their word.
    let line = |word: &str, label| format!("{word}\t{label}\n");
    let dev = line("sun", 0).repeat(4) + &line("rain", 0).repeat(6) + &line("rain", 1).repeat(5);
    fs::write(dir.join("titles/dev.txt"), dev).unwrap();
    let eval = ["eval", "plain", "--data", "titles"];
    let scores = json(dir, &[&eval[..], &["--json"]].concat());
    assert_eq!(scores["confusion"], json!([[4, 6], [0, 5]]));
    let (fair, foul) = (&scores["classes"][0], &scores["classes"][1]);
    assert_eq!(
        *fair,
        json!({ "name": "fair", "precision": 1.0, "recall": 0.4, "f1": 8.0 / 14.0, "support": 10.0 })
    );
    assert_eq!(
        (&foul["name"], &foul["precision"]),
        (&json!("foul"), &json!(5.0 / 11.0))
    );
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-12;
    assert!(near(&scores["mean"]["recall"], 0.7) && near(&scores["weighted_mean"]["recall"], 9.0 / 15.0));
    let printed = succeed(dir, &eval);
    let expected = "\n\
        class           precision     recall         f1    support\n\
        fair               1.0000     0.4000     0.5714         10\n\
        foul               0.4545     1.0000     0.6250          5\n\
        mean               0.7273     0.7000     0.5982         15\n\
        weighted mean      0.8182     0.6000     0.5893         15\n\
        \n\
        class \\ answer    fair    foul\n\
        fair                 4       6\n\
        foul                 0       5\n";
    assert!(printed.ends_with(expected), "{printed}");
}

#[test]
fn the_model_of_a_checkpoint_can_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let every = ["--set", "train.checkpoint_every=2", "--steps", "4", "--out", "run"];
    succeed(dir, &tiny_adder(&every));
    let model = |flags: &[&str]| json(dir, &[&["eval", "run", "--json"], flags].concat())["model"].clone();
    assert_eq!(model(&["--step", "2"]), "run/checkpoints/step-2");
    assert_eq!(model(&[]), "run/model");
    assert_eq!(
        refuse(dir, &["eval", "run", "--step", "3"]),
        "error: run has no checkpoint after 3 steps; there are those after 2, 4"
    );
}

#[test]
fn a_model_is_exported_with_its_tokenizer_in_the_dtype_of_choice() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let every = ["--set", "train.checkpoint_every=2", "--steps", "4", "--out", "run"];
    succeed(dir, &tiny_adder(&every));
    let export = |out: &str, more: &[&str]| succeed(dir, &[&["export", "run", out], more].concat());
    assert_eq!(export("models/plain", &[]), "run/model is in models/plain as f32\n");
    let read = |folder: &str, name: &str| fs::read(dir.join(folder).join(name)).unwrap();
    for name in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        assert!(read("models/plain", name) == read("run/model", name), "{name}");
    }
    export("early", &["--step", "2"]);
    assert!(read("early", "model.safetensors") == read("run/checkpoints/step-2", "model.safetensors"));
    let mut names: Vec<_> = fs::read_dir(dir.join("early"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json"
        ]
    );
    let size = |folder: &str| read(folder, "model.safetensors").len();
    for dtype in ["bf16", "f16"] {
        export(dtype, &["--dtype", dtype]);
        assert!(size(dtype) < size("early") * 6 / 10, "{dtype}");
        // It is a model again, also to be exported.
        let answer = succeed(dir, &["generate", dtype, "--prompt", "1+2=", "--tokens", "1"]);
        assert!(answer.starts_with("1+2="), "{answer}");
        succeed(dir, &["export", dtype, &format!("{dtype}-again")]);
        assert_eq!(size(&format!("{dtype}-again")), size("early"));
    }
    let refused = |args: &[&str]| refuse(dir, &[&["export"], args].concat());
    assert_eq!(
        refused(&["run", "early"]),
        "error: early is not empty; name a folder that does not exist yet"
    );
    fs::write(dir.join("file"), "").unwrap();
    assert_eq!(
        refused(&["run", "file"]),
        "error: file is a file; name a folder that does not exist yet"
    );
    fs::remove_file(dir.join("f16/tokenizer.json")).unwrap();
    assert!(refused(&["f16", "new"]).contains("there is no tokenizer in f16"));
    assert!(refused(&["run", "new", "--step", "3"]).contains("run has no checkpoint after 3 steps"));
    assert!(!dir.join("new").exists());
}
