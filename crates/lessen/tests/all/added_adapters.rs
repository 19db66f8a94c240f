//! `--adapter`: adapters that are added to a model, in every command that takes one.

use crate::fine_tuning::{checkpoint_of, run};
use crate::support::*;
use lessen::nn::checkpoint::WeightedAdapter;
use lessen::saved::embedding::is_embedder;
use lessen::saved::saved_run::AdapterOptions;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A classifier in `first/model`, adapters of it with a head of their own in `head/model`, and adapters without one,
/// but with another parameter that is trained whole, in `plain/model` and `more/model`.
fn trained(dir: &Path) {
    checkpoint_of(dir);
    for (out, targets, seed, whole) in [
        ("head", "lora.targets=query,value", "train.seed=1", None),
        (
            "plain",
            "lora.targets=key,output.dense",
            "train.seed=2",
            Some("*.embeddings.LayerNorm.bias"),
        ),
        (
            "more",
            "lora.targets=value,intermediate.dense",
            "train.seed=3",
            Some("*.embeddings.LayerNorm.weight"),
        ),
    ] {
        let whole = whole.map(|whole| format!("lora.whole={whole}"));
        let settings = ["lora.rank=2", "lora.alpha=8", "train.lr=0.05", targets, seed];
        run(dir, out, &[&settings[..], whole.as_deref().as_slice()].concat());
        // So few steps have moved little.
        let file = dir.join(out).join("model/adapter_config.json");
        let config = fs::read_to_string(&file).unwrap();
        fs::write(&file, config.replace("\"lora_alpha\": 8", "\"lora_alpha\": 2000")).unwrap();
    }
}

const DATA: [&str; 5] = ["--data", "titles", "--set", "data.format=\"labelled\"", "--json"];

/// The loss on the titles of a model with these flags.
fn loss(dir: &Path, model: &[&str], data: &[&str]) -> f64 {
    let scores = json(dir, &[&["eval"], model, data, &["--json"]].concat());
    let added: Vec<&str> = model.iter().skip(2).step_by(2).copied().collect();
    let said = scores["model"].as_str().unwrap();
    assert!(
        added.is_empty() || said.ends_with(&format!(" with {}", added.join(", "))),
        "{said}"
    );
    scores["dev_loss"].as_f64().unwrap()
}

fn assert_close(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-5, "{one} is not {other}");
}

#[test]
fn adapters_are_added_by_every_command_and_exported_merged() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let data = &DATA[..4];
    // One adapter on its base is what the folder of the adapter is.
    let alone = loss(dir, &["head"], &[]);
    assert_close(loss(dir, &["first/model", "--adapter", "head/model"], data), alone);

    let three = [
        "first/model",
        "--adapter",
        "head/model",
        "--adapter",
        "plain/model=0.5",
        "--adapter",
        "more/model=-0.25",
    ];
    let added = loss(dir, &three, data);
    assert!((added - alone).abs() > 1e-3, "{added} and {alone}");
    // A run stays with its own adapters, and a run without adapters is a base like its model.
    assert_close(loss(dir, &[&["head"], &three[3..]].concat(), &[]), added);
    assert_close(loss(dir, &[&["first"], &three[1..]].concat(), &[]), added);
    assert_close(loss(dir, &[&["head/model"], &three[3..]].concat(), data), added);

    let said = succeed(dir, &[&["export"], &three[..1], &["merged"], &three[1..]].concat());
    assert_eq!(
        said,
        "first/model with head/model, plain/model=0.5, more/model=-0.25 is in merged as f32\n"
    );
    assert!(dir.join("merged/model.safetensors").exists() && !dir.join("merged/adapter_config.json").exists());
    assert_close(loss(dir, &["merged"], data), added);
    for command in [
        &["predict", "--text", "day 3 rain", "--json"],
        &["embed", "--text", "day 3 rain", "--normalize=true"],
    ] {
        let numbers = |model: &[&str]| -> Vec<f64> {
            let said = succeed(dir, &[&command[..1], model, &command[1..]].concat());
            let said: Value = serde_json::from_str(said.trim()).unwrap();
            let found = said.get("embedding").or(said.get("probabilities")).unwrap();
            match found {
                Value::Array(list) => list.iter().filter_map(Value::as_f64).collect(),
                Value::Object(map) => map.values().filter_map(Value::as_f64).collect(),
                _ => Vec::new(),
            }
        };
        let (found, merged, plain) = (numbers(&three), numbers(&["merged"]), numbers(&three[..1]));
        assert!(!found.is_empty());
        for (one, other) in found.iter().zip(&merged) {
            assert_close(*one, *other);
        }
        assert!(found.iter().zip(&plain).any(|(one, other)| (one - other).abs() > 1e-3));
    }

    // A folder that exists as it is written has no weight.
    fs::rename(dir.join("plain/model"), dir.join("plain=0.5")).unwrap();
    let whole = loss(dir, &["first/model", "--adapter", "plain=0.5"], data);
    fs::rename(dir.join("plain=0.5"), dir.join("plain/model")).unwrap();
    assert_close(whole, loss(dir, &["first/model", "--adapter", "plain/model"], data));
    let half = loss(dir, &["first/model", "--adapter", "plain/model=0.5"], data);
    assert!((whole - half).abs() > 1e-4, "{whole} and {half}");
}

#[test]
fn mistakes_of_added_adapters_are_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    let refused = |model: &[&str], expected: &str| {
        let sentence = refuse(dir, &[&["eval"], model, &DATA].concat());
        assert!(sentence.contains(expected), "{sentence}");
    };
    for (given, expected) in [
        (
            "nowhere",
            "--adapter nowhere: there is no folder nowhere; check the path",
        ),
        (
            "nowhere=2",
            "--adapter nowhere=2: there is no folder nowhere; check the path",
        ),
        (
            "plain/model=",
            "there is no folder plain/model=, and \"\" is no weight for a folder plain/model; write DIR",
        ),
        (
            "plain/model=much",
            "\"much\" is no weight for a folder plain/model; write DIR or DIR=WEIGHT, with a number",
        ),
        (
            "plain/model=nan",
            "--adapter plain/model=NaN: the weight NaN is no finite number; choose one such as 0.5",
        ),
        ("plain/model=1e999", "the weight inf is no finite number"),
        (
            "plain",
            "--adapter plain: plain is a run; name the folder of its adapters, plain/model",
        ),
        (
            "titles",
            "--adapter titles: titles has no adapter_config.json; name a folder of adapters",
        ),
        (
            "first/model",
            "first/model has no adapter_config.json; name a folder of adapters",
        ),
    ] {
        refused(&["first/model", "--adapter", given], expected);
    }
    refused(
        &[
            "first/model",
            "--adapter",
            "plain/model=0.5",
            "--adapter",
            "./plain/../plain/model",
        ],
        "--adapter ./plain/../plain/model: these adapters are given twice; name them once, with the sum of the weights, \
         plain/model=1.5",
    );
    refused(
        &["plain", "--adapter", "plain/model"],
        "--adapter plain/model: these are the adapters of plain/model itself, which count with the weight 1; leave them out, or \
         name the model that they belong to in its place",
    );
    // Two heads that were trained apart.
    let again = ["lora.rank=1", "lora.targets=query", "train.lr=0.05", "train.seed=9"];
    run(dir, "again", &again);
    refused(
        &["first/model", "--adapter", "head/model", "--adapter", "again/model"],
        "head/model/adapter_model.safetensors and again/model/adapter_model.safetensors both have `bert.pooler.dense.weight` as a \
         whole (`modules_to_save`, or a bias), with other values, and only products are summed; leave out one of the two",
    );
    // A folder of adapters has a whole model beside them.
    fs::copy(
        dir.join("first/model/model.safetensors"),
        dir.join("more/model/model.safetensors"),
    )
    .unwrap();
    refused(
        &["first/model", "--adapter", "more/model"],
        "more/model has adapter_config.json, but also a whole model",
    );
    // Nothing is written.
    let export = ["export", "head", "out", "--adapters", "--adapter", "plain/model"];
    let sentence = refuse(dir, &export);
    assert!(
        sentence.contains("--adapters writes the adapters of head/model alone, and --adapter plain/model adds others"),
        "{sentence}"
    );
    let export = ["export", "head", "out", "--adapter", "again/model"];
    assert!(refuse(dir, &export).contains("leave out one of the two"));
    assert!(!dir.join("out").exists());
}

#[test]
fn adapters_of_another_model_or_head_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    titles(dir);
    fs::write(dir.join("text.txt"), "day 1 sun\nday 2 rain\n".repeat(20)).unwrap();
    let sizes = ["layers=1", "width=16", "heads=2", "ffn=32"].map(|size| format!("model.{size}"));
    let masked = [
        &[
            "train", "bert-mlm", "--data", "text.txt", "--out", "masked", "--steps", "2",
        ][..],
        &[
            "--set",
            "model.kind=bert",
            "--set",
            &sizes[0],
            "--set",
            &sizes[1],
            "--set",
            &sizes[2],
            "--set",
            &sizes[3],
        ],
        &[
            "--set",
            "data.lines=true",
            "--set",
            "data.max_length=16",
            "--set",
            "train.batch=4",
            "--set",
            "train.warmup=0",
        ],
    ];
    succeed(dir, &masked.concat());
    // Adapters for classes on a model that fills in words.
    let recipe = classifier(dir, "bert", "").display().to_string();
    let tuned = [
        "--init",
        "masked/model",
        "--out",
        "head",
        "--set",
        "lora.rank=2",
        "--set",
        "lora.targets=query,value",
    ];
    succeed(dir, &[&["train", &recipe, "--data", "titles"], &tuned[..]].concat());
    let sentence = refuse(dir, &["eval", "masked", "--adapter", "head/model"]);
    assert!(
        sentence.contains(
            "--adapter makes a BertForSequenceClassification of the BertForMaskedLM in masked/model, which the settings of the \
             run are for; name masked/model in place of the run"
        ),
        "{sentence}"
    );
    let scores = json(
        dir,
        &[&["eval", "masked/model", "--adapter", "head/model"], &DATA[..]].concat(),
    );
    assert!(scores["dev_accuracy"].is_number(), "{scores}");

    // A model of other sizes.
    let wide = ["--data", "titles", "--out", "wide", "--set", "model.width=24"];
    succeed(dir, &[&["train", &recipe], &wide[..]].concat());
    let sentence = refuse(
        dir,
        &[&["eval", "wide/model", "--adapter", "head/model"], &DATA[..]].concat(),
    );
    assert!(
        sentence.contains(
            "head/model/adapter_model_config.json: the field `vocab_size` is 17, but 21 in the model that the adapters are added \
             to; name adapters that were trained on this model"
        ),
        "{sentence}"
    );
    fs::remove_file(dir.join("head/model/adapter_model_config.json")).unwrap();
    let sentence = refuse(
        dir,
        &[&["eval", "wide/model", "--adapter", "head/model"], &DATA[..]].concat(),
    );
    assert!(
        sentence.contains("is for 16 inputs and 16 outputs, but this layer of the model has 24 and 24"),
        "{sentence}"
    );
}

#[test]
fn a_head_of_added_adapters_makes_a_classifier_of_a_model_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    trained(dir);
    // As a `BertModel`, whose use is to embed.
    let headless = dir.join("first/model");
    let file = headless.join("config.json");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("BertForSequenceClassification", "BertModel")).unwrap();
    let asked = ["--text", "day 3 rain", "--json"];
    assert!(refuse(dir, &[&["predict", "first/model"], &asked[..]].concat()).contains("is [\"BertModel\"]"));
    let flags = ["--adapter", "head/model", "--adapter", "plain/model=2"];
    let answer = json(dir, &[&["predict", "first/model"], &flags[..], &asked].concat());
    let expected = json(dir, &[&["predict", "head/model"], &flags[2..], &asked].concat());
    assert_eq!(answer, expected);
    let embed = |flags: &[&str]| succeed(dir, &[&["embed", "first/model"], flags, &asked[..2]].concat());
    assert_ne!(embed(&flags), embed(&flags[2..]));
    assert_ne!(embed(&flags[2..]), embed(&[]));

    let adapter = |dir: &str| WeightedAdapter {
        dir: dir.into(),
        weight: 1.0,
    };
    let embeds = |name: &str| {
        let options = AdapterOptions {
            base: None,
            added: vec![adapter(text(&dir.join(name)))],
        };
        is_embedder(&headless, &options)
    };
    assert_eq!(is_embedder(&headless, &AdapterOptions::default()), Ok(true));
    assert_eq!((embeds("plain/model"), embeds("head/model")), (Ok(true), Ok(false)));
    assert!(embeds("titles").is_err());
}

#[test]
fn texts_are_continued_with_added_adapters() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("text.txt"), "abcdefgh\n".repeat(60)).unwrap();
    let train = [
        "train",
        "shakespeare",
        "--data",
        "text.txt",
        "--steps",
        "2",
        "--set",
        "data.max_length=16",
    ];
    let tiny = &TINY_ADDER[..TINY_ADDER.len() - 6];
    let more = [
        "--set",
        "train.batch=4",
        "--set",
        "train.warmup=0",
        "--set",
        "train.eval_every=0",
    ];
    succeed(dir, &[&train[..], tiny, &more, &["--out", "first"]].concat());
    let lora = [
        "--set",
        "lora.rank=2",
        "--set",
        "lora.alpha=2000",
        "--set",
        "lora.targets=all-linear",
    ];
    let tuned = ["--init", "first/model", "--out", "tuned"];
    succeed(dir, &[&train[..], &more, &lora, &tuned].concat());
    let generate = |model: &[&str]| {
        let args = ["--prompt", "ab", "--tokens", "12", "--temperature", "0", "--json"];
        json(dir, &[&["generate"], model, &args].concat())["text"].clone()
    };
    let added = generate(&["first/model", "--adapter", "tuned/model"]);
    assert_eq!(added, generate(&["tuned"]));
    assert_ne!(added, generate(&["first/model"]));
    assert_eq!(
        generate(&["first/model", "--adapter", "tuned/model=0"]),
        generate(&["first"])
    );
}
