//! Convolutional networks: results that follow by hand, and derivatives of derivatives by differences.

use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly};
use lessen_nn::models::vision::{
    Block, ConvNet, Dense, Norm, PlainNet, ResNet, RevNet, Shortcut, Start, Stem, VisionModel,
};
use lessen_nn::{Activation, Cx};

/// An image of this size, whose elements are all different.
fn image(size: [usize; 3]) -> Array {
    let [height, width, channels] = size;
    let value = |i: &[usize]| 1.0 + ((i[1] * width + i[2]) * channels + i[3]) as f64;
    Array::from_fn(Type::f32(&[1, height, width, channels]), value)
}

/// The kernel `[channels, channels, 3, 3]` of a convolution that changes nothing.
fn identity(channels: usize) -> Array {
    Array::from_fn(Type::f32(&[channels, channels, 3, 3]), |i| {
        f64::from(u8::from(i[0] == i[1] && i[2] == 1 && i[3] == 1))
    })
}

fn unit_matrix(size: usize) -> Array {
    Array::from_fn(Type::f32(&[size, size]), |i| f64::from(u8::from(i[0] == i[1])))
}

/// The logits of one image with the parameters `given`; all other parameters are zeros.
fn evaluated(model: &VisionModel, image: Array, mut given: Arrays) -> Vec<f64> {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let images = cx.input("images", DType::F32, &image.ty.shape);
    trace.output("logits", model.forward(cx, images));
    for param in cx.params() {
        let zeros = || Array::full(Type::f32(&param.shape), 0.0);
        given.entry(param.name.clone()).or_insert_with(zeros);
    }
    given.insert("images".into(), image);
    let mut results = evaluate_exactly(&trace.finish(), &given).unwrap();
    results.remove("logits").unwrap().data
}

#[test]
fn linear_layers_read_features_channel_by_channel() {
    let out = 2 * 3 * 2;
    let last = Dense {
        name: "classifier",
        out,
        dropout: 0.5,
    };
    let model = VisionModel::from(PlainNet {
        features: Vec::new(),
        norm: Norm::None,
        activation: Activation::Relu,
        size: None,
        dense: vec![last],
        wide: None,
        start: Start::Uniform,
    });
    let x = image([2, 3, 2]);
    let given = Arrays::from([("classifier.weight".to_string(), unit_matrix(out))]);
    let expected: Vec<f64> = (0..out).map(|i| x.at(&[0, i / 3 % 2, i % 3, i / 6])).collect();
    assert_eq!(evaluated(&model, x, given), expected);
}

#[test]
fn a_shortcut_without_parameters_takes_every_other_pixel_between_channels_of_zeros() {
    let model = VisionModel::from(ResNet {
        stem: Stem::Small,
        stem_width: 2,
        width: 2,
        blocks: vec![0, 1],
        block: Block::Basic,
        shortcut: Shortcut::Padding,
        pre_activation: true,
        norm: Norm::None,
        uniform_start: false,
        activation: Activation::Relu,
        classes: 4,
    });
    let x = image([3, 4, 2]);
    let mean = |channel: usize| {
        let pixels = [[0, 0], [0, 2], [2, 0], [2, 2]];
        pixels.map(|[i, j]| x.at(&[0, i, j, channel])).iter().sum::<f64>() / 4.0
    };
    let expected = [0.0, mean(0), mean(1), 0.0];
    let given = Arrays::from([
        ("conv1.weight".to_string(), identity(2)),
        ("fc.weight".to_string(), unit_matrix(4)),
    ]);
    assert_eq!(evaluated(&model, x, given), expected);
}

/// With convolutions that change nothing and halves `a` and `b`, which are positive, a unit makes `a + b` and
/// `b + (a + b)` of them.
#[test]
fn units_of_revnet_add_functions_of_the_other_half() {
    let model = VisionModel::from(RevNet {
        stem_width: 2,
        stages: vec![(2, 2)],
        norm: Norm::None,
        ..RevNet::cifar(Block::Basic, 0, [0; 3], 2)
    });
    let mut given = Arrays::from([
        ("conv1.weight".to_string(), identity(2)),
        ("fc.weight".to_string(), unit_matrix(2)),
    ]);
    for unit in 0..2 {
        for conv in ["f.conv1", "f.conv2", "g.conv1", "g.conv2"] {
            given.insert(format!("layer1.{unit}.{conv}.weight"), identity(1));
        }
    }
    let x = image([1, 1, 2]);
    let (a, b) = (x.data[0], x.data[1]);
    assert_eq!(evaluated(&model, x, given), [2.0 * a + 3.0 * b, 3.0 * a + 5.0 * b]);
}

/// The derivative, along images, of how large the gradients of a real loss are.
#[test]
fn convnet_has_derivatives_of_derivatives() {
    let model = VisionModel::from(ConvNet {
        width: 2,
        depth: 1,
        ..ConvNet::new(2)
    });
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let images = cx.input("images", DType::F32, &[1, 4, 4, 2]);
    let logits = model.forward(cx, images);
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|param| trace.tensor(param.value)).collect();
    let gradients = (logits * logits * logits).sum().grad(&tensors);
    let size = gradients
        .into_iter()
        .map(|g| (g * g).sum())
        .reduce(|a, b| a + b)
        .unwrap();
    trace.output("size", size);
    trace.output("direction", size.grad(&[images])[0]);
    let graph = trace.finish();
    let mut given = Arrays::new();
    for param in params {
        let value = |i: usize| (0.7 * i as f64 + param.name.len() as f64).sin();
        let data = (0..param.shape.iter().product()).map(value).collect();
        given.insert(param.name.clone(), Array::f32(&param.shape, data));
    }
    let pixels: Vec<f64> = (0..32).map(|i| (1.3 * f64::from(i)).cos()).collect();
    let of = |pixels: &[f64]| {
        let mut given = given.clone();
        given.insert("images".into(), Array::f32(&[1, 4, 4, 2], pixels.to_vec()));
        evaluate_exactly(&graph, &given).unwrap()
    };
    let direction = of(&pixels)["direction"].clone();
    let step = 1e-5;
    let differences = (0..pixels.len()).map(|i| {
        let at = |sign: f64| {
            let mut moved = pixels.clone();
            moved[i] += sign * step;
            of(&moved)["size"].item()
        };
        (at(1.0) - at(-1.0)) / (2.0 * step)
    });
    let differences = Array::f32(&[1, 4, 4, 2], differences.collect());
    assert_close("direction", &direction, &differences, 1e-5);
}
