//! Files that PyTorch's exporters wrote (`python3 bench/onnx_models.py FOLDER --size test`): what is converted of each.

use std::path::{Path, PathBuf};

use lessen_onnx::{Imported, Model, Sizes, fitting_sizes, size_names};
use lessen_onnx_sessions::{Converter, NormOperators, NormTarget, difference_of_files};

/// Files, and how many of their norms are converted and left.
const FILES: [(&str, usize, usize); 9] = [
    ("bert-dynamo-18", 1, 5),
    ("clip-dynamo-20", 6, 0),
    ("deit-dynamo-20", 5, 0),
    ("encoder-dynamo-23", 5, 0),
    ("encoder-script-14", 5, 0),
    ("gpt2-dynamo-23", 5, 0),
    ("gpt2-script-17", 5, 0),
    ("neox-dynamo-18", 5, 0),
    ("vit-script-12", 5, 0),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.onnx"))
}

fn sizes(model: &Model) -> Sizes {
    let names = size_names(model);
    let given: Sizes = names.iter().cloned().zip([2, 5]).collect();
    fitting_sizes(model, &given, &names[1..]).unwrap()
}

#[test]
fn norms_of_exported_files_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, converted, left) in FILES {
        for target in [NormTarget::Rms, NormTarget::Crms] {
            let what = format!("{name}, {target:?}");
            let model = Model::open(&path(name)).unwrap();
            let sizes = sizes(&model);
            let converter = Converter::of(&model, &sizes, target, NormOperators::OnnxRuntime).unwrap();
            let report = converter.report();
            let found = (report.converted.len(), report.left.len());
            assert_eq!(found, (converted, left), "{what}: {:?}", report.left);
            let exact = converter.difference_in_f64(7).unwrap();
            assert!(exact.relative < 1e-10, "{what}: {exact:?}");
            let new = folder.path().join("new.onnx");
            converter.write(&new).unwrap();
            let new = Model::open(&new).unwrap();
            let rounded = difference_of_files(&model, &new, &sizes, 7).unwrap();
            assert!(rounded.relative < 1e-5, "{what}: {rounded:?}");
        }
    }
}

#[test]
fn sizes_that_an_exporter_wrote_into_constants_are_found() {
    let model = Model::open(&path("encoder-script-14")).unwrap();
    let given = Sizes::from([("batch".to_string(), 2), ("length".to_string(), 5)]);
    assert!(!Imported::of(&model, &given).unwrap().is_complete());
    let found = fitting_sizes(&model, &given, &["length".to_string()]).unwrap();
    assert_eq!(found["length"], 12);
    assert!(Imported::of(&model, &found).unwrap().is_complete());
    assert_eq!(fitting_sizes(&model, &given, &[]).unwrap(), given);
}
