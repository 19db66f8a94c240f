//! Conversions of models with operators that are not known, and the check of what is written.

use lessen_base::Error;
use lessen_onnx::{Model, Sizes};
use lessen_onnx_sessions::{Converter, NormOperators, NormTarget, Work, bounded_sizes};

use crate::builder::{Builder, Extent, F32, ints, transformer};
use crate::conversion_faults::{TARGETS, WIDTH, converted, converted_file, push, sizes};
/// A vision transformer whose positions go through an operator that is not known.
fn resized_positions(op_type: &str, domain: &str, pixels: i64) -> Builder {
    let mut b = Builder::new(17);
    let tokens = [Extent::Named("batch"), Extent::Size(16), Extent::Size(WIDTH)];
    let patches = b.input("patches", F32, &tokens);
    let patches = b.linear("embedded", &patches, WIDTH, WIDTH);
    b.weight("positions", &[1, WIDTH, 3, 3], 0.3);
    b.integers("sizes", &[1, WIDTH, 4, 4]);
    let inputs = ["positions", "", "", "sizes"];
    let inputs = if domain.is_empty() { &inputs[..] } else { &inputs[..1] };
    push(&mut b, op_type, inputs, &["resized"]);
    b.graph.node.last_mut().unwrap().domain = domain.to_string();
    b.integers("flat", &[1, WIDTH, pixels]);
    b.node("Reshape", "rows", &["resized", "flat"], vec![]);
    b.node("Transpose", "columns", &["rows"], vec![ints("perm", &[0, 2, 1])]);
    b.node("ReduceMean", "position", &["columns"], vec![ints("axes", &[1])]);
    let mut x = b.node("Add", "stream", &[&patches, "position"], vec![]);
    for layer in ["a", "b", "c"] {
        let h = b.norm(&format!("{layer}.norm"), &x, WIDTH);
        let h = b.linear(&format!("{layer}.out"), &h, WIDTH, WIDTH);
        x = b.node("Add", &format!("{layer}.sum"), &[&x, &h], vec![]);
    }
    let h = b.norm("final", &x, WIDTH);
    b.linear("y", &h, WIDTH, 4);
    b.output("y");
    b
}

#[test]
fn norms_behind_operators_that_are_not_known_are_found() {
    for target in TARGETS {
        let b = resized_positions("Resize", "", 16);
        assert_eq!(converted(&b, target).2, [4, 0], "{target:?}");
        let folder = tempfile::tempdir().unwrap();
        let b = resized_positions("Secret", "com.example", 9);
        let (_, _, report) = converted_file(&b.write(folder.path(), "model.onnx"), target);
        assert_eq!((report.converted.len(), report.left.len()), (4, 0), "{target:?}");
        assert_eq!(report.missing, ["Secret of com.example"]);
    }
    // Extents that do not fit what follows are not taken.
    let folder = tempfile::tempdir().unwrap();
    let b = resized_positions("Secret", "com.example", 16);
    let (_, _, report) = converted_file(&b.write(folder.path(), "model.onnx"), NormTarget::Rms);
    assert_eq!(report.converted.len() + report.left.len(), 0);
}

#[test]
fn constants_of_64_bits_may_be_outputs() {
    for target in TARGETS {
        let mut b = transformer(17);
        b.integers("huge", &[i64::MAX, i64::MIN]);
        b.node("Identity", "same", &["huge"], vec![]);
        b.output("same");
        assert_eq!(converted(&b, target).2, [3, 0], "{target:?}");
    }
}

#[test]
fn missing_operators_are_named_once() {
    let mut b = transformer(17);
    for (i, op_type) in ["Secret", "Hidden", "Secret"].into_iter().enumerate() {
        let output = format!("result {i}");
        push(&mut b, op_type, &["logits"], &[&output]);
        b.output(&output);
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, _, report) = converted_file(&b.write(folder.path(), "model.onnx"), NormTarget::Rms);
    assert_eq!(report.missing, ["Secret", "Hidden"]);
    assert_eq!((report.unknown.len(), report.converted.len()), (3, 3));
}

#[test]
fn sizes_of_a_check_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&transformer(17).write(folder.path(), "model.onnx")).unwrap();
    let most = Work {
        operations: 1e6,
        elements: 1e5,
    };
    for huge in [1 << 20, i32::MAX as usize, 1 << 40, usize::MAX] {
        let given = Sizes::from([("batch".to_string(), huge), ("length".to_string(), 3)]);
        let sizes = bounded_sizes(&model, &given, most).unwrap();
        assert!(
            Work::of_model(&model, &sizes).unwrap().is_within(most),
            "{huge}: {sizes:?}"
        );
        assert_eq!(sizes["length"], 3);
    }
    let given = Sizes::from([("batch".to_string(), 2), ("length".to_string(), 3)]);
    assert_eq!(bounded_sizes(&model, &given, most).unwrap(), given);
}

#[test]
fn a_model_that_fails_its_check_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::open(&transformer(17).write(folder.path(), "model.onnx")).unwrap();
    let converter = Converter::of(&model, &sizes(&model, 2), NormTarget::Crms, NormOperators::OnnxRuntime).unwrap();
    let path = folder.path().join("new.onnx");
    std::fs::write(&path, "old").unwrap();
    let failed = converter.write_checked(&path, |_| Err::<(), Error>(Error::user("no luck")));
    let error = failed.unwrap_err();
    assert!(
        error.exit_code() == 2 && error.to_string().contains("no luck"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let own = model.source.path().to_path_buf();
    assert_eq!(converter.write(&own).unwrap_err().exit_code(), 2);
    let mut files: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["model.onnx", "new.onnx"]);
}
