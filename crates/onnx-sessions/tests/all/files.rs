//! Files that are damaged or lie: one sentence each.

use std::path::Path;

use lessen_onnx::proto::StringStringEntryProto;
use lessen_onnx::{Imported, Model};

use crate::builder::{Builder, Extent, F32, transformer};

fn sentence(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    let error = Model::open(&path).expect_err("the file is not valid");
    assert_eq!(error.exit_code(), 2);
    let sentence = error.to_string();
    assert!(
        !sentence.contains('\n') && sentence.contains("model.onnx"),
        "{sentence}"
    );
    sentence
}

#[test]
fn truncated_files_are_refused() {
    let bytes = transformer(17).bytes();
    for len in (0..bytes.len()).step_by(7) {
        sentence(&bytes[..len]);
    }
}

#[test]
fn circles_and_values_without_a_definition_are_refused() {
    let mut b = transformer(17);
    let first = b.graph.node.iter().position(|node| node.output == ["a.norm"]).unwrap();
    b.graph.node[first].input[0] = "b.sum".to_string();
    assert!(sentence(&b.bytes()).contains("circle"));
    let mut b = transformer(17);
    let node = b.graph.node[0].clone();
    b.graph.node.push(node);
    assert!(sentence(&b.bytes()).contains("twice"));
    let mut b = transformer(17);
    b.output("nowhere");
    assert!(sentence(&b.bytes()).contains("nowhere"));
}

#[test]
fn nodes_may_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = transformer(17);
    let right = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    b.graph.node.reverse();
    let model = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    assert_eq!(model.nodes.len(), right.nodes.len());
    let mut defined: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
    defined.extend(model.initializers.keys().map(String::as_str));
    for node in &model.nodes {
        assert!(node.reads().all(|name| defined.contains(&name)), "{}", node.shown());
        defined.extend(node.proto.output.iter().map(String::as_str));
    }
}

#[test]
fn wrong_extents_are_refused() {
    for dims in [vec![-3, -2], vec![11, 7], vec![1 << 40, 1 << 40]] {
        let mut b = transformer(17);
        b.graph.initializer[0].dims = dims;
        let folder = tempfile::tempdir().unwrap();
        let error = Model::open(&b.write(folder.path(), "model.onnx")).err().unwrap();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("`words`"), "{error}");
    }
}

/// A model whose only weight lies in another file.
fn external(location: &str, offset: &str, length: &str) -> Builder {
    let mut b = Builder::new(17);
    let x = b.input("x", F32, &[Extent::Size(2), Extent::Size(4)]);
    b.linear("y", &x, 4, 3);
    b.output("y");
    let tensor = &mut b.graph.initializer[0];
    tensor.raw_data.clear();
    tensor.data_location = 1;
    for (key, value) in [("location", location), ("offset", offset), ("length", length)] {
        tensor.external_data.push(StringStringEntryProto {
            key: key.to_string(),
            value: value.to_string(),
        });
    }
    b
}

/// What is wrong with a model with elements in another file of 100 bytes.
fn external_sentence(location: &str, offset: &str, length: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weights"), [0; 100]).unwrap();
    let path = external(location, offset, length).write(folder.path(), "model.onnx");
    let read = |path: &Path| {
        let model = Model::open(path)?;
        model.initializers["y.weight"].elements(&model.source, |x| x)
    };
    let error = read(&path).err()?;
    assert_eq!(error.exit_code(), 2);
    Some(error.to_string())
}

#[test]
fn elements_in_other_files_are_read_and_checked() {
    assert_eq!(external_sentence("weights", "52", "48"), None);
    for (location, offset, length, part) in [
        ("../weights", "0", "48", "outside"),
        ("/etc/passwd", "0", "48", "outside"),
        ("a\\..\\weights", "0", "48", "outside"),
        ("weights", "60", "48", "108"),
        ("weights", "0", "40", "48 bytes"),
        ("weights", "-4", "48", "`-4`"),
        ("weights", "18446744073709551610", "48", "bytes"),
        ("missing", "0", "48", "missing"),
        ("", "0", "48", "does not name"),
    ] {
        let sentence = external_sentence(location, offset, length).expect(location);
        assert!(sentence.contains(part), "{location}: {sentence}");
    }
}

#[test]
fn inputs_without_sizes_are_refused_when_a_graph_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&transformer(17).write(folder.path(), "model.onnx")).unwrap();
    let error = Imported::of(&model, &Default::default()).err().unwrap();
    assert!(error.to_string().contains("`ids`") && error.exit_code() == 2);
}
