//! `lessen run` and `lessen bench onnx`.

use crate::onnx_file::{Extent, F32, Graph, I64};
use crate::support::*;
use lessen::data::arrays::{Array, Dtype, npy, npz};
use std::fs;
use std::path::Path;

const GAMMA: [f32; 4] = [1.0, 2.0, 0.5, -1.0];
const BETA: [f32; 4] = [0.0, 0.1, 0.2, 0.3];
/// Four rows of three columns.
const WEIGHT: [f32; 12] = [1.0, 2.0, 3.0, -1.0, 0.5, 0.0, 0.25, 1.0, -2.0, 4.0, 0.0, 1.0];

/// `y = LayerNorm(x) weight` for `x` of type `f32[batch, 4]`.
fn norm_model(dir: &Path) {
    Graph::default()
        .input("x", F32, &[Extent::Named("batch"), Extent::Size(4)])
        .floats("gamma", &[4], &GAMMA)
        .floats("beta", &[4], &BETA)
        .floats("weight", &[4, 3], &WEIGHT)
        .node("LayerNormalization", "normed", &["x", "gamma", "beta"])
        .node("MatMul", "y", &["normed", "weight"])
        .output("y", F32)
        .write(&dir.join("norm.onnx"));
}

/// Rows of a table of five rows, each scaled by a number, and twice the indices.
fn table_model(dir: &Path) {
    let extents = || [Extent::Named("batch"), Extent::Named("tokens")];
    Graph::default()
        .input("ids", I64, &extents())
        .input(
            "scales",
            F32,
            &[Extent::Named("batch"), Extent::Named("tokens"), Extent::Size(1)],
        )
        .floats("table", &[5, 2], &[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5])
        .node("Gather", "rows", &["table", "ids"])
        .node("Mul", "scaled", &["rows", "scales"])
        .node("Add", "twice", &["ids", "ids"])
        .output("scaled", F32)
        .output("twice", I64)
        .write(&dir.join("table.onnx"));
}

fn normed(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / 4.0;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
    let y = |i: usize| (x[i] - mean) / (variance + 1e-5).sqrt() * f64::from(GAMMA[i]) + f64::from(BETA[i]);
    let product = |column: usize| (0..4).map(|i| y(i) * f64::from(WEIGHT[3 * i + column])).sum();
    (0..3).map(product).collect()
}

/// Inputs of the model of a table: `f32`, and indices of this type.
fn table_inputs(ids: Array) -> Vec<(String, Array)> {
    let scales = Array::new(&[2, 3, 1], [1.0f32, 2.0, 0.0, -1.0, 10.0, 0.5]);
    vec![("ids".to_string(), ids), ("scales".to_string(), scales)]
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_model_with_one_input_runs_on_an_array() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    norm_model(dir);
    let x = [1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 5.0, 0.25, 7.0, 7.5, 7.0, 7.0];
    npy::write(&dir.join("x.npy"), &Array::new(&[3, 4], x.map(|x| x as f32))).unwrap();
    let printed = succeed(dir, &["run", "norm.onnx", "--input", "x.npy", "-o", "y.npy"]);
    assert!(!printed.contains("random"), "{printed}");
    for line in [
        "input   x  float32 [3,4]",
        "output  y  float32 [3,3]",
        "written to y.npy",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{printed}");
    }
    let y = npy::read(&dir.join("y.npy")).unwrap();
    assert_eq!((y.shape(), y.dtype()), (&[3, 3][..], Dtype::Float(4)));
    let expected: Vec<f64> = x.chunks(4).flat_map(normed).collect();
    for (found, expected) in y.floats().zip(&expected) {
        assert!(
            (found - expected).abs() < 1e-5 * expected.abs().max(1.0),
            "{found} {expected}"
        );
    }
    // By its name, with more threads, into an archive.
    let args = [
        "run",
        "norm.onnx",
        "--input",
        "x=x.npy",
        "-o",
        "y.npz",
        "--threads",
        "2",
        "--size",
        "batch=3",
        "--json",
    ];
    let said = json(dir, &args);
    assert_eq!(npz::read(&dir.join("y.npz")).unwrap(), [("y".to_string(), y)]);
    assert_eq!((&said["random"], &said["output"]), (&false.into(), &"y.npz".into()));
    let outputs = serde_json::json!([{ "name": "y", "dtype": "float32", "shape": [3, 3] }]);
    assert_eq!(said["outputs"], outputs);
    assert!(said["ms"].as_f64().unwrap() > 0.0 && said["compile_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn inputs_come_from_files_and_archives_and_integers_keep_their_width() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    table_model(dir);
    let inputs = table_inputs(Array::new(&[2, 3], [0i64, 1, 2, 3, 4, 0]));
    npz::write(&dir.join("all.npz"), &inputs).unwrap();
    succeed(dir, &["run", "table.onnx", "--input", "all.npz", "-o", "one.npz"]);
    for (name, array) in table_inputs(Array::new(&[2, 3], [0i32, 1, 2, 3, 4, 0])) {
        npy::write(&dir.join(format!("{name}.npy")), &array).unwrap();
    }
    succeed(
        dir,
        &[
            "run",
            "table.onnx",
            "--input",
            "scales=scales.npy",
            "--input",
            "ids=ids.npy",
            "-o",
            "two.npz",
        ],
    );
    let found = npz::read(&dir.join("one.npz")).unwrap();
    let scaled = [0.0f32, 0.5, 2.0, 3.0, 0.0, 0.0, -3.0, -3.5, 40.0, 45.0, 0.0, 0.25];
    let expected = [
        ("scaled".to_string(), Array::new(&[2, 3, 2], scaled)),
        ("twice".to_string(), Array::new(&[2, 3], [0i64, 2, 4, 6, 8, 0])),
    ];
    assert_eq!(found, expected);
    assert_eq!(npz::read(&dir.join("two.npz")).unwrap(), expected);
}

#[test]
fn without_inputs_they_are_random_by_a_seed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    table_model(dir);
    let run = |seed: &str, out: &str| {
        let args = ["run", "table.onnx", "--size", "tokens=64", "--seed", seed, "-o", out];
        let printed = succeed(dir, &args);
        assert!(
            printed.starts_with("inputs are random, since there is no --input\n"),
            "{printed}"
        );
        npz::read(&dir.join(out)).unwrap()
    };
    let first = run("1", "a.npz");
    assert_eq!(
        (first[0].1.shape(), first[1].1.shape()),
        (&[2, 64, 2][..], &[2, 64][..])
    );
    // Indices reach over the whole table.
    let twice = first[1].1.integers().unwrap();
    assert!((0..5).all(|id| twice.contains(&(2 * id))), "{twice:?}");
    assert!(first == run("1", "b.npz") && first != run("2", "c.npz"));
    assert_eq!(json(dir, &["run", "table.onnx", "--json"])["random"], true);
}

#[test]
fn inputs_that_do_not_fit_are_told_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    table_model(dir);
    norm_model(dir);
    let write = |name: &str, array: Array| npy::write(&dir.join(name), &array).unwrap();
    write("ids.npy", Array::new(&[2, 3], [0i64; 6]));
    write("short.npy", Array::new(&[2, 2, 1], [0f32; 4]));
    write("scales.npy", Array::new(&[2, 3, 1], [0f32; 6]));
    write("large.npy", Array::new(&[2, 3], [0, 0, 1i64 << 31, 0, 0, 0]));
    write("beyond.npy", Array::new(&[2, 3], [0, 0, 5i64, 0, 0, 0]));
    write("double.npy", Array::new(&[2, 4], [0f64; 8]));
    write("wide.npy", Array::new(&[2, 5], [0f32; 10]));
    write("none.npy", Array::new::<f32>(&[0, 4], []));
    npz::write(&dir.join("other.npz"), &[("z".to_string(), Array::new(&[1], [1u8]))]).unwrap();
    fs::write(dir.join("cut.npy"), &fs::read(dir.join("ids.npy")).unwrap()[..150]).unwrap();
    let before = names(dir);
    let refused = |model: &str, inputs: &[&str], more: &[&str], parts: &[&str]| {
        let mut args = vec!["run", model, "-o", "out.npz"];
        inputs.iter().for_each(|input| args.extend(["--input", input]));
        args.extend(more);
        let sentence = refuse(dir, &args);
        assert!(parts.iter().all(|part| sentence.contains(part)), "{args:?}: {sentence}");
        assert_eq!(names(dir), before, "{args:?}");
    };
    let (table, norm) = ("table.onnx", "norm.onnx");
    let both =
        "`tokens` is 3 in axis 1 of the input `ids` (ids.npy), but 2 in axis 1 of the input `scales` (short.npy)";
    refused(table, &["ids=ids.npy", "scales=short.npy"], &[], &[both]);
    let by_size = "the extent `tokens` is 7 by --size, but 3 in axis 1 of the input `ids`";
    refused(
        table,
        &["ids=ids.npy", "scales=scales.npy"],
        &["--size", "tokens=7"],
        &[by_size],
    );
    refused(
        table,
        &["ids=ids.npy"],
        &[],
        &["no array for the input `scales`; give it as scales=FILE.npy"],
    );
    refused(
        table,
        &["ids.npy"],
        &[],
        &["the model has the inputs ids, scales; say which one"],
    );
    refused(
        table,
        &["ids=ids.npy", "ids=large.npy"],
        &[],
        &["two arrays, ids.npy and large.npy"],
    );
    refused(
        table,
        &["y=ids.npy"],
        &[],
        &["ids.npy is for `y`, which is no input of the model; its inputs are ids, scales"],
    );
    refused(
        table,
        &["other.npz"],
        &[],
        &["other.npz/z is for `z`, which is no input"],
    );
    refused(
        table,
        &["ids=large.npy", "scales=scales.npy"],
        &[],
        &["the value `ids` has an integer beyond 32 bits, which is no index of any array"],
    );
    refused(table, &["ids=beyond.npy", "scales=scales.npy"], &[], &["5"]);
    refused(
        table,
        &["ids=cut.npy"],
        &[],
        &["cut.npy says that it holds", "22 bytes follow"],
    );
    let type_of = ["double.npy: it holds float64, but the input takes float32; save it as array.astype(\"float32\")"];
    refused(norm, &["double.npy"], &[], &type_of);
    refused(
        norm,
        &["wide.npy"],
        &[],
        &["wide.npy has the shape [2, 5], but the input `x` takes [batch, 4]"],
    );
    refused(norm, &["ids.npy"], &[], &["has the shape [2, 3]"]);
    refused(norm, &["missing.npy"], &[], &["there is no file missing.npy"]);
    refused(norm, &["x.txt"], &[], &["x.txt is no array; give X.npy"]);
    refused(
        norm,
        &[],
        &["--size", "length=3"],
        &["no extent of the inputs is called `length`; the names are batch"],
    );
    refused(norm, &[], &["--threads", "0"], &["--threads 0 cannot be"]);
    for (model, out, part) in [
        (norm, "y.txt", "outputs are written as .npz or .npy"),
        (
            table,
            "y.npy",
            "the model has the outputs scaled, twice; write a .npz file",
        ),
    ] {
        assert!(refuse(dir, &["run", model, "-o", out]).contains(part));
        assert_eq!(names(dir), before);
    }
    // An array without elements fits.
    let printed = succeed(dir, &["run", norm, "--input", "none.npy"]);
    assert!(printed.contains("y  float32 [0,3]"), "{printed}");
}

#[test]
fn a_benchmark_has_times_and_the_share_of_norms() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    norm_model(dir);
    table_model(dir);
    let args = [
        "bench",
        "onnx",
        "norm.onnx",
        "--size",
        "batch=300",
        "--runs",
        "5",
        "--threads",
        "2",
        "--alone",
    ];
    let found = json(dir, &[&args[..], &["--json"]].concat());
    let ms = ["min", "median", "max"].map(|key| found["ms"][key].as_f64().unwrap());
    assert!(0.0 < ms[0] && ms.is_sorted(), "{found}");
    let share = found["norm_share"].as_f64().unwrap();
    assert!(0.0 < share && share < 1.0, "{found}");
    assert_eq!(
        (&found["norms"], &found["runs"], &found["threads"]),
        (&1.into(), &5.into(), &2.into())
    );
    assert_eq!(found["sizes"].to_string(), r#"{"batch":300}"#);
    assert_eq!(found["parameter_bytes"], 4 * (4 + 4 + 12));
    assert!(found["arena_bytes"].as_u64().unwrap() >= 300 * 4 * (4 + 3), "{found}");
    assert!(found["compile_ms"].as_f64().unwrap() > 0.0 && found["norm_share_of"].is_string());
    let table = json(
        dir,
        &["bench", "onnx", "table.onnx", "--runs", "1", "--alone", "--json"],
    );
    assert_eq!((&table["norms"], &table["norm_share"]), (&0.into(), &0.0.into()));
    let printed = succeed(dir, &args);
    assert!(
        printed.contains("norm.onnx  batch=300\n") && printed.contains("in norms"),
        "{printed}"
    );
}

#[test]
fn a_benchmark_says_why_onnx_runtime_is_not_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    norm_model(dir);
    let args = ["bench", "onnx", "norm.onnx", "--runs", "2"];
    let without = |args: &[&str]| {
        let got = command(dir, args).env("PYTHON", "no-such-python").output().unwrap();
        assert!(got.status.success(), "{got:?}");
        String::from_utf8(got.stdout).unwrap()
    };
    let printed = without(&args);
    assert!(
        printed.contains("ONNX Runtime is not measured: no-such-python cannot be started"),
        "{printed}"
    );
    let found: serde_json::Value = serde_json::from_str(&without(&[&args[..], &["--json"]].concat())).unwrap();
    assert!(found["onnxruntime"]["absent"].is_string(), "{found}");
}

#[test]
fn a_converted_model_gives_the_same_and_its_norms_count() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // The mean of each row of a product can be subtracted ahead of time.
    let weight: Vec<f32> = (0..16).map(|i| ((7 * i) % 11) as f32 / 5.0 - 1.0).collect();
    Graph::default()
        .input("x", F32, &[Extent::Named("batch"), Extent::Size(4)])
        .floats("w", &[4, 4], &weight)
        .floats("gamma", &[4], &GAMMA)
        .floats("beta", &[4], &BETA)
        .node("MatMul", "h", &["x", "w"])
        .node("LayerNormalization", "y", &["h", "gamma", "beta"])
        .output("y", F32)
        .write(&dir.join("norm.onnx"));
    let run = |file: &str, out: &str| {
        succeed(dir, &["run", file, "--size", "batch=5", "-o", out]);
        npy::read(&dir.join(out)).unwrap()
    };
    let original = run("norm.onnx", "norm.npy");
    for norm in ["rmsnorm", "crmsnorm"] {
        let file = format!("{norm}.onnx");
        succeed(
            dir,
            &["convert", "norm.onnx", "-o", &file, "--norm", norm, "--no-verify"],
        );
        let found = run(&file, &format!("{norm}.npy"));
        for (a, b) in found.floats().zip(original.floats()) {
            assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{norm}: {a} {b}");
        }
    }
    for file in ["rmsnorm.onnx", "crmsnorm.onnx"] {
        let measured = json(dir, &["bench", "onnx", file, "--runs", "1", "--alone", "--json"]);
        assert_eq!(measured["norms"], 1, "{file}: {measured}");
    }
}
