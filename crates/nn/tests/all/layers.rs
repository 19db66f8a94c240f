//! Layers against recorded results of PyTorch: values, first and second derivatives, running statistics.

use std::collections::BTreeSet;

use crate::support::{Arrays, assert_close, expected};
use lessen_graph::{Array, Conv2dOptions, DType, Tensor, Trace, Type, concat, evaluate_exactly, verify};
use lessen_nn::layers::{self, BatchNorm, Convolution, Gate, Recurrent, RecurrentStates, Spread};
use lessen_nn::{Activation, Cx, Init, OptimizerConfig, UpdateRule, optimizer};

/// Recorded values are rounded to `f32`; both sides compute in `f64`.
const TOLERANCE: f64 = 1e-6;

/// A layer without its name.
type Layer = fn(Cx, Tensor) -> Tensor;

fn convolution(out: usize, kernel: usize, stride: usize) -> Convolution {
    let init = Init::Zeros;
    Convolution {
        init,
        ..Convolution::square(out, kernel, stride)
    }
}

/// The layers of `make_layers.py`, and whether they are in training.
const LAYERS: [(&str, bool, Layer); 17] = [
    ("conv2d", true, |cx, x| {
        let how = convolution(6, 3, 2).grouped(2).with_bias();
        layers::conv2d(cx, "conv2d", x, how)
    }),
    ("depthwise", true, |cx, x| {
        layers::conv2d(cx, "depthwise", x, convolution(3, 3, 1).grouped(3))
    }),
    ("pointwise", true, |cx, x| {
        layers::conv2d(cx, "pointwise", x, convolution(5, 1, 1))
    }),
    ("patch_embedding", true, |cx, x| {
        layers::patch_embedding(cx, "patch_embedding", x, 5, [2, 3], Init::Zeros)
    }),
    ("batch_norm", true, |cx, x| {
        layers::batch_norm(cx, "batch_norm", x, BatchNorm::default())
    }),
    ("batch_norm_eval", false, |cx, x| {
        layers::batch_norm(cx, "batch_norm_eval", x, BatchNorm::default())
    }),
    ("group_norm", true, |cx, x| {
        layers::group_norm(cx, "group_norm", x, 2, 1e-5)
    }),
    ("instance_norm", true, |_, x| layers::instance_norm(x, 1e-5)),
    ("squeeze_excitation", true, |cx, x| {
        layers::squeeze_excitation(cx, "squeeze_excitation", x, 3, Gate::Sigmoid)
    }),
    ("hard_squeeze_excitation", true, |cx, x| {
        layers::squeeze_excitation(cx, "hard_squeeze_excitation", x, 3, Gate::HardSigmoid)
    }),
    ("channel_shuffle", true, |_, x| layers::channel_shuffle(x, 3)),
    ("relu6", true, |_, x| Activation::Relu6.apply(x * 4.0)),
    ("hardswish", true, |_, x| Activation::HardSwish.apply(x * 2.0)),
    ("lstm_single", true, |cx, x| {
        layers::lstm(cx, "lstm_single", x, Recurrent::of(4)).y
    }),
    ("gru_single", true, |cx, x| {
        layers::gru(cx, "gru_single", x, Recurrent::of(4)).y
    }),
    ("lstm", true, |cx, x| with_last(layers::lstm(cx, "lstm", x, TWO_LAYERS))),
    ("gru", true, |cx, x| with_last(layers::gru(cx, "gru", x, TWO_LAYERS))),
];

const TWO_LAYERS: Recurrent = Recurrent {
    hidden: 2,
    layers: 2,
    is_bidirectional: true,
    dropout: 0.0,
};

/// The states of all steps, then the last ones of each layer and direction, and cells, as one row for a sequence.
fn with_last(states: RecurrentStates) -> Tensor {
    let y = states.y.reshape(&[states.y.dim(0), states.y.dim(1) * states.y.dim(2)]);
    let all: Vec<Tensor> = [vec![y], states.h, states.c].concat();
    concat(&all, -1)
}

/// Computes a layer and the derivatives of both losses.
fn computed(name: &str, training: bool, layer: Layer, recorded: &Arrays) -> Arrays {
    let of = |what: &str| &recorded[&format!("{name}/{what}")];
    let trace = Trace::new();
    let mut given = Arrays::new();
    let cx = Cx::new(*trace, training);
    let mut input = |what: &str| {
        given.insert(what.to_string(), of(what).clone());
        trace.input(what, DType::F32, &of(what).ty.shape)
    };
    let (x, weight, direction) = (input("x"), input("weight"), input("direction"));
    let y = layer(cx, x);
    trace.output("y", y);
    let params: Vec<_> = cx.params();
    let trained = params.iter().filter(|param| !param.is_buffer);
    let mut names = vec!["x".to_string()];
    let mut tensors = vec![x];
    for param in trained {
        names.push(param.name.strip_prefix(&format!("{name}.")).unwrap().to_string());
        tensors.push(trace.tensor(param.value));
    }
    let loss = (y * weight + y * y * 0.5).sum();
    let grads = loss.grad(&tensors);
    let seconds = (grads[0] * direction).sum().grad(&tensors);
    for ((name, grad), second) in names.iter().zip(grads).zip(seconds) {
        trace.output(&format!("grad.{name}"), grad);
        trace.output(&format!("second.{name}"), second);
    }
    for param in &params {
        let own = param.name.strip_prefix(&format!("{name}.")).unwrap();
        given.insert(param.name.clone(), of(&format!("param.{own}")).clone());
    }
    let graph = trace.finish();
    verify(&graph).unwrap();
    evaluate_exactly(&graph, &given).unwrap()
}

#[test]
fn layers_compute_what_pytorch_computes() {
    let recorded = expected("layers");
    let mut compared = BTreeSet::new();
    for (name, training, layer) in LAYERS {
        let found = computed(name, training, layer, &recorded);
        for (key, array) in &found {
            // A state that is assigned bears the name of its buffer.
            let own = key.strip_prefix(&format!("{name}.")).map(|own| format!("after.{own}"));
            let key = format!("{name}/{}", own.as_ref().unwrap_or(key));
            assert_close(&key, array, &recorded[&key], TOLERANCE);
            compared.insert(key);
        }
    }
    let results = ["/y", "/grad.", "/second.", "/after."];
    for key in recorded
        .keys()
        .filter(|key| results.iter().any(|result| key.contains(result)))
    {
        assert!(compared.contains(key), "`{key}` is compared with nothing");
    }
}

#[test]
fn buffers_are_parameters_that_nobody_trains() {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let x = cx.input("x", DType::F32, &[4, 2, 2, 3]);
    let y = layers::batch_norm(cx, "bn", x, BatchNorm::default());
    let params = cx.params();
    let names: Vec<(&str, bool)> = params.iter().map(|p| (p.name.as_str(), p.is_buffer)).collect();
    let expected = [
        ("bn.weight", false),
        ("bn.bias", false),
        ("bn.running_mean", true),
        ("bn.running_var", true),
    ];
    assert_eq!(names, expected);
    let mut rule = UpdateRule::new(OptimizerConfig::adamw(0.1));
    rule.ema = Some(0.9);
    let states = optimizer::update(cx, (y * y * y).sum(), &rule).states;
    assert_eq!(states.len(), 2 * 3, "{states:?}");
    assert!(states.iter().all(|state| !state.name.contains("running")), "{states:?}");
}

/// The states that a graph of batch normalization assigns.
fn assigned(training: bool, how: BatchNorm) -> usize {
    let trace = Trace::new();
    let cx = Cx::new(*trace, training);
    let x = cx.input("x", DType::F32, &[4, 3]);
    trace.output("y", layers::batch_norm(cx, "bn", x, how));
    trace.finish().assigns.len()
}

#[test]
fn only_training_moves_running_statistics_unless_they_are_frozen() {
    let frozen = BatchNorm {
        frozen: true,
        ..BatchNorm::default()
    };
    assert_eq!(assigned(true, BatchNorm::default()), 2);
    assert_eq!(assigned(false, BatchNorm::default()), 0);
    assert_eq!(assigned(true, frozen), 0);
}

/// The results of batch normalization by the range of `x`, `[4, 2, 3]`, in training, with the gradient of a loss.
fn by_range(x: &Array, spread: Spread) -> Arrays {
    let how = BatchNorm {
        spread,
        ..BatchNorm::default()
    };
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let input = cx.input("x", DType::F32, &x.ty.shape);
    let y = layers::batch_norm(cx, "bn", input, how);
    trace.output("y", y);
    let loss = (y * y * y).sum();
    trace.output("loss", loss);
    trace.output("gradient", loss.grad(&[input])[0]);
    let state = |name: &str, all: [f64; 3]| (format!("bn.{name}"), Array::f32(&[3], all.to_vec()));
    let mut given = Arrays::from([
        state("weight", [1.0, 0.5, 2.0]),
        state("bias", [0.1, 0.2, 0.3]),
        state("running_mean", [0.0; 3]),
        state("running_var", [1.0; 3]),
    ]);
    given.insert("x".to_string(), x.clone());
    evaluate_exactly(&trace.finish(), &given).unwrap()
}

#[test]
fn batch_norm_by_range_divides_by_the_range_over_the_root_of_twice_the_logarithm() {
    let x = Array::from_fn(Type::f32(&[4, 2, 3]), |i| {
        ((i[0] * 7 + i[1] * 5 + i[2] * 11) % 13) as f64 / 3.0 + 0.01 * i[0] as f64
    });
    let found = by_range(&x, Spread::Range);
    for channel in 0..3 {
        let column: Vec<f64> = x.data.iter().skip(channel).step_by(3).copied().collect();
        let mean = column.iter().sum::<f64>() / 8.0;
        let range = column.iter().copied().fold(f64::MIN, f64::max) - column.iter().copied().fold(f64::MAX, f64::min);
        let spread = range / (2.0 * 8f64.ln()).sqrt();
        let (weight, bias) = ([1.0, 0.5, 2.0][channel], [0.1, 0.2, 0.3][channel]);
        for (row, x) in column.iter().enumerate() {
            let y = (x - mean) / (spread * spread + 1e-5).sqrt() * weight + bias;
            let own = found["y"].data[3 * row + channel];
            assert!((own - y).abs() < 1e-6, "channel {channel}: {own} and {y}");
        }
        let moved = [
            found["bn.running_mean"].data[channel],
            found["bn.running_var"].data[channel],
        ];
        let expected = [0.1 * mean, 0.9 + 0.1 * spread * spread];
        assert!(
            (moved[0] - expected[0]).abs() < 1e-6 && (moved[1] - expected[1]).abs() < 1e-6,
            "{moved:?}"
        );
    }
    for place in 0..x.data.len() {
        let loss = |step: f64| {
            let mut x = x.clone();
            x.data[place] += step;
            by_range(&x, Spread::Range)["loss"].item()
        };
        let difference = (loss(1e-5) - loss(-1e-5)) / 2e-5;
        let derivative = found["gradient"].data[place];
        assert!(
            (difference - derivative).abs() < 1e-5 * (1.0 + derivative.abs()),
            "number {place}: the derivative is {derivative}, the difference {difference}"
        );
    }
}

#[test]
fn batch_norm_by_range_of_8_bits_is_that_of_rounded_inputs_with_their_derivative() {
    let x = Array::from_fn(Type::f32(&[4, 2, 3]), |i| {
        ((i[0] * 7 + i[1] * 5 + i[2] * 11) % 13) as f64 / 3.0 - i[0] as f64
    });
    let mut rounded = x.clone();
    for image in rounded.data.chunks_mut(6) {
        let scale = image.iter().fold(0.0, |most, x| f64::max(most, x.abs())) / 127.0;
        image
            .iter_mut()
            .for_each(|x| *x = (*x / scale).round_ties_even() * scale);
    }
    assert_ne!(rounded.data, x.data);
    let [found, expected] = [by_range(&x, Spread::Range8), by_range(&rounded, Spread::Range)];
    for name in ["y", "gradient", "bn.running_mean", "bn.running_var"] {
        assert_close(name, &found[name], &expected[name], 1e-9);
    }
}

#[test]
fn group_norm_with_a_group_for_each_channel_is_instance_norm() {
    let x = Array::from_fn(Type::f32(&[2, 3, 2, 3]), |i| {
        (i[0] * 7 + i[1] * 5 + i[2] * i[3] * 3) as f64 % 11.0
    });
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let input = cx.input("x", DType::F32, &x.ty.shape);
    trace.output("group", layers::group_norm(cx, "gn", input, 3, 1e-5));
    trace.output("instance", layers::instance_norm(input, 1e-5));
    let given = Arrays::from([
        ("x".to_string(), x),
        ("gn.weight".to_string(), Array::f32(&[3], vec![1.0; 3])),
        ("gn.bias".to_string(), Array::f32(&[3], vec![0.0; 3])),
    ]);
    let found = evaluate_exactly(&trace.finish(), &given).unwrap();
    assert_close("group norm", &found["group"], &found["instance"], 1e-12);
}

#[test]
fn mistakes_are_sentences() {
    let mistakes: [(Layer, &str); 4] = [
        (
            |cx, x| layers::patch_embedding(cx, "p", x, 4, [2, 2], Init::Zeros),
            "images f32[1,1,1,3] do not divide into patches of 2 x 2",
        ),
        (
            |_, x| layers::channel_shuffle(x, 2),
            "3 channels do not divide into 2 groups",
        ),
        (
            |cx, x| layers::group_norm(cx, "gn", x, 2, 1e-5),
            "3 channels do not divide into 2 groups",
        ),
        (
            |cx, x| layers::batch_norm(cx, "bn", x, BatchNorm::default()),
            "batch normalization of f32[1,1,1,3] has a single element of each channel",
        ),
    ];
    for (mistake, sentence) in mistakes {
        let trace = Trace::new();
        let cx = Cx::new(*trace, true);
        let x = cx.input("x", DType::F32, &[1, 1, 1, 3]);
        let error = trace.attempt(|| mistake(cx, x)).unwrap_err().to_string();
        assert!(error.ends_with(sentence), "{error}");
        assert!(error.contains("layers.rs"), "{error} names the line");
    }
}

#[test]
fn a_square_kernel_keeps_the_size_of_an_image() {
    let square = Convolution::square(8, 5, 1);
    let padding = [2; 4];
    assert_eq!(
        square.options,
        Conv2dOptions {
            padding,
            ..Conv2dOptions::default()
        }
    );
    let Init::Normal { std } = square.init else {
        panic!("{:?}", square.init)
    };
    assert_eq!(std, (2.0f64 / 200.0).sqrt());
}

/// The sentence of a mistake in a model function.
fn mistake(wrong: impl Fn(Cx)) -> String {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    trace.attempt(|| wrong(cx)).unwrap_err().to_string()
}

#[test]
fn settings_and_shapes_that_no_layer_takes_are_mistakes() {
    let input = |cx: Cx, shape: &[usize]| cx.input("x", DType::F32, shape).id();
    for (eps, momentum) in [
        (f64::NAN, 0.1),
        (-1.0, 0.1),
        (1e-5, f64::NAN),
        (1e-5, 1.5),
        (1e-5, -0.1),
    ] {
        let how = BatchNorm {
            eps,
            momentum,
            ..BatchNorm::default()
        };
        let sentence = mistake(|cx| {
            let x = cx.trace().tensor(input(cx, &[4, 2]));
            layers::batch_norm(cx, "n", x, how);
        });
        assert!(sentence.contains("batch normalization with eps = "), "{sentence}");
    }
    let sentence = mistake(|cx| {
        let x = cx.trace().tensor(input(cx, &[4]));
        layers::group_norm(cx, "n", x, 2, 1e-5);
    });
    assert!(sentence.contains("no batch of images"), "{sentence}");
    let sentence = mistake(|cx| {
        let x = cx.trace().tensor(input(cx, &[1, 4, 4, 3]));
        layers::conv2d(cx, "c", x, Convolution::square(0, 0, 1));
    });
    assert!(
        sentence.contains("the parameter `c.weight`: initial values"),
        "{sentence}"
    );
    for (shape, heads) in [(&[4, 2][..], 2), (&[1, 4, 2], 0)] {
        let sentence = mistake(|cx| {
            layers::split_heads(cx.trace().tensor(input(cx, shape)), heads);
        });
        assert!(sentence.contains("does not divide into"), "{sentence}");
    }
    let sentence = mistake(|cx| {
        layers::merge_heads(cx.trace().tensor(input(cx, &[4, 2])));
    });
    assert!(sentence.contains("has no heads"), "{sentence}");
}
