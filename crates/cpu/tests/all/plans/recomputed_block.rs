//! A graph in which the backward phase repeats one block's forward operations, written by hand, instead of reading the
//! values that the forward phase computed: the same parameters to the bit, and less memory.

use std::collections::HashMap;

use lessen_compile::Plan;
use lessen_cpu::{Device, Executable};
use lessen_device::suite::check_plan as check;
use lessen_graph::{Array, AttentionOptions, DType, Graph, Phase, Tensor, Trace, attention, vjp};

use crate::plans::runner;
use crate::plans::runner::{Options, compile};
use crate::random::Random;

const BLOCKS: usize = 5;
const BATCH: usize = 4;
const LENGTH: usize = 50;
const HEADS: usize = 2;
const WIDTH: usize = 24;
const STEPS: usize = 3;
const SHAPE: [usize; 3] = [BATCH, LENGTH, WIDTH];

type Parameters = [Tensor; 6];

/// The names and shapes of a block's parameters.
const PARAMETERS: [(&str, &[usize]); 6] = [
    ("gamma", &[WIDTH]),
    ("beta", &[WIDTH]),
    ("qkv", &[WIDTH, 3 * WIDTH]),
    ("out", &[WIDTH, WIDTH]),
    ("up", &[WIDTH, 4 * WIDTH]),
    ("down", &[4 * WIDTH, WIDTH]),
];

/// A block of a transformer. Its products are kept for backward unless something recomputes them.
fn block(x: Tensor, p: &Parameters) -> Tensor {
    let [gamma, beta, qkv, out, up, down] = *p;
    let heads: Vec<Tensor> = x
        .layer_norm(gamma, beta, 1e-5)
        .matmul(qkv)
        .split(-1, &[WIDTH; 3])
        .iter()
        .map(|t| t.reshape(&[BATCH, LENGTH, HEADS, WIDTH / HEADS]))
        .collect();
    let attended = attention(heads[0], heads[1], heads[2], AttentionOptions::default());
    let x = x + attended.reshape(&SHAPE).matmul(out);
    x + x.layer_norm(gamma, beta, 1e-5).matmul(up).gelu().matmul(down)
}

/// A training step whose backward phase repeats the forward operations of the blocks in `repeated`.
fn training(repeated: &[usize]) -> (Graph, HashMap<String, Array>) {
    let trace = Trace::new();
    let mut random = Random::new(21);
    let mut inputs = HashMap::new();
    {
        let x = trace.input("x", DType::F32, &SHAPE);
        let target = trace.input("target", DType::F32, &SHAPE);
        let blocks: Vec<Parameters> = (0..BLOCKS)
            .map(|i| {
                PARAMETERS.map(|(name, shape)| {
                    let name = format!("{i}.{name}");
                    inputs.insert(name.clone(), random.array(shape, 0.25));
                    trace.state(&name, DType::F32, shape)
                })
            })
            .collect();
        // Forward.
        let mut into = vec![x];
        for parameters in &blocks {
            into.push(block(into[into.len() - 1], parameters));
        }
        let error = into[BLOCKS] - target;
        let loss = (error * error).mean();
        trace.output("loss", loss);
        // Backward, block by block.
        let mut gradients: Vec<(Tensor, Tensor)> = Vec::new();
        trace.in_phase(Phase::Backward, || {
            let mut cotangent = vjp(&[loss], &[Some(loss.full_like(1.0))], &[into[BLOCKS]])[0];
            for (i, parameters) in blocks.iter().enumerate().rev() {
                let out = if repeated.contains(&i) {
                    block(into[i], parameters)
                } else {
                    into[i + 1]
                };
                let wrt: Vec<Tensor> = [&[into[i]], &parameters[..]].concat();
                let found = vjp(&[out], &[cotangent], &wrt);
                cotangent = found[0];
                gradients.extend(
                    parameters
                        .iter()
                        .zip(&found[1..])
                        .map(|(p, g)| (*p, g.expect("it matters"))),
                );
            }
        });
        trace.in_phase(Phase::Update, || {
            for (parameter, gradient) in gradients {
                trace.assign(parameter, parameter - gradient * 0.5);
            }
        });
    }
    inputs.insert("x".to_string(), random.array(&SHAPE, 1.0));
    inputs.insert("target".to_string(), random.array(&SHAPE, 1.0));
    (trace.finish(), inputs)
}

fn train(repeated: &[usize]) -> (Plan, Vec<(String, Vec<u32>)>) {
    let (graph, inputs) = training(repeated);
    let options = Options {
        threads: 2,
        ..Options::default()
    };
    let mut executable = Executable::load(compile(&graph, &options).unwrap());
    check(executable.plan()).unwrap();
    let mut device = Device::new(2).unwrap();
    let mut store = runner::store(&graph, &inputs);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        runner::run(&mut executable, &mut device, &mut store, &inputs).unwrap();
        losses.push(executable.output_f32("loss").unwrap()[0]);
    }
    assert!(losses[STEPS - 1] < losses[0], "{losses:?}");
    let mut results = runner::results(&executable, &store);
    results.insert("losses".to_string(), losses);
    assert_eq!(executable.plan().peak_bytes(), executable.measured_peak_bytes(&store));
    (executable.plan().clone(), runner::bits(&results))
}

#[test]
fn one_recomputed_block_gives_the_same_parameters_and_a_lower_peak() {
    let (kept, parameters) = train(&[]);
    let (recomputed, same) = train(&[0]);
    assert_eq!(parameters.len(), same.len());
    for ((name, a), (_, b)) in parameters.iter().zip(&same) {
        assert!(a == b, "`{name}` differs when block 0 is recomputed");
    }
    assert!(recomputed.flops().0 > kept.flops().0, "the block's products run twice");
    let hidden = BATCH * LENGTH * 4 * WIDTH * size_of::<f32>();
    let (before, after) = (kept.peak_bytes(), recomputed.peak_bytes());
    assert!(
        after + hidden <= before,
        "the peak is {after} of {before} bytes, a hidden value has {hidden}"
    );
}

#[test]
fn recomputing_more_blocks_saves_more() {
    let (_, parameters) = train(&[]);
    let peaks: Vec<usize> = [&[0][..], &[0, 1], &[0, 1, 2]]
        .map(|repeated| {
            let (plan, same) = train(repeated);
            assert!(
                parameters == same,
                "blocks {repeated:?} recomputed give other parameters"
            );
            plan.peak_bytes()
        })
        .to_vec();
    assert!(peaks.is_sorted_by(|a, b| a > b), "{peaks:?}");
}
