//! Time and memory of attention: `cargo bench -p lessen-cpu --bench attention -- tokens=2048 heads=12 backward=1`.
//!
//! Settings are `key=value`: `tokens`, `heads`, `kv_heads`, `size` (of a head), `batch`, `attention` (a word of
//! recipes), `bias` (`none`, `alibi`, `fire`), `shift` (of the biases of FIRE: with -4, most weights of `relu` are
//! zeros), `causal` (0 or 1), `backward` (0 or 1), `fused` (0: the graph of its decomposition), `threads`, `repeats`.
//! One JSON object is printed: the least time, the rate of the products that a dense attention computes (half of them
//! where causal), the bytes of the arena, which does not hold queries, keys and values, and the tiles and scores that
//! ReLU attention leaves out.

use std::time::Instant;

use lessen_compile::{Options, compile};
use lessen_cpu::{Device, Executable, Store};
use lessen_graph::ops::attention::{AttentionOptions, Fire, PositionBias, attention};
use lessen_graph::{DType, Tensor, Trace, lower};

struct Settings(Vec<(String, String)>);

impl Settings {
    fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.0.iter().find(|(k, _)| k == key).map_or(default, |(_, v)| v)
    }

    fn number(&self, key: &str, default: usize) -> usize {
        let text = self.text(key, "");
        if text.is_empty() {
            return default;
        }
        text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number"))
    }
}

/// Numbers of about the standard normal distribution.
fn random(seed: &mut u64, n: usize) -> Vec<f32> {
    let mut next = || {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| (0..12).map(|_| next()).sum()).collect()
}

fn main() {
    let pairs = std::env::args().skip(1).filter_map(|arg| {
        let (key, value) = arg.split_once('=')?;
        Some((key.to_string(), value.to_string()))
    });
    let settings = Settings(pairs.collect());
    let (tokens, heads, size) = (
        settings.number("tokens", 2048),
        settings.number("heads", 12),
        settings.number("size", 64),
    );
    let (batch, kv_heads) = (settings.number("batch", 1), settings.number("kv_heads", heads));
    let (causal, backward) = (settings.number("causal", 1) == 1, settings.number("backward", 1) == 1);
    let width = 32;

    let trace = Trace::new();
    let mut states: Vec<(String, Vec<usize>)> = Vec::new();
    let mut state = |name: &str, shape: &[usize]| {
        states.push((name.to_string(), shape.to_vec()));
        trace.state(name, DType::F32, shape)
    };
    let (wide, narrow) = ([batch, tokens, heads, size], [batch, tokens, kv_heads, size]);
    let mut inputs = vec![state("q", &wide), state("k", &narrow), state("v", &narrow)];
    let dy = state("do", &wide);
    let bias = match settings.text("bias", "none") {
        "alibi" => PositionBias::Alibi,
        "fire" => {
            let fire = Fire {
                c: state("c", &[]),
                l: state("l", &[]),
                w1: state("w1", &[width]),
                b1: state("b1", &[width]),
                w2: state("w2", &[heads, width]),
                b2: state("b2", &[heads]),
            };
            inputs.extend(fire.into_array());
            PositionBias::Fire(fire)
        }
        _ => PositionBias::None,
    };
    let options = AttentionOptions {
        weighting: settings
            .text("attention", "softmax")
            .parse()
            .expect("a kind of attention"),
        bias,
        causal,
        ..AttentionOptions::default()
    };
    let o = attention(inputs[0], inputs[1], inputs[2], options);
    let mut results: Vec<Tensor> = vec![o];
    if backward {
        results.extend((o * dy).sum().grad(&inputs));
    }
    for (i, result) in results.into_iter().enumerate() {
        let target = state(&format!("result{i}"), &result.shape());
        trace.assign(target, result);
    }
    let mut graph = trace.finish();
    if settings.number("fused", 1) == 0 {
        graph = lower(&graph, &|op| !op.name().starts_with("attention")).into_owned();
    }
    let mut device = match settings.number("threads", 0) {
        0 => Device::from_env(),
        threads => Device::new(threads),
    }
    .expect("a device");
    let plan = compile(&graph, &Options::default(), &device.target()).expect("a plan");
    let arena = plan.arena_bytes();
    let mut program = Executable::new(plan).expect("a program");
    let mut store = Store::new();
    let mut seed = 1;
    let shift: f32 = settings.text("shift", "0").parse().expect("shift is no number");
    for (name, shape) in &states {
        let n = shape.iter().product();
        let values = match name.as_str() {
            "c" => vec![0.1],
            "l" => vec![1.0],
            "b2" => vec![shift; n],
            "w2" => random(&mut seed, n).iter().map(|x| 0.1 * x).collect(),
            _ => random(&mut seed, n),
        };
        store.insert_f32(name, shape, &values);
    }
    let mut run = |device: &mut Device, program: &mut Executable| {
        let start = Instant::now();
        program.run(device, &mut store, &[]).expect("a run");
        start.elapsed().as_secs_f64()
    };
    let best = (0..settings.number("repeats", 10))
        .map(|_| run(&mut device, &mut program))
        .fold(f64::MAX, f64::min);
    program.set_profiling(true);
    run(&mut device, &mut program);
    let tiles = program.profile().tiles;
    let share = if causal { 0.5 } else { 1.0 };
    let products = if backward { 7.0 } else { 2.0 };
    let flops = products * 2.0 * (batch * heads * tokens * tokens * size) as f64 * share;
    println!(
        "{{\"ms\": {:.4}, \"gflops\": {:.1}, \"arena_bytes\": {arena}, \"tiles\": {}, \"skipped\": {}, \"empty\": {}, \
         \"sparse\": {}, \"scores\": {}, \"skipped_scores\": {}, \"nonzeros\": {}}}",
        best * 1e3,
        flops / best * 1e-9,
        tiles.tiles,
        tiles.skipped,
        tiles.empty,
        tiles.sparse,
        tiles.scores,
        tiles.skipped_scores,
        tiles.nonzeros
    );
}
