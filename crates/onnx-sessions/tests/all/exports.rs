//! Functions that are written as files: read again, they compute the same for sizes that they were not traced at.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use lessen_base::{Result, SplitMix64};
use lessen_cpu::CpuBackend;
use lessen_graph::ops::attention::RopeScaling;
use lessen_graph::ops::{Cumulate, CumulateKind};
use lessen_graph::{
    Array, AttentionOptions, Conv2dOptions, DType, Graph, InputKind, Pool2d, PositionBias, Tensor, Trace, TraceRef,
    Type, Weighting, attention, concat, evaluate_exactly,
};
use lessen_onnx::export::{Export, ExportInput, InputForm, MOST_BYTES, Sample, export, points};
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

/// A function of a batch and a length.
type Function = fn(TraceRef, usize, usize) -> Tensor;

fn graph(function: Function, sizes: &[usize]) -> Graph {
    let trace = Trace::new();
    let (batch, length) = (sizes[0], sizes.get(1).copied().unwrap_or(1));
    trace.output("y", function(*trace, batch, length));
    trace.finish()
}

/// Deterministic numbers for a parameter.
fn parameter(name: &str, count: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(name.bytes().map(u64::from).sum());
    (0..count).map(|_| (random.unit() - 0.4) as f32).collect()
}

fn form(name: &str) -> InputForm {
    match name {
        "mask" => InputForm::Mask,
        "images" => InputForm::ChannelsFirst,
        _ => InputForm::Same,
    }
}

/// Writes a function of one or two dimensions.
fn written(function: Function, two: bool, opset: i64, most_bytes: u64, path: &Path) -> Result<()> {
    let bounds = [(2, 1000), (2, 64)];
    let points = points(&bounds[..if two { 2 } else { 1 }]);
    let samples: Vec<Sample> = points
        .into_iter()
        .map(|sizes| Sample {
            graph: graph(function, &sizes),
            sizes,
        })
        .collect();
    let inputs: Vec<ExportInput> = ["x", "ids", "mask", "images"]
        .map(|name| ExportInput {
            name: name.to_string(),
            shown: format!("shown_{name}"),
            form: form(name),
        })
        .to_vec();
    let shapes: HashMap<String, usize> = samples[0]
        .graph
        .inputs
        .iter()
        .map(|input| (input.name.clone(), samples[0].graph.ty(input.value).numel()))
        .collect();
    export(
        &Export {
            samples: &samples,
            dimensions: &["batch", "length"][..if two { 2 } else { 1 }],
            inputs: &inputs,
            name: "test",
            opset,
            metadata: &[("key".to_string(), "value".to_string())],
            parameter: &|name| Ok(parameter(name, shapes[name])),
            most_bytes,
        },
        path,
    )
}

/// The inputs of a graph, and of the file.
fn inputs(graph: &Graph, random: &mut SplitMix64) -> (HashMap<String, Array>, Vec<(String, HostValue)>) {
    let (mut own, mut given) = (HashMap::new(), Vec::new());
    for input in &graph.inputs {
        let ty = graph.ty(input.value);
        let count = ty.numel();
        if input.kind == InputKind::State {
            let data = parameter(&input.name, count).into_iter().map(f64::from).collect();
            own.insert(input.name.clone(), Array::new(ty.clone(), data));
            continue;
        }
        let shape = ty.shape.to_vec();
        let (data, value) = match form(&input.name) {
            InputForm::Mask => {
                // The last text has no token at all.
                let rows = shape[0];
                let real = |i: usize| i / shape[1] + 1 < rows.max(2) && i % shape[1] <= (i / shape[1]) + 1;
                let data: Vec<i64> = (0..count).map(|i| i64::from(real(i))).collect();
                let array = data.iter().map(|x| *x as f64).collect();
                (array, HostTensor::new(&shape, data).unwrap())
            }
            InputForm::ChannelsFirst => {
                let data: Vec<f32> = (0..count).map(|_| (random.unit() - 0.5) as f32).collect();
                let array = Array::new(ty.clone(), data.iter().map(|x| f64::from(*x)).collect());
                let moved = [shape[0], shape[3], shape[1], shape[2]];
                let own = Array::from_fn(Type::f32(&moved), |i| array.at(&[i[0], i[2], i[3], i[1]]));
                let own: Vec<f32> = own.data.iter().map(|x| *x as f32).collect();
                (array.data, HostTensor::new(&moved, own).unwrap())
            }
            InputForm::Same if ty.dtype == DType::I32 => {
                let data: Vec<i64> = (0..count).map(|_| random.below(7) as i64).collect();
                let array = data.iter().map(|x| *x as f64).collect();
                (array, HostTensor::new(&shape, data).unwrap())
            }
            InputForm::Same => {
                let data: Vec<f32> = (0..count).map(|_| (random.unit() - 0.5) as f32).collect();
                let array = data.iter().map(|x| f64::from(*x)).collect();
                (array, HostTensor::new(&shape, data).unwrap())
            }
        };
        own.insert(input.name.clone(), Array::new(ty.clone(), data));
        given.push((format!("shown_{}", input.name), value.into()));
    }
    (own, given)
}

/// Writes a function, reads it again and compares it at other sizes.
fn check(name: &str, function: Function, two: bool, opset: i64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.onnx");
    written(function, two, opset, MOST_BYTES, &path).unwrap_or_else(|error| panic!("{name}: {error}"));
    compare(name, function, two, &path);
}

fn compare(name: &str, function: Function, two: bool, path: &Path) {
    let model = Arc::new(Model::open(path).unwrap());
    let session = Session::new(model, Box::new(CpuBackend::new(1).unwrap())).unwrap();
    let mut random = SplitMix64::new(5);
    for sizes in [[1, 1], [3, 17], [1, 24]] {
        let sizes = &sizes[..if two { 2 } else { 1 }];
        let graph = graph(function, sizes);
        let (own, given) = inputs(&graph, &mut random);
        let expected = &evaluate_exactly(&graph, &own).unwrap()["y"];
        let found = session
            .run(given)
            .unwrap_or_else(|error| panic!("{name} {sizes:?}: {error}"));
        let HostValue::Tensor(tensor) = &found[0].1 else {
            panic!("{name}: no array")
        };
        assert_eq!(tensor.shape(), &expected.ty.shape[..], "{name} {sizes:?}");
        let Data::F32(data) = tensor.data() else {
            panic!("{name}: {:?}", tensor.data())
        };
        let largest = expected.data.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
        for (i, (a, b)) in data.iter().zip(&expected.data).enumerate() {
            let difference = (f64::from(*a) - b).abs();
            assert!(
                difference <= 1e-5 * largest,
                "{name} {sizes:?} element {i}: {a} is not {b}"
            );
        }
    }
}

fn x(trace: TraceRef, shape: &[usize]) -> Tensor {
    trace.input("x", DType::F32, shape)
}

fn heads(trace: TraceRef, b: usize, t: usize, heads: usize, kv_heads: usize) -> [Tensor; 3] {
    let x = x(trace, &[b, t, 12]);
    [("q", heads), ("k", kv_heads), ("v", kv_heads)].map(|(name, heads)| {
        let w = trace.state(name, DType::F32, &[heads * 4, 12]);
        x.matmul_t(w).reshape(&[b, t, heads, 4])
    })
}

fn attended(trace: TraceRef, (b, t): (usize, usize), kv_heads: usize, how: AttentionOptions) -> Tensor {
    let [q, k, v] = heads(trace, b, t, 4, kv_heads);
    attention(q, k, v, how).reshape(&[b, t, 16])
}

fn mask(trace: TraceRef, b: usize, t: usize) -> Option<Tensor> {
    Some(trace.input("mask", DType::Bool, &[b, t]))
}

const TEXTS: &[(&str, Function)] = &[
    ("linear, gelu", |g, b, t| {
        let w = g.state("w", DType::F32, &[6, 4]);
        let bias = g.state("b", DType::F32, &[6]);
        let y = x(g, &[b, t, 4]).matmul_t(w);
        (y + bias).gelu() + y.gelu_tanh()
    }),
    ("a matrix that is read both ways", |g, b, t| {
        let w = g.state("w", DType::F32, &[7, 4]);
        w.gather(g.input("ids", DType::I32, &[b, t])).matmul_t(w)
    }),
    ("norms", |g, b, t| {
        let [w, c] = ["w", "c"].map(|name| g.state(name, DType::F32, &[8]));
        let x = x(g, &[b, t, 8]);
        x.layer_norm(w, c, 1e-5) + x.rms_norm(w, 1e-6) + x.layer_norm(w, g.full(DType::F32, &[8], 0.0), 1e-5)
    }),
    ("positions of a table", |g, b, t| {
        let table = g.state("table", DType::F32, &[64, 4]);
        x(g, &[b, t, 4]) + table.slice(0, 0, t)
    }),
    ("sums so far, numbers of the length", |g, b, t| {
        let ids = g.input("ids", DType::I32, &[b, t]);
        let counted = ids.ne(ids.scalar_like(3.0)).cast(DType::F32);
        let [last, each] = [0, 1].map(|axis| g.iota(DType::I32, &[t, t], axis));
        let sums = (counted.unsqueeze(1) * each.le(last).cast(DType::F32)).sum_axes(&[2]);
        sums * counted + (t as f64 - 1.0)
    }),
    ("attention", |g, b, t| {
        attended(g, (b, t), 4, AttentionOptions::default())
    }),
    ("masked attention", |g, b, t| {
        let how = AttentionOptions {
            mask: mask(g, b, t),
            ..AttentionOptions::default()
        };
        attended(g, (b, t), 4, how)
    }),
    ("causal attention of groups, ALiBi", |g, b, t| {
        let how = AttentionOptions {
            causal: true,
            bias: PositionBias::Alibi,
            scale: Some(0.3),
            ..AttentionOptions::default()
        };
        attended(g, (b, t), 2, how)
    }),
    ("causal and masked attention of one group", |g, b, t| {
        let how = AttentionOptions {
            causal: true,
            mask: mask(g, b, t),
            ..AttentionOptions::default()
        };
        attended(g, (b, t), 1, how)
    }),
    ("attention by sigmoids", |g, b, t| {
        let how = AttentionOptions {
            weighting: Weighting::Sigmoid(lessen_graph::ops::attention::Divisor::Keys),
            mask: mask(g, b, t),
            ..AttentionOptions::default()
        };
        attended(g, (b, t), 4, how)
    }),
    ("scores joined with those of positions", |g, b, t| {
        let [q, k, v] = heads(g, b, t, 4, 4);
        let table = g.state("table", DType::F32, &[64, 4, 4]).slice(0, 0, t);
        let own = g.state("own", DType::F32, &[64, 1, 4]).slice(0, 0, t);
        let [table, own] = [table, own].map(|more| more.unsqueeze(0).broadcast_to(&[q.dim(0), t, 4, 4]));
        let (q, k) = (concat(&[q, table], -1), concat(&[k, own], -1));
        let how = AttentionOptions {
            scale: Some(0.5),
            mask: mask(g, b, t),
            ..AttentionOptions::default()
        };
        attention(q, k, v, how)
    }),
    ("rotation", |g, b, t| {
        let positions = g.iota(DType::I32, &[t], 0) + 2.0;
        x(g, &[b, t, 3, 8]).rope(positions, 100.0, RopeScaling::Linear { factor: 2.0 })
    }),
    ("movement", |g, b, t| {
        let x = x(g, &[b, t, 6]);
        let parts = x.split(-1, &[2, 4]);
        let y = concat(&[parts[1], parts[0].pad(2, 1, 1, 0.5)], 1);
        y.permute(&[1, 0, 2])
            .reshape(&[2 * t * b, 4])
            .slice(1, 1, 2)
            .reshape(&[b, 2 * t, 2])
    }),
    ("orders, cumulative sums and elements by positions", |g, b, t| {
        let x = x(g, &[b, t, 6]);
        let (values, positions) = x.topk(3, -1, true);
        let (ascending, order) = x.sort(1, false);
        let what_follows = Cumulate {
            kind: CumulateKind::Sum,
            exclusive: true,
            reverse: true,
        };
        let products = (values * x.take_along(-1, positions)).sum_last();
        let extrema = (x.argmax(-1) + x.argmin(-1)).cast(DType::F32).unsqueeze(-1);
        x.scatter_add_along(-1, positions, values)
            + ascending
            + order.cast(DType::F32)
            + products
            + extrema
            + x.cumsum(1)
            + x.cumprod(-1)
            + x.cumulate(what_follows, -1)
    }),
    ("turns of a body", |g, b, t| {
        let x = x(g, &[b, t, 4]);
        let w = g.state("w", DType::F32, &[4, 4]);
        let slices = x.slice(1, 0, 1).broadcast_to(&[b, 3, 4]).transpose(0, 1);
        let (last, all) = g.scan(3, &[x], &[slices], |carry, slice| {
            let next = (carry[0].matmul(w) + slice[0].unsqueeze(1)).tanh();
            (vec![next], vec![next.mean()])
        });
        last[0] + all[0].sum()
    }),
    ("pools of tokens", |g, b, t| {
        let x = x(g, &[b, t, 4]);
        let real = g.input("mask", DType::Bool, &[b, t]);
        let weights = real.cast(DType::F32).unsqueeze(-1);
        let mean = (x * weights).sum_axes(&[1]) / weights.sum_axes(&[1]).maximum(weights.scalar_like(1.0));
        let seen = real.unsqueeze(-1).broadcast_to(&[b, t, 4]);
        mean + seen.select(x, x.scalar_like(-2.0)).max_axes(&[1]) + x.slice(1, 0, 1).reshape(&[b, 4])
    }),
    ("functions", |g, b, t| {
        let x = x(g, &[b, t, 4]);
        let positive = x.abs() + 0.1;
        x.tanh() + x.sigmoid() * x.exp() - positive.log()
            + positive.rsqrt() / positive.sqrt()
            + x.silu()
            + x.clamp(-0.2, 0.3)
            + x.elu(0.7)
            + x.leaky_relu(0.1)
            + x.relu().minimum(positive)
            + x.sin() * x.cos()
            + positive.pow(x)
            + x.softmax()
            - x.log_softmax()
    }),
];

const IMAGES: &[(&str, Function)] = &[
    ("residual block with norms", |g, b, _| {
        let x = g.input("images", DType::F32, &[b, 8, 10, 3]);
        let w = g.state("w", DType::F32, &[4, 3, 3, 3]);
        let options = Conv2dOptions {
            stride: [2, 1],
            padding: [1, 1, 2, 0],
            ..Conv2dOptions::default()
        };
        let [mean, bias] = ["mean", "bias"].map(|name| g.state(name, DType::F32, &[4]));
        let scale = (g.state("var", DType::F32, &[4]).abs() + 1e-5).rsqrt();
        let y = (x.conv2d(w, options) + bias).scale_shift(mean, scale, bias).relu();
        let v = g.state("v", DType::F32, &[4, 2, 3, 3]);
        let grouped = Conv2dOptions {
            padding: [2; 4],
            dilation: [2; 2],
            groups: 2,
            ..Conv2dOptions::default()
        };
        let z = y + y.conv2d(v, grouped);
        // Squeeze and excitation.
        let means = z.global_avg_pool2d().reshape(&[b, 1, 1, 4]);
        let u = g.state("u", DType::F32, &[4, 4, 1, 1]);
        let gated = z * means.conv2d(u, Conv2dOptions::default()).sigmoid();
        let pixels = g.state("pixels", DType::F32, &[4, 4]);
        let gated = gated.matmul_t(pixels) + gated.matmul(pixels);
        let matrix = g.state("matrix", DType::F32, &[5, 4]);
        gated.global_avg_pool2d().matmul_t(matrix)
    }),
    ("pools and padding of channels", |g, b, _| {
        let x = g.input("images", DType::F32, &[b, 8, 8, 3]);
        let windows = Pool2d {
            kernel: [3; 2],
            stride: [2; 2],
            padding: [1; 4],
        };
        let y = x.max_pool2d(windows) + x.avg_pool2d(windows, false) + x.avg_pool2d(windows, true);
        let y = y.pad(-1, 1, 2, 0.0);
        y + y.slice(3, 0, 1)
    }),
    ("patches, resized", |g, b, _| {
        let x = g.input("images", DType::F32, &[b, 8, 8, 3]);
        let patches = x
            .reshape(&[b, 2, 4, 2, 4, 3])
            .permute(&[0, 1, 3, 5, 2, 4])
            .reshape(&[b, 4, 48]);
        let token = g.state("token", DType::F32, &[1, 1, 48]).broadcast_to(&[b, 1, 48]);
        let all = concat(&[token, patches], 1);
        let small = x.resize_nearest([4, 4]).reshape(&[b, 1, 48]) + x.resize_bilinear([4, 4]).reshape(&[b, 1, 48]);
        all + small
    }),
    ("norms of groups", |g, b, _| {
        let x = g.input("images", DType::F32, &[b, 4, 4, 4]);
        let w = g.state("w", DType::F32, &[4, 4, 1, 1]);
        let rows = x.conv2d(w, Conv2dOptions::default()).reshape(&[b, 16, 4]);
        let [mean, variance] = rows.moments();
        (rows - mean.unsqueeze(1)) * (variance + 1e-5).rsqrt().unsqueeze(1)
    }),
];

#[test]
fn functions_of_texts_are_the_same_in_a_file_at_other_sizes() {
    for opset in [17, 20, 23] {
        TEXTS
            .iter()
            .for_each(|(name, function)| check(name, *function, true, opset));
    }
}

#[test]
fn functions_of_images_are_the_same_in_a_file_at_other_sizes() {
    for opset in [17, 23] {
        IMAGES
            .iter()
            .for_each(|(name, function)| check(name, *function, false, opset));
    }
}

#[test]
fn large_elements_are_in_a_file_beside_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.onnx");
    let function: Function = |g, b, t| x(g, &[b, t, 40]).matmul_t(g.state("w", DType::F32, &[50, 40]));
    written(function, true, 17, 4000, &path).unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("f.onnx.data")).unwrap().len(), 8000);
    compare("beside", function, true, &path);
}

#[test]
fn what_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.onnx");
    let refused = |function: Function, opset: i64| {
        written(function, true, opset, MOST_BYTES, &path)
            .unwrap_err()
            .to_string()
    };
    let scattered: Function = |g, b, t| {
        let ids = g.input("ids", DType::I32, &[b, t]);
        x(g, &[b, t, 2]).scatter_add(ids, 7)
    };
    let error = refused(scattered, 17);
    assert!(error.contains("`scatter_add` cannot be exported"), "{error}");
    let squares: Function = |g, b, t| x(g, &[b, t, 2]) + g.full(DType::F32, &[], 1.0 / t as f64);
    let error = refused(squares, 17);
    assert!(error.contains("`full` depends on the sizes of the inputs"), "{error}");
    let error = refused(TEXTS[0].1, 16);
    assert!(error.contains("16") && error.contains("from 17 to 23"), "{error}");
    assert!(!path.exists());
}
