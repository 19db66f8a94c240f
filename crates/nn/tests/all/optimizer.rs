//! Updates: weight decay of matrices only, clipping, momentum, and gradient accumulation.

use std::collections::BTreeSet;

use crate::support::{Arrays, assert_close};
use lessen_graph::{Array, DType, Trace, Type, evaluate_exactly, verify};
use lessen_nn::optimizer::{self, Ending};
use lessen_nn::{Cx, Init, OptimizerConfig, StateSpec, UpdateRule};

/// Mean cross entropy of `x W + b` with `x` of `[rows, 3]` and two classes.
fn loss(cx: Cx, rows: usize) -> lessen_graph::Tensor {
    let x = cx.input("x", DType::F32, &[rows, 3]);
    let labels = cx.input("labels", DType::I32, &[rows]);
    let y = x.matmul(cx.param("w", &[3, 2], Init::Zeros)) + cx.param("b", &[2], Init::Zeros);
    y.cross_entropy(labels)
}

const X: [f64; 12] = [0.5, -1.0, 2.0, 1.5, 0.3, -0.7, -2.0, 0.1, 0.9, 0.4, 0.4, -1.1];
const LABELS: [i32; 4] = [0, 1, 1, -100];

fn batch(rows: std::ops::Range<usize>) -> Arrays {
    let x = X[3 * rows.start..3 * rows.end].to_vec();
    let labels = Array::i32(&[rows.len()], &LABELS[rows.clone()]);
    Arrays::from([("x".into(), Array::f32(&[rows.len(), 3], x)), ("labels".into(), labels)])
}

fn start(states: &[StateSpec]) -> Arrays {
    let w = Array::f32(&[3, 2], vec![0.3, -0.2, 0.8, 0.1, -0.5, 0.4]);
    let mut start = Arrays::from([("w".into(), w), ("b".into(), Array::f32(&[2], vec![0.2, -0.1]))]);
    start.extend(
        states
            .iter()
            .map(|s| (s.name.clone(), Array::full(Type::f32(&s.shape), 0.0))),
    );
    start
}

fn with(state: &Arrays, data: Arrays, scalars: &[(&str, f64)]) -> Arrays {
    let mut all = state.clone();
    all.extend(data);
    all.extend(
        scalars
            .iter()
            .map(|(name, value)| (name.to_string(), Array::scalar(*value))),
    );
    all
}

/// One step on all rows: the new state and, with clipping, the norm.
fn step(config: &OptimizerConfig, clip_norm: Option<f64>) -> Arrays {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let rule = UpdateRule {
        clip_norm,
        ..UpdateRule::new(*config)
    };
    let update = optimizer::update(cx, loss(cx, 4), &rule);
    if let Some(norm) = update.gradient_norm {
        trace.output("norm", norm);
    }
    let states = update.states;
    let graph = trace.finish();
    verify(&graph).unwrap();
    let scalars = [("@lr", 0.1), ("@t", 1.0)];
    let mut given = with(&start(&states), batch(0..4), &scalars);
    given.retain(|name, _| graph.inputs.iter().any(|i| i.name == *name));
    evaluate_exactly(&graph, &given).unwrap()
}

/// The gradients of a step, recovered from the change of the parameters.
fn gradients(clip_norm: Option<f64>) -> (Vec<f64>, Arrays) {
    let plain = OptimizerConfig::Sgd {
        momentum: 0.0,
        nesterov: false,
        weight_decay: 0.0,
    };
    let (before, after) = (start(&[]), step(&plain, clip_norm));
    let change = |name: &str| {
        let pairs = before[name].data.iter().zip(&after[name].data);
        pairs.map(|(b, a)| (b - a) / 0.1).collect::<Vec<f64>>()
    };
    ([change("w"), change("b")].concat(), after)
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn clipping_scales_all_gradients_to_the_norm() {
    let (plain, _) = gradients(None);
    let whole = norm(&plain);
    assert!(whole > 0.1);
    let (clipped, after) = gradients(Some(whole / 4.0));
    assert!(
        (after["norm"].item() - whole).abs() < 1e-9,
        "the norm is that before clipping"
    );
    for (c, p) in clipped.iter().zip(&plain) {
        assert!((4.0 * c - p).abs() < 1e-4 * whole, "{clipped:?} and {plain:?}");
    }
    let (loose, _) = gradients(Some(4.0 * whole));
    assert!(norm(&loose.iter().zip(&plain).map(|(a, b)| a - b).collect::<Vec<_>>()) < 1e-9);
}

#[test]
fn only_matrices_decay() {
    let optimizers = |weight_decay| {
        [
            OptimizerConfig::adamw(weight_decay),
            OptimizerConfig::Sgd {
                momentum: 0.9,
                nesterov: true,
                weight_decay,
            },
            OptimizerConfig::Sgd {
                momentum: 0.0,
                nesterov: false,
                weight_decay,
            },
            OptimizerConfig::adamw_8bit(weight_decay),
            OptimizerConfig::adam(weight_decay),
            OptimizerConfig::adagrad(weight_decay),
            OptimizerConfig::adadelta(weight_decay),
            OptimizerConfig::rmsprop(weight_decay),
            OptimizerConfig::lion(weight_decay),
            OptimizerConfig::adafactor(weight_decay),
        ]
    };
    for (without, with) in optimizers(0.0).iter().zip(&optimizers(0.5)) {
        let (without, with) = (step(without, None), step(with, None));
        assert_eq!(without["b"], with["b"]);
        assert_ne!(without["w"], with["w"]);
    }
    // AdamW's decay is decoupled: p (1 - lr decay) before the step.
    let (without, with) = (
        step(&OptimizerConfig::adamw(0.0), None),
        step(&OptimizerConfig::adamw(0.5), None),
    );
    for ((a, b), p) in without["w"].data.iter().zip(&with["w"].data).zip(&start(&[])["w"].data) {
        assert!((a - b - 0.1 * 0.5 * p).abs() < 1e-12);
    }
}

#[test]
fn states_are_those_that_the_optimizer_needs() {
    let sgd = |momentum| OptimizerConfig::Sgd {
        momentum,
        nesterov: false,
        weight_decay: 0.1,
    };
    let rmsprop = |momentum| OptimizerConfig::RmsProp {
        alpha: 0.9,
        eps: 1e-8,
        momentum,
        weight_decay: 0.1,
    };
    for (config, states) in [
        (sgd(0.0), &[][..]),
        (sgd(0.9), &["momentum.b", "momentum.w"]),
        (OptimizerConfig::adamw(0.0), &["m.b", "m.w", "v.b", "v.w"]),
        (OptimizerConfig::adamw_8bit(0.0), &["m.b", "m.w", "v.b", "v.w"]),
        (OptimizerConfig::adam(0.0), &["m.b", "m.w", "v.b", "v.w"]),
        (OptimizerConfig::adagrad(0.0), &["sum.b", "sum.w"]),
        (
            OptimizerConfig::adadelta(0.0),
            &["mean_gradient.b", "mean_gradient.w", "mean_step.b", "mean_step.w"],
        ),
        (rmsprop(0.0), &["mean_square.b", "mean_square.w"]),
        (
            rmsprop(0.5),
            &["mean_square.b", "mean_square.w", "velocity.b", "velocity.w"],
        ),
        (OptimizerConfig::lion(0.0), &["mean.b", "mean.w"]),
        (OptimizerConfig::adafactor(0.0), &["column.w", "row.w", "variance.b"]),
    ] {
        let found: BTreeSet<String> = step(&config, None).into_keys().collect();
        let states = states.iter().map(|state| format!("@optimizer.{state}"));
        let wanted = states.chain(["b", "w"].map(String::from)).collect();
        assert_eq!(found, wanted, "{config:?}");
    }
}

#[test]
fn states_of_large_parameters_are_small() {
    let bytes = |config: OptimizerConfig, shape: &[usize]| -> usize {
        let types = config.states(shape).into_iter().map(|(_, ty)| ty.bytes());
        types.sum()
    };
    let matrix = [64, 128];
    assert_eq!(bytes(OptimizerConfig::adamw(0.0), &matrix), 8 * 8192);
    assert_eq!(bytes(OptimizerConfig::adamw_8bit(0.0), &matrix), 2 * (8192 + 4 * 32));
    assert_eq!(bytes(OptimizerConfig::adafactor(0.0), &matrix), 4 * (64 + 128));
    // Of a stack of matrices each is factored; a vector is not.
    assert_eq!(
        bytes(OptimizerConfig::adafactor(0.0), &[3, 64, 128]),
        3 * 4 * (64 + 128)
    );
    assert_eq!(bytes(OptimizerConfig::adafactor(0.0), &[8192]), 4 * 8192);
    // Blocks of small parameters would save little.
    assert_eq!(bytes(OptimizerConfig::adamw_8bit(0.0), &[63, 65]), 8 * 4095);
    assert_eq!(bytes(OptimizerConfig::adamw_8bit(0.0), &[4097]), 2 * (4097 + 4 * 17));
}

#[test]
fn accumulated_batches_equal_one_large_batch() {
    let config = OptimizerConfig::adamw(0.01);
    let clip = Some(0.05);
    let expected = step(&config, clip);

    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let rule = UpdateRule {
        clip_norm: clip,
        ..UpdateRule::new(config)
    };
    let sums = optimizer::accumulate(cx, loss(cx, 2), &rule);
    let params = cx.params();
    let accumulate = trace.finish();
    verify(&accumulate).unwrap();
    let trace = Trace::new();
    let cx = Cx::new(*trace, true);
    let ending = Ending {
        sums: true,
        added: Vec::new(),
        waits: false,
    };
    let update = optimizer::apply(cx, &params, &rule, &ending);
    trace.output("norm", update.gradient_norm.unwrap());
    let states = update.states;
    let apply = trace.finish();
    verify(&apply).unwrap();

    let mut state = start(&[&sums[..], &states].concat());
    let only = |graph: &lessen_graph::Graph, mut given: Arrays| {
        given.retain(|name, _| graph.inputs.iter().any(|i| i.name == *name));
        evaluate_exactly(graph, &given).unwrap()
    };
    // Two labels in the first half, one in the second: their shares in the mean over three.
    for (rows, share) in [(0..2, 2.0 / 3.0), (2..4, 1.0 / 3.0)] {
        state.extend(only(&accumulate, with(&state, batch(rows), &[("@share", share)])));
    }
    let results = only(&apply, with(&state, Arrays::new(), &[("@lr", 0.1), ("@t", 1.0)]));
    for (name, value) in &expected {
        assert_close(name, &results[name], value, 1e-12);
    }
    for sum in &sums {
        assert!(
            results[&sum.name].data.iter().all(|&g| g == 0.0),
            "{} begins anew",
            sum.name
        );
    }
}
