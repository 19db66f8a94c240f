//! A case of attention: sizes and rules, its graph, and the comparison of a run with the reference evaluation.

use std::collections::HashMap;

use lessen_graph::ops::attention::{AttentionOptions, Fire, PositionBias, attention};
use lessen_graph::{Array, DType, Graph, Tensor, Trace, TraceRef, Type, evaluate_exactly, lower};

use crate::plans::runner::{Options, run_once};
use crate::random::Random;

/// Sizes and rules.
#[derive(Clone, Debug)]
pub struct Case {
    pub weighting: &'static str,
    pub bias: &'static str,
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub d: usize,
    pub dv: usize,
    pub causal: bool,
    pub masked: bool,
    /// Starts of segments.
    pub starts: Vec<usize>,
    pub offset: Option<i32>,
    pub p: f64,
    /// Queries and keys are in `-size..size`.
    pub size: f64,
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            weighting: "softmax",
            bias: "none",
            batch: 1,
            queries: 65,
            keys: 65,
            heads: 2,
            kv_heads: 2,
            d: 7,
            dv: 9,
            causal: false,
            masked: false,
            starts: Vec::new(),
            offset: None,
            p: 0.0,
            size: 2.0,
            seed: 1,
        }
    }
}

/// Hidden units of FIRE.
const WIDTH: usize = 5;

pub type Arrays = HashMap<String, Array>;

impl Case {
    pub fn of_length(length: usize) -> Case {
        Case {
            queries: length,
            keys: length,
            ..Case::default()
        }
    }

    fn offset_shape(&self) -> &[usize] {
        match self.batch {
            1 => &[],
            _ => std::slice::from_ref(&self.batch),
        }
    }

    pub fn graph(&self) -> Graph {
        let trace = Trace::new();
        self.build(*trace);
        trace.finish()
    }

    fn build(&self, trace: TraceRef) {
        let input = |name: &str, shape: &[usize]| trace.input(name, DType::F32, shape);
        let q = input("q", &[self.batch, self.queries, self.heads, self.d]);
        let k = input("k", &[self.batch, self.keys, self.kv_heads, self.d]);
        let v = input("v", &[self.batch, self.keys, self.kv_heads, self.dv]);
        let dy = input("dy", &[self.batch, self.queries, self.heads, self.dv]);
        let mut wrt = vec![("dq", q), ("dk", k), ("dv", v)];
        let weighting: lessen_graph::ops::Weighting = self.weighting.parse().expect("a weighting");
        let weight = weighting.is_learned().then(|| input("weight", &[self.heads]));
        let bias = match self.bias {
            "fire" => {
                let fire = Fire {
                    c: input("c", &[]),
                    l: input("l", &[]),
                    w1: input("w1", &[WIDTH]),
                    b1: input("b1", &[WIDTH]),
                    w2: input("w2", &[self.heads, WIDTH]),
                    b2: input("b2", &[self.heads]),
                };
                wrt.extend(
                    ["dc", "dl", "dw1", "db1", "dw2", "db2"]
                        .into_iter()
                        .zip(fire.into_array()),
                );
                PositionBias::Fire(fire)
            }
            "alibi" => PositionBias::Alibi,
            _ => PositionBias::None,
        };
        wrt.extend(weight.map(|weight| ("dweight", weight)));
        let starts = (!self.starts.is_empty()).then(|| trace.input("starts", DType::I32, &[self.starts.len()]));
        let options = AttentionOptions {
            weighting,
            weight,
            bias,
            causal: self.causal,
            scale: Some(0.3),
            mask: self
                .masked
                .then(|| trace.input("mask", DType::Bool, &[self.batch, self.keys])),
            starts,
            offset: self
                .offset
                .map(|_| trace.input("offset", DType::I32, self.offset_shape())),
            dropout: (self.p > 0.0).then(|| (self.p, trace.input("key", DType::U32, &[2]))),
        };
        let o = attention(q, k, v, options);
        trace.output("o", o);
        let (names, tensors): (Vec<&str>, Vec<Tensor>) = wrt.into_iter().unzip();
        for (name, gradient) in names.into_iter().zip((o * dy).sum().grad(&tensors)) {
            trace.output(name, gradient);
        }
    }

    pub fn inputs(&self) -> Arrays {
        let mut random = Random::new(self.seed + (self.queries * 7 + self.keys) as u64);
        let mut inputs = Arrays::new();
        let of = |dtype, values: Vec<f64>| Array::new(Type::new(dtype, &[values.len()]), values);
        let mut add = |name: &str, shape: &[usize], scale: f64| {
            inputs.insert(name.to_string(), random.array(shape, scale));
        };
        add("q", &[self.batch, self.queries, self.heads, self.d], self.size);
        add("k", &[self.batch, self.keys, self.kv_heads, self.d], self.size);
        add("v", &[self.batch, self.keys, self.kv_heads, self.dv], 1.0);
        add("dy", &[self.batch, self.queries, self.heads, self.dv], 1.0);
        add("weight", &[self.heads], 2.0);
        for (name, shape) in [
            ("w1", vec![WIDTH]),
            ("b1", vec![WIDTH]),
            ("w2", vec![self.heads, WIDTH]),
            ("b2", vec![self.heads]),
        ] {
            add(name, &shape, 2.0);
        }
        let scalar = |dtype, x: f64| Array::new(Type::new(dtype, &[]), vec![x]);
        inputs.insert("c".to_string(), scalar(DType::F32, 0.25));
        // L = 64: some rows lie before it, and some rows after it.
        inputs.insert("l".to_string(), scalar(DType::F32, 0.1246337890625));
        inputs.insert("key".to_string(), of(DType::U32, vec![11.0, 12.0]));
        // Sequences of a batch have offsets of their own.
        let first = f64::from(self.offset.unwrap_or(0));
        let offsets = (0..self.batch).map(|b| first + 13.0 * b as f64).collect();
        let offsets = Array::new(Type::new(DType::I32, self.offset_shape()), offsets);
        inputs.insert("offset".to_string(), offsets);
        inputs.insert(
            "starts".to_string(),
            of(DType::I32, self.starts.iter().map(|&s| s as f64).collect()),
        );
        let shown = (0..self.batch * self.keys)
            .map(|_| f64::from(u8::from(random.below(3) > 0)))
            .collect();
        let mask = Array::new(Type::new(DType::Bool, &[self.batch, self.keys]), shown);
        inputs.insert("mask".to_string(), mask);
        inputs
    }

    /// Compares a run with the reference evaluation: the root mean square of the errors may be twice that of the
    /// unfused graph, plus a little, and the largest error four times.
    pub fn check(&self) {
        self.check_with(&self.inputs(), 1e-6);
    }

    /// Compares with other inputs, `little` being relative to the largest element, or to 1.
    pub fn check_with(&self, inputs: &Arrays, little: f64) {
        let graph = self.graph();
        let (plan, got) = run_once(&graph, &Options::default(), inputs);
        assert_eq!(
            plan.reference_nodes().len(),
            0,
            "{self:?} runs by its reference evaluation"
        );
        let unfused = lower(&graph, &|op| !op.name().starts_with("attention")).into_owned();
        let plain = run_once(&unfused, &Options::default(), inputs).1;
        let exact = evaluate_exactly(&graph, inputs).expect("the graph evaluates");
        for (name, expected) in &exact {
            let largest = expected.data.iter().fold(0f64, |largest, x| largest.max(x.abs()));
            let (ours, theirs) = (errors(&got[name], expected), errors(&plain[name], expected));
            for (what, ours, theirs, factor) in [("mean", ours.0, theirs.0, 2.0), ("largest", ours.1, theirs.1, 4.0)] {
                // Derivatives of parameters are sums of ten thousands of terms of both signs.
                let terms = if got[name].len() <= self.heads * WIDTH {
                    20.0
                } else {
                    1.0
                };
                let allowed = factor * theirs + terms * little * largest.max(1.0);
                assert!(
                    ours <= allowed,
                    "{name} of {self:?}: {what} error {ours:.2e} of {largest:.2e}, the unfused one's is {theirs:.2e}"
                );
            }
        }
    }
}

/// The root mean square and the largest of errors.
fn errors(found: &[f32], expected: &Array) -> (f64, f64) {
    let (mut squares, mut largest) = (0.0, 0f64);
    for (&found, &expected) in found.iter().zip(&expected.data) {
        let error = match f64::from(found) == expected {
            true => 0.0,
            false => (f64::from(found) - expected).abs(),
        };
        squares += error * error;
        largest = if error > largest || error.is_nan() {
            error
        } else {
            largest
        };
    }
    ((squares / found.len().max(1) as f64).sqrt(), largest)
}
