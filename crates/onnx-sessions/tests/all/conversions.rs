//! Conversions of files: equal results, and what stays byte by byte.

use lessen_onnx::{Model, Sizes, size_names};
use lessen_onnx_sessions::{Converter, NormOperators, NormTarget, difference_of_files};

use crate::builder::{Builder, Extent, F32, I64, ints, transformer};

fn sizes(model: &Model) -> Sizes {
    let names = size_names(model).into_iter().enumerate();
    names.map(|(i, name)| (name, [2, 3, 4][i])).collect()
}

/// Converts a model; the numbers of norms that were converted and left.
fn check(builder: &Builder, target: NormTarget) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = builder.write(folder.path(), "model.onnx");
    let model = Model::open(&path).unwrap();
    let sizes = sizes(&model);
    let converter = Converter::of(&model, &sizes, target, NormOperators::OnnxRuntime).unwrap();
    let exact = converter.difference_in_f64(1).unwrap();
    assert!(exact.relative < 1e-10, "{target:?}: {exact:?}");
    let new = folder.path().join("new.onnx");
    converter.write(&new).unwrap();
    let written = Model::open(&new).unwrap();
    let rounded = difference_of_files(&model, &written, &sizes, 1).unwrap();
    assert!(rounded.relative < 1e-5, "{target:?}: {rounded:?}");
    let report = converter.report();
    let norms = written
        .nodes
        .iter()
        .filter(|node| node.proto.op_type == "LayerNormalization")
        .count();
    assert!(norms <= report.left.len());
    (report.converted.len(), report.left.len())
}

#[test]
fn norms_of_a_transformer_are_converted() {
    for opset in [12, 13, 17, 18] {
        for target in [NormTarget::Rms, NormTarget::Crms] {
            assert_eq!(check(&transformer(opset), target), (3, 0));
        }
    }
}

#[test]
fn a_shared_table_is_recentred_where_it_is_read() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let mut b = transformer(17);
        let turned = b.node("Transpose", "turned", &["words"], vec![ints("perm", &[1, 0])]);
        b.node("MatMul", "tied", &["final", &turned], vec![]);
        b.output("tied");
        assert_eq!(check(&b, target), (3, 0));
    }
}

#[test]
fn norms_of_primitive_operators_are_converted() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        let mut b = Builder::new(12);
        let ids = b.input("ids", I64, &[Extent::Named("batch"), Extent::Named("length")]);
        let words = b.weight("words", &[11, 6], 0.4);
        let mut x = b.node("Gather", "embedded", &[&words, &ids], vec![]);
        let two = b.floats("two", &[], vec![2.0]);
        let eps = b.floats("eps", &[], vec![1e-5]);
        for layer in ["a", "b", "c"] {
            let part = |part: &str| format!("{layer}.{part}");
            let axes = || vec![ints("axes", &[-1])];
            let mean = b.node("ReduceMean", &part("mean"), &[&x], axes());
            let centred = b.node("Sub", &part("centred"), &[&x, &mean], vec![]);
            let square = b.node("Pow", &part("square"), &[&centred, &two], vec![]);
            let variance = b.node("ReduceMean", &part("variance"), &[&square], axes());
            let safe = b.node("Add", &part("safe"), &[&variance, &eps], vec![]);
            let deviation = b.node("Sqrt", &part("deviation"), &[&safe], vec![]);
            let normal = b.node("Div", &part("normal"), &[&centred, &deviation], vec![]);
            let gamma = b.weight(&part("gamma"), &[6], 1.0);
            let scaled = b.node("Mul", &part("scaled"), &[&normal, &gamma], vec![]);
            let beta = b.weight(&part("beta"), &[6], 0.3);
            let norm = b.node("Add", &part("norm"), &[&scaled, &beta], vec![]);
            let h = b.linear(&part("in"), &norm, 6, 8);
            let h = b.node("Relu", &part("relu"), &[&h], vec![]);
            let h = b.linear(&part("out"), &h, 8, 6);
            x = b.node("Add", &part("sum"), &[&x, &h], vec![]);
        }
        let h = b.norm("final", &x, 6);
        b.linear("y", &h, 6, 4);
        b.output("y");
        assert_eq!(check(&b, target), (4, 0));
    }
}

#[test]
fn branches_are_multiplied_by_numbers() {
    for target in [NormTarget::Rms, NormTarget::Crms] {
        for opset in [12, 17] {
            let mut b = Builder::new(opset);
            let ids = b.input("ids", I64, &[Extent::Named("batch"), Extent::Named("length")]);
            let words = b.weight("words", &[11, 6], 0.4);
            let mut x = b.node("Gather", "embedded", &[&words, &ids], vec![]);
            // One number, the same one for each position, for each row, and expanded.
            let one = b.floats("one", &[], vec![0.5]);
            let all = b.floats("all", &[6], vec![0.75; 6]);
            let rows = b.floats("rows", &[2, 1, 1], vec![0.5, 2.0]);
            let shape = b.integers("shape", &[1, 1, 6]);
            let wide = b.node("Expand", "wide", &[&one, &shape], vec![]);
            for factor in [one, all, rows, wide] {
                let part = |part: &str| format!("{factor}.{part}");
                let h = b.norm(&part("norm"), &x, 6);
                let h = b.linear(&part("in"), &h, 6, 8);
                let h = b.node("Tanh", &part("tanh"), &[&h], vec![]);
                let h = b.linear(&part("out"), &h, 8, 6);
                let h = b.node("Mul", &part("scaled"), &[&h, &factor], vec![]);
                x = b.node("Add", &part("sum"), &[&x, &h], vec![]);
            }
            let h = b.norm("final", &x, 6);
            b.linear("y", &h, 6, 4);
            b.output("y");
            assert_eq!(check(&b, target), (5, 0), "{target:?}, {opset}");
        }
    }
}

#[test]
fn reshapes_that_say_extents_follow_a_compression() {
    let mut b = transformer(17);
    // Exporters write the rows of a product under their sizes again.
    let sum = b.graph.node.iter().position(|node| node.output == ["b.sum"]).unwrap();
    let mut late = b.graph.node.split_off(sum);
    let shape = b.node("Shape", "shape", &["b.out"], vec![]);
    b.node("Reshape", "again", &["b.out", &shape], vec![]);
    late[0].input[1] = "again".to_string();
    b.graph.node.extend(late);
    for target in [NormTarget::Rms, NormTarget::Crms] {
        assert_eq!(check(&b, target), (3, 0));
    }
}

#[test]
fn what_is_not_understood_stays_and_stops_a_conversion() {
    let mut b = transformer(17);
    b.graph.node.push(lessen_onnx::proto::NodeProto {
        input: vec!["b.sum".to_string()],
        output: vec!["secret".to_string()],
        op_type: "Secret".to_string(),
        domain: "com.example".to_string(),
        ..Default::default()
    });
    b.output("secret");
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    let converter = Converter::of(&model, &sizes(&model), NormTarget::Rms, NormOperators::OnnxRuntime).unwrap();
    let report = converter.report();
    assert_eq!(
        (report.converted.len(), report.left.len(), report.unknown.len()),
        (0, 3, 1)
    );
    let new = folder.path().join("new.onnx");
    converter.write(&new).unwrap();
    let written = Model::open(&new).unwrap();
    assert_eq!(written.nodes.len(), model.nodes.len());
    assert!(written.nodes.iter().any(|node| node.proto.domain == "com.example"));
}

#[test]
fn a_file_without_norms_is_copied_byte_by_byte() {
    let mut b = Builder::new(17);
    let x = b.input("x", F32, &[Extent::Named("batch"), Extent::Size(4)]);
    b.linear("y", &x, 4, 3);
    b.output("y");
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&b.write(folder.path(), "model.onnx")).unwrap();
    let converter = Converter::of(&model, &sizes(&model), NormTarget::Rms, NormOperators::OnnxRuntime).unwrap();
    let new = folder.path().join("new.onnx");
    converter.write(&new).unwrap();
    let (mut old, mut new) = (b.bytes(), std::fs::read(new).unwrap());
    // The graph comes last in the new file.
    old.sort_unstable();
    new.sort_unstable();
    assert_eq!(old, new);
}

#[test]
fn operators_of_version_23_need_that_version() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&transformer(17).write(folder.path(), "old.onnx")).unwrap();
    let error = Converter::of(&model, &sizes(&model), NormTarget::Rms, NormOperators::Standard)
        .err()
        .unwrap();
    assert!(error.to_string().contains("RMSNormalization") && error.exit_code() == 2);
    let model = Model::open(&transformer(23).write(folder.path(), "new.onnx")).unwrap();
    let converter = Converter::of(&model, &sizes(&model), NormTarget::Rms, NormOperators::Standard).unwrap();
    let path = folder.path().join("converted.onnx");
    converter.write(&path).unwrap();
    let written = Model::open(&path).unwrap();
    assert_eq!(
        written
            .nodes
            .iter()
            .filter(|node| node.proto.op_type == "RMSNormalization")
            .count(),
        3
    );
}
