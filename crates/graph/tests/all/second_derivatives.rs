//! Second derivatives through a whole GPT block agree with central differences of first derivatives.

use std::collections::HashMap;

use lessen_graph::{
    Array, AttentionOptions, DType, Graph, Tensor, Trace, TraceRef, Type, attention, evaluate_exactly, verify,
};

use crate::prng::Prng;

const BATCH: usize = 2;
const LENGTH: usize = 3;
const HEADS: usize = 2;
const WIDTH: usize = 4;
const VOCABULARY: usize = 5;

/// The parameters of the block, the embedding that comes before it and the head that comes after it.
const PARAMETERS: [(&str, &[usize]); 15] = [
    ("tokens", &[VOCABULARY, WIDTH]),
    ("positions", &[LENGTH, WIDTH]),
    ("ln_1.gamma", &[WIDTH]),
    ("ln_1.beta", &[WIDTH]),
    ("attention.weight", &[WIDTH, 3 * WIDTH]),
    ("attention.bias", &[3 * WIDTH]),
    ("projection.weight", &[WIDTH, WIDTH]),
    ("projection.bias", &[WIDTH]),
    ("ln_2.gamma", &[WIDTH]),
    ("ln_2.beta", &[WIDTH]),
    ("up.weight", &[WIDTH, 4 * WIDTH]),
    ("up.bias", &[4 * WIDTH]),
    ("down.weight", &[4 * WIDTH, WIDTH]),
    ("ln_f.gamma", &[WIDTH]),
    ("ln_f.beta", &[WIDTH]),
];

/// The mean loss of a GPT of one block with tied head; one label is ignored.
fn loss(trace: TraceRef, p: &[Tensor], tanh: bool, dropout: f64) -> Tensor {
    let ids = trace.constant(Array::i32(&[BATCH, LENGTH], &[0, 3, 1, 4, 4, 2]));
    let labels = trace.constant(Array::i32(&[BATCH, LENGTH], &[3, 1, 2, 4, -100, 0]));
    let key = trace.constant(Array::new(Type::new(DType::U32, &[2]), vec![17.0, 4.0]));
    let [
        tokens,
        positions,
        g1,
        b1,
        wqkv,
        bqkv,
        wo,
        bo,
        g2,
        b2,
        wup,
        bup,
        wdown,
        gf,
        bf,
    ] = p.try_into().expect("all parameters");
    let mut x = tokens.gather(ids) + positions;
    let qkv = x.layer_norm(g1, b1, 1e-3).matmul(wqkv) + bqkv;
    let heads: Vec<Tensor> = qkv
        .split(-1, &[WIDTH; 3])
        .iter()
        .map(|t| t.reshape(&[BATCH, LENGTH, HEADS, WIDTH / HEADS]))
        .collect();
    let options = AttentionOptions {
        causal: true,
        dropout: Some((dropout, key)),
        ..Default::default()
    };
    let attended = attention(heads[0], heads[1], heads[2], options).reshape(&[BATCH, LENGTH, WIDTH]);
    x = x + (attended.matmul(wo) + bo).dropout(dropout, key);
    let hidden = x.layer_norm(g2, b2, 1e-3).matmul(wup) + bup;
    let active = if tanh { hidden.gelu_tanh() } else { hidden.gelu() };
    x = x + active.matmul(wdown);
    x.layer_norm(gf, bf, 1e-3).matmul_t(tokens).cross_entropy(labels)
}

/// A graph of the loss, its gradients, and the derivatives of the gradients along the direction `d.*`.
fn graph(tanh: bool, dropout: f64) -> Graph {
    let trace = Trace::new();
    {
        let inputs = |prefix: &str| -> Vec<Tensor> {
            PARAMETERS
                .iter()
                .map(|(n, shape)| trace.input(&format!("{prefix}{n}"), DType::F32, shape))
                .collect()
        };
        let (p, direction) = (inputs(""), inputs("d."));
        let loss = loss(*trace, &p, tanh, dropout);
        let first = loss.grad(&p);
        let along = first
            .iter()
            .zip(&direction)
            .map(|(g, d)| (*g * *d).sum())
            .reduce(|a, b| a + b)
            .unwrap();
        let second = along.grad(&p);
        trace.output("loss", loss);
        for ((name, _), (g, h)) in PARAMETERS.iter().zip(first.iter().zip(&second)) {
            trace.output(&format!("first.{name}"), *g);
            trace.output(&format!("second.{name}"), *h);
        }
    }
    let graph = trace.finish();
    verify(&graph).unwrap();
    graph
}

fn moved(parameters: &[Array], direction: &[Array], by: f64) -> HashMap<String, Array> {
    let mut inputs = HashMap::new();
    for (((name, _), p), d) in PARAMETERS.iter().zip(parameters).zip(direction) {
        let data = p.data.iter().zip(&d.data).map(|(p, d)| p + by * d).collect();
        inputs.insert(name.to_string(), Array::new(p.ty.clone(), data));
        inputs.insert(format!("d.{name}"), d.clone());
    }
    inputs
}

#[test]
fn second_derivatives_of_a_gpt_block_agree_with_differences_of_first_ones() {
    for (seed, tanh, dropout) in [(1, true, 0.0), (2, false, 0.0), (3, true, 0.25)] {
        let graph = graph(tanh, dropout);
        let mut r = Prng::new(seed);
        let parameters: Vec<Array> = PARAMETERS.iter().map(|(_, shape)| r.floats(shape, -1.0, 1.0)).collect();
        let direction: Vec<Array> = PARAMETERS.iter().map(|(_, shape)| r.floats(shape, -1.0, 1.0)).collect();
        let at = |by: f64| evaluate_exactly(&graph, &moved(&parameters, &direction, by)).unwrap();
        let (here, step) = (at(0.0), 1e-5);
        let (before, after) = (at(-step), at(step));
        let slope = |name: &str, e: usize| (after[name].data[e] - before[name].data[e]) / (2.0 * step);

        let along: f64 = PARAMETERS
            .iter()
            .zip(&direction)
            .flat_map(|((name, _), d)| here[&format!("first.{name}")].data.iter().zip(&d.data))
            .map(|(g, d)| g * d)
            .sum();
        let difference = slope("loss", 0);
        assert!(
            (along - difference).abs() < 1e-8 * (1.0 + along.abs()),
            "seed {seed}: {along} and {difference}"
        );

        for (name, _) in PARAMETERS {
            let second = &here[&format!("second.{name}")];
            let size = second.data.iter().fold(0.0, |m: f64, h| m.max(h.abs()));
            assert!(
                size > 1e-6,
                "seed {seed}: the second derivative of {name} is {size}: nothing is compared"
            );
            for (e, h) in second.data.iter().enumerate() {
                let difference = slope(&format!("first.{name}"), e);
                let near = (h - difference).abs() < 1e-7 * (1.0 + size);
                assert!(near, "seed {seed}: {name}[{e}]: {h}, the difference is {difference}");
            }
        }
    }
}
