//! Training on batches without padding whose number of tokens differs: a step for each bucket.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_compile::Placement;
use lessen_device::{Host, SharedDevice};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::{BatchShape, Model, Weights};
use lessen_train::{Part, StepGraphs, StepPlans, Trainer, TrainerOptions};

const SIZE: usize = 6;
const VOCABULARY: usize = 50;
/// Numbers of tokens, the largest first.
const BUCKETS: [usize; 3] = [64, 48, 32];

fn model() -> Model {
    let config = EncoderConfig {
        vocab_size: VOCABULARY,
        width: 32,
        ffn: 64,
        max_length: 20,
        dropout: 0.1,
        ..EncoderConfig::default()
    };
    LessenEncoder { config }.into()
}

fn shape(tokens: usize) -> BatchShape {
    BatchShape::Packed { size: SIZE, tokens }
}

/// The arrays of a batch, by name.
type Batch = Vec<(&'static str, Vec<i32>)>;

/// Six random texts that leave at most eight of the tokens over.
fn batch(random: &mut SplitMix64, tokens: usize) -> Batch {
    let mut starts = vec![0];
    let (mut positions, mut segments) = (Vec::new(), Vec::new());
    let whole = tokens - random.below(9) as usize;
    for text in 0..SIZE {
        let left = whole - starts[text];
        let length = match SIZE - text {
            1 => left,
            texts => (left / texts).saturating_sub(random.below(3) as usize),
        };
        positions.extend(0..length as i32);
        segments.extend(vec![text as i32; length]);
        starts.push(starts[text] + length);
    }
    positions.resize(tokens, 0);
    segments.resize(tokens, SIZE as i32);
    let starts: Vec<i32> = starts.into_iter().map(|start| start as i32).collect();
    let mut draw = |count: usize, below: usize| (0..count).map(|_| random.below(below as u64) as i32).collect();
    vec![
        ("tokens", draw(tokens, VOCABULARY)),
        ("labels", draw(SIZE, 2)),
        ("positions", positions),
        ("segments", segments),
        ("starts", starts),
    ]
}

fn hosts(batch: &Batch) -> Vec<(&str, Host<'_>)> {
    batch.iter().map(|(name, data)| (*name, Host::I32(data))).collect()
}

fn options(accumulate: usize, budget: Option<usize>) -> TrainerOptions {
    TrainerOptions {
        accumulate,
        budget,
        clip_norm: Some(1.0),
        ..TrainerOptions::new(0.01)
    }
}

fn graphs(model: &Model, options: &TrainerOptions) -> StepGraphs {
    let largest = shape(BUCKETS[0]);
    StepGraphs::new(options, |cx| model.forward(cx, largest).loss)
        .unwrap()
        .with_shape(largest)
}

/// The losses and parameters of eight steps.
fn train(threads: usize, options: &TrainerOptions) -> (Vec<u32>, Weights) {
    let model = model();
    let backend = device(threads);
    let plans = StepPlans::new(backend.as_ref(), options, &graphs(&model, options)).unwrap();
    let mut session = lessen_train::Session::zeros(backend, plans.params.clone()).unwrap();
    session.draw(|_| true, 1).unwrap();
    let mut trainer = Trainer::from_plans(session, options.clone(), plans).unwrap();
    let planned = trainer.peak().planned;
    let mut random = SplitMix64::new(3);
    let mut losses = Vec::new();
    for step in 0..8 {
        let sizes: Vec<usize> = (0..options.accumulate).map(|part| BUCKETS[(step + part) % 3]).collect();
        let batches: Vec<Batch> = sizes.iter().map(|&tokens| batch(&mut random, tokens)).collect();
        let inputs: Vec<_> = batches.iter().map(hosts).collect();
        let mut parts = Vec::new();
        for (inputs, tokens) in inputs.iter().zip(sizes) {
            let shape = shape(tokens);
            trainer.add_step(shape, |cx| model.forward(cx, shape).loss).unwrap();
            parts.push(Part::new(1.0 / options.accumulate as f32, inputs).at(shape));
        }
        losses.push(trainer.step_on(&parts).unwrap().loss.to_bits());
    }
    let peak = trainer.peak();
    assert!(peak.measured <= peak.planned, "{peak:?}");
    assert!(peak.planned <= planned + 4096, "{peak:?} after {planned}");
    (losses, trainer.weights().unwrap())
}

#[test]
fn threads_and_budgets_change_no_bit() {
    for accumulate in [1, 2] {
        let free = options(accumulate, None);
        let expected = train(1, &free);
        assert_eq!(train(2, &free), expected);
        let backend = device(2);
        let floor = graphs(&model(), &free).floor_bytes(backend.as_ref(), &free).unwrap();
        assert_eq!(train(2, &options(accumulate, Some(floor))), expected);
    }
}

#[test]
fn updates_in_the_step_of_another_layout_change_no_bit() {
    let expected = train(1, &options(1, None));
    for placement in [Placement::ForwardFused, Placement::Planned] {
        let late = |budget| TrainerOptions {
            placement,
            ..options(1, budget)
        };
        assert_eq!(train(2, &late(None)), expected);
        let (backend, free) = (device(2), late(None));
        let floor = graphs(&model(), &free).floor_bytes(backend.as_ref(), &free).unwrap();
        for budget in [floor, 1 << 30] {
            assert_eq!(train(2, &late(Some(budget))), expected);
        }
    }
}

#[test]
fn a_step_of_other_parameters_is_refused() {
    let model = model();
    let mut trainer = Trainer::new(device(1), options(1, None), |cx| model.forward(cx, shape(64)).loss).unwrap();
    let other = EncoderConfig {
        vocab_size: VOCABULARY,
        ..EncoderConfig::default()
    };
    let other = Model::from(LessenEncoder { config: other });
    let refused = trainer.add_step(shape(32), |cx| other.forward(cx, shape(32)).loss);
    let sentence = refused.unwrap_err().to_string();
    assert!(
        sentence.contains("the model has no parameter `embeddings"),
        "{sentence}"
    );
}

#[test]
fn a_layout_that_raises_the_planned_peak_says_so() {
    let (model, [.., smallest]) = (model(), BUCKETS);
    let loss = |cx, tokens| model.forward(cx, shape(tokens)).loss;
    let options = options(1, None);
    let graphs = StepGraphs::new(&options, |cx| loss(cx, smallest)).unwrap();
    let device = SharedDevice::new(device(1));
    let plans = StepPlans::new(&device, &options, &graphs.with_shape(shape(smallest))).unwrap();
    let session = lessen_train::Session::zeros(&device, plans.params.clone()).unwrap();
    let mut trainer = Trainer::from_plans(session, options, plans).unwrap();
    let before = trainer.peak().planned;
    let mut add = |tokens| trainer.add_step(shape(tokens), |cx| loss(cx, tokens)).unwrap();
    assert_eq!(add(smallest), before);
    let larger = add(BUCKETS[0]);
    assert!(larger > before, "{larger} after {before}");
    assert_eq!(add(BUCKETS[0]), larger);
    assert_eq!(trainer.peak().planned, larger);
}
