//! The benchmark of attention: time and memory of one attention layer, forward or with its derivative, in the fused
//! operation and in the graph of its decomposition. `bench/attention.py` runs PyTorch beside it.

use std::time::Instant;

use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::{Options, Plan};
use lessen_cpu::{Device, Executable, Store, peak_flops};
use lessen_graph::ops::{Fire, Weighting};
use lessen_graph::{AttentionOptions, DType, Graph, Op, PositionBias, Tensor, Trace, Type, vjp};
use serde_json::{Value, json};

/// Width of the hidden layer of FIRE.
const FIRE_WIDTH: usize = 32;

/// What is added to scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bias {
    /// Nothing.
    None,
    /// ALiBi.
    Alibi,
    /// FIRE.
    Fire,
}

/// One attention layer to measure.
#[derive(Clone, Debug)]
pub struct Case {
    /// How scores become weights.
    pub weighting: Weighting,
    /// What is added to scores.
    pub bias: Bias,
    /// Whether a query sees no later key.
    pub causal: bool,
    /// Sequences.
    pub batch: usize,
    /// Tokens of each sequence.
    pub tokens: usize,
    /// Heads.
    pub heads: usize,
    /// Extent of a head.
    pub head: usize,
    /// Whether the derivative runs too.
    pub backward: bool,
    /// Whether the operation is replaced by simpler ones, so that scores and biases are tensors.
    pub unfused: bool,
}

/// Values of the inputs by name: `q`, `k`, `v`, and for FIRE its parameters.
pub type Values = Vec<(String, Vec<f32>)>;

/// What was measured of a case.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Times of the runs in milliseconds, ascending.
    pub ms: Vec<f64>,
    /// Bytes of inputs, results and everything between.
    pub peak_bytes: usize,
    /// Bytes beside inputs, results and their cotangents.
    pub scratch_bytes: usize,
    /// Floating-point operations of matrix products.
    pub flops: f64,
}

impl Measured {
    /// The median time in milliseconds.
    pub fn median_ms(&self) -> f64 {
        self.ms[self.ms.len() / 2]
    }
}

impl Case {
    /// Names and shapes of the inputs.
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>)> {
        let heads = vec![self.batch, self.tokens, self.heads, self.head];
        let mut all: Vec<_> = ["q", "k", "v", "do"].map(|name| (name, heads.clone())).into();
        if self.bias == Bias::Fire {
            all.extend([
                ("c", vec![]),
                ("l", vec![]),
                ("w1", vec![FIRE_WIDTH]),
                ("b1", vec![FIRE_WIDTH]),
            ]);
            all.extend([("w2", vec![self.heads, FIRE_WIDTH]), ("b2", vec![self.heads])]);
        }
        if self.weighting.is_learned() {
            all.push(("weight", vec![self.heads]));
        }
        all
    }

    fn graph(&self) -> Graph {
        let trace = Trace::new();
        let states: Vec<Tensor<'_>> = self
            .inputs()
            .iter()
            .map(|(name, shape)| trace.state(name, DType::F32, shape))
            .collect();
        let (q, k, v, d_o) = (states[0], states[1], states[2], states[3]);
        let parameters = &states[4..];
        let bias = match (self.bias, parameters) {
            (Bias::None, _) => PositionBias::None,
            (Bias::Alibi, _) => PositionBias::Alibi,
            (Bias::Fire, parameters) => PositionBias::Fire(Fire::from_array(std::array::from_fn(|i| parameters[i]))),
        };
        let options = AttentionOptions {
            weighting: self.weighting,
            weight: parameters.last().copied().filter(|_| self.weighting.is_learned()),
            bias,
            causal: self.causal,
            ..AttentionOptions::default()
        };
        let (op, rest) = options.operation(q);
        let inputs = [&[q, k, v], &rest[..]].concat();
        let decomposed = self.unfused.then(|| op.decompose(&inputs)).flatten();
        let o = decomposed.unwrap_or_else(|| trace.apply(op, &inputs))[0];
        trace.output("o", one_element(o));
        if self.backward {
            let wrt: Vec<Tensor<'_>> = states.iter().copied().filter(|x| x.id() != d_o.id()).collect();
            for (i, gradient) in vjp(&[o], &[Some(d_o)], &wrt).into_iter().flatten().enumerate() {
                trace.output(&format!("gradient.{i}"), one_element(gradient));
            }
        }
        drop(states);
        trace.finish()
    }

    /// Pseudo-random inputs: standard normal, and FIRE as it is initialized.
    pub fn random_values(&self) -> Values {
        let mut random = SplitMix64::new(42);
        let mut normal = || {
            let (a, b) = (random.unit().max(f64::MIN_POSITIVE), random.unit());
            ((-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()) as f32
        };
        self.inputs()
            .into_iter()
            .map(|(name, shape)| {
                let n: usize = shape.iter().product();
                let values = match name {
                    "c" => vec![0.1],
                    "l" | "weight" => vec![1.0; n],
                    _ => (0..n).map(|_| normal()).collect(),
                };
                (name.to_string(), values)
            })
            .collect()
    }
}

/// The first element: results are computed, not copied out.
fn one_element(x: Tensor<'_>) -> Tensor<'_> {
    let n = x.ty().numel();
    x.reshape(&[n]).slice(0, 0, 1)
}

/// Runs a case: two runs to warm up, then `runs` timed ones.
///
/// # Errors
/// A sentence when the plan or a run fails, and when a value is missing or of another size.
pub fn measure(case: &Case, values: &Values, runs: usize) -> Result<Measured> {
    let mut device = Device::from_env()?;
    let plan: Plan = device.compile(&case.graph(), &Options::default())?;
    let mut store = Store::new();
    for (name, shape) in case.inputs() {
        let found = values.iter().find(|(known, _)| known == name);
        let found = found.filter(|(_, values)| values.len() == shape.iter().product::<usize>());
        let (_, values) =
            found.ok_or_else(|| Error::user(format!("there are no values of shape {shape:?} for {name}")))?;
        store.insert_f32(name, &shape, values);
    }
    let (peak_bytes, flops) = (plan.peak_bytes(), plan.flops().0);
    let mut program = Executable::load(plan);
    let mut ms = Vec::with_capacity(runs);
    for run in 0..runs + 2 {
        let start = Instant::now();
        program.run(&mut device, &mut store, &[])?;
        if run >= 2 {
            ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    ms.sort_by(f64::total_cmp);
    let heads = Type::f32(&[case.batch, case.tokens, case.heads, case.head]).bytes();
    let operands = heads * if case.backward { 8 } else { 5 };
    Ok(Measured {
        ms,
        peak_bytes,
        scratch_bytes: peak_bytes.saturating_sub(operands),
        flops,
    })
}

/// What `--json` prints of a case.
pub fn to_json(case: &Case, m: &Measured) -> Value {
    json!({
        "attention": case.weighting.to_string(),
        "position": format!("{:?}", case.bias).to_lowercase(),
        "causal": case.causal,
        "batch": case.batch,
        "tokens": case.tokens,
        "heads": case.heads,
        "head": case.head,
        "backward": case.backward,
        "unfused": case.unfused,
        "ms": m.median_ms(),
        "ms_min": m.ms[0],
        "ms_max": m.ms[m.ms.len() - 1],
        "peak_bytes": m.peak_bytes,
        "scratch_bytes": m.scratch_bytes,
        "gflops": m.flops / m.median_ms() * 1e-6,
    })
}

/// Floating-point operations per second that products reach on all threads.
///
/// # Errors
/// A device that cannot be opened.
pub fn peak() -> Result<f64> {
    Ok(peak_flops(&Device::from_env()?))
}
