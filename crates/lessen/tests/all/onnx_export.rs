//! `lessen export --onnx`, and how long a saved model takes.

use crate::images::bars;
use crate::support::{checkpoint, json, refuse, succeed, text, train_on};
use lessen_onnx::Model;
use std::fs;

#[test]
fn a_classifier_becomes_a_file_that_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let model = checkpoint(dir, "encoder");
    let printed = succeed(
        dir,
        &["export", text(&model), "--onnx", "out/model.onnx", "--opset", "20"],
    );
    assert!(
        printed.contains("as ONNX with operators of version 20: input_ids, attention_mask give logits"),
        "{printed}"
    );
    let file = Model::open(&dir.join("out/model.onnx")).unwrap();
    assert_eq!(file.opset(""), Some(20));
    let operators: Vec<&str> = file.nodes.iter().map(|node| node.proto.op_type.as_str()).collect();
    assert!(
        operators.contains(&"LayerNormalization") && operators.contains(&"Gelu"),
        "{operators:?}"
    );
    let entries: Vec<_> = fs::read_dir(dir.join("out")).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");

    // The vectors of texts, from the same folder.
    let printed = succeed(dir, &["export", text(&model), "--onnx", "vectors.onnx", "--embed"]);
    assert!(
        printed.contains("give last_hidden_state, sentence_embedding"),
        "{printed}"
    );
}

#[test]
fn what_does_not_go_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let model = checkpoint(dir, "encoder");
    let model = text(&model);
    let error = refuse(dir, &["export", model, "--onnx", "model.onnx", "--opset", "16"]);
    assert!(error.contains("--opset 16: Lessen writes versions 17 to 23"), "{error}");
    let error = refuse(dir, &["export", model, "--onnx", "."]);
    assert!(error.contains(". is a folder; name a file to write"), "{error}");
    for wrong in [
        &["export", model][..],
        &["export", model, "folder", "--onnx", "model.onnx"],
        &["export", model, "--onnx", "model.onnx", "--dtype", "f32"],
        &["export", model, "folder", "--opset", "17"],
    ] {
        assert_eq!(crate::support::lessen(dir, wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert!(!dir.join("model.onnx").exists() && !dir.join("folder").exists());
}

#[test]
fn a_classifier_of_images_and_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let recipe = dir.join("recipe.toml");
    fs::write(
        &recipe,
        "# A tiny model of images.\n[model]\nkind = \"convnet-3\"\n[data]\nformat = \"images\"\nheld_out = 0.0\n\
         [train]\nbatch = 16\nsteps = 2\n",
    )
    .unwrap();
    let data = bars(dir);
    succeed(dir, &train_on(&recipe, &data, &["--out", "run"]));
    let printed = succeed(dir, &["export", "run", "--onnx", "model.onnx"]);
    assert!(printed.contains("pixel_values give logits"), "{printed}");
    let metadata = fs::read(dir.join("model.onnx")).unwrap();
    let labels = br#"{"0":"top","1":"middle","2":"bottom"}"#;
    assert!(metadata.windows(labels.len()).any(|part| part == labels));

    let times = json(
        dir,
        &["bench", "predict", "run", "--batch", "3", "--requests", "5", "--json"],
    );
    assert_eq!((&times["batch"], &times["requests"]), (&3.into(), &5.into()));
    let time = |name: &str| times[name].as_f64().unwrap();
    assert!(
        time("p50_ms") <= time("p90_ms") && time("p99_ms") <= time("max_ms"),
        "{times}"
    );
    assert!(times["length"].is_null() && time("per_second") > 0.0, "{times}");
}
