//! 24 steps of each optimizer against the steps recorded from PyTorch, in `f64`.

use std::collections::BTreeSet;

use crate::support::{Arrays, assert_close, expected, part};
use lessen_graph::{Array, DType, Tensor, Trace, evaluate_exactly, verify};
use lessen_nn::{Cx, Init, OptimizerConfig, UpdateRule, optimizer};

/// Recorded values are rounded to `f32`; both sides compute in `f64`.
const TOLERANCE: f64 = 1e-6;

const STEPS: usize = 24;
const DECAY: f64 = 0.1;

/// The cases of `make_optimizers.py`: name, model, learning rate, optimizer.
fn cases() -> Vec<(&'static str, &'static str, f64, OptimizerConfig)> {
    let sgd = |momentum, nesterov| OptimizerConfig::Sgd {
        momentum,
        nesterov,
        weight_decay: DECAY,
    };
    let decaying = OptimizerConfig::Adagrad {
        lr_decay: 0.5,
        initial_accumulator: 0.1,
        eps: 1e-10,
        weight_decay: DECAY,
    };
    let with_momentum = OptimizerConfig::RmsProp {
        alpha: 0.99,
        eps: 1e-8,
        momentum: 0.9,
        weight_decay: DECAY,
    };
    let fast = OptimizerConfig::Adafactor {
        beta2_decay: -0.5,
        eps: f32::EPSILON.into(),
        least_scale: 1e-3,
        clip_threshold: 1.1,
        weight_decay: DECAY,
    };
    vec![
        ("plain-sgd", "small", 0.1, sgd(0.0, false)),
        ("sgd", "small", 0.1, sgd(0.9, false)),
        ("nesterov", "small", 0.1, sgd(0.9, true)),
        ("adamw", "small", 0.01, OptimizerConfig::adamw(DECAY)),
        ("adamw-8bit", "wide", 0.003, OptimizerConfig::adamw_8bit(DECAY)),
        ("adam", "small", 0.01, OptimizerConfig::adam(DECAY)),
        ("adagrad", "small", 0.1, OptimizerConfig::adagrad(DECAY)),
        ("adagrad-decay", "small", 0.1, decaying),
        ("adadelta", "small", 1.0, OptimizerConfig::adadelta(DECAY)),
        ("rmsprop", "small", 0.01, OptimizerConfig::rmsprop(DECAY)),
        ("rmsprop-momentum", "small", 0.01, with_momentum),
        ("lion", "small", 0.003, OptimizerConfig::lion(DECAY)),
        ("adafactor", "small", 0.01, OptimizerConfig::adafactor(DECAY)),
        ("adafactor-fast", "small", 0.55, fast),
    ]
}

/// The loss of the model that has these parameters.
fn loss(cx: Cx, start: &Arrays) -> Tensor {
    let x = cx.input("x", DType::F32, &[6, 4]);
    let labels = cx.input("labels", DType::I32, &[6]);
    let param = |name: &str| Some(cx.param(name, &start.get(name)?.ty.shape, Init::Zeros));
    let given = |name| param(name).unwrap();
    let mut h = (x.matmul(given("w1")) + given("b1")).tanh();
    if let Some(c) = param("c") {
        h = h.matmul(c).tanh().mean_axes(&[0]);
    }
    (h.matmul(given("w2")) + given("b2")).cross_entropy(labels)
}

#[test]
fn optimizers_take_the_steps_of_pytorch() {
    let recorded = expected("optimizers");
    let under = |prefix: &str| -> Arrays {
        let own = recorded.iter().filter_map(|(key, array)| {
            let name = key.strip_prefix(prefix)?.strip_prefix('/')?;
            Some((name.to_string(), array.clone()))
        });
        own.collect()
    };
    let mut compared = BTreeSet::from(["small", "wide"]);
    for (case, model, lr, config) in cases() {
        let start = under(model);
        let trace = Trace::new();
        let cx = Cx::new(*trace, true);
        let value = loss(cx, &start);
        trace.output("loss", value);
        let states = optimizer::update(cx, value, &UpdateRule::new(config)).states;
        let graph = trace.finish();
        verify(&graph).unwrap();
        let has_codes = states.iter().any(|state| state.dtype == DType::U8);
        assert_eq!(has_codes, case == "adamw-8bit", "{case}");

        let mut given = start;
        given.extend(states.into_iter().map(|s| (s.name.clone(), Array::full(s.ty(), 0.0))));
        let mut losses = Vec::new();
        for step in 0..STEPS {
            given.insert("x".into(), part(&recorded["x"], step, DType::F32));
            given.insert("labels".into(), part(&recorded["labels"], step, DType::I32));
            given.insert("@lr".into(), Array::scalar(lr));
            given.insert("@t".into(), Array::scalar((step + 1) as f64));
            given.retain(|name, _| graph.inputs.iter().any(|input| input.name == *name));
            let mut after = evaluate_exactly(&graph, &given).unwrap();
            losses.push(after.remove("loss").unwrap().item());
            given.extend(after);
        }
        given.insert("losses".into(), Array::f32(&[STEPS], losses));
        for (name, array) in under(case) {
            assert_close(&format!("{case}/{name}"), &given[&name], &array, TOLERANCE);
        }
        compared.insert(case);
    }
    let prefixes = recorded.keys().filter_map(|key| Some(key.split_once('/')?.0));
    assert_eq!(
        prefixes.collect::<BTreeSet<_>>(),
        compared,
        "each recorded case is compared"
    );
}
