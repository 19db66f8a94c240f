//! Training for integers: runs learn, resume to the byte, are evaluated as they were trained, and `lessen quantize`
//! takes their ranges; ranges from data.

use crate::images::bars;
use crate::support::{classifier, json, lessen, refuse, stderr, succeed, text, titles, train_on};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

fn loss(dir: &Path, model: &str, data: &str, more: &[&str]) -> f64 {
    let asked = [&["eval", model, "--data", data, "--json"], more].concat();
    json(dir, &asked)["dev_loss"].as_f64().unwrap()
}

#[test]
fn a_run_for_integers_resumes_to_the_byte_and_its_integers_are_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let data = titles(dir);
    for (ranges, start) in [("running", 2), ("learned", 3), ("dynamic", 0)] {
        let more = format!(
            "checkpoint_every = 4\nqat_ranges = \"{ranges}\"\nqat_start = {start}\nema = 0.5\naccumulate = 2\n"
        );
        let recipe = classifier(dir, "encoder", &more);
        let flags = |out, steps| ["--out", out, "-q", "--set", "model.quantize=w8a8", "--steps", steps];
        succeed(dir, &train_on(&recipe, &data, &flags("whole", "8")));
        succeed(dir, &train_on(&recipe, &data, &flags("part", "4")));
        succeed(dir, &["train", "--resume", "--out", "part", "--steps", "8", "-q"]);
        for file in ["model/model.safetensors", "checkpoints/step-8/training.safetensors"] {
            let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
            assert!(read("whole") == read("part"), "{ranges}: {file} differs");
        }
        let own = config(&dir.join("whole/model"));
        assert_eq!(own["lessen_quantize"]["ranges"], ranges);

        let data = text(&data);
        let trained = loss(dir, "whole", data, &[]);
        let sentence = refuse(dir, &["eval", "whole", "--data", data, "--precision", "int8"]);
        assert!(sentence.contains("lessen quantize"), "{sentence}");
        let found = json(dir, &["quantize", "whole", "-o", ranges, "--json"]);
        let fixed = found["fixed"]["layers"].as_u64();
        assert_eq!(fixed.is_some(), ranges != "dynamic", "{found}");
        assert_eq!(config(&dir.join(ranges)).get("lessen_quantize"), None);
        let integers = loss(dir, ranges, data, &[]);
        assert!(
            (integers - trained).abs() < 0.02 * trained,
            "{ranges}: {integers} and {trained}"
        );
        for run in ["whole", "part"] {
            fs::remove_dir_all(dir.join(run)).unwrap();
        }
    }
}

#[test]
fn ranges_come_from_data_of_the_same_kind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    // All that is scored is one batch, of the run as of a folder, so losses are added up in the same order.
    let whole = ["--set", "train.batch=16", "--out", "run", "-q"];
    succeed(dir, &train_on(&recipe, &data, &whole));
    let data = text(&data);
    let before = loss(dir, "run", data, &[]);
    let scored = [
        "quantize",
        "run",
        "-o",
        "scored",
        "--calibrate",
        data,
        "--data",
        data,
        "--json",
    ];
    let found = json(dir, &scored);
    let own = loss(dir, "scored", data, &[]);
    assert_eq!(found["scores"]["int8"]["dev_loss"].as_f64(), Some(own));
    assert_eq!(found["scores"]["f32"]["dev_loss"].as_f64(), Some(before));
    for method in ["minmax", "percentile", "entropy"] {
        let found = json(
            dir,
            &[
                "quantize",
                "run",
                "-o",
                method,
                "--calibrate",
                data,
                "--method",
                method,
                "--json",
            ],
        );
        assert!(found["fixed"]["layers"].as_u64().unwrap() >= 4, "{found}");
        let group = config(&dir.join(method))["quantization_config"]["config_groups"]["group_0"].clone();
        assert_eq!(group["input_activations"]["dynamic"], false);
        assert_eq!(group["input_activations"]["strategy"], "tensor");
        let after = loss(dir, method, data, &[]);
        assert!((after - before).abs() < 0.05 * before, "{method}: {after} and {before}");
        // The bits do not depend on threads, and integers are what floats at their levels are, but for rounding.
        assert_eq!(after, loss(dir, method, data, &["--threads", "2"]));
        let floats = loss(dir, method, data, &["--precision", "f32"]);
        assert!((after - floats).abs() < 0.01 * floats, "{method}: {after} and {floats}");
    }
    let sentence = refuse(dir, &["quantize", "minmax", "-o", "again", "--calibrate", data]);
    assert!(sentence.contains("the model is quantized"), "{sentence}");
    let images = bars(dir);
    let sentence = refuse(dir, &["quantize", "run", "-o", "again", "--calibrate", text(&images)]);
    assert!(sentence.contains("bars"), "{sentence}");
    for (flags, says) in [
        (&["--method", "minmax"][..], "--calibrate"),
        (
            &["--calibrate", data, "--method", "mean"],
            "minmax, percentile, entropy",
        ),
    ] {
        let output = lessen(dir, &[&["quantize", "run", "-o", "again"], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    assert!(!dir.join("again").exists());

    // A scale that is no positive number is refused by its name.
    let path = dir.join("minmax/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let (name, tensor) = names
        .as_object()
        .unwrap()
        .iter()
        .find(|(name, _)| name.ends_with("input_scale"))
        .unwrap();
    let at = 8 + header + tensor["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[at..at + 4].copy_from_slice(&(-1f32).to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let sentence = refuse(dir, &["eval", "minmax", "--data", data]);
    assert!(
        sentence.contains(name.as_str()) && sentence.contains("-1"),
        "{sentence}"
    );
}

#[test]
fn images_are_learnt_at_four_bits_with_batch_normalization_by_range() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let data = bars(dir);
    let recipe = dir.join("resnet20.toml");
    let text_of = "# Images at four bits.\n[model]\nkind = \"resnet20\"\nbatch_norm = \"range\"\nquantize = \"w4a4\"\n\
         [data]\nformat = \"images\"\nheld_out = 0.0\n\
         [train]\nbatch = 16\nepochs = 6\nlr = 0.01\nwarmup = 4\nqat_start = 12\n";
    fs::write(&recipe, text_of).unwrap();
    succeed(dir, &train_on(&recipe, &data, &["--out", "run", "-q"]));
    let scores = json(dir, &["eval", "run", "--split", "test", "--json"]);
    assert!(scores["test_accuracy"].as_f64().unwrap() > 0.9, "{scores}");
    let own = config(&dir.join("run/model"));
    assert_eq!(own["batch_norm"], "range");
    assert_eq!(
        own["lessen_quantize"]["layers"],
        serde_json::json!({"conv1": "w8a8", "fc": "w8a8"})
    );
    assert_eq!(own["lessen_quantize"]["start"], 12);
}

#[test]
fn keys_that_do_not_go_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (recipe, data) = (classifier(dir, "encoder", ""), titles(dir));
    for (flags, says) in [
        (
            &["model.quantize=w9a8"][..],
            "model.quantize must be one of w8a8, w4a8 and the like",
        ),
        (&["train.qat_start=3"], "(--set train.qat_start=3) needs model.quantize"),
        (
            &["train.qat_ranges=running"],
            "(--set train.qat_ranges=running) needs model.quantize",
        ),
        (
            &["model.quantize_ends=w8a8"],
            "(--set model.quantize_ends=w8a8) needs model.quantize",
        ),
        (&["model.quantize=w8a8", "model.quantize_except=nothing"], "nothing"),
        (&["model.batch_norm=range"], "no batch normalization"),
        (
            &["model.quantize=w8a8", "train.qat_start=99999999"],
            "is beyond 16777216 batches",
        ),
    ] {
        let sets: Vec<&str> = flags.iter().flat_map(|flag| ["--set", flag]).collect();
        let sentence = refuse(dir, &train_on(&recipe, &data, &[&["--out", "run"], &sets[..]].concat()));
        assert!(sentence.contains(says), "{sentence}");
    }
    assert!(!dir.join("run").exists());
    succeed(
        dir,
        &train_on(&recipe, &data, &["--out", "run", "-q", "--set", "model.quantize=w4a8"]),
    );
    let sentence = refuse(dir, &["quantize", "run", "-o", "small"]);
    assert!(sentence.contains("was trained for w4a8"), "{sentence}");
}
