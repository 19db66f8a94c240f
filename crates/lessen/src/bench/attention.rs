//! The benchmark of attention: time and memory of one attention layer, forward or with its derivative, in the fused
//! operation and in the graph of its decomposition. `bench/attention.py` runs PyTorch beside it.

use std::time::Instant;

use lessen_base::{Error, Result, SplitMix64};
use lessen_compile::Options;
use lessen_cpu::{Device, Executable, Store, TileCounts, peak_flops};
use lessen_graph::ops::{Attention, AttentionBias};
use lessen_graph::{DType, Graph, Op, Tensor, Trace, Type, vjp};
use lessen_jobs::training::median;
use lessen_saved::op_sample::OpSample;
use serde_json::{Value, json};

/// Width of the hidden layer of FIRE in random inputs.
const FIRE_WIDTH: usize = 32;

/// Shape and elements of an input.
type Input = (Vec<usize>, Vec<f32>);

/// One attention layer to measure.
#[derive(Clone, Debug)]
pub struct Case {
    op: Attention,
    /// `q`, `k`, `v` and the other inputs of the operation.
    inputs: Vec<Input>,
    /// Whether the derivative runs too.
    pub backward: bool,
    /// Whether the operation is replaced by simpler ones, so that scores and biases are tensors.
    pub unfused: bool,
}

/// The measurement of a case.
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
    /// The tiles and scores that the forward pass of a fused ReLU attention leaves out.
    pub counts: Option<TileCounts>,
}

impl Measured {
    /// The median time in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(self.ms.clone())
    }
}

impl Case {
    /// An attention on pseudo-random inputs: standard normal, and FIRE as it is initialized. `op` says what it reads;
    /// queries, keys and values have the shape `[batch, tokens, heads, size]`.
    pub fn random(op: Attention, [batch, tokens, heads, size]: [usize; 4]) -> Case {
        let mut random = SplitMix64::new(42);
        let mut normal = |shape: &[usize]| {
            let mut one = || {
                let (a, b) = (random.unit().max(f64::MIN_POSITIVE), random.unit());
                ((-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()) as f32
            };
            (shape.to_vec(), (0..shape.iter().product()).map(|_| one()).collect())
        };
        let mut inputs: Vec<Input> = (0..3).map(|_| normal(&[batch, tokens, heads, size])).collect();
        if op.bias == AttentionBias::Fire {
            inputs.extend([(vec![], vec![0.1]), (vec![], vec![1.0])]);
            let shapes: [&[usize]; 4] = [&[FIRE_WIDTH], &[FIRE_WIDTH], &[heads, FIRE_WIDTH], &[heads]];
            inputs.extend(shapes.map(&mut normal));
        }
        if op.weighting.is_learned() {
            inputs.push((vec![heads], vec![1.0; heads]));
        }
        Case {
            op,
            inputs,
            backward: false,
            unfused: false,
        }
    }

    /// The attention of a trained model. Where `heads` differs from its own number, its heads are repeated or left out.
    pub fn trained(sample: OpSample<Attention>, heads: usize) -> Case {
        let rest: Vec<usize> = (3..sample.inputs.len()).collect();
        let extras = sample.op.extras(&rest);
        let by_head: Vec<usize> = extras
            .fire
            .iter()
            .flat_map(|fire| [fire.w2, fire.b2])
            .chain(extras.weight)
            .collect();
        let inputs = sample.inputs.iter().enumerate().map(|(i, (shape, values))| match i {
            0..3 => with_heads(shape, values, 2, heads),
            _ if by_head.contains(&i) => with_heads(shape, values, 0, heads),
            _ => (shape.clone(), values.clone()),
        });
        Case {
            op: sample.op,
            inputs: inputs.collect(),
            backward: false,
            unfused: false,
        }
    }

    fn operands(&self) -> &[usize] {
        &self.inputs[0].0
    }

    fn graph(&self) -> Graph {
        let trace = Trace::new();
        let state = |(i, (shape, _)): (usize, &Input)| trace.state(&i.to_string(), DType::F32, shape);
        let inputs: Vec<Tensor> = self.inputs.iter().enumerate().map(state).collect();
        let decomposed = self.unfused.then(|| self.op.decompose(&inputs)).flatten();
        let o = decomposed.unwrap_or_else(|| trace.apply(self.op, &inputs))[0];
        trace.output("o", one_element(o));
        if self.backward {
            let d_o = trace.state("do", DType::F32, &o.shape());
            for (i, gradient) in vjp(&[o], &[Some(d_o)], &inputs).into_iter().flatten().enumerate() {
                trace.output(&format!("gradient.{i}"), one_element(gradient));
            }
        }
        drop(inputs);
        trace.finish()
    }
}

/// The first element: results are computed, not copied out.
fn one_element(x: Tensor) -> Tensor {
    let n = x.ty().numel();
    x.reshape(&[n]).slice(0, 0, 1)
}

/// An array whose heads along an axis are repeated or left out, so that there are `heads` of them.
fn with_heads(shape: &[usize], values: &[f32], axis: usize, heads: usize) -> Input {
    let (own, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let blocks = values.chunks_exact((own * inner).max(1));
    let head = |block: &[f32], h: usize| block[h % own * inner..][..inner].to_vec();
    let values = blocks.flat_map(|block| (0..heads).flat_map(|h| head(block, h)).collect::<Vec<_>>());
    let mut shape = shape.to_vec();
    shape[axis] = heads;
    (shape, values.collect())
}

/// Runs a case: two runs to warm up, then `runs` timed ones.
///
/// # Errors
/// A sentence when the plan or a run fails.
pub fn measure(case: &Case, runs: usize) -> Result<Measured> {
    let mut device = Device::from_env()?;
    let plan = device.compile(&case.graph(), &Options::default())?;
    let mut store = Store::new();
    for (i, (shape, values)) in case.inputs.iter().enumerate() {
        if values.len() != shape.iter().product::<usize>() {
            return Err(Error::user(format!(
                "input {i} of shape {shape:?} has {} elements",
                values.len()
            )));
        }
        store.insert_f32(&i.to_string(), shape, values);
    }
    let [batch, tokens, heads, _] = case.operands() else {
        return Err(Error::user("attention needs queries of shape [B,T,H,D]".to_string()));
    };
    let value = case.inputs[2].0.last().copied().unwrap_or_default();
    let o = [*batch, *tokens, *heads, value];
    if case.backward {
        store.insert_f32("do", &o, &vec![1.0; o.iter().product()]);
    }
    let (peak_bytes, flops) = (plan.peak_bytes() - plan.result_bytes(), plan.flops().0);
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
    program.set_profiling(true);
    program.run(&mut device, &mut store, &[])?;
    let counts = Some(program.profile().tiles).filter(|counts| counts.tiles > 0);
    let inputs: usize = case.inputs.iter().map(|(shape, _)| Type::f32(shape).bytes()).sum();
    let o = Type::f32(&o).bytes();
    let operands = if case.backward { 2 * (inputs + o) } else { inputs + o };
    Ok(Measured {
        ms,
        peak_bytes,
        scratch_bytes: peak_bytes.saturating_sub(operands),
        flops,
        counts,
    })
}

/// The JSON object of a case.
pub fn to_json(case: &Case, m: &Measured) -> Value {
    let [batch, tokens, heads, head] = [0, 1, 2, 3].map(|axis| case.operands()[axis]);
    json!({
        "attention": case.op.weighting.to_string(),
        "position": case.op.bias.name(),
        "causal": case.op.causal,
        "batch": batch,
        "tokens": tokens,
        "heads": heads,
        "head": head,
        "backward": case.backward,
        "unfused": case.unfused,
        "ms": m.median_ms(),
        "ms_min": m.ms[0],
        "ms_max": m.ms[m.ms.len() - 1],
        "peak_bytes": m.peak_bytes,
        "scratch_bytes": m.scratch_bytes,
        "gflops": m.flops / m.median_ms() * 1e-6,
        "counts": m.counts.map(shares),
    })
}

/// What is left out, as shares of tiles and of the scores of queries and keys that they see.
fn shares(counts: TileCounts) -> Value {
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    json!({
        "zeros": share(counts.scores - counts.nonzeros, counts.scores),
        "biases_skipped": share(counts.skipped_scores, counts.scores),
        "tiles_skipped": share(counts.skipped, counts.tiles),
        "values_skipped": share(counts.skipped + counts.empty, counts.tiles),
        "tiles_sparse": share(counts.sparse, counts.tiles),
    })
}

/// Floating-point operations per second that products reach on all threads.
///
/// # Errors
/// A device that cannot be opened.
pub fn peak() -> Result<f64> {
    Ok(peak_flops(&Device::from_env()?))
}
