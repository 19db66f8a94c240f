//! Operations and losses that models are made of, beside what PyTorch computes for them and their derivatives
//! (`fixtures/make_functions.py`), and exported files of them beside what ONNX Runtime gives for these files
//! (`fixtures/make_exports.py`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_cpu::CpuBackend;
use lessen_graph::{
    Array, Conv1dOptions, Conv2dOptions, DType, Graph, InputKind, Pool1d, Tensor, Trace, evaluate_exactly, stack,
};
use lessen_nn::layers::{self, Convolution, Convolution1d, Recurrent};
use lessen_nn::{Cx, losses};
use lessen_onnx::export::{Export, ExportInput, InputForm, MOST_BYTES, Sample, export, points};
use lessen_onnx::{Data, HostTensor, HostValue, Model};
use lessen_onnx_sessions::Session;

/// A function of inputs of these types.
struct Case {
    name: &'static str,
    inputs: &'static [(DType, &'static [usize])],
    function: fn(Cx, &[Tensor]) -> Vec<Tensor>,
}

const fn case(
    name: &'static str,
    inputs: &'static [(DType, &'static [usize])],
    function: fn(Cx, &[Tensor]) -> Vec<Tensor>,
) -> Case {
    Case { name, inputs, function }
}

const BOX: (DType, &[usize]) = (DType::F32, &[2, 3, 4]);
const ROWS: (DType, &[usize]) = (DType::F32, &[3, 4]);
const IDS: (DType, &[usize]) = (DType::I32, &[2, 3, 4]);
const PLACES: (DType, &[usize]) = (DType::I32, &[2, 5, 4]);
const STATE: (DType, &[usize]) = (DType::F32, &[2, 2]);
const SEQUENCES: (DType, &[usize]) = (DType::F32, &[2, 6, 2]);

const TWO_LAYERS: Recurrent = Recurrent {
    hidden: 2,
    layers: 2,
    is_bidirectional: true,
    dropout: 0.0,
};

const WINDOWS: Pool1d = Pool1d {
    kernel: 3,
    stride: 2,
    padding: [1, 1],
};

fn number(x: Tensor) -> Tensor {
    x.cast(DType::F32)
}

/// 1 for ids above 0, else -1.
fn sign(ids: Tensor) -> Tensor {
    number(ids.gt(ids.scalar_like(0.0))) * 2 - 1
}

fn of_sequences(padding: [usize; 2], kernel: usize) -> Convolution1d {
    Convolution1d {
        options: Conv1dOptions {
            stride: 2,
            padding,
            dilation: 2,
            groups: 2,
        },
        ..Convolution1d::centred(6, kernel, 2).with_bias()
    }
}

fn of_images() -> Convolution {
    Convolution {
        kernel: [3, 2],
        options: Conv2dOptions {
            stride: [2, 1],
            padding: [1, 1, 0, 0],
            dilation: [1, 2],
            groups: 2,
            ..Conv2dOptions::default()
        },
        ..Convolution::square(2, 3, 2).with_bias()
    }
}

const CASES: &[Case] = &[
    case("argmax", &[IDS], |_, x| {
        let x = number(x[0]);
        [1, -1].map(|axis| x.argmax(axis)).to_vec()
    }),
    case("argmin", &[IDS], |_, x| {
        let x = number(x[0]);
        [1, -1].map(|axis| x.argmin(axis)).to_vec()
    }),
    case("cumsum", &[BOX], |_, x| vec![x[0].cumsum(1)]),
    case("cumprod", &[BOX, IDS], |_, x| vec![(x[0] * number(x[1])).cumprod(-1)]),
    case("sort", &[BOX], |_, x| {
        let (ascending, descending) = (x[0].sort(1, false), x[0].sort(-1, true));
        vec![ascending.0, ascending.1, descending.0, descending.1]
    }),
    case("argsort", &[IDS], |_, x| {
        let x = number(x[0]);
        vec![x.argsort(1, false), x.argsort(-1, true)]
    }),
    case("topk", &[BOX], |_, x| {
        let (largest, smallest) = (x[0].topk(2, 1, true), x[0].topk(3, -1, false));
        vec![largest.0, largest.1, smallest.0, smallest.1]
    }),
    case("take_along", &[BOX, PLACES], |_, x| vec![x[0].take_along(1, x[1])]),
    case("scatter_add_along", &[BOX, PLACES, (DType::F32, PLACES.1)], |_, x| {
        vec![x[0].scatter_add_along(1, x[1], x[2])]
    }),
    case("one_hot", &[(DType::I32, &[2, 3])], |_, x| vec![x[0].one_hot(4)]),
    case("stack", &[ROWS, ROWS], |_, x| {
        vec![stack(&[x[0], x[1], x[0]], 1), stack(x, -1)]
    }),
    case("softmax_along", &[BOX], |_, x| {
        vec![x[0].softmax_along(1), x[0].log_softmax_along(0)]
    }),
    case("softplus", &[ROWS], |_, x| vec![(x[0] * 40).softplus()]),
    case("conv1d", &[(DType::F32, &[2, 7, 4])], |cx, x| {
        vec![layers::conv1d(cx, "conv", x[0], of_sequences([2, 1], 3))]
    }),
    case("conv_transpose1d", &[(DType::F32, &[2, 4, 4])], |cx, x| {
        vec![layers::conv_transpose1d(cx, "conv", x[0], of_sequences([1, 1], 3), 1)]
    }),
    case("conv_transpose2d", &[(DType::F32, &[1, 3, 2, 4])], |cx, x| {
        vec![layers::conv_transpose2d(cx, "conv", x[0], of_images(), [1, 0])]
    }),
    case("max_pool1d", &[SEQUENCES], |_, x| vec![x[0].max_pool1d(WINDOWS)]),
    case("avg_pool1d", &[SEQUENCES], |_, x| {
        let [all, own] = [true, false].map(|counts| x[0].avg_pool1d(WINDOWS, counts));
        vec![lessen_graph::concat(&[all, own], -1)]
    }),
    case(
        "global_pools",
        &[(DType::F32, &[2, 5, 3]), (DType::F32, &[2, 3, 2, 3])],
        |_, x| {
            vec![
                x[0].global_avg_pool1d(),
                x[0].global_max_pool1d(),
                x[1].global_max_pool2d(),
            ]
        },
    ),
    case("mse", &[ROWS, ROWS], |_, x| vec![losses::mse(x[0], x[1])]),
    case("mae", &[ROWS, ROWS], |_, x| vec![losses::mae(x[0], x[1])]),
    case("huber", &[ROWS, ROWS], |_, x| vec![losses::huber(x[0], x[1], 0.5)]),
    case("smooth_l1", &[ROWS, ROWS], |_, x| {
        vec![losses::smooth_l1(x[0], x[1], 0.5)]
    }),
    case("binary_cross_entropy", &[ROWS, ROWS], |_, x| {
        vec![losses::binary_cross_entropy(x[0] * 9, x[1].sigmoid())]
    }),
    case("hinge", &[(DType::F32, &[4, 1]), (DType::I32, &[4, 1])], |_, x| {
        vec![losses::hinge(x[0], sign(x[1]))]
    }),
    case("kl_divergence", &[ROWS, ROWS], |_, x| {
        vec![losses::kl_divergence(x[0].log_softmax(), x[1].softmax())]
    }),
    case("cosine_similarity", &[BOX, BOX], |_, x| {
        vec![losses::cosine_similarity(x[0], x[1])]
    }),
    case("cosine_embedding", &[ROWS, ROWS, (DType::I32, &[3])], |_, x| {
        vec![losses::cosine_embedding(x[0], x[1], sign(x[2]), 0.2)]
    }),
    case("triplet_margin", &[ROWS, ROWS, ROWS], |_, x| {
        vec![losses::triplet_margin(x[0], x[1], x[2], 3.0)]
    }),
    case(
        "lstm_from",
        &[
            (DType::F32, &[2, 3, 2]),
            STATE,
            STATE,
            STATE,
            STATE,
            STATE,
            STATE,
            STATE,
            STATE,
        ],
        |cx, x| {
            let states = layers::lstm_from(cx, "net", x[0], TWO_LAYERS, (&x[1..5], &x[5..]));
            [vec![states.y], states.h, states.c].concat()
        },
    ),
    case(
        "gru_from",
        &[(DType::F32, &[2, 3, 2]), STATE, STATE, STATE, STATE],
        |cx, x| {
            let states = layers::gru_from(cx, "net", x[0], TWO_LAYERS, &x[1..]);
            [vec![states.y], states.h].concat()
        },
    ),
];

/// Element `k` of an argument, weight or id.
fn element(argument: usize, dtype: DType, k: usize) -> f64 {
    match dtype {
        DType::I32 => ((5 * k + argument) % 3) as f64,
        _ => f64::from((0.7 * k as f64 + argument as f64).sin() as f32),
    }
}

/// An argument of a function: its name in the graph and its value.
type Argument = (String, Array);

/// The function as a graph with the results `y0`, `y1` and so on, and with `derivatives` those of a loss by all
/// arguments that are no ids; and the arguments, parameters after inputs.
fn traced(case: &Case, derivatives: bool) -> (Graph, Vec<Argument>) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let inputs = case.inputs.iter().enumerate();
    let inputs = inputs.map(|(i, (dtype, shape))| cx.input(&format!("x{i}"), *dtype, shape));
    let mut tensors: Vec<Tensor> = inputs.collect();
    let results: Vec<Tensor> = (case.function)(cx, &tensors).into_iter().map(number).collect();
    for (i, result) in results.iter().enumerate() {
        trace.output(&format!("y{i}"), *result);
    }
    let mut names: Vec<String> = (0..tensors.len()).map(|i| format!("x{i}")).collect();
    for param in cx.params() {
        tensors.push(trace.tensor(param.value));
        names.push(param.name);
    }
    if derivatives {
        let terms = results.iter().enumerate().map(|(j, y)| {
            let weight = (0..y.ty().numel()).map(|k| (0.7 * k as f64 + j as f64).sin()).collect();
            (*y * trace.constant(Array::new(y.ty(), weight)) + *y * *y * 0.5).sum()
        });
        let loss = terms.reduce(|a, b| a + b).unwrap();
        for (i, tensor) in tensors.iter().enumerate() {
            if tensor.dtype() == DType::F32 {
                trace.output(&format!("d{i}"), loss.grad(&[*tensor])[0]);
            }
        }
    }
    let values = tensors.iter().enumerate().map(|(i, tensor)| {
        let (ty, mut k) = (tensor.ty(), 0..);
        Array::from_fn(ty.clone(), |_| element(i, ty.dtype, k.next().unwrap()))
    });
    let arguments = names.into_iter().zip(values).collect();
    (trace.finish(), arguments)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The arrays of a file by function and name.
fn recorded(file: &str) -> HashMap<String, HashMap<String, Array>> {
    let text = std::fs::read_to_string(fixture(file)).unwrap();
    let mut all: HashMap<String, HashMap<String, Array>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let [name, array, shape] = [0; 3].map(|_| words.next().unwrap());
        let extents = shape.trim_matches(['[', ']']).split_terminator(',');
        let shape: Vec<usize> = extents.map(|extent| extent.parse().unwrap()).collect();
        let data = words.map(|word| word.parse().unwrap()).collect();
        let arrays = all.entry(name.to_string()).or_default();
        arrays.insert(array.to_string(), Array::f32(&shape, data));
    }
    all
}

#[track_caller]
fn assert_close(what: &str, found: &[f64], shape: &[usize], expected: &Array, tolerance: f64) {
    assert_eq!(*shape, expected.ty.shape[..], "{what}");
    let largest = expected.data.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (k, (a, b)) in found.iter().zip(&expected.data).enumerate() {
        // What is small beside the others is the rest of a sum.
        let bound = tolerance * b.abs() + tolerance * 1e-4 * largest;
        assert!((a - b).abs() <= bound, "{what}: element {k} is {a}, not {b}");
    }
}

#[test]
fn functions_and_their_derivatives_are_those_of_pytorch() {
    let recorded = recorded("functions.txt");
    assert_eq!(recorded.len(), CASES.len());
    for case in CASES {
        let (graph, arguments) = traced(case, true);
        let found = evaluate_exactly(&graph, &arguments.into_iter().collect()).unwrap();
        for (name, expected) in &recorded[case.name] {
            let what = format!("{} {name}", case.name);
            let found = &found[name];
            assert_close(&what, &found.data, &found.ty.shape, expected, 1e-8);
        }
        let results = graph.outputs.iter().filter(|output| output.name.starts_with('y'));
        let recorded = recorded[case.name].keys().filter(|name| name.starts_with('y'));
        assert_eq!(results.count(), recorded.count(), "{}", case.name);
    }
}

/// Writes a function as a file.
fn write(case: &Case, path: &Path) {
    let (graph, arguments) = traced(case, false);
    let values: HashMap<String, Array> = arguments.into_iter().collect();
    let inputs = graph.inputs.iter().filter(|input| input.kind == InputKind::Data);
    let inputs: Vec<ExportInput> = inputs
        .map(|input| ExportInput {
            name: input.name.clone(),
            shown: input.name.clone(),
            form: InputForm::Same,
        })
        .collect();
    let sample = |sizes| Sample {
        graph: traced(case, false).0,
        sizes,
    };
    let samples: Vec<Sample> = points(&[]).into_iter().map(sample).collect();
    let written = export(
        &Export {
            samples: &samples,
            dimensions: &[],
            inputs: &inputs,
            name: case.name,
            opset: 17,
            metadata: &[],
            parameter: &|name| Ok(values[name].data.iter().map(|x| *x as f32).collect()),
            most_bytes: MOST_BYTES,
        },
        path,
    );
    written.unwrap_or_else(|error| panic!("{}: {error}", case.name));
}

/// Writes the files to the folder that `LESSEN_EXPORTS` names, for `make_exports.py`; without it, to one that is
/// removed.
#[test]
fn exported_files_give_what_onnx_runtime_gives_for_them() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("LESSEN_EXPORTS").map_or(temporary.path().to_path_buf(), PathBuf::from);
    let path = |case: &Case| folder.join(case.name).with_extension("onnx");
    CASES.iter().for_each(|case| write(case, &path(case)));
    let recorded = recorded("exports.txt");
    assert_eq!(recorded.len(), CASES.len());
    for case in CASES {
        let model = Arc::new(Model::open(&path(case)).unwrap());
        let session = Session::new(model, Box::new(CpuBackend::new(1).unwrap())).unwrap();
        let given = traced(case, false).1.into_iter().take(case.inputs.len());
        let given = given.map(|(name, array)| {
            let (shape, elements) = (&array.ty.shape, array.data.into_iter());
            let tensor = match array.ty.dtype {
                DType::I32 => HostTensor::new(shape, elements.map(|x| x as i64).collect::<Vec<_>>()),
                _ => HostTensor::new(shape, elements.map(|x| x as f32).collect::<Vec<_>>()),
            };
            (name, tensor.unwrap().into())
        });
        let found = session.run(given.collect()).unwrap();
        assert_eq!(found.len(), recorded[case.name].len(), "{}", case.name);
        for (name, value) in found {
            let what = format!("{} {name}", case.name);
            let HostValue::Tensor(tensor) = value else {
                panic!("{what} is no array")
            };
            let Data::F32(data) = tensor.data() else {
                panic!("{what}: {:?}", tensor.data())
            };
            let data: Vec<f64> = data.iter().map(|x| f64::from(*x)).collect();
            assert_close(&what, &data, tensor.shape(), &recorded[case.name][&name], 1e-5);
        }
    }
}
