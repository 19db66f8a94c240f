//! Graphs of few rows: several threads work on them, and change no bit.

use std::collections::HashMap;

use lessen_graph::ops::{AttentionOptions, attention};
use lessen_graph::{Array, DType, Graph, Phase, Trace, Type, evaluate};

use crate::plans::runner::{Options, bits, run_once};
use crate::random::Random;

/// A block of a network on `rows` rows, forward, backward and update.
fn block(rows: usize) -> (Graph, HashMap<String, Array>) {
    let (width, hidden) = (192, 777);
    let trace = Trace::new();
    {
        let x = trace.input("x", DType::F32, &[rows, width]);
        let key = trace.input("key", DType::U32, &[2]);
        let up = trace.state("up", DType::F32, &[width, hidden]);
        let bias = trace.state("bias", DType::F32, &[hidden]);
        let down = trace.state("down", DType::F32, &[width, hidden]);
        let gamma = trace.state("gamma", DType::F32, &[width]);
        let y = (x.layer_norm(gamma, gamma, 1e-5).matmul(up) + bias).gelu();
        let y = y.dropout(0.1, key).matmul(down.transpose(0, 1));
        let loss = (y * y).mean();
        trace.output("loss", loss);
        let states = [up, bias, down, gamma];
        let gradients = loss.grad(&states);
        trace.in_phase(Phase::Update, || {
            for (state, gradient) in states.into_iter().zip(gradients) {
                trace.assign(state, state - gradient * 0.1);
            }
        });
    }
    let mut random = Random::new(rows as u64);
    let inputs = HashMap::from([
        ("x".to_string(), random.array(&[rows, width], 1.0)),
        (
            "key".to_string(),
            Array::new(Type::new(DType::U32, &[2]), vec![3.0, 4.0]),
        ),
        ("up".to_string(), random.array(&[width, hidden], 0.125)),
        ("bias".to_string(), random.array(&[hidden], 0.125)),
        ("down".to_string(), random.array(&[width, hidden], 0.125)),
        ("gamma".to_string(), random.array(&[width], 1.0)),
    ]);
    (trace.finish(), inputs)
}

fn threads_agree(what: &str, graph: &Graph, inputs: &HashMap<String, Array>) {
    let run = |threads| {
        let options = Options {
            threads,
            ..Options::default()
        };
        run_once(graph, &options, inputs).1
    };
    let one = run(1);
    for threads in [2, 3, 5] {
        assert!(bits(&one) == bits(&run(threads)), "{what} with {threads} threads");
    }
    for (name, array) in evaluate(graph, inputs).unwrap() {
        let largest = array.data.iter().fold(1e-2f64, |m, x| m.max(x.abs()));
        for (f, e) in one[&name].iter().zip(&array.data) {
            assert!(
                (f64::from(*f) - e).abs() < 1e-4 * largest,
                "{what}: `{name}`: {f}, not {e}"
            );
        }
    }
}

#[test]
fn a_block_of_few_rows_has_the_same_bits_on_any_number_of_threads() {
    for rows in [1, 2, 16, 17, 100, 128, 129] {
        let (graph, inputs) = block(rows);
        threads_agree(&format!("{rows} rows"), &graph, &inputs);
    }
}

#[test]
fn vectors_reductions_and_tables_have_the_same_bits_on_any_number_of_threads() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[100_003]);
    let y = trace.input("y", DType::F32, &[4, 30, 1000]);
    let ids = trace.input("ids", DType::I32, &[400]);
    let key = trace.input("key", DType::U32, &[2]);
    trace.output("vector", (x * x + 1.0).sqrt().dropout(0.2, key).gelu() * 2.0);
    trace.output("largest", x.max_axes(&[0]));
    trace.output("smallest", y.min_axes(&[0, 1, 2]));
    trace.output("first", y.max_axes(&[0]));
    trace.output("outer", y.sum_axes(&[0, 2]));
    trace.output("middle", y.sum_axes(&[1]));
    trace.output(
        "table",
        x.slice(0, 0, 40_000).reshape(&[400, 100]).scatter_add(ids, 333),
    );
    let mut random = Random::new(9);
    let inputs = HashMap::from([
        ("x".to_string(), random.array(&[100_003], 1.0)),
        ("y".to_string(), random.array(&[4, 30, 1000], 1.0)),
        ("ids".to_string(), random.ids(&[400], 333)),
        (
            "key".to_string(),
            Array::new(Type::new(DType::U32, &[2]), vec![3.0, 4.0]),
        ),
    ]);
    threads_agree("vectors", &trace.finish(), &inputs);
}

#[test]
fn a_long_query_of_few_heads_has_the_same_bits_on_any_number_of_threads() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[1, 300, 2, 16]);
    let options = AttentionOptions {
        causal: true,
        ..AttentionOptions::default()
    };
    trace.output("y", attention(x, x * 0.5, x, options));
    let inputs = HashMap::from([("x".to_string(), Random::new(2).array(&[1, 300, 2, 16], 1.0))]);
    threads_agree("attention", &trace.finish(), &inputs);
}

#[test]
fn a_cache_of_keys_and_values_needs_no_particular_first_values() {
    let length = 70;
    let trace = Trace::new();
    {
        let x = trace.input("x", DType::F32, &[1, 1, 2, 8]);
        let position = trace.input("position", DType::I32, &[]);
        let seen = trace.input("seen", DType::Bool, &[1, length]);
        let mut caches = ["keys", "values"].into_iter().map(|name| {
            let cache = trace.state(name, DType::F32, &[1, length, 2, 8]);
            let new = cache.update_slice(x, position, 1);
            trace.assign(cache, new);
            new
        });
        let (keys, values) = (caches.next().unwrap(), caches.next().unwrap());
        let options = AttentionOptions {
            mask: Some(seen),
            ..AttentionOptions::default()
        };
        trace.output("y", attention(x, keys, values, options));
    }
    let graph = trace.finish();
    let inputs = |after: f64| {
        let cache = Array::full(Type::f32(&[1, length, 2, 8]), after);
        HashMap::from([
            ("x".to_string(), Random::new(2).array(&[1, 1, 2, 8], 1.0)),
            ("position".to_string(), Array::i32(&[], &[3])),
            (
                "seen".to_string(),
                Array::from_fn(Type::new(DType::Bool, &[1, length]), |i| f64::from(u8::from(i[1] == 3))),
            ),
            ("keys".to_string(), cache.clone()),
            ("values".to_string(), cache),
        ])
    };
    let run = |after: f64| run_once(&graph, &Options::default(), &inputs(after)).1["y"].clone();
    let zeros = run(0.0);
    assert!(zeros.iter().all(|y| y.is_finite()));
    for after in [f64::NAN, f64::INFINITY] {
        let poisoned = run(after);
        let near = zeros.iter().zip(&poisoned).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{after}: {poisoned:?}, not {zeros:?}");
    }
}
