//! Second derivatives of networks: they agree with central differences of gradients in `f64`, and an operation that
//! lacks one is named.

use crate::support::{device, images};
use lessen_base::SplitMix64;
use lessen_condense::{Condenser, FunctionNetwork, Method, Network, Settings};
use lessen_graph::{Array, DType, Op, Tensor, Trace, Type, Vjp, evaluate_exactly};
use lessen_nn::models::vision::{
    Block, ConvNet, Norm, Part, PlainNet, ResNet, Stem, VisionModel, lenet, mlp, small_alexnet, small_vgg11,
};
use lessen_nn::{Cx, Init, ParamSpec, layers::linear};
use std::collections::HashMap;

/// Images, and classes.
const COUNT: usize = 2;
const CLASSES: usize = 3;

/// Distance of the points of a difference; the rounding of `f64` and the curvature weigh about the same there.
const STEP: f64 = 1e-6;

/// The convolutions of a network with a part of their channels.
fn narrow(net: PlainNet, divisor: usize) -> VisionModel {
    let narrowed = |part: Part| match part {
        Part::Convolution {
            out,
            kernel,
            stride,
            padding,
        } => Part::Convolution {
            out: out / divisor,
            kernel,
            stride,
            padding,
        },
        pooling => pooling,
    };
    let features = net.features.iter().copied().map(narrowed).collect();
    PlainNet { features, ..net }.into()
}

fn convnet(norm: Norm) -> VisionModel {
    let net = ConvNet {
        width: 4,
        norm,
        ..ConvNet::new(CLASSES)
    };
    net.into()
}

fn resnet18(norm: Norm) -> VisionModel {
    let net = ResNet {
        stem: Stem::Small,
        stem_width: 4,
        width: 4,
        norm,
        ..ResNet::imagenet(Block::Basic, [2, 2, 2, 2], CLASSES)
    };
    net.into()
}

/// Values of a parameter: its initial ones, moved a little, so that no norm is an identity.
fn values(param: &ParamSpec) -> Array {
    let count = param.shape.iter().product();
    let mut random = SplitMix64::named(5, &param.name);
    let initial = param.init.values(1, &param.name, count);
    let moved = initial.into_iter().map(|x| f64::from(x) + 0.2 * (random.unit() - 0.5));
    Array::f32(&param.shape, moved.collect())
}

/// Numbers from -1 to 1.
fn random_array(shape: &[usize], random: &mut SplitMix64) -> Array {
    let count = shape.iter().product();
    Array::f32(shape, (0..count).map(|_| 2.0 * random.unit() - 1.0).collect())
}

/// With `s` the sum of the products of all gradients and directions, compares the derivative of `s` along a direction
/// of the images with the difference of `s` there, which is one of gradients.
fn compare(what: &str, network: &VisionModel, [height, width, channels]: [usize; 3], training: bool) {
    let shape = [COUNT, height, width, channels];
    let trace = Trace::new();
    let cx = Cx::new(*trace, training);
    let images = cx.input("images", DType::F32, &shape);
    let labels = trace.constant(Array::i32(&[COUNT], &[0, 2]));
    let loss = Network::logits(network, cx, images).cross_entropy(labels);
    let params = cx.params();
    let weights: Vec<&ParamSpec> = params.iter().filter(|param| !param.is_buffer).collect();
    let tensors: Vec<Tensor> = weights.iter().map(|param| trace.tensor(param.value)).collect();
    let along = std::iter::zip(&weights, loss.grad(&tensors)).map(|(param, gradient)| {
        let direction = cx.input(&format!("along.{}", param.name), DType::F32, &param.shape);
        (gradient * direction).sum()
    });
    let along = along.reduce(|a, b| a + b).expect("the network has parameters");
    trace.output("along", along);
    trace.output("derivative", along.grad(&[images])[0]);
    let graph = trace.finish();

    let mut random = SplitMix64::new(3);
    let mut given: HashMap<String, Array> = HashMap::new();
    for param in &params {
        given.insert(param.name.clone(), values(param));
        given.insert(format!("along.{}", param.name), random_array(&param.shape, &mut random));
    }
    let here = random_array(&shape, &mut random);
    let mut at = |direction: &Array, step: f64| {
        let moved = std::iter::zip(&here.data, &direction.data).map(|(x, d)| x + step * d);
        given.insert("images".to_string(), Array::f32(&shape, moved.collect()));
        evaluate_exactly(&graph, &given).expect("a sound graph")
    };
    let derivative = at(&here, 0.0)["derivative"].clone();
    for _ in 0..2 {
        let direction = random_array(&shape, &mut random);
        let products = std::iter::zip(&derivative.data, &direction.data).map(|(a, b)| a * b);
        let slope: f64 = products.sum();
        let [before, after] = [-STEP, STEP].map(|step| at(&direction, step)["along"].item());
        let difference = (after - before) / (2.0 * STEP);
        assert!(slope.abs() > 1e-3, "{what}: a slope of {slope} says nothing");
        assert!(
            (slope - difference).abs() <= 1e-6 * (1.0 + slope.abs()),
            "{what}: the derivative is {slope}, the difference {difference}"
        );
    }
}

#[test]
fn second_derivatives_of_mlp_agree_with_differences() {
    compare("MLP", &mlp(CLASSES).into(), [4, 4, 2], false);
}

#[test]
fn second_derivatives_of_convnet_agree_with_differences() {
    let image = [16, 16, 2];
    compare("instance norm", &convnet(Norm::Instance), image, false);
    compare("group norm", &convnet(Norm::Group(2)), image, false);
    compare("frozen batch norm", &convnet(Norm::default()), image, false);
    compare("batch norm", &convnet(Norm::default()), image, true);
    compare("layer norm", &convnet(Norm::Layer), image, false);
}

#[test]
fn second_derivatives_of_networks_with_maximum_pooling_agree_with_differences() {
    compare("LeNet", &lenet(CLASSES).into(), [28, 28, 1], false);
    compare("AlexNet", &narrow(small_alexnet(CLASSES), 32), [8, 8, 3], false);
    compare(
        "VGG-11",
        &narrow(small_vgg11(Norm::Instance, CLASSES), 32),
        [32, 32, 3],
        false,
    );
    let batch = small_vgg11(Norm::default(), CLASSES);
    compare("VGG-11 with batch norm", &narrow(batch, 32), [32, 32, 3], false);
}

#[test]
fn second_derivatives_of_resnet_18_agree_with_differences() {
    compare("batch norm", &resnet18(Norm::default()), [8, 8, 3], false);
    compare("instance norm", &resnet18(Norm::Instance), [16, 16, 3], false);
}

/// `x^2`, whose derivative is an operation of its own.
#[derive(PartialEq, Debug)]
struct Square;

impl Op for Square {
    fn name(&self) -> &'static str {
        "own_square"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let x = cx.inputs[0];
        vec![cx.cotangents[0].map(|dy| x.trace().apply1(SquareBackward, &[x, dy]))]
    }
}

/// `2 x dy`, which cannot be differentiated.
#[derive(PartialEq, Debug)]
struct SquareBackward;

impl Op for SquareBackward {
    fn name(&self) -> &'static str {
        "own_square_backward"
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(vec![inputs[0].clone()])
    }
}

#[test]
fn an_operation_without_a_second_derivative_is_named() {
    let network = FunctionNetwork(|cx, images| {
        let hidden = linear(cx, "hidden", flat(images), 4, Init::Normal { std: 0.1 });
        linear(
            cx,
            "classifier",
            cx.trace().apply1(Square, &[hidden]),
            2,
            Init::Normal { std: 0.1 },
        )
    });
    let settings = Settings::published(Method::Md, 1).expect("1 image of a class");
    let Err(error) = Condenser::new(device(1), &network, &images(2, 3, [4, 4, 1], 1), settings) else {
        panic!("nothing was refused");
    };
    let sentence = error.to_string();
    assert!(sentence.contains("`own_square_backward`"), "{sentence}");
    assert!(sentence.contains("second derivative"), "{sentence}");
    assert!(!sentence.contains('\n'), "{sentence}");
}

fn flat(images: Tensor) -> Tensor {
    let shape = images.shape();
    images.reshape(&[shape[0], shape[1..].iter().product()])
}
