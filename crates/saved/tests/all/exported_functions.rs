//! Functions of a session as ONNX files.

use lessen_base::Result;
use lessen_compile::Precision;
use lessen_cpu::CpuBackend;
use lessen_graph::{DType, Pool2d, Tensor};
use lessen_nn::layers::{BatchNorm, Convolution, batch_norm, conv2d, embedding, linear};
use lessen_nn::{Cx, Init, ParamSpec};
use lessen_onnx::{HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session as OnnxSession;
use lessen_saved::onnx_export::{FunctionFile, OpenSize, export_function};
use lessen_task::device::NewBackend;
use lessen_train::Session;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

fn cpu() -> NewBackend {
    NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)))
}

/// What a function returns by name.
type Named = Vec<(&'static str, Tensor)>;

/// Images, the number of a class to add, and whether to add it.
fn net(cx: Cx, rows: usize) -> Named {
    let init = Init::Normal { std: 0.3 };
    let x = cx.input("images", DType::F32, &[rows, 8, 8, 2]);
    let x = conv2d(cx, "conv", x, Convolution::square(4, 3, 1).with_bias());
    let x = batch_norm(cx, "norm", x, BatchNorm::default())
        .relu()
        .max_pool2d(Pool2d::square(2));
    let x = x.reshape(&[rows, 64]);
    let extra = embedding(cx, "extra", cx.input("class", DType::I32, &[rows]), (5, 64), init);
    let asked = cx
        .input("is_asked", DType::Bool, &[rows])
        .cast(DType::F32)
        .unsqueeze(-1);
    let hidden = x + extra * asked;
    vec![("hidden", hidden), ("scores", linear(cx, "scores", hidden, 3, init))]
}

fn params(function: impl Fn(Cx) -> Named) -> Vec<ParamSpec> {
    let trace = lessen_graph::Trace::new();
    let cx = Cx::new(*trace, false);
    function(cx);
    cx.params()
}

fn session(function: impl Fn(Cx) -> Named, precision: Precision) -> Session {
    let device = cpu().open().unwrap();
    let mut session = Session::for_inference(device, params(function), precision).unwrap();
    session.draw(|_| true, 5).unwrap();
    session
}

fn open(name: &str, range: RangeInclusive<usize>) -> OpenSize {
    let name = name.to_string();
    OpenSize { name, range }
}

fn export(
    session: &mut Session,
    path: &Path,
    sizes: Vec<OpenSize>,
    function: impl Fn(Cx, &[usize]) -> Named,
) -> Result<f64> {
    let how = FunctionFile {
        open: sizes,
        ..FunctionFile::default()
    };
    export_function(session, path, &how, &cpu(), function)
}

#[test]
fn a_function_is_the_same_in_a_file_for_other_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made/net.onnx");
    let mut session = session(|cx| net(cx, 2), Precision::F32);
    let rows = || vec![open("rows", 1..=64)];
    let difference = export(&mut session, &path, rows(), |cx, sizes| net(cx, sizes[0])).unwrap();
    assert!(difference < 1e-5, "{difference}");
    let model = Model::open(&path).unwrap();
    let names: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["images", "class", "is_asked"]);
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no other file stays"
    );

    let file = OnnxSession::new(model.into(), cpu().open().unwrap()).unwrap();
    let images = HostTensor::new(&[7, 8, 8, 2], vec![0.5f32; 7 * 128]).unwrap();
    let class = HostTensor::new(&[7], vec![4i64; 7]).unwrap();
    let asked = HostTensor::new(&[7], vec![true; 7]).unwrap();
    let all = [("images", images), ("class", class), ("is_asked", asked)];
    let found = file.run(all.map(|(name, tensor)| (name.to_string(), tensor.into())).to_vec());
    let found = found.unwrap();
    let shapes = found.iter().map(|(name, value)| match value {
        HostValue::Tensor(tensor) => (name.as_str(), tensor.shape().to_vec()),
        _ => panic!("`{name}` is no tensor"),
    });
    let shapes: Vec<_> = shapes.collect();
    assert_eq!(shapes, [("hidden", vec![7, 64]), ("scores", vec![7, 3])]);

    let fixed = export(&mut session, &path, Vec::new(), |cx, _| net(cx, 2)).unwrap();
    assert!(fixed < 1e-5, "{fixed}");
}

#[test]
fn a_file_that_would_be_wrong_is_refused_and_the_one_before_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.onnx");
    let mut own = session(|cx| net(cx, 2), Precision::F32);
    export(&mut own, &path, Vec::new(), |cx, _| net(cx, 2)).unwrap();
    let before = fs::read(&path).unwrap();
    let rows = |range| vec![open("rows", range)];
    // A function that is another one at a size between those that it is traced at.
    let odd = |cx: Cx, sizes: &[usize]| {
        let mut results = net(cx, sizes[0]);
        if sizes[0] == 4 {
            results[1].1 = results[1].1 + 1.0;
        }
        results
    };
    let mut halves = session(|cx| net(cx, 2), Precision::Bf16);
    let three = ["a", "b", "c"].map(|name| open(name, 1..=9)).to_vec();
    let by_rows = |cx: Cx, sizes: &[usize]| net(cx, sizes[0]);
    for (found, part) in [
        (export(&mut own, &path, rows(1..=64), odd), "`scores`"),
        (
            export(&mut own, &path, rows(1..=64), |cx, _| net(cx, 2)),
            "no input has the size `rows`",
        ),
        (export(&mut own, &path, rows(3..=3), by_rows), "`rows` from 3 to 3"),
        (export(&mut own, &path, three, by_rows), "at most two"),
        (export(&mut halves, &path, Vec::new(), |cx, _| net(cx, 2)), "bf16"),
        (
            export(&mut own, dir.path(), Vec::new(), |cx, _| net(cx, 2)),
            "is a folder",
        ),
    ] {
        let sentence = found.expect_err(part).to_string();
        assert!(sentence.contains(part), "{sentence}");
        assert!(fs::read(&path).unwrap() == before, "{sentence}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{sentence}");
    }
}
