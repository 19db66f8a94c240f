//! Compile time of training graphs of 100 to 20,000 nodes: `cargo bench -p lessen-compile`.
//!
//! Three groups of graphs: a residual network (layer norm, linear, GELU, linear) with its derivative and AdamW; a chain
//! of elementwise operations, all in one group; and independent elementwise operations that one sum joins. A row gives
//! the nodes that were traced, milliseconds of tracing and differentiating, of compiling (the least of three), and of
//! compiling per 1,000 nodes.
//!
//! Then encoders of equal layers, one as large as BERT-base, with budgets: none, half of the arena, and the floor. A
//! row gives milliseconds of compiling, or of finding the floor, MB of the peak, and how many values backward
//! recomputes.

use std::time::Instant;

use lessen_compile::{Options, compile, floor_bytes};
use lessen_cpu::CpuTarget;
use lessen_graph::ops::AdamW;
use lessen_graph::{AttentionOptions, DType, Graph, Phase, Tensor, Trace, TraceRef, attention};

const WIDTH: usize = 64;

/// A training step of a network of `layers` layers.
fn step(layers: usize) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &[256, WIDTH]);
    let mut params: Vec<Tensor> = Vec::new();
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
    train(*trace, x, &params);
    trace.finish()
}

/// A loss of the last value, its derivative and AdamW.
fn train(trace: TraceRef, x: Tensor, params: &[Tensor]) {
    let loss = (x * x).mean();
    trace.output("loss", loss);
    let gradients = loss.grad(params);
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
}

/// An encoder with norms after its sums, as BERT has them, on texts `[size, length, width]`.
struct Encoder {
    trace: TraceRef,
    params: Vec<Tensor>,
    shape: [usize; 3],
    heads: usize,
}

impl Encoder {
    fn param(&mut self, shape: &[usize]) -> Tensor {
        let name = format!("p.{}", self.params.len());
        let tensor = self.trace.state(&name, DType::F32, shape);
        self.params.push(tensor);
        tensor
    }

    fn linear(&mut self, x: Tensor, to: usize) -> Tensor {
        let (weight, bias) = (self.param(&[x.dim(-1), to]), self.param(&[to]));
        x.matmul(weight) + bias
    }

    fn norm(&mut self, x: Tensor) -> Tensor {
        let (gamma, beta) = (self.param(&[x.dim(-1)]), self.param(&[x.dim(-1)]));
        x.layer_norm(gamma, beta, 1e-12)
    }

    fn layer(&mut self, x: Tensor, key: Tensor) -> Tensor {
        let [size, length, width] = self.shape;
        let [q, k, v] = [(); 3].map(|()| {
            let heads = [size, length, self.heads, width / self.heads];
            self.linear(x, width).reshape(&heads)
        });
        let options = AttentionOptions {
            dropout: Some((0.1, key)),
            ..AttentionOptions::default()
        };
        let attended = attention(q, k, v, options).reshape(&self.shape);
        let attended = self.linear(attended, width).dropout(0.1, key);
        let x = self.norm(x + attended);
        let hidden = self.linear(x, 4 * width).gelu();
        let fed = self.linear(hidden, width).dropout(0.1, key);
        self.norm(x + fed)
    }
}

/// A training step of an encoder.
fn encoder(layers: usize, shape: [usize; 3], heads: usize) -> Graph {
    let trace = Trace::new();
    let mut x = trace.input("x", DType::F32, &shape);
    let key = trace.input("key", DType::U32, &[2]);
    let mut encoder = Encoder {
        trace: *trace,
        params: Vec::new(),
        shape,
        heads,
    };
    for layer in 0..layers {
        x = trace.in_scope(&format!("h.{layer}"), || encoder.layer(x, key));
    }
    train(*trace, x, &encoder.params);
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
    let terms: Vec<Tensor> = (0..nodes / 2)
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

/// The rows of a graph with budgets.
fn budgets(title: &str, graph: &Graph) {
    let target = CpuTarget { threads: 2 };
    println!(
        "{title}, {} nodes\n{:>8} {:>12} {:>10} {:>12}",
        graph.nodes.len(),
        "budget",
        "compile ms",
        "peak MB",
        "recomputed"
    );
    let row = |name: &str, budget: Option<usize>| {
        let start = Instant::now();
        let options = Options {
            budget,
            ..Options::default()
        };
        let plan = compile(graph, &options, &target).expect("a budget of the floor at least");
        let (time, peak) = (milliseconds(start), plan.peak_bytes() as f64 / 1e6);
        println!("{name:>8} {time:>12.1} {peak:>10.1} {:>12}", plan.recomputed().len());
        plan
    };
    let free = row("none", None);
    let start = Instant::now();
    let floor = floor_bytes(graph, &Options::default(), &target).expect("a graph");
    println!(
        "{:>8} {:>12.1} {:>10.1}",
        "floor of",
        milliseconds(start),
        floor as f64 / 1e6
    );
    row("half", Some(floor.max(free.peak_bytes() - free.arena_bytes() / 2)));
    row("floor", Some(floor));
}

fn main() {
    let per_layer = step(2).nodes.len() - step(1).nodes.len();
    table("training step", |nodes| step((nodes / per_layer).max(1)));
    table("elementwise chain", chain);
    table("independent operations", bundle);
    budgets("BERT-base, 32 texts of 128 tokens", &encoder(12, [32, 128, 768], 12));
    budgets("48 layers of width 256", &encoder(48, [16, 128, 256], 4));
}
