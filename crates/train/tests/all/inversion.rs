//! Inversion of reversible layers: less memory than any exact plan, and gradients within the declared error's reach.

use crate::support::{descent, device};
use lessen_base::SplitMix64;
use lessen_compile::{Placement, Policy};
use lessen_graph::{DType, Tensor};
use lessen_nn::models::vision::{Block, RevNet, VisionModel};
use lessen_nn::{Cx, Weights};
use lessen_train::{HostArray, NonFinite, StepGraphs, StepPlans, Trainer, TrainerOptions};
use std::collections::BTreeMap;

const IMAGES: usize = 8;
const PIXELS: usize = 32;
const CLASSES: usize = 5;
const UNITS: usize = 6;
/// More than the declared error of a sum, and less than the error of any rule of `bf16`.
const ALLOWED: f64 = 1e-6;

fn model() -> VisionModel {
    let network = RevNet {
        stem_width: 16,
        stages: vec![(UNITS, 16), (2, 16)],
        ..RevNet::cifar(Block::Basic, 0, [0; 3], CLASSES)
    };
    network.into()
}

fn loss(cx: Cx) -> Tensor {
    let images = cx.input("images", DType::F32, &[IMAGES, PIXELS, PIXELS, 3]);
    let labels = cx.input("labels", DType::I32, &[IMAGES]);
    model().forward(cx, images).cross_entropy(labels)
}

fn options(allowed_error: f64, budget: Option<usize>) -> TrainerOptions {
    TrainerOptions {
        non_finite: NonFinite::Allow,
        ..descent(0.1, allowed_error, budget)
    }
}

fn plans(options: &TrainerOptions) -> StepPlans {
    let graphs = StepGraphs::new(options, loss).unwrap();
    StepPlans::new(device(2).as_ref(), options, &graphs).unwrap()
}

fn floor(allowed_error: f64) -> usize {
    let options = options(allowed_error, None);
    let graphs = StepGraphs::new(&options, loss).unwrap();
    graphs.floor_bytes(device(2).as_ref(), &options).unwrap()
}

/// The losses of some steps and the parameters after them, with images whose first pixel is as given.
fn train(threads: usize, options: &TrainerOptions, steps: u64, first: Option<f32>) -> (Vec<f32>, Weights) {
    let mut trainer = Trainer::new(device(threads), options.clone(), loss).unwrap();
    let losses = (0..steps).map(|step| {
        let mut random = SplitMix64::keyed(7, step);
        let mut images: Vec<f32> = (0..IMAGES * PIXELS * PIXELS * 3)
            .map(|_| random.unit() as f32 - 0.5)
            .collect();
        images[0] = first.unwrap_or(images[0]);
        let labels: Vec<i32> = (0..IMAGES).map(|_| random.below(CLASSES as u64) as i32).collect();
        let (images, labels) = (HostArray::F32(images), HostArray::I32(labels));
        let report = trainer.step(&[("images", images.host()), ("labels", labels.host())]);
        report.unwrap().loss
    });
    (losses.collect(), trainer.weights().unwrap())
}

#[test]
fn inputs_of_reversible_units_follow_from_their_outputs() {
    let (exact, inexact) = (floor(0.0), floor(ALLOWED));
    let arena = |floor: usize, allowed: f64| plans(&options(allowed, Some(floor))).arena_bytes();
    let (exact_arena, inexact_arena) = (arena(exact, 0.0), arena(inexact, ALLOWED));
    assert!(
        inexact_arena < exact_arena * 9 / 10,
        "an arena of {inexact_arena} bytes with inversion, of {exact_arena} without"
    );
    let plans = plans(&options(ALLOWED, Some(inexact)));
    let inverted = plans.step.inverted();
    assert!(inverted.len() >= UNITS, "{} values are inverted", inverted.len());
    assert!(
        inverted
            .iter()
            .all(|choice| choice.error > 0.0 && choice.error <= ALLOWED)
    );
}

#[test]
fn gradients_are_those_of_the_exact_plan_within_rounding() {
    let (_, exact) = train(2, &options(0.0, None), 1, None);
    let (_, inverted) = train(2, &options(ALLOWED, Some(floor(ALLOWED))), 1, None);
    let begin = train(2, &options(0.0, None), 0, None).1;
    for (name, weight) in &exact {
        let change = |weights: &Weights| -> Vec<f64> {
            let (now, before) = (&weights[name].data, &begin[name].data);
            now.iter().zip(before).map(|(a, b)| f64::from(a - b)).collect()
        };
        let (a, b) = (change(&exact), change(&inverted));
        let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let apart: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let scale = norm(&weight.data.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
        // A step of rate 0.1 is rounded where it is added to a parameter.
        let bound = 1e-4 * norm(&a) + 1e-6 * scale + 1e-6;
        assert!(
            norm(&apart) <= bound,
            "`{name}` is {} off, of {}",
            norm(&apart),
            norm(&a)
        );
    }
}

#[test]
fn threads_and_placements_change_no_bit_where_all_is_inverted() {
    let run = |threads: usize, placement: Placement| {
        let options = TrainerOptions {
            placement,
            policy: Policy::InvertAll,
            ..options(ALLOWED, None)
        };
        assert!(plans(&options).step.inverted().len() >= UNITS);
        let (losses, weights) = train(threads, &options, 4, None);
        let weights: BTreeMap<_, _> = weights.into_iter().collect();
        let numbers = losses
            .into_iter()
            .chain(weights.into_values().flat_map(|weight| weight.data));
        numbers.map(f32::to_bits).collect::<Vec<_>>()
    };
    let first = run(2, Placement::BackwardFused);
    assert!(first == run(1, Placement::BackwardFused), "threads change bits");
    assert!(first == run(2, Placement::Separate), "placement changes bits");
}

#[test]
fn a_value_that_is_not_finite_reaches_the_loss_as_without_inversion() {
    for allowed in [0.0, ALLOWED] {
        let options = options(allowed, Some(floor(allowed)));
        let (losses, _) = train(2, &options, 2, Some(f32::INFINITY));
        assert!(
            losses.iter().all(|loss| loss.is_nan()),
            "losses of {losses:?} with {allowed}"
        );
    }
}

#[test]
fn an_error_below_that_of_the_rule_admits_none() {
    let plans = plans(&options(1e-12, Some(floor(0.0))));
    assert!(plans.step.inverted().is_empty());
}
