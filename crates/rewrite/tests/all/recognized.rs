//! GELU and attention of primitive operations: patterns that are recognized, with equal results, and near misses.

use std::collections::HashMap;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use std::sync::Arc;

use lessen_base::SplitMix64;
use lessen_graph::ops::{Attention, Gelu};
use lessen_graph::{Array, DType, Graph, Tensor, Trace, Type, evaluate_exactly};
use lessen_rewrite::recognize;

/// Graph and recognized graph of a function of inputs, whose results are compared; `constants` are the elements of
/// states.
fn recognized(graph: &Graph, constants: &HashMap<String, Arc<Array>>) -> Graph {
    let new = recognize(graph, constants);
    lessen_graph::verify(&new).unwrap();
    let mut random = SplitMix64::new(7);
    let values: HashMap<String, Array> = graph
        .inputs
        .iter()
        .map(|input| {
            let ty = graph.ty(input.value).clone();
            let array = match constants.get(&input.name) {
                Some(array) => array.as_ref().clone(),
                None => {
                    let data = (0..ty.numel()).map(|_| random.below(6000) as f64 / 1000.0 - 3.0);
                    let data = data.collect();
                    Array::new(ty, data)
                }
            };
            (input.name.clone(), array)
        })
        .collect();
    let [expected, found] = [graph, &new].map(|graph| evaluate_exactly(graph, &values).unwrap());
    for (name, expected) in &expected {
        assert_eq!(expected.ty, found[name].ty, "{name}");
        for (a, b) in expected.data.iter().zip(&found[name].data) {
            assert!((a - b).abs() < 1e-6, "{name}: {a} and {b}");
        }
    }
    new
}

/// A function of a value.
type Way = fn(Tensor) -> Tensor;

fn written(way: Way) -> Graph {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[3, 5]);
    trace.output("y", way(x));
    trace.finish()
}

/// For each GELU of a graph whether it is computed with tanh.
fn gelus(graph: &Graph) -> Vec<bool> {
    let gelus = graph.nodes.iter().filter_map(|node| node.op.downcast_ref::<Gelu>());
    gelus.map(|gelu| gelu.tanh).collect()
}

fn power(x: Tensor, exponent: f64) -> Tensor {
    x.pow(x.scalar_like(exponent))
}

fn bent(x: Tensor) -> Tensor {
    ((x + power(x, 3.0) * 0.044715) * FRAC_2_PI.sqrt()).tanh()
}

#[test]
fn gelus_of_primitive_operations_are_recognized() {
    let ways: [(Way, bool); 8] = [
        (|x| x * ((x / 2f64.sqrt()).erf() + 1.0) * 0.5, false),
        (|x| x * (((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5), false),
        (|x| x * 0.5 * (1.0 + (x / 2f64.sqrt()).erf()), false),
        // Numbers as exporters write them, in f32.
        (
            |x| ((x / f64::from(std::f32::consts::SQRT_2)).erf() + 1.0) * x * 0.5,
            false,
        ),
        (|x| x * 0.5 * (bent(x) + 1.0), true),
        (|x| (bent(x) + 1.0) * x / 2.0, true),
        (
            |x| {
                let inner = x * f64::from(0.797_884_6_f32) * (x * x * f64::from(0.044_715_f32) + 1.0);
                x * 0.5 * (inner.tanh() + 1.0)
            },
            true,
        ),
        // GELU of a value that itself is a multiple of another value.
        (
            |x| {
                let twice = x * 2.0;
                twice * ((twice * FRAC_1_SQRT_2).erf() + 1.0) * 0.5
            },
            false,
        ),
    ];
    for (i, (way, tanh)) in ways.into_iter().enumerate() {
        let new = recognized(&written(way), &HashMap::new());
        assert_eq!(gelus(&new), [tanh], "way {i}");
    }
    let longer = recognized(&written(ways[7].0), &HashMap::new());
    assert!(longer.nodes.len() <= 4, "{}", longer.nodes.len());
}

#[test]
fn what_is_no_gelu_is_left() {
    let ways: [Way; 6] = [
        |x| x * ((x / 2.0).erf() + 1.0) * 0.5,
        |x| x * ((x / 2f64.sqrt()).erf() + 1.0),
        |x| x * ((x / 2f64.sqrt()).erf() + 0.9) * 0.5,
        |x| (x + 1.0) * ((x / 2f64.sqrt()).erf() + 1.0) * 0.5,
        |x| x * 0.5 * (((x + power(x, 3.0) * 0.05) * FRAC_2_PI.sqrt()).tanh() + 1.0),
        |x| x.exp() * ((x / 2f64.sqrt()).erf() + 1.0) * 0.5,
    ];
    for (i, way) in ways.into_iter().enumerate() {
        assert!(gelus(&recognized(&written(way), &HashMap::new())).is_empty(), "way {i}");
    }
}

/// Attention over `[batch, heads, length, width]` whose scores go through `scored`, with a state `mask`.
fn attention(mask: &[usize], scored: fn(Tensor, Tensor, Tensor) -> Tensor) -> Graph {
    let trace = Trace::new();
    let [q, k, v] = ["q", "k", "v"].map(|name| trace.input(name, DType::F32, &[2, 3, 4, 6]));
    let mask = trace.state("mask", DType::F32, mask);
    let scores = scored(q, k, mask);
    trace.output("y", scores.softmax().matmul(v));
    trace.finish()
}

fn attentions(graph: &Graph) -> Vec<(bool, f64)> {
    let found = graph
        .nodes
        .iter()
        .filter_map(|node| node.op.downcast_ref::<Attention>());
    found.map(|attention| (attention.causal, attention.scale)).collect()
}

/// A causal mask for each of `batch` sequences, the last one with an element of its own.
fn masks(batch: usize, own: f64) -> HashMap<String, Arc<Array>> {
    let ty = Type::f32(&[batch, 1, 4, 4]);
    let mask = Array::from_fn(ty, |at| match at {
        [_, _, query, key] if key > query => f64::from(f32::MIN),
        [b, _, 3, 0] if b + 1 == batch => own,
        _ => 0.0,
    });
    HashMap::from([("mask".to_string(), Arc::new(mask))])
}

#[test]
fn scales_of_queries_and_keys_are_those_of_attention() {
    let graph = attention(&[2, 1, 4, 4], |q, k, mask| {
        (q * 0.5).matmul(k.transpose(-1, -2) * 0.25) + mask.broadcast_to(&[2, 3, 4, 4])
    });
    let new = recognized(&graph, &masks(2, 0.0));
    assert_eq!(attentions(&new), [(true, 0.125)]);
    assert!(
        new.inputs.iter().all(|input| input.name != "mask"),
        "a mask that nothing reads stays"
    );
}

#[test]
fn masks_that_differ_between_sequences_are_left() {
    let graph = attention(&[2, 1, 4, 4], |q, k, mask| {
        q.matmul_t(k) + mask.broadcast_to(&[2, 3, 4, 4])
    });
    assert_eq!(attentions(&recognized(&graph, &masks(2, 0.0))), [(true, 1.0)]);
    assert!(attentions(&recognized(&graph, &masks(2, -1.0))).is_empty());
    assert!(attentions(&recognized(&graph, &masks(2, f64::from(f32::MIN)))).is_empty());
}
