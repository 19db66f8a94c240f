//! `lessen convert`

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A file or a folder of another crate's tests.
fn fixture(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join(path).to_str().unwrap().to_string()
}

#[test]
fn files_are_converted_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let file = fixture("onnx-sessions/tests/data/vit-script-12.onnx");
    let dry = json(dir, &["convert", &file, "--dry-run", "--json"]);
    assert_eq!((dry["found"].clone(), dry["output"].clone()), (5.into(), Value::Null));
    assert!(fs::read_dir(dir).unwrap().next().is_none());
    for norm in ["rmsnorm", "crmsnorm"] {
        let report = json(dir, &["convert", &file, "-o", "new.onnx", "--norm", norm, "--json"]);
        assert_eq!(report["converted"].as_array().unwrap().len(), 5, "{report}");
        assert_eq!(report["left"].as_array().unwrap().len(), 0, "{report}");
        assert!(
            report["difference_f64"]["relative"].as_f64().unwrap() < 1e-10,
            "{report}"
        );
        assert!(
            report["difference_files"]["relative"].as_f64().unwrap() < 1e-5,
            "{report}"
        );
        assert_eq!(report["bytes"][1], fs::metadata(dir.join("new.onnx")).unwrap().len());
    }
    let printed = succeed(dir, &["convert", &file, "-o", "new.onnx"]);
    assert!(printed.contains("5 LayerNorms, 5 of them become RMSNorm"), "{printed}");
    assert!(printed.contains("checked on random inputs"), "{printed}");
    let bert = succeed(
        dir,
        &[
            "convert",
            &fixture("onnx-sessions/tests/data/bert-dynamo-18.onnx"),
            "--dry-run",
        ],
    );
    assert!(
        bert.contains("6 LayerNorms, 1 of them") && bert.matches("left: ").count() == 5,
        "{bert}"
    );
}

#[test]
fn folders_are_converted_and_stay_ordinary_models() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (model, norms) in [
        ("gpt2-tiny", 5),
        ("gpt-neox-tiny", 5),
        ("gptj-tiny", 3),
        ("olmo-tiny", 5),
    ] {
        let source = fixture(&format!("nn/tests/fixtures/{model}"));
        for (norm, word) in [("rmsnorm", "rms"), ("crmsnorm", "crms")] {
            let out = format!("{model}-{norm}");
            let report = json(dir, &["convert", &source, "-o", &out, "--norm", norm, "--json"]);
            assert_eq!(report["converted"].as_array().unwrap().len(), norms, "{report}");
            assert!(report["difference"]["relative"].as_f64().unwrap() < 1e-5, "{report}");
            let config: Value = serde_json::from_slice(&fs::read(dir.join(&out).join("config.json")).unwrap()).unwrap();
            assert_eq!(config["lessen_norm"], word);
            // The parameters are recentred already, so that another conversion changes no result.
            let again = format!("{out}-again");
            let report = json(dir, &["convert", &out, "-o", &again, "--norm", norm, "--json"]);
            assert!(report["difference"]["relative"].as_f64().unwrap() < 1e-6, "{report}");
        }
    }
}

#[test]
fn mistakes_are_told_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let gpt2 = fixture("nn/tests/fixtures/gpt2-tiny");
    let vit = fixture("onnx-sessions/tests/data/vit-script-12.onnx");
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join("full/file"), "x").unwrap();
    fs::write(dir.join("text.onnx"), "no model").unwrap();
    fs::copy(&vit, dir.join("own.onnx")).unwrap();
    let before = fs::read_dir(dir).unwrap().count();
    let refused = |args: &[&str], part: &str| {
        let sentence = refuse(dir, args);
        assert!(sentence.contains(part), "{args:?}: {sentence}");
        assert_eq!(fs::read_dir(dir).unwrap().count(), before, "{args:?}");
    };
    refused(&["convert", "none.onnx", "-o", "new.onnx"], "none.onnx");
    refused(&["convert", "text.onnx", "-o", "new.onnx"], "text.onnx");
    refused(
        &["convert", "own.onnx", "-o", "own.onnx"],
        "would overwrite what is read",
    );
    refused(
        &["convert", "own.onnx", "-o", "new.onnx", "--size", "length=3"],
        "length",
    );
    refused(
        &["convert", "own.onnx", "-o", "new.onnx", "--target", "opset23"],
        "version 12",
    );
    refused(&["convert", &gpt2, "-o", "full"], "is not empty");
    refused(
        &["convert", &gpt2, "-o", "new", "--size", "batch=2"],
        "--size batch=2 is for ONNX files",
    );
    refused(
        &["convert", &fixture("nn/tests/fixtures/llama-tiny"), "-o", "new"],
        "has no LayerNorm",
    );
    refused(&["convert", "full", "-o", "new"], "config.json");
}
