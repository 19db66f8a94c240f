//! Backward in slices of the rows: where memory is scarce some blocks run so, and no bit of any result changes.

use crate::support::{descent, device};
use lessen_base::SplitMix64;
use lessen_compile::{Placement, Precision};
use lessen_graph::Tensor;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{BatchShape, Cx, Model};
use lessen_train::{HostArray, StepGraphs, StepPlans, Trainer, TrainerOptions};

const VOCABULARY: usize = 32;
const TEXTS: usize = 16;
const LENGTH: usize = 256;
const LAYERS: usize = 5;

fn loss(cx: Cx) -> Tensor {
    let config = Gpt2Config {
        vocab_size: VOCABULARY,
        n_positions: LENGTH,
        n_embd: 192,
        n_layer: LAYERS,
        n_head: 3,
        ..Gpt2Config::default()
    };
    let model: Model = GPT2LMHeadModel { config }.into();
    let shape = BatchShape::Padded {
        size: TEXTS,
        length: LENGTH,
    };
    model.forward(cx, shape).loss
}

fn graphs(options: &TrainerOptions) -> StepGraphs {
    StepGraphs::new(options, loss).unwrap()
}

fn floor(options: &TrainerOptions) -> usize {
    graphs(options).floor_bytes(device(2).as_ref(), options).unwrap()
}

fn plans(options: &TrainerOptions) -> StepPlans {
    StepPlans::new(device(2).as_ref(), options, &graphs(options)).unwrap()
}

/// The bits of some losses and of the parameters after them.
fn train(threads: usize, options: &TrainerOptions) -> Vec<u32> {
    const STEPS: u64 = 2;
    let mut trainer = Trainer::new(device(threads), options.clone(), loss).unwrap();
    let losses: Vec<f32> = (0..STEPS)
        .map(|step| {
            let mut random = SplitMix64::keyed(11, step);
            let mut texts = || {
                let tokens = (0..TEXTS * LENGTH).map(|_| random.below(VOCABULARY as u64) as i32);
                HostArray::I32(tokens.collect())
            };
            let (tokens, labels) = (texts(), texts());
            let report = trainer.step(&[("tokens", tokens.host()), ("labels", labels.host())]);
            report.unwrap().loss
        })
        .collect();
    let weights = trainer.weights().unwrap();
    let mut names: Vec<&String> = weights.keys().collect();
    names.sort_unstable();
    let numbers = names.into_iter().flat_map(|name| weights[name].data.iter().copied());
    losses.into_iter().chain(numbers).map(f32::to_bits).collect()
}

fn check(precision: Precision) {
    let options = |budget: Option<usize>| TrainerOptions {
        precision,
        ..descent(0.1, 0.0, budget)
    };
    let floor = floor(&options(None));
    let small = options(Some(floor));
    let sliced = plans(&small).step.sliced();
    assert!(
        sliced > 0,
        "no block of {LAYERS} layers runs in slices at the floor of {floor} bytes"
    );
    assert_eq!(plans(&options(None)).step.sliced(), 0);
    let first = train(2, &options(None));
    assert!(first == train(2, &small), "slices change bits");
    assert!(first == train(1, &small), "threads change bits");
    let separate = TrainerOptions {
        placement: Placement::Separate,
        budget: None,
        ..small.clone()
    };
    let separate = TrainerOptions {
        budget: Some(self::floor(&separate)),
        ..separate
    };
    assert!(first == train(2, &separate), "placement changes bits");
}

#[test]
fn a_small_budget_slices_blocks_and_changes_no_bit() {
    check(Precision::F32);
}

#[test]
fn the_same_in_bf16() {
    check(Precision::Bf16);
}
