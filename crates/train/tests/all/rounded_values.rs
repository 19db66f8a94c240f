//! Values that are kept rounded for backward: less memory, and gradients within that rounding.

use crate::support::{descent, device};
use lessen_base::SplitMix64;
use lessen_compile::passes::StorageFormat;
use lessen_graph::Tensor;
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{BatchShape, Cx, Model, Weights, numbered_labels};
use lessen_train::{HostArray, Session, StepGraphs, StepPlans, Trainer, TrainerOptions};

const SIZE: usize = 8;
const LENGTH: usize = 64;
const VOCABULARY: usize = 50;
const CLASSES: usize = 5;

fn loss(cx: Cx) -> Tensor {
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
    descent(1.0, allowed_error, budget)
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

/// Checks that a storage format takes at most the share `part` of the exact arena, and that gradients are off by at
/// most the share `bound`.
fn check(form: StorageFormat, part: f64, bound: f64) {
    let allowed = form.error() * 1.001;
    let (exact, inexact) = (plans(&options(0.0, None)), plans(&options(allowed, None)));
    assert!(
        StorageFormat::ALL
            .iter()
            .all(|form| exact.step.rounded(*form).is_empty())
    );
    assert!(!inexact.step.rounded(form).is_empty());
    for choice in StorageFormat::ALL.iter().flat_map(|form| inexact.step.rounded(*form)) {
        assert!(choice.error > 0.0 && choice.error <= allowed);
    }
    let (exact, inexact) = (exact.arena_bytes(), inexact.arena_bytes());
    assert!(
        inexact as f64 <= part * exact as f64,
        "an arena of {inexact} bytes with {form:?}, of {exact} without"
    );

    let (loss, exact) = step(&options(0.0, None));
    let (inexact_loss, inexact) = step(&options(allowed, None));
    assert_eq!(loss.to_bits(), inexact_loss.to_bits(), "the forward phase is exact");
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let mut differs = false;
    for ((name, exact), (_, inexact)) in exact.iter().zip(&inexact) {
        let apart = norm(&mut exact.iter().zip(inexact).map(|(a, b)| a - b));
        let of = norm(&mut exact.iter().copied());
        assert!(
            apart <= bound * of + 1e-7,
            "`{name}` in {form:?}: {apart} apart, of {of}"
        );
        differs |= apart > 0.0;
    }
    assert!(differs, "nothing is rounded");
}

#[test]
fn bf16_takes_half_of_what_backward_reads() {
    check(StorageFormat::Bf16, 0.8, 0.01);
}

#[test]
fn eight_bits_take_a_quarter_of_what_backward_reads() {
    check(StorageFormat::Int8, 0.7, 0.03);
}

/// The batch of texts of equal length and, after them, tokens of no text.
fn packed(texts: usize, tokens: usize) -> Vec<(&'static str, HostArray)> {
    let mut random = SplitMix64::keyed(3, 2);
    let mut draw = |count: usize, below: usize| {
        let numbers = (0..count).map(|_| random.below(below as u64) as i32);
        HostArray::I32(numbers.collect())
    };
    let text = |token: usize| (token / LENGTH).min(texts) as i32;
    let positions = (0..tokens).map(|token| (token % LENGTH) as i32);
    vec![
        ("tokens", draw(tokens, VOCABULARY)),
        ("labels", draw(texts, CLASSES)),
        ("positions", HostArray::I32(positions.collect())),
        ("segments", HostArray::I32((0..tokens).map(text).collect())),
        (
            "starts",
            HostArray::I32((0..=texts).map(|text| (text * LENGTH) as i32).collect()),
        ),
    ]
}

/// Attention has the exponent -inf for a token of no text: no scale of a row may be made of it.
#[test]
fn tokens_of_no_text_leave_gradients_finite() {
    let (texts, tokens) = (24, 24 * LENGTH + 40);
    let config = EncoderConfig {
        vocab_size: VOCABULARY,
        width: 64,
        layers: 4,
        heads: 4,
        ffn: 256,
        max_length: LENGTH,
        labels: numbered_labels(CLASSES),
        ..EncoderConfig::default()
    };
    let model: Model = LessenEncoder { config }.into();
    let size = texts;
    let options = options(StorageFormat::Int8.error() * 1.001, None);
    let graphs = StepGraphs::new(&options, |cx| {
        model.forward(cx, BatchShape::Packed { size, tokens }).loss
    });
    let graphs = graphs.unwrap();
    let plans = StepPlans::new(device(2).as_ref(), &options, &graphs).unwrap();
    let mut session = Session::zeros(device(2), plans.params.clone()).unwrap();
    session.draw(|_| true, 1).unwrap();
    let mut trainer = Trainer::from_plans(session, options, plans).unwrap();
    let batch = packed(texts, tokens);
    let inputs: Vec<_> = batch.iter().map(|(name, data)| (*name, data.host())).collect();
    for step in 0..3 {
        let loss = trainer.step(&inputs).unwrap().loss;
        assert!(loss.is_finite(), "the loss of step {step} is {loss}");
    }
}
