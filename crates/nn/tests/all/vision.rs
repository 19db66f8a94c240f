//! Convolutional networks: numbers, names, shapes and initial values of parameters, shapes of logits, mistakes.

use std::collections::BTreeSet;

use lessen_graph::{DType, Graph, Trace, verify};
use lessen_nn::layers::BatchNorm;
use lessen_nn::models::vision::{ConvNet, MobileNetV2, Norm, Pooling, VisionModel};
use lessen_nn::{Cx, Init, ParamSpec};

const CIFAR: [usize; 3] = [32, 32, 3];
const IMAGENET: [usize; 3] = [224, 224, 3];
const DIGITS: [usize; 3] = [28, 28, 1];

fn parameters(name: &str, size: [usize; 3], classes: usize) -> Vec<ParamSpec> {
    let model = VisionModel::preset(name, classes).unwrap();
    model.parameters(size).unwrap()
}

#[track_caller]
fn named<'a>(params: &'a [ParamSpec], name: &str) -> &'a ParamSpec {
    let found = params.iter().find(|param| param.name == name);
    found.unwrap_or_else(|| panic!("there is no parameter `{name}`"))
}

/// The graph of the logits of two images.
fn logits(model: &VisionModel, size: [usize; 3], training: bool) -> Graph {
    let trace = Trace::new();
    let cx = Cx::new(*trace, training);
    let images = cx.input("images", DType::F32, &[2, size[0], size[1], size[2]]);
    trace.output("logits", model.forward(cx, images));
    trace.finish()
}

/// A parameter's name and shape.
type Named = (&'static str, &'static [usize]);

/// The counts are torchvision's and the papers', without running statistics. The papers round their counts: ResNet-20
/// 0.27, ResNet-1202 19.4, WRN-16-2 0.7, WRN-28-10 36.5, WRN-40-4 8.9, RevNet-38 0.46, RevNet-110 1.73, RevNet-164
/// 1.75 million.
#[test]
fn published_networks_have_as_many_parameters_as_published() {
    for (name, size, classes, count) in [
        ("resnet18", IMAGENET, 1000, 11_689_512),
        ("resnet34", IMAGENET, 1000, 21_797_672),
        ("resnet50", IMAGENET, 1000, 25_557_032),
        ("resnext101-32x8d", IMAGENET, 1000, 88_791_336),
        ("mobilenet-v2", IMAGENET, 1000, 3_504_872),
        ("alexnet", IMAGENET, 1000, 61_100_840),
        ("vgg11", IMAGENET, 1000, 132_863_336),
        ("vgg11-bn", IMAGENET, 1000, 132_868_840),
        ("vgg19-bn", IMAGENET, 1000, 143_678_248),
        ("densenet-121", IMAGENET, 1000, 7_978_856),
        ("revnet-104", IMAGENET, 1000, 45_428_072),
        ("resnet18-cifar", CIFAR, 10, 11_173_962),
        ("resnet20", CIFAR, 10, 269_722),
        ("resnet32", CIFAR, 10, 464_154),
        ("resnet44", CIFAR, 10, 658_586),
        ("resnet56", CIFAR, 10, 853_018),
        ("resnet110", CIFAR, 10, 1_727_962),
        ("resnet1202", CIFAR, 10, 19_421_274),
        ("wide-resnet-16-2", CIFAR, 10, 691_674),
        ("wide-resnet-28-10", CIFAR, 10, 36_479_194),
        ("wide-resnet-40-4", CIFAR, 10, 8_949_210),
        ("revnet-38", CIFAR, 10, 464_890),
        ("revnet-110", CIFAR, 10, 1_729_194),
        ("revnet-164", CIFAR, 10, 1_748_778),
        ("convnet-3", CIFAR, 10, 320_010),
        ("convnet-3", DIGITS, 10, 317_706),
        ("resnet18-instance", CIFAR, 10, 11_173_962),
        ("mlp", DIGITS, 10, 118_282),
        ("mlp", CIFAR, 10, 411_146),
        ("linear-array", CIFAR, 10, 30_730),
        ("wide-mlp", CIFAR, 10, 411_146 + 30_720),
        ("lenet", DIGITS, 10, 61_706),
        ("alexnet-cifar", CIFAR, 10, 1_872_202),
        ("vgg11-cifar", CIFAR, 10, 9_231_114),
        ("vgg11-cifar-bn", CIFAR, 10, 9_231_114),
    ] {
        let params = parameters(name, size, classes);
        let trained = params.iter().filter(|param| !param.is_buffer);
        let found: usize = trained.map(|param| param.shape.iter().product::<usize>()).sum();
        assert_eq!(found, count, "{name}");
    }
}

#[test]
fn parameters_have_the_names_and_shapes_of_published_checkpoints() {
    let cases: [(&str, [usize; 3], &[Named]); 11] = [
        (
            "resnet18",
            IMAGENET,
            &[
                ("conv1.weight", &[64, 3, 7, 7]),
                ("bn1.running_var", &[64]),
                ("layer1.0.conv1.weight", &[64, 64, 3, 3]),
                ("layer2.0.downsample.0.weight", &[128, 64, 1, 1]),
                ("layer2.0.downsample.1.bias", &[128]),
                ("layer4.1.bn2.weight", &[512]),
                ("fc.weight", &[7, 512]),
                ("fc.bias", &[7]),
            ],
        ),
        (
            "resnet50",
            IMAGENET,
            &[
                ("layer1.0.downsample.0.weight", &[256, 64, 1, 1]),
                ("layer3.5.conv3.weight", &[1024, 256, 1, 1]),
                ("layer4.2.bn3.running_mean", &[2048]),
            ],
        ),
        (
            "resnext101-32x8d",
            IMAGENET,
            &[
                ("layer1.0.conv2.weight", &[256, 8, 3, 3]),
                ("layer3.22.conv2.weight", &[1024, 32, 3, 3]),
            ],
        ),
        (
            "wide-resnet-16-2",
            CIFAR,
            &[
                ("conv1.weight", &[16, 3, 3, 3]),
                ("layer1.0.bn1.weight", &[16]),
                ("layer1.0.downsample.0.weight", &[32, 16, 1, 1]),
                ("layer3.1.conv2.weight", &[128, 128, 3, 3]),
                ("bn.weight", &[128]),
                ("fc.weight", &[7, 128]),
            ],
        ),
        (
            "revnet-38",
            CIFAR,
            &[
                ("conv1.weight", &[32, 3, 3, 3]),
                ("layer1.0.f.conv1.weight", &[16, 16, 3, 3]),
                ("layer1.0.g.bn1.weight", &[16]),
                ("layer3.0.f.conv1.weight", &[56, 32, 3, 3]),
                ("bn.weight", &[112]),
            ],
        ),
        (
            "revnet-104",
            IMAGENET,
            &[
                ("layer1.0.downsample1.weight", &[256, 64, 1, 1]),
                ("layer3.10.g.conv2.weight", &[256, 256, 3, 3]),
                ("layer4.0.downsample2.weight", &[1664, 1024, 1, 1]),
            ],
        ),
        (
            "mobilenet-v2",
            IMAGENET,
            &[
                ("features.0.0.weight", &[32, 3, 3, 3]),
                ("features.0.1.running_mean", &[32]),
                ("features.1.conv.0.0.weight", &[32, 1, 3, 3]),
                ("features.1.conv.1.weight", &[16, 32, 1, 1]),
                ("features.1.conv.2.bias", &[16]),
                ("features.2.conv.1.0.weight", &[96, 1, 3, 3]),
                ("features.17.conv.3.running_var", &[320]),
                ("features.18.0.weight", &[1280, 320, 1, 1]),
                ("classifier.1.weight", &[7, 1280]),
            ],
        ),
        (
            "vgg11-bn",
            IMAGENET,
            &[
                ("features.0.bias", &[64]),
                ("features.1.running_mean", &[64]),
                ("features.25.weight", &[512, 512, 3, 3]),
                ("classifier.0.weight", &[4096, 25088]),
                ("classifier.6.bias", &[7]),
            ],
        ),
        (
            "vgg19-bn",
            IMAGENET,
            &[
                ("features.49.weight", &[512, 512, 3, 3]),
                ("features.50.running_mean", &[512]),
                ("classifier.6.bias", &[7]),
            ],
        ),
        (
            "densenet-121",
            IMAGENET,
            &[
                ("features.conv0.weight", &[64, 3, 7, 7]),
                ("features.norm0.running_mean", &[64]),
                ("features.denseblock1.denselayer1.conv1.weight", &[128, 64, 1, 1]),
                ("features.denseblock3.denselayer24.conv2.weight", &[32, 128, 3, 3]),
                ("features.denseblock4.denselayer16.norm1.bias", &[992]),
                ("features.transition3.conv.weight", &[512, 1024, 1, 1]),
                ("features.norm5.running_var", &[1024]),
                ("classifier.weight", &[7, 1024]),
            ],
        ),
        (
            "alexnet",
            IMAGENET,
            &[
                ("features.0.weight", &[64, 3, 11, 11]),
                ("features.10.weight", &[256, 256, 3, 3]),
                ("classifier.1.weight", &[4096, 9216]),
                ("classifier.6.weight", &[7, 4096]),
            ],
        ),
    ];
    for (model, size, expected) in cases {
        let params = parameters(model, size, 7);
        for (name, shape) in expected {
            assert_eq!(named(&params, name).shape, *shape, "{name} of {model}");
        }
    }
    let revnet = parameters("revnet-38", CIFAR, 7);
    let absent = |name: &str| revnet.iter().all(|param| param.name != name);
    assert!(absent("layer1.0.f.bn1.weight"), "its input is activated already");
    assert!(absent("layer2.0.downsample1.weight"), "basic blocks have no projection");
    let wide = parameters("wide-resnet-16-2", CIFAR, 7);
    assert!(wide.iter().all(|param| !param.name.contains("downsample.1")));
}

#[test]
fn every_network_has_logits_in_and_outside_of_training() {
    for name in VisionModel::names() {
        let model = VisionModel::preset(name, 5).unwrap();
        for training in [true, false] {
            let graph = logits(&model, [64, 64, 3], training);
            verify(&graph).unwrap_or_else(|error| panic!("{name}: {error}"));
            let shape = &graph.values[graph.outputs[0].value.index()].ty.shape;
            assert_eq!(shape[..], [2, 5], "{name}");
        }
        let params = model.parameters([64, 64, 3]).unwrap();
        let distinct: BTreeSet<&str> = params.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(distinct.len(), params.len(), "{name}");
    }
}

#[test]
fn digits_of_28_pixels_become_32() {
    for (network, first, width) in [
        ("convnet-3", "classifier.weight", 128 * 4 * 4),
        ("lenet", "fc_1.weight", 16 * 5 * 5),
        ("alexnet-cifar", "fc.weight", 192 * 4 * 4),
        ("vgg11-cifar", "classifier.weight", 512),
        ("vgg11-cifar-bn", "classifier.weight", 512),
    ] {
        for size in [DIGITS, [32, 32, 1], CIFAR] {
            let params = parameters(network, size, 10);
            assert_eq!(named(&params, first).shape[1], width, "{network} on {size:?}");
        }
    }
}

#[test]
fn convnet_has_norms_and_pooling_of_every_kind() {
    let of = |norm, pooling| {
        let model = ConvNet {
            width: 8,
            depth: 2,
            norm,
            pooling,
            ..ConvNet::new(3)
        };
        VisionModel::from(model).parameters([8, 8, 3]).unwrap()
    };
    for (norm, shape) in [
        (Norm::Batch(BatchNorm::default()), vec![8]),
        (Norm::Instance, vec![8]),
        (Norm::Group(4), vec![8]),
        (Norm::Layer, vec![8, 8, 8]),
    ] {
        let params = of(norm, Pooling::Max);
        assert_eq!(named(&params, "features.1.weight").shape, shape, "{norm:?}");
        assert_eq!(named(&params, "features.4.weight").shape, [8, 8, 3, 3], "{norm:?}");
    }
    for (pooling, second, width) in [
        (Pooling::None, "features.2.weight", 8 * 8 * 8),
        (Pooling::Max, "features.3.weight", 8 * 2 * 2),
        (Pooling::Average, "features.3.weight", 8 * 2 * 2),
    ] {
        let params = of(Norm::None, pooling);
        assert_eq!(params.len(), 6, "{pooling:?}");
        assert_eq!(named(&params, second).shape, [8, 8, 3, 3]);
        assert_eq!(named(&params, "classifier.weight").shape, [3, width]);
    }
}

#[test]
fn parameters_start_as_those_of_torchvision_do() {
    let he = |fan_out: usize| Init::Normal {
        std: (2.0 / fan_out as f64).sqrt(),
    };
    let uniform = |inputs: usize| Init::Uniform {
        bound: 1.0 / (inputs as f64).sqrt(),
    };
    let small = Init::Normal { std: 0.01 };
    for (network, name, init) in [
        ("resnet18", "layer1.0.conv1.weight", he(64 * 9)),
        ("resnet18", "layer1.0.bn2.weight", Init::Ones),
        ("resnet18", "fc.weight", uniform(512)),
        ("resnet18", "fc.bias", uniform(512)),
        ("resnext101-32x8d", "layer1.0.conv2.weight", he(256 * 9)),
        ("mobilenet-v2", "features.1.conv.0.0.weight", he(32 * 9)),
        ("mobilenet-v2", "classifier.1.weight", small),
        ("mobilenet-v2", "classifier.1.bias", Init::Zeros),
        ("alexnet", "features.0.weight", uniform(3 * 11 * 11)),
        ("alexnet", "features.0.bias", uniform(3 * 11 * 11)),
        ("vgg11", "features.3.weight", he(128 * 9)),
        ("vgg11", "features.3.bias", Init::Zeros),
        ("vgg11", "classifier.0.weight", small),
        ("densenet-121", "features.transition1.conv.weight", he(256)),
        ("densenet-121", "classifier.bias", Init::Zeros),
        ("convnet-3", "classifier.bias", uniform(128 * 28 * 28)),
        ("mlp", "fc_2.weight", uniform(128)),
        ("resnet18-instance", "layer2.0.conv1.weight", uniform(64 * 9)),
        ("resnet18-instance", "layer2.0.downsample.0.weight", uniform(64)),
        ("resnet18-instance", "conv1.weight", uniform(3 * 9)),
        ("resnet18-instance", "layer2.0.bn1.weight", Init::Ones),
    ] {
        let params = parameters(network, IMAGENET, 10);
        assert_eq!(named(&params, name).init, init, "{name} of {network}");
    }
}

#[test]
fn shortcuts_of_revnet_halve_odd_sizes_as_its_convolutions_do() {
    let model = VisionModel::preset("revnet-38", 3).unwrap();
    verify(&logits(&model, [27, 13, 3], true)).unwrap();
}

#[test]
fn widths_of_mobilenet_are_multiples_of_8() {
    let of = |width| {
        let model = MobileNetV2 {
            width,
            ..MobileNetV2::new(3)
        };
        let params = VisionModel::from(model).parameters([32, 32, 3]).unwrap();
        let outputs = |name: &str| named(&params, name).shape[0];
        [
            outputs("features.0.0.weight"),
            outputs("features.1.conv.1.weight"),
            outputs("features.2.conv.2.weight"),
            outputs("features.18.0.weight"),
        ]
    };
    assert_eq!(of(1.0), [32, 16, 24, 1280]);
    assert_eq!(of(0.75), [24, 16, 24, 1280]);
    assert_eq!(of(0.35), [16, 8, 8, 1280]);
    assert_eq!(of(1.4), [48, 24, 32, 1792]);
}

#[test]
fn mistakes_are_sentences() {
    let error = VisionModel::preset("resnet21", 10).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "there is no network `resnet21`; choose one of convnet-3, linear-array, mlp, wide-mlp, lenet, "
        ),
        "{error}"
    );
    assert!(error.ends_with(", mobilenet-v2"), "{error}");
    let error = VisionModel::preset("resnet20", 0).unwrap_err().to_string();
    assert_eq!(error, "the network `resnet20` has 0 classes; give it at least 1");
    let model = VisionModel::preset("alexnet", 10).unwrap();
    assert!(model.parameters([63, 63, 3]).is_ok());
    let error = model.parameters([63, 62, 3]).unwrap_err().to_string();
    let sentence = "images of 63 x 62 pixels with 3 channels do not fit the network; use larger ones: ";
    assert!(error.starts_with(sentence), "{error}");
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let x = cx.input("x", DType::F32, &[4, 3]);
    let error = trace.attempt(|| model.forward(cx, x)).unwrap_err().to_string();
    assert!(error.ends_with("the images f32[4,3] are not [N,H,W,C]"), "{error}");
}
