//! What fine-tuning changes of a step: frozen parameters, rates by layer, averages.

use crate::support::Arrays;
use lessen_graph::{Array, DType, Graph, Tensor, Trace, evaluate_exactly, verify};
use lessen_nn::layers::linear;
use lessen_nn::names::is_of_optimizer;
use lessen_nn::{Cx, Init, OptimizerConfig, ParamSpec, UpdateRule, optimizer};
use std::collections::BTreeSet;

const ROWS: usize = 3;

/// A linear layer of a kind.
pub type Layer = fn(Cx, &str, Tensor, usize, Init) -> Tensor;

/// A network with an embedding-like layer, two blocks and a head.
fn outputs(cx: Cx) -> Tensor {
    outputs_of(cx, linear)
}

/// The network of [`outputs`], with the layer `second` in the second block.
pub fn outputs_of(cx: Cx, second: Layer) -> Tensor {
    let weight = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let x = linear(cx, "embeddings.dense", x, 4, weight);
    let x = linear(cx, "layer.0.query", x, 4, weight).tanh();
    let x = second(cx, "layer.1.out", x, 4, weight).tanh();
    linear(cx, "head", x, 2, weight)
}

fn loss(cx: Cx) -> Tensor {
    let y = outputs(cx);
    (y * y).mean()
}

pub fn sgd() -> UpdateRule {
    UpdateRule::new(OptimizerConfig::Sgd {
        momentum: 0.0,
        nesterov: false,
        weight_decay: 0.0,
    })
}

/// Values for all inputs of a graph: small numbers that follow from the name, and zeros for averages and moments.
pub fn values(graph: &Graph) -> Arrays {
    let inputs = graph.inputs.iter().map(|input| {
        let ty = graph.ty(input.value).clone();
        let is_zero = is_of_optimizer(&input.name);
        let sum: usize = input.name.bytes().map(usize::from).sum();
        let number = |i: usize| match (is_zero, input.name.as_str()) {
            (true, _) => 0.0,
            (_, "@t") => 1.0,
            (_, "@lr") => 0.5,
            _ => ((sum * 7 + i * 13) % 23) as f64 / 23.0 - 0.4,
        };
        (
            input.name.clone(),
            Array::new(ty.clone(), (0..ty.numel()).map(number).collect()),
        )
    });
    inputs.collect()
}

/// A step by a rule: its graph, its parameters and the names of its states.
pub fn step(rule: &UpdateRule) -> (Graph, Vec<ParamSpec>, Vec<String>) {
    let trace = Trace::new();
    let cx = Cx::new(*trace, true).with_lora(rule.lora.as_ref());
    let value = loss(cx);
    let states = optimizer::update(cx, value, rule).states;
    let params = cx.params();
    let graph = trace.finish();
    verify(&graph).unwrap();
    (graph, params, states.into_iter().map(|state| state.name).collect())
}

/// How far a step moves each parameter: the largest change of an element.
fn moved(rule: &UpdateRule) -> Vec<(String, f64)> {
    let (graph, params, _) = step(rule);
    let before = values(&graph);
    let after = evaluate_exactly(&graph, &before).unwrap();
    let change = |name: &str| {
        let Some(after) = after.get(name) else { return 0.0 };
        let pairs = after.data.iter().zip(&before[name].data);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    params
        .iter()
        .map(|param| (param.name.clone(), change(&param.name)))
        .collect()
}

#[test]
fn frozen_parameters_have_neither_gradients_nor_states() {
    let rule = UpdateRule {
        frozen: "embeddings.*,layer.0.*".parse().unwrap(),
        ema: Some(0.9),
        ..UpdateRule::new(OptimizerConfig::adamw(0.0))
    };
    for (name, change) in moved(&rule) {
        let is_frozen = name.starts_with("embeddings.") || name.starts_with("layer.0.");
        assert_eq!(change == 0.0, is_frozen, "{name} moved by {change}");
    }
    let (graph, _, states) = step(&rule);
    assert_eq!(states.len(), 3 * 4, "{states:?}");
    assert!(
        !states
            .iter()
            .any(|state| state.contains("embeddings") || state.contains("layer.0"))
    );
    let all = step(&UpdateRule {
        frozen: Default::default(),
        ..rule
    });
    assert!(graph.nodes.len() < all.0.nodes.len());
}

#[test]
fn the_rate_decays_with_the_distance_from_the_head() {
    let (plain, decayed) = (
        moved(&sgd()),
        moved(&UpdateRule {
            layer_decay: Some(0.5),
            ..sgd()
        }),
    );
    for ((name, whole), (_, part)) in plain.iter().zip(&decayed) {
        let factor = match name.split('.').next_back().map(|_| &name[..6]) {
            Some("embedd") => 0.125,
            Some("layer.") if name.starts_with("layer.0") => 0.25,
            Some("layer.") => 0.5,
            _ => 1.0,
        };
        assert!(
            *whole > 1e-6 && (part - factor * whole).abs() < 1e-12,
            "{name}: {part} of {whole}"
        );
    }
}

#[test]
fn weight_decay_leaves_out_what_is_named() {
    let decayed = |no_decay: &str| {
        moved(&UpdateRule {
            no_decay: no_decay.parse().unwrap(),
            ..UpdateRule::new(OptimizerConfig::adamw(0.5))
        })
    };
    let (all, but_head) = (decayed(""), decayed("head.*"));
    for ((name, a), (_, b)) in all.iter().zip(&but_head) {
        assert_eq!(a != b, name == "head.weight", "{name}");
    }
}

#[test]
fn the_average_weighs_parameters_by_the_steps_since() {
    let decay: f64 = 0.8;
    let rule = UpdateRule {
        ema: Some(decay),
        ..sgd()
    };
    let (graph, _, _) = step(&rule);
    let mut state = values(&graph);
    let (mut sum, mut weight) = (vec![0.0; 12], 0.0);
    for t in 1..=4 {
        state.insert("@t".into(), Array::scalar(f64::from(t)));
        state.extend(evaluate_exactly(&graph, &state).unwrap());
        for (sum, p) in sum.iter_mut().zip(&state["head.weight"].data) {
            *sum = decay * *sum + p;
        }
        weight = decay * weight + 1.0;
        for (sum, mean) in sum.iter().zip(&state["@ema.head.weight"].data) {
            assert!((sum / weight - mean).abs() < 1e-9, "after step {t}");
        }
    }
    // A context over the averages computes with them.
    let trace = Trace::new();
    let names = BTreeSet::from(["head.weight".to_string()]);
    let cx = Cx::new(*trace, false).with_averages(&names);
    let y = outputs(cx);
    trace.output("y", y);
    assert!(cx.params().iter().any(|param| param.name == "head.weight"));
    let averaged = trace.finish();
    let read: Vec<&str> = averaged.inputs.iter().map(|input| input.name.as_str()).collect();
    assert!(read.contains(&"@ema.head.weight") && read.contains(&"head.bias") && !read.contains(&"head.weight"));
}
