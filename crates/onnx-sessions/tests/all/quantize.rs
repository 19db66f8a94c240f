//! Files whose products become products of integers, beside the file that they are from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result, SplitMix64};
use lessen_cpu::CpuBackend;
use lessen_onnx::proto::{StringStringEntryProto, ValueInfoProto};
use lessen_onnx::quantize::{QuantizedModel, Ranges, observed, quantize};
use lessen_onnx::{HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

use crate::builder::{Builder, Extent, F32, int, ints};

/// Numbers of an input.
fn numbers(shape: &[usize]) -> HostValue {
    let mut random = SplitMix64::new(5);
    let all = (0..shape.iter().product()).map(|_| random.unit() as f32 * 2.0 - 1.0);
    HostTensor::new(shape, all.collect::<Vec<f32>>()).unwrap().into()
}

fn session(model: Model) -> Session<CpuBackend> {
    Session::new(Arc::new(model), Box::new(CpuBackend::new(1).unwrap())).unwrap()
}

/// The outputs of a file for its input `x`.
fn outputs(path: &Path, x: &HostValue) -> Vec<HostValue> {
    let found = session(Model::open_to_run(path).unwrap()).run(vec![("x".to_string(), x.clone())]);
    found.unwrap().into_iter().map(|(_, value)| value).collect()
}

/// The ranges of what a file's products read.
fn ranges(path: &Path, x: &HostValue) -> Ranges {
    let mut model = Model::open_to_run(path).unwrap();
    let names = observed(&model).unwrap();
    model.outputs = names
        .iter()
        .filter(|name| *name != "x")
        .map(|name| named(name))
        .collect();
    let found = session(model).run(vec![("x".to_string(), x.clone())]).unwrap();
    let all = found.into_iter().chain([("x".to_string(), x.clone())]);
    let range = |value: HostValue| {
        let all = value.tensor().unwrap().data().to_f64();
        let most = all.iter().fold(0f64, |most, x| most.max(x.abs())) as f32;
        [-most, most]
    };
    all.map(|(name, value)| (name, range(value))).collect()
}

fn named(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_string(),
        ..ValueInfoProto::default()
    }
}

/// Quantizes a file with and without ranges; the largest error of an output over its largest number must be small.
/// Files that have nothing to quantize without ranges are quantized with them alone.
fn check(b: &Builder, shape: &[usize]) -> [Option<QuantizedModel>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let source = b.write(folder.path(), "source.onnx");
    let x = numbers(shape);
    let expected = outputs(&source, &x);
    let given = ranges(&source, &x);
    [Some(&given), None].map(|ranges| {
        let out = folder.path().join(format!("{}.onnx", ranges.is_some()));
        let model = Model::open(&source).unwrap();
        let written = match quantize(&model, ranges, &out, |_| Ok(())) {
            Ok((written, ())) => written,
            Err(error) if ranges.is_none() => {
                assert!(error.to_string().contains("need ranges from data"), "{error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        for (found, expected) in outputs(&out, &x).iter().zip(&expected) {
            let [found, expected] = [found, expected].map(|value| value.tensor().unwrap().data().to_f64());
            let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
            let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / largest);
            let apart = apart.fold(0f64, f64::max);
            assert!(apart < 0.05, "{apart}, with ranges: {}", ranges.is_some());
        }
        Some(written)
    })
}

/// Reads a weight `w` of `[rows, columns]` as it lies, and turned.
fn read_both_ways(rows: i64, columns: i64, is_turned_first: bool) -> Builder {
    let mut b = Builder::new(17);
    let weight = b.weight("w", &[rows, columns], 0.0);
    // Rows of very different size need scales of their own.
    if let Some(tensor) = b.graph.initializer.last_mut() {
        let all = tensor.raw_data.chunks_exact(4).enumerate();
        let scaled = all.map(|(i, x)| {
            let x = f32::from_le_bytes(x.try_into().unwrap());
            x * (1.0 + 20.0 * (i as i64 / columns) as f32)
        });
        tensor.raw_data = scaled.flat_map(f32::to_le_bytes).collect();
    }
    let turned = || vec![int("transB", 1)];
    if is_turned_first {
        let a = b.node("Gemm", "a", &["x", &weight], turned());
        b.node("MatMul", "y", &[&a, &weight], vec![]);
    } else {
        let a = b.node("MatMul", "a", &["x", &weight], vec![]);
        b.node("Gemm", "y", &[&a, &weight], turned());
    }
    let width = if is_turned_first { columns } else { rows };
    b.input("x", F32, &[Extent::Size(5), Extent::Size(width)]);
    b.output("y");
    b
}

#[test]
fn a_weight_that_products_read_in_two_layouts_has_the_scales_of_each() {
    for (rows, columns) in [(16, 16), (16, 8), (8, 24)] {
        for is_turned_first in [false, true] {
            let width = if is_turned_first { columns } else { rows };
            let written = check(&read_both_ways(rows, columns, is_turned_first), &[5, width as usize]);
            for written in written.into_iter().flatten() {
                assert_eq!((written.weights, written.left), (vec!["w".to_string()], vec![]));
            }
        }
    }
}

#[test]
fn a_kernel_is_read_by_convolutions_of_both_kinds() {
    let mut b = Builder::new(17);
    let weight = b.weight("w", &[4, 4, 3, 3], 0.0);
    let pads = || vec![ints("pads", &[1, 1, 1, 1])];
    let a = b.node("Conv", "a", &["x", &weight], pads());
    b.node("ConvTranspose", "y", &[&a, &weight], pads());
    b.input("x", F32, &[1, 4, 7, 6].map(Extent::Size));
    b.output("y");
    let [written, none] = check(&b, &[1, 4, 7, 6]);
    let written = written.unwrap();
    assert_eq!((written.weights, written.left), (vec!["w".to_string()], vec![]));
    assert!(none.is_none());
}

#[test]
fn initializers_that_old_files_list_as_inputs_are_weights() {
    for version in [3, 8] {
        let mut b = Builder::new(13);
        b.version = version;
        let weight = b.weight("w", &[16, 8], 0.0);
        b.node("MatMul", "y", &["x", &weight], vec![]);
        b.list_initializers();
        b.input("x", F32, &[5, 16].map(Extent::Size));
        b.output("y");
        if version == 3 {
            check(&b, &[5, 16]);
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let model = Model::open(&b.write(folder.path(), "source.onnx")).unwrap();
        let refused = quantize(&model, None, &folder.path().join("out.onnx"), |_| Ok(())).unwrap_err();
        let expected = "its weight is the default of the input `w`, which a run may give";
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

/// A model whose weight is in `location`, which stands beside it.
fn with_elements_in(folder: &Path, location: &str) -> PathBuf {
    let mut b = Builder::new(17);
    let weight = b.weight("w", &[16, 8], 0.0);
    b.node("MatMul", "y", &["x", &weight], vec![]);
    b.input("x", F32, &[5, 16].map(Extent::Size));
    b.output("y");
    let tensor = b.graph.initializer.last_mut().unwrap();
    fs::write(folder.join(location), &tensor.raw_data).unwrap();
    tensor.raw_data.clear();
    tensor.data_location = 1;
    tensor.external_data.push(StringStringEntryProto {
        key: "location".to_string(),
        value: location.to_string(),
    });
    b.write(folder, "source.onnx")
}

/// What a folder holds.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn files_that_a_model_reads_are_not_overwritten_and_a_failure_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = with_elements_in(folder.path(), "out.onnx.data");
    let before = contents(folder.path());
    let write = |out: &str, check: Result<()>| {
        let model = Model::open(&source).unwrap();
        quantize(&model, None, &folder.path().join(out), |_| check)
    };
    for out in ["out.onnx", "source.onnx", "./out.onnx"] {
        let refused = write(out, Ok(())).unwrap_err().to_string();
        assert!(refused.contains("would overwrite what is read from"), "{refused}");
        assert_eq!(contents(folder.path()), before, "{out}");
    }
    let failed = write("new.onnx", Err(Error::user("it cannot be run")));
    assert_eq!(failed.unwrap_err(), Error::user("it cannot be run"));
    assert_eq!(contents(folder.path()), before);
    write("new.onnx", Ok(())).unwrap();
    assert_eq!(contents(folder.path()).len(), before.len() + 1);
}

#[test]
#[cfg(unix)]
fn files_that_a_model_reads_are_known_by_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let source = with_elements_in(folder.path(), "elements.bin");
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(at("elements.bin"), at("hard.onnx.data")).unwrap();
    std::os::unix::fs::symlink("elements.bin", at("soft.onnx.data")).unwrap();
    std::os::unix::fs::symlink("source.onnx", at("same.onnx")).unwrap();
    std::os::unix::fs::symlink("gone.onnx", at("dangling.onnx")).unwrap();
    let before = contents(folder.path());
    for (out, expected) in [
        ("hard.onnx", "would overwrite"),
        ("soft.onnx", "would overwrite"),
        ("same.onnx", "would overwrite"),
        ("dangling.onnx", "is a link to gone.onnx, which does not exist"),
    ] {
        let model = Model::open(&source).unwrap();
        let refused = quantize(&model, None, &at(out), |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains(expected), "{out}: {refused}");
        assert_eq!(contents(folder.path()), before, "{out}");
    }
}
