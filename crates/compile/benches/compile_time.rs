//! Compile time of training graphs of 100 to 20,000 nodes: `cargo bench -p lessen-compile`.
//!
//! Three kinds of graphs: a residual network (layer norm, linear, GELU, linear) with its derivative and AdamW; a chain
//! of elementwise operations, all in one group; and independent elementwise operations that one sum joins. A row gives
//! the nodes that were traced, milliseconds of tracing and differentiating, of compiling (the least of three), and of
//! compiling per 1,000 nodes.

use std::time::Instant;

use lessen_compile::{Options, compile};
use lessen_cpu::CpuTarget;
use lessen_graph::ops::AdamW;
use lessen_graph::{DType, Graph, Phase, Tensor, Trace};

const WIDTH: usize = 64;

/// A training step of a network of `layers` layers.
fn step(layers: usize) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &[256, WIDTH]);
    let mut params: Vec<Tensor<'_>> = Vec::new();
    let mut param = |name: String, shape: &[usize]| {
        let tensor = trace.state(&name, DType::F32, shape);
        params.push(tensor);
        tensor
    };
    for layer in 0..layers {
        let name = |part: &str| format!("h.{layer}.{part}");
        let gamma = param(name("gamma"), &[WIDTH]);
        let beta = param(name("beta"), &[WIDTH]);
        let wide = param(name("wide"), &[WIDTH, 2 * WIDTH]);
        let narrow = param(name("narrow"), &[2 * WIDTH, WIDTH]);
        x = trace.in_scope(&format!("h.{layer}"), || {
            x + x.layer_norm(gamma, beta, 1e-5).matmul(wide).gelu().matmul(narrow)
        });
    }
    let loss = (x * x).mean();
    trace.output("loss", loss);
    let gradients = loss.grad(&params);
    let (lr, t) = (trace.input("lr", DType::F32, &[]), trace.input("t", DType::F32, &[]));
    let adamw = AdamW {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
    };
    trace.in_phase(Phase::Update, || {
        for (i, (&p, gradient)) in params.iter().zip(gradients).enumerate() {
            let m = trace.state(&format!("m.{i}"), DType::F32, &p.shape());
            let v = trace.state(&format!("v.{i}"), DType::F32, &p.shape());
            let new = trace.apply(adamw, &[p, gradient, m, v, lr, t]);
            for (target, value) in [p, m, v].into_iter().zip(new) {
                trace.assign(target, value);
            }
        }
    });
    trace.finish()
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A chain of elementwise operations.
fn chain(nodes: usize) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &[256, WIDTH]);
    for i in 0..nodes {
        x = if i % 2 == 0 { x.sigmoid() } else { x.tanh() };
    }
    trace.output("y", x);
    trace.finish()
}

/// Elementwise operations of inputs of their own, and their sum.
fn bundle(nodes: usize) -> Graph {
    let trace = Trace::new();
    let terms: Vec<Tensor<'_>> = (0..nodes / 2)
        .map(|i| trace.input(&format!("x.{i}"), DType::F32, &[64, WIDTH]).tanh())
        .collect();
    let sum = terms[1..].iter().fold(terms[0], |sum, &term| sum + term);
    trace.output("y", sum);
    trace.finish()
}

fn table(title: &str, graph: impl Fn(usize) -> Graph) {
    let target = CpuTarget { threads: 2 };
    println!(
        "{title}\n{:>8} {:>10} {:>12} {:>16}",
        "nodes", "trace ms", "compile ms", "ms/1,000 nodes"
    );
    for nodes in [100, 300, 1_000, 3_000, 10_000, 20_000] {
        let start = Instant::now();
        let graph = graph(nodes);
        let trace = milliseconds(start);
        let times = (0..3).map(|_| {
            let start = Instant::now();
            compile(&graph, &Options::default(), &target).expect("a graph without budget compiles");
            milliseconds(start)
        });
        let least = times.fold(f64::INFINITY, f64::min);
        let n = graph.nodes.len();
        println!("{n:>8} {trace:>10.1} {least:>12.1} {:>16.2}", least / n as f64 * 1e3);
    }
}

fn main() {
    let per_layer = step(2).nodes.len() - step(1).nodes.len();
    table("training step", |nodes| step((nodes / per_layer).max(1)));
    table("elementwise chain", chain);
    table("independent operations", bundle);
}
