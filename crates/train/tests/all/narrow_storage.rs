//! Values that are kept as `bf16` for backward: less memory at hardly more time, and gradients within that rounding.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_compile::passes::Form;
use lessen_graph::Tensor;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{BatchShape, Context, Model, OptimizerConfig, Weights};
use lessen_train::{HostArray, StepGraphs, StepPlans, Trainer, TrainerOptions};

const SIZE: usize = 8;
const LENGTH: usize = 64;
const VOCABULARY: usize = 50;
/// The declared error of `bf16`, 2^-9.
const ALLOWED: f64 = 0.002;

fn loss<'g>(cx: &Context<'g>) -> Tensor<'g> {
    let config = Gpt2Config {
        vocab_size: VOCABULARY,
        n_positions: LENGTH,
        n_embd: 64,
        n_layer: 10,
        n_head: 2,
        ..Gpt2Config::default()
    };
    let model: Model = GPT2LMHeadModel { config }.into();
    let (size, length) = (SIZE, LENGTH);
    model.forward(cx, BatchShape::Padded { size, length }).loss
}

fn options(allowed_error: f64, budget: Option<usize>) -> TrainerOptions {
    TrainerOptions {
        optimizer: OptimizerConfig::Sgd {
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        },
        allowed_error,
        budget,
        ..TrainerOptions::new(1.0)
    }
}

fn plans(options: &TrainerOptions) -> StepPlans {
    let graphs = StepGraphs::new(options, loss).unwrap();
    StepPlans::new(device(2).as_ref(), options, &graphs).unwrap()
}

/// The loss of a step, and by how much it changes each parameter.
fn step(options: &TrainerOptions) -> (f32, Vec<(String, Vec<f64>)>) {
    let mut trainer = Trainer::new(device(2), options.clone(), loss).unwrap();
    let before: Weights = trainer.weights().unwrap();
    let mut random = SplitMix64::keyed(3, 1);
    let mut draw = || {
        HostArray::I32(
            (0..SIZE * LENGTH)
                .map(|_| random.below(VOCABULARY as u64) as i32)
                .collect(),
        )
    };
    let (tokens, labels) = (draw(), draw());
    let report = trainer.step(&[("tokens", tokens.host()), ("labels", labels.host())]);
    let changes = trainer.weights().unwrap().into_iter().map(|(name, weight)| {
        let pairs = weight.data.iter().zip(&before[&name].data);
        let change = pairs.map(|(now, before)| f64::from(now - before)).collect();
        (name, change)
    });
    let mut changes: Vec<(String, Vec<f64>)> = changes.collect();
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    (report.unwrap().loss, changes)
}

#[test]
fn half_of_the_bytes_hold_what_backward_reads() {
    let (exact, rounded) = (plans(&options(0.0, None)), plans(&options(ALLOWED, None)));
    assert!(exact.step.rounded(Form::Bf16).is_empty());
    assert!(
        rounded
            .step
            .rounded(Form::Bf16)
            .iter()
            .all(|choice| choice.error <= ALLOWED)
    );
    assert!(!rounded.step.rounded(Form::Bf16).is_empty());
    let (exact, rounded) = (exact.arena_bytes(), rounded.arena_bytes());
    assert!(
        rounded < exact * 4 / 5,
        "an arena of {rounded} bytes with bf16, of {exact} without"
    );
}

#[test]
fn gradients_are_off_by_no_more_than_the_rounding() {
    let (loss, exact) = step(&options(0.0, None));
    let (rounded_loss, rounded) = step(&options(ALLOWED, None));
    assert_eq!(loss.to_bits(), rounded_loss.to_bits(), "the forward phase is exact");
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let mut differs = false;
    for ((name, exact), (_, rounded)) in exact.iter().zip(&rounded) {
        let apart = norm(&mut exact.iter().zip(rounded).map(|(a, b)| a - b));
        let of = norm(&mut exact.iter().copied());
        assert!(apart <= 0.01 * of + 1e-7, "`{name}`: {apart} apart, of {of}");
        differs |= apart > 0.0;
    }
    assert!(differs, "nothing is rounded");
}
