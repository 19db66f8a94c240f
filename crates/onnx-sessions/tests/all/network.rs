//! Networks of files that classify images: what they compute, their derivatives, and which initializers they train.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use lessen_base::SplitMix64;
use lessen_cpu::CpuBackend;
use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, evaluate_exactly};
use lessen_onnx::proto::NodeProto;
use lessen_onnx::{
    HostTensor, Model, Network, NetworkFile, NetworkNorm, NetworkParameter, NetworkParts, ParameterRole,
};
use lessen_onnx_sessions::Session;

use crate::builder::{Builder, Extent, F32, float, int, ints};

/// Images of a batch, their height and width.
const IMAGES: usize = 3;
const SIDE: usize = 6;

/// A small residual network of 3 channels and 4 classes without its output: convolutions with batch normalization, a
/// sum with its input, the mean of all pixels, and a Gemm.
pub fn residual(first_axis: Extent) -> Builder {
    let mut b = Builder::new(17);
    let (height, width) = (Extent::Named("height"), Extent::Named("width"));
    let x = b.input("pixels", F32, &[first_axis, Extent::Size(3), height, width]);
    let conv = |b: &mut Builder, name: &str, x: &str, inputs: i64| {
        let weight = b.weight(&format!("{name}.weight"), &[4, inputs, 3, 3], 0.0);
        b.node("Conv", name, &[x, &weight], vec![ints("pads", &[1, 1, 1, 1])])
    };
    let norm = |b: &mut Builder, name: &str, x: &str| {
        let numbers = |b: &mut Builder, what: &str, mean: f64| b.weight(&format!("{name}.{what}"), &[4], mean);
        let (scale, shift) = (numbers(b, "weight", 1.0), numbers(b, "bias", 0.2));
        let (mean, variance) = (numbers(b, "running_mean", 0.1), numbers(b, "running_var", 1.5));
        let inputs = [x, &scale, &shift, &mean, &variance];
        b.node("BatchNormalization", name, &inputs, vec![float("momentum", 0.75)])
    };
    let y = conv(&mut b, "conv1", &x, 3);
    let y = norm(&mut b, "bn1", &y);
    let y = b.node("Relu", "relu1", &[&y], vec![]);
    let z = conv(&mut b, "conv2", &y, 4);
    let z = norm(&mut b, "bn2", &z);
    let z = b.node("Add", "sum", &[&z, &y], vec![]);
    let z = b.node("Relu", "relu2", &[&z], vec![]);
    let z = b.node("GlobalAveragePool", "pooled", &[&z], vec![]);
    let z = b.node("Flatten", "features", &[&z], vec![]);
    let (weight, bias) = (b.weight("fc.weight", &[4, 4], 0.0), b.weight("fc.bias", &[4], 0.0));
    b.node("Gemm", "scores", &[&z, &weight, &bias], vec![int("transB", 1)]);
    b
}

/// Writes a file with an output, and opens it.
pub fn opened(folder: &Path, mut b: Builder, output: &str) -> lessen_base::Result<NetworkFile> {
    b.output(output);
    NetworkFile::open(&b.write(folder, "model.onnx"), &|_| false)
}

/// Norms with statistics of the batch where `training`, else with the running ones.
struct Parts {
    trace: TraceRef,
    training: bool,
}

impl NetworkParts for Parts {
    fn parameter(&self, parameter: &NetworkParameter, shape: &[usize]) -> Tensor {
        self.trace.state(&parameter.name, DType::F32, shape)
    }

    fn batch_norm(&self, x: Tensor, parameters: [Tensor; 4], norm: NetworkNorm) -> Tensor {
        assert_eq!((norm.eps, norm.momentum), (1e-5, 0.25));
        let [scale, shift, mut mean, mut variance] = parameters;
        if self.training {
            [mean, variance] = x.flatten_rows().moments();
        }
        x.scale_shift(mean, scale * (variance + norm.eps).rsqrt(), shift)
    }

    fn dropout(&self, x: Tensor, probability: f64) -> Tensor {
        x * (1.0 - probability)
    }
}

type Arrays = HashMap<String, Array>;

/// The parameters of a file, and images.
fn given(file: &NetworkFile) -> Arrays {
    let mut given = Arrays::new();
    for parameter in file.network().parameters() {
        let mut data = Vec::new();
        let mut take = |part: &[f32]| {
            data.extend(part.iter().map(|x| f64::from(*x)));
            Ok(())
        };
        file.visit(&parameter.name, &mut take).unwrap();
        given.insert(parameter.name.clone(), Array::f32(&parameter.shape, data));
    }
    let mut random = SplitMix64::new(5);
    let shape = [IMAGES, SIDE, SIDE, file.network().channels()];
    let pixels = (0..shape.iter().product()).map(|_| f64::from((random.unit() - 0.5) as f32));
    given.insert("images".to_string(), Array::f32(&shape, pixels.collect()));
    given
}

/// The logits, a loss, and its derivatives by all trained parameters.
fn computed(network: &Network, given: &Arrays, training: bool) -> Arrays {
    let trace = Trace::new();
    let parts = Parts {
        trace: *trace,
        training,
    };
    let images = trace.input("images", DType::F32, &[IMAGES, SIDE, SIDE, network.channels()]);
    let logits = network.trace(&parts, images, network.classes()).unwrap();
    trace.output("logits", logits);
    let loss = (logits * logits).sum() + logits.slice(1, 0, 1).sum();
    trace.output("loss", loss);
    let trained = network.parameters().iter().filter(|own| !is_statistic(own));
    let trained: Vec<&str> = trained.map(|own| own.name.as_str()).collect();
    let states = trained.iter().map(|name| {
        let found = |graph: &lessen_graph::Graph| graph.inputs.iter().find(|input| input.name == *name).unwrap().value;
        trace.tensor(trace.with_graph(found))
    });
    let states: Vec<Tensor> = states.collect();
    for (name, gradient) in trained.iter().zip(loss.grad(&states)) {
        trace.output(&format!("by {name}"), gradient);
    }
    evaluate_exactly(&trace.finish(), given).unwrap()
}

fn is_statistic(parameter: &NetworkParameter) -> bool {
    matches!(
        parameter.role,
        ParameterRole::RunningMean | ParameterRole::RunningVariance
    )
}

/// The names of parameters, sorted.
fn names(network: &Network) -> Vec<&str> {
    let mut names: Vec<&str> = network.parameters().iter().map(|own| own.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn derivatives_agree_with_differences() {
    const STEP: f64 = 1e-6;
    let folder = tempfile::tempdir().unwrap();
    let file = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
    let given = given(&file);
    let found = computed(file.network(), &given, true);
    let mut random = SplitMix64::new(7);
    let (mut before, mut after, mut slope) = (given.clone(), given.clone(), 0.0);
    for parameter in file.network().parameters().iter().filter(|own| !is_statistic(own)) {
        let gradient = &found[&format!("by {}", parameter.name)];
        for (i, derivative) in gradient.data.iter().enumerate() {
            let direction = random.unit() - 0.5;
            slope += direction * derivative;
            before.get_mut(&parameter.name).unwrap().data[i] -= STEP * direction;
            after.get_mut(&parameter.name).unwrap().data[i] += STEP * direction;
        }
    }
    let loss = |given: &Arrays| computed(file.network(), given, true)["loss"].item();
    let difference = (loss(&after) - loss(&before)) / (2.0 * STEP);
    assert!(
        (difference - slope).abs() < 1e-6 * (1.0 + slope.abs()),
        "the derivative is {slope}, the difference {difference}"
    );
}

#[test]
fn an_untrained_network_computes_what_a_session_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
    let given = given(&file);
    let found = computed(file.network(), &given, false);
    let images = &given["images"];
    let at = |n: usize, c: usize, y: usize, x: usize| images.data[((n * SIDE + y) * SIDE + x) * 3 + c] as f32;
    let mut pixels = Vec::new();
    for n in 0..IMAGES {
        for c in 0..3 {
            pixels.extend((0..SIDE * SIDE).map(|place| at(n, c, place / SIDE, place % SIDE)));
        }
    }
    let model = Model::open_to_run(&folder.path().join("model.onnx")).unwrap();
    let session = Session::new(Arc::new(model), Box::new(CpuBackend::new(1).unwrap())).unwrap();
    let pixels = HostTensor::new(&[IMAGES, 3, SIDE, SIDE], pixels).unwrap();
    let outputs = session.run(vec![("pixels".to_string(), pixels.into())]).unwrap();
    let scores = outputs[0].1.tensor().unwrap().data().to_f64();
    assert_eq!(scores.len(), found["logits"].data.len());
    for (own, session) in found["logits"].data.iter().zip(scores) {
        assert!((own - session).abs() < 1e-5, "{own} {session}");
    }
}

#[test]
fn a_file_without_weights_is_the_network_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
    let given = given(&file);
    let network = file.network();
    assert_eq!((network.channels(), network.size()), (3, [None, None]));
    assert_eq!((network.classes(), network.has_dropout()), (4, false));
    let again = Network::read(network.bytes().clone(), Path::new("kept.onnx")).unwrap();
    assert_eq!(again.parameters(), network.parameters());
    assert_eq!(&again, network);
    assert_eq!(computed(&again, &given, true), computed(network, &given, true));
    let of_head: Vec<&str> = names(network)
        .into_iter()
        .filter(|name| network.is_of_head(name))
        .collect();
    assert_eq!(of_head, ["fc.bias", "fc.weight"]);
    assert_eq!(network.head_inputs(), 4);
    let roles = network.parameters().iter().filter(|own| own.name.starts_with("bn2."));
    let roles: Vec<ParameterRole> = roles.map(|own| own.role).collect();
    assert_eq!(
        roles,
        [
            ParameterRole::Scale,
            ParameterRole::Shift,
            ParameterRole::RunningMean,
            ParameterRole::RunningVariance
        ]
    );
}

#[test]
fn the_last_layer_has_another_number_of_classes() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
    let network = file.network();
    network.check([SIDE, SIDE], 4).unwrap();
    network.check([SIDE, SIDE], 7).unwrap();
    let shape = |name: &str| {
        let parameter = network.parameters().iter().find(|own| own.name == name).unwrap();
        network.shape_of(parameter, 7)
    };
    assert_eq!((shape("fc.weight"), shape("fc.bias")), (vec![7, 4], vec![7]));
    assert_eq!(shape("conv2.weight"), [4, 4, 3, 3]);
    // A product and a sum are a last layer, too, with its classes in columns.
    let mut b = residual(Extent::Named("batch"));
    b.linear("own", "features", 4, 3);
    let file = opened(folder.path(), b, "own").unwrap();
    let own = file
        .network()
        .parameters()
        .iter()
        .filter(|own| file.network().is_of_head(&own.name));
    let shapes: Vec<Vec<usize>> = own.map(|own| file.network().shape_of(own, 9)).collect();
    assert_eq!(shapes, [vec![4, 9], vec![9]]);
    // Probabilities of classes are no last layer that could be made anew.
    let mut b = residual(Extent::Named("batch"));
    b.node("Mul", "doubled", &["scores", "scores"], vec![]);
    let file = opened(folder.path(), b, "doubled").unwrap();
    file.network().check([SIDE, SIDE], 4).unwrap();
    let refused = file.network().check([SIDE, SIDE], 7).unwrap_err();
    assert!(
        refused
            .message()
            .contains("the data has 7 classes, but the network gives 4"),
        "{refused}"
    );
}

#[test]
fn probabilities_are_taken_off() {
    let folder = tempfile::tempdir().unwrap();
    for operator in ["Softmax", "LogSoftmax"] {
        let mut b = residual(Extent::Named("batch"));
        b.node(operator, "probabilities", &["scores"], vec![int("axis", 1)]);
        let file = opened(folder.path(), b, "probabilities").unwrap();
        let said = format!("its last {operator} is taken off: the loss is computed from the logits");
        assert_eq!(file.remarks(), [said]);
        let plain = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
        assert_eq!(file.network(), plain.network());
    }
}

#[test]
fn weights_are_trained_and_other_constants_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(Extent::Named("batch"));
    // The normalization of pixels is in the file, and one norm has the statistics and the scale of the other.
    let (mean, low, high) = (
        b.weight("pixel_mean", &[1, 3, 1, 1], 0.4),
        b.floats("low", &[], vec![0.0]),
        b.floats("high", &[], vec![6.0]),
    );
    let node = |operator: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: operator.to_string(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: vec![output.to_string()],
        ..NodeProto::default()
    };
    b.graph.node.insert(0, node("Sub", &["pixels", &mean], "centred"));
    b.graph.node.insert(1, node("Identity", &["bn1.bias"], "bn2.own_bias"));
    let nodes = &mut b.graph.node;
    nodes.iter_mut().find(|node| node.op_type == "Conv").unwrap().input[0] = "centred".to_string();
    let norm = nodes
        .iter_mut()
        .rfind(|node| node.op_type == "BatchNormalization")
        .unwrap();
    for (input, name) in [(1, "bn1.weight"), (2, "bn2.own_bias"), (3, "bn1.running_mean")] {
        norm.input[input] = name.to_string();
    }
    let clipped = nodes.iter_mut().find(|node| node.output == ["relu1"]).unwrap();
    clipped.op_type = "Clip".to_string();
    clipped.input.extend([low, high]);
    let file = opened(folder.path(), b, "scores").unwrap();
    assert_eq!(
        names(file.network()),
        [
            "bn1.bias",
            "bn1.running_mean",
            "bn1.running_mean_2",
            "bn1.running_var",
            "bn1.weight",
            "bn2.own_bias",
            "bn2.running_var",
            "conv1.weight",
            "conv2.weight",
            "fc.bias",
            "fc.weight"
        ]
    );
    assert_eq!(
        file.remarks(),
        [
            "1 of its initializers are read by several nodes and are trained as one, such as bn1.weight",
            "1 of its initializers are no weights of layers and stay as they are, such as pixel_mean"
        ]
    );
    computed(file.network(), &given(&file), true);
}

#[test]
fn nodes_of_training_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut b = residual(Extent::Named("batch"));
    for node in b
        .graph
        .node
        .iter_mut()
        .filter(|node| node.op_type == "BatchNormalization")
    {
        node.attribute.push(int("training_mode", 1));
        let moved = ["mean", "variance"].map(|what| format!("{}.{what}", node.name));
        node.output.extend(moved);
    }
    let (share, training) = (b.floats("share", &[], vec![0.25]), "training".to_string());
    b.truth(&training, true);
    b.node("Dropout", "dropped", &["features", &share, &training], vec![]);
    b.graph
        .node
        .iter_mut()
        .find(|node| node.op_type == "Gemm")
        .unwrap()
        .input[0] = "dropped".to_string();
    let file = opened(folder.path(), b, "scores").unwrap();
    assert!(file.network().has_dropout());
    let given = given(&file);
    let plain = opened(folder.path(), residual(Extent::Named("batch")), "scores").unwrap();
    let (found, plain) = (
        computed(file.network(), &given, true),
        computed(plain.network(), &given, true),
    );
    assert_ne!(found["logits"], plain["logits"], "values are dropped");
    assert!(file.network().is_of_head("fc.weight"));
}

/// Names that others have in a graph are not those of parameters; all else of the network is the same.
#[test]
fn parameters_have_other_names_where_theirs_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        ("conv1.weight", "images"),
        ("bn1.weight", "labels"),
        ("bn1.running_mean", "@lr"),
        ("fc.bias", "@ema.images"),
    ];
    let own = opened(folder.path(), residual(Extent::Named("n")), "scores").unwrap();
    let mut b = residual(Extent::Named("n"));
    for (old, new) in names {
        let tensors = b.graph.initializer.iter_mut().map(|tensor| &mut tensor.name);
        let read = b.graph.node.iter_mut().flat_map(|node| &mut node.input);
        tensors
            .chain(read)
            .filter(|name| *name == old)
            .for_each(|name| *name = new.to_string());
    }
    b.output("scores");
    let is_taken = |name: &str| name == "images" || name == "labels" || name.starts_with('@');
    let file = NetworkFile::open(&b.write(folder.path(), "other.onnx"), &is_taken).unwrap();
    let other = file.network();
    assert!(other.parameters().iter().all(|own| !is_taken(&own.name)));
    let expected = computed(own.network(), &given(&own), false);
    let found = computed(other, &given(&file), false);
    assert_eq!(found["logits"], expected["logits"]);
    for (old, new) in names.into_iter().filter(|(old, _)| *old != "bn1.running_mean") {
        assert_eq!(
            found[&format!("by file.{new}")],
            expected[&format!("by {old}")],
            "{new}"
        );
    }
    let again = Network::read(other.bytes().clone(), Path::new("kept.onnx")).unwrap();
    assert_eq!(again.parameters(), other.parameters());
}
