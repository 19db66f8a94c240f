//! Fine-tuning of a classifier of images that comes as an ONNX file.

use crate::images::bars;
use crate::onnx_file::{Extent, F32, Graph, I64};
use crate::support::{json, lessen, refuse, stderr, succeed, text, train_on};
use lessen::data::images::{Image, png};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers around a mean that look random.
fn numbers(count: u64, mean: f32) -> Vec<f32> {
    let number = |at: u64| ((at * 2_654_435_761 % 1_000) as f32 / 1_000.0 - 0.5) * 0.8 + mean;
    (1..=count).map(number).collect()
}

/// A small residual network of grey images of 8 x 8, with a dropout, and an output of probabilities.
fn network(path: &Path, classes: u64, size: [Extent; 2]) {
    let [height, width] = size;
    let images = [Extent::Named("batch"), Extent::Size(1), height, width];
    let mut graph = Graph::default().input("input", F32, &images);
    for (name, inputs) in [("conv1", 1), ("conv2", 8)] {
        graph = graph.floats(
            &format!("{name}.weight"),
            &[8, inputs, 3, 3],
            &numbers(72 * inputs, 0.0),
        );
    }
    for (name, mean) in [
        ("weight", 1.0),
        ("bias", 0.0),
        ("running_mean", 0.0),
        ("running_var", 1.0),
    ] {
        for norm in ["bn1", "bn2"] {
            graph = graph.floats(&format!("{norm}.{name}"), &[8], &numbers(8, mean));
        }
    }
    let pads: &[(&str, &[u64])] = &[("pads", &[1, 1, 1, 1])];
    let norm = |name: &str, x: &str| {
        let parts = ["weight", "bias", "running_mean", "running_var"];
        let mut inputs = vec![x.to_string()];
        inputs.extend(parts.map(|part| format!("{name}.{part}")));
        inputs
    };
    let (first, second) = (norm("bn1", "conv1"), norm("bn2", "conv2"));
    let all = |inputs: &[String], graph: Graph, name: &str| {
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        graph.node("BatchNormalization", name, &inputs)
    };
    graph = graph.node_with("Conv", "conv1", &["input", "conv1.weight"], pads);
    graph = all(&first, graph, "bn1").node("Relu", "relu1", &["bn1"]);
    graph = graph.node_with("Conv", "conv2", &["relu1", "conv2.weight"], pads);
    graph = all(&second, graph, "bn2")
        .node("Add", "sum", &["bn2", "relu1"])
        .node("Relu", "relu2", &["sum"]);
    let windows: &[(&str, &[u64])] = &[("kernel_shape", &[4, 4]), ("strides", &[4, 4])];
    graph
        .node_with("AveragePool", "halves", &["relu2"], windows)
        .node("Flatten", "features", &["halves"])
        .floats("share", &[], &[0.1])
        .node("Dropout", "dropped", &["features", "share"])
        .floats("fc.weight", &[classes, 32], &numbers(32 * classes, 0.0))
        .floats("fc.bias", &[classes], &numbers(classes, 0.0))
        .node_with(
            "Gemm",
            "scores",
            &["dropped", "fc.weight", "fc.bias"],
            &[("transB", &[1])],
        )
        .node("Softmax", "probabilities", &["scores"])
        .output("probabilities", F32)
        .write(path);
}

/// A recipe of images that says nothing of the model.
fn recipe(dir: &Path, more: &str) -> PathBuf {
    let path = dir.join("mine.toml");
    let text = format!(
        "[model]\nkind = \"resnet18\"\n[data]\nformat = \"images\"\nheld_out = 0.0\n[train]\nbatch = 16\nepochs = 8\n\
         lr = 0.01\nwarmup = 4\n{more}"
    );
    fs::write(&path, text).unwrap();
    path
}

fn sides() -> [Extent; 2] {
    [Extent::Size(8), Extent::Size(8)]
}

#[test]
fn a_network_of_a_file_is_trained_saved_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (bars(dir), recipe(dir, ""));
    network(&dir.join("net.onnx"), 3, sides());
    let output = lessen(dir, &train_on(&recipe, &data, &["--init", "net.onnx", "--out", "run"]));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for says in [
        "LessenOnnxClassifier with ",
        "net.onnx: its last Softmax is taken off: the loss is computed from the logits",
        "net.onnx sees images of 8 x 8 pixels, from 0 to 1, by mean [",
        "those of the training images; to have others, set image.mean and image.std",
    ] {
        assert!(said.contains(says), "{says}: {said}");
    }
    assert!(!said.contains("starting with new ones"), "{said}");
    fs::remove_file(dir.join("net.onnx")).unwrap();
    let scores = json(dir, &["eval", "run", "--split", "test", "--json"]);
    assert_eq!(scores["test_accuracy"], 1.0, "{scores}");
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("run/model/config.json")).unwrap()).unwrap();
    assert_eq!(
        (&config["network_file"], &config["image_size"]),
        (&"network.onnx".into(), &8.into())
    );
    assert_eq!(config["id2label"]["2"], "bottom");

    let file = dir.join("top.png");
    let pixels = (0..64).map(|at| if at < 24 { 220 } else { 20 }).collect();
    fs::write(&file, png(&Image::new([8, 8, 1], pixels))).unwrap();
    let answers = json(dir, &["predict", "run", "--json", "--image", text(&file)]);
    assert_eq!(answers["images"][0]["label"], "top", "{answers}");

    // A folder of its own is evaluated as the run is, and another run starts where it ended.
    succeed(dir, &["export", "run", "alone"]);
    let batch = ["--set", "train.batch=16", "--json"];
    let asked = ["eval", "alone", "--data", text(&data), "--split", "test"];
    let own = json(dir, &[&asked[..], &batch].concat());
    assert_eq!(own["test_loss"], scores["test_loss"]);
    let more = [
        "--init",
        "alone",
        "--steps",
        "1",
        "--set",
        "train.lr=0",
        "--out",
        "again",
    ];
    succeed(dir, &train_on(&recipe, &data, &more));
    succeed(
        dir,
        &["bench", "predict", "run", "--batch", "3", "--requests", "5", "--json"],
    );

    // What is written as an ONNX file again is one to start from.
    succeed(dir, &["export", "run", "--onnx", "again.onnx"]);
    let more = [
        "--init",
        "again.onnx",
        "--steps",
        "1",
        "--set",
        "train.lr=0",
        "--out",
        "third",
    ];
    succeed(dir, &train_on(&recipe, &data, &more));
    let third = json(dir, &["eval", "third", "--split", "test", "--json"]);
    assert_eq!(third["test_accuracy"], 1.0, "{third}");
}

#[test]
fn another_number_of_classes_makes_the_last_layer_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (bars(dir), recipe(dir, ""));
    network(
        &dir.join("net.onnx"),
        1000,
        [Extent::Named("height"), Extent::Named("width")],
    );
    let args = ["--init", "net.onnx", "--out", "run", "--steps", "12"];
    let output = lessen(dir, &train_on(&recipe, &data, &args));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let says = "the checkpoint has no fc.weight of shape [3, 32], fc.bias of shape [3]; starting with new ones";
    assert!(said.contains(says), "{said}");
    let scores = json(dir, &["eval", "run", "--split", "test", "--json"]);
    assert!(scores["test_loss"].as_f64().unwrap() < 0.9, "{scores}");
}

#[test]
fn a_killed_run_resumes_bit_by_bit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let more = "checkpoint_every = 24\nfreeze = \"conv1.*\"\n[image]\naugment = [\"flip\"]\n";
    let (data, recipe) = (bars(dir), recipe(dir, more));
    network(&dir.join("net.onnx"), 3, sides());
    succeed(dir, &train_on(&recipe, &data, &["--init", "net.onnx", "--out", "run"]));
    let weights = || fs::read(dir.join("run/model/model.safetensors")).unwrap();
    let before = weights();
    fs::remove_dir_all(dir.join("run/checkpoints/step-48")).unwrap();
    fs::remove_file(dir.join("net.onnx")).unwrap();
    succeed(dir, &["train", "--resume", "--out", "run"]);
    assert!(weights() == before);
    // Without its nodes a checkpoint is none.
    fs::remove_file(dir.join("run/model/network.onnx")).unwrap();
    let sentence = refuse(dir, &["eval", "run", "--split", "test"]);
    assert!(sentence.contains("network.onnx cannot be read"), "{sentence}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (bars(dir), recipe(dir, ""));
    network(&dir.join("net.onnx"), 3, sides());
    let refused = |more: &[&str]| {
        let sentence = refuse(dir, &train_on(&recipe, &data, &[&["--out", "none"], more].concat()));
        assert!(!dir.join("none").exists(), "{sentence}");
        sentence
    };
    let with = |more: &[&str]| refused(&[&["--init", "net.onnx"], more].concat());
    for (more, says) in [
        (
            &["--set", "image.size=16"][..],
            "images of 16 x 16 pixels do not fit the network, which reads 8 x 8; set",
        ),
        (
            &["--set", "image.channels=3"],
            "do not fit the model, which reads 8 x 8 x 1",
        ),
        (
            &["--set", "model.activation=gelu"],
            "net.onnx is the network of an ONNX file, which has its own nodes; leave it out",
        ),
        (
            &["--set", "lora.rank=2"],
            "net.onnx is the network of an ONNX file, which has its own nodes; leave it out",
        ),
        (&["--base", "net.onnx"], "net.onnx; check the path"),
    ] {
        let sentence = with(more);
        assert!(sentence.contains(says), "{sentence}");
    }
    let sentence = refused(&["--init", "gone.onnx"]);
    assert!(
        sentence.contains("there is no file ") && sentence.contains("gone.onnx; check the path"),
        "{sentence}"
    );
    fs::write(dir.join("text.onnx"), "no model").unwrap();
    let sentence = refused(&["--init", "text.onnx"]);
    assert!(sentence.contains("text.onnx is no valid ONNX file"), "{sentence}");
    Graph::default()
        .input("tokens", I64, &[Extent::Named("batch"), Extent::Named("tokens")])
        .floats("table", &[5, 2], &numbers(10, 0.0))
        .node("Gather", "rows", &["table", "tokens"])
        .output("rows", F32)
        .write(&dir.join("words.onnx"));
    let sentence = refused(&["--init", "words.onnx"]);
    assert!(
        sentence.contains("its input `tokens` is int64 (batch, tokens), and a classifier of images"),
        "{sentence}"
    );
    fs::write(dir.join("mail.csv"), "text,label\na,x\nb,y\nc,x\nd,y\n").unwrap();
    let args = [
        "train",
        "bert-classifier",
        "--init",
        "net.onnx",
        "--data",
        "mail.csv",
        "--out",
        "none",
    ];
    let sentence = refuse(dir, &args);
    assert!(
        sentence.contains("net.onnx is an ONNX file, from which classifiers of images alone start"),
        "{sentence}"
    );
}

/// Initializers may be called as the data inputs of models are, and as states of training are.
#[test]
fn initializers_may_have_the_names_of_data_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, recipe) = (bars(dir), recipe(dir, ""));
    let [height, width] = sides();
    let pads: &[(&str, &[u64])] = &[("pads", &[1, 1, 1, 1])];
    let windows: &[(&str, &[u64])] = &[("kernel_shape", &[4, 4]), ("strides", &[4, 4])];
    Graph::default()
        .input("input", F32, &[Extent::Named("batch"), Extent::Size(1), height, width])
        .floats("images", &[4, 1, 3, 3], &numbers(36, 0.0))
        .floats("targets", &[4], &numbers(4, 0.0))
        .floats("@lr", &[4, 4, 3, 3], &numbers(144, 0.0))
        .floats("labels", &[3, 16], &numbers(48, 0.0))
        .floats("weights", &[3], &numbers(3, 0.0))
        .node_with("Conv", "one", &["input", "images", "targets"], pads)
        .node("Relu", "relu", &["one"])
        .node_with("Conv", "two", &["relu", "@lr"], pads)
        .node_with("AveragePool", "halves", &["two"], windows)
        .node("Flatten", "features", &["halves"])
        .node_with(
            "Gemm",
            "scores",
            &["features", "labels", "weights"],
            &[("transB", &[1])],
        )
        .output("scores", F32)
        .write(&dir.join("net.onnx"));
    let flags = ["--init", "net.onnx", "--steps", "3", "--out", "run", "-q"];
    succeed(dir, &train_on(&recipe, &data, &flags));
    let scores = json(dir, &["eval", "run", "--split", "test", "--json"]);
    succeed(dir, &["export", "run", "--onnx", "again.onnx"]);
    let flags = [
        "--init",
        "again.onnx",
        "--steps",
        "1",
        "--set",
        "train.lr=0",
        "--out",
        "second",
        "-q",
    ];
    succeed(dir, &train_on(&recipe, &data, &flags));
    let again = json(dir, &["eval", "second", "--split", "test", "--json"]);
    let difference = again["test_loss"].as_f64().unwrap() - scores["test_loss"].as_f64().unwrap();
    assert!(difference.abs() < 1e-4, "{again} {scores}");
}
