//! Files that are no classifiers of images, or cannot be trained, are refused by one sentence.

use std::path::Path;

use lessen_onnx::proto::{StringStringEntryProto, TensorProto};

use crate::builder::{Builder, Extent, F32, I64, ints};
use crate::network::{opened, residual};

/// The sentence by which a file with this output is refused.
fn refused(folder: &Path, b: Builder, output: &str) -> String {
    match opened(folder, b, output) {
        Ok(_) => panic!("the file is opened"),
        Err(error) => error.to_string(),
    }
}

fn batch() -> Extent {
    Extent::Named("batch")
}

#[test]
fn other_inputs_and_outputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let with_input = |element: i32, shape: &[Extent]| {
        let mut b = residual(batch());
        b.graph.input.clear();
        b.input("pixels", element, shape);
        refused(folder, b, "scores")
    };
    let size = Extent::Size;
    for (element, shape, says) in [
        (
            I64,
            vec![batch(), size(128)],
            "its input `pixels` is int64 (batch, 128), and a classifier of images reads",
        ),
        (
            F32,
            vec![batch(), size(3), size(8)],
            "its input `pixels` is float32 (batch, 3, 8), and a classifier of",
        ),
        (
            7,
            vec![batch(), size(3), size(8), size(8)],
            "its input `pixels` is int64 (batch, 3, 8, 8), and a",
        ),
        (
            11,
            vec![batch(), size(3), size(8), size(8)],
            "is float64, and networks are trained in float32",
        ),
        (
            F32,
            vec![batch(), size(8), size(8), size(3)],
            "export it with the channels before height and width",
        ),
        (
            F32,
            vec![batch(), size(5), size(8), size(8)],
            "has 5 channels, and images have 1 or 3; name a classifier",
        ),
        (
            F32,
            vec![batch(), batch(), size(8), size(8)],
            "does not say the number of channels",
        ),
    ] {
        let sentence = with_input(element, &shape);
        assert!(sentence.contains(says), "{sentence}");
    }
    let mut b = residual(batch());
    b.input("mask", F32, &[batch(), size(8)]);
    assert!(
        refused(folder, b, "scores").contains("it has 2 inputs (pixels, mask), and a classifier of images has one")
    );
    let mut b = residual(batch());
    b.output("features");
    assert!(refused(folder, b, "scores").contains("it has 2 outputs (features, scores), and a classifier"));
    let sentence = refused(folder, residual(batch()), "sum");
    assert!(
        sentence.contains("gives numbers of the extents [2, 4, 224, 224], not a row for each image"),
        "{sentence}"
    );
    let mut b = residual(batch());
    b.declare("sum", F32, &[batch(), size(4), size(8), size(8)]);
    let path = b.write(folder, "declared.onnx");
    let sentence = lessen_onnx::NetworkFile::open(&path, &|_| false)
        .unwrap_err()
        .to_string();
    assert!(
        sentence.contains("its output `sum` is float32 (batch, 4, 8, 8), and a classifier of images gives"),
        "{sentence}"
    );
}

#[test]
fn all_operators_that_are_not_trained_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(batch());
    b.node("Hardmax", "hard", &["scores"], vec![]);
    b.node("Unheard", "odd", &["hard"], vec![]);
    // What the output does not depend on is left out.
    b.node("Unread", "beside", &["hard"], vec![]);
    let sentence = refused(folder.path(), b, "odd");
    let says =
        "the operators Hardmax, Unheard are not traced, so the network cannot be trained; export it without them";
    assert!(sentence.ends_with(says), "{sentence}");
}

#[test]
fn quantized_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(batch());
    b.graph.initializer.push(TensorProto {
        dims: vec![4, 4],
        data_type: 3,
        name: "q".to_string(),
        raw_data: vec![1; 16],
        ..TensorProto::default()
    });
    let scale = b.floats("scale", &[], vec![0.1]);
    b.node("DequantizeLinear", "weight", &["q", &scale], vec![]);
    b.node("MatMul", "own", &["features", "weight"], vec![]);
    let sentence = refused(folder.path(), b, "own");
    let says =
        "its weights are quantized integers (DequantizeLinear), which are not trained; export it with float32 weights";
    assert!(sentence.ends_with(says), "{sentence}");
}

#[test]
fn a_network_for_one_size_of_batches_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(Extent::Size(1));
    let shape = b.integers("shape", &[1, 4]);
    b.graph
        .node
        .iter_mut()
        .find(|node| node.op_type == "Flatten")
        .unwrap()
        .op_type = "Reshape".to_string();
    b.graph
        .node
        .iter_mut()
        .find(|node| node.op_type == "Reshape")
        .unwrap()
        .input
        .push(shape);
    let sentence = refused(folder.path(), b, "scores");
    assert!(
        sentence.contains("it is made for batches of 1, and does not go with others, since the node Reshape")
            && sentence.ends_with("export it with a free first axis"),
        "{sentence}"
    );
    // Where nothing depends on it, a batch of 1 is no obstacle.
    opened(folder.path(), residual(Extent::Size(1)), "scores").unwrap();
}

#[test]
fn a_file_without_its_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(batch());
    let tensor = b
        .graph
        .initializer
        .iter_mut()
        .find(|own| own.name == "fc.weight")
        .unwrap();
    tensor.raw_data.clear();
    tensor.data_location = 1;
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: key.to_string(),
        value: value.to_string(),
    };
    tensor.external_data = vec![entry("location", "gone.data"), entry("length", "64")];
    let file = opened(folder.path(), b, "scores");
    let sentence = match file {
        Ok(_) => panic!("the file is opened"),
        Err(error) => error.to_string(),
    };
    assert!(sentence.contains("gone.data cannot be read"), "{sentence}");
}

#[test]
fn a_network_without_weights_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = Builder::new(17);
    let size = Extent::Size;
    b.input("pixels", F32, &[batch(), size(3), size(8), size(8)]);
    b.node("GlobalAveragePool", "pooled", &["pixels"], vec![]);
    b.node("Flatten", "features", &["pooled"], vec![]);
    let sentence = refused(folder.path(), b, "features");
    assert!(
        sentence.contains("it has no weights that layers read as initializers"),
        "{sentence}"
    );
    let mut b = residual(batch());
    b.node("ArgMax", "best", &["scores"], vec![ints("axes", &[1])]);
    assert!(refused(folder.path(), b, "best").contains("the operator ArgMax is not traced"));
}
