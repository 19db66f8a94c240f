//! Steps whose loss or gradient is not finite.

use crate::support::device;
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{BatchNorm, batch_norm, linear};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{NonFinite, Part, StepReport, Trainer, TrainerOptions};

const GOOD: [f32; 8] = [1.0, -2.0, 0.5, 3.0, 0.25, -1.0, 2.0, 0.75];
const NAN: [f32; 8] = [1.0, f32::NAN, 0.5, 3.0, 0.25, -1.0, 2.0, 0.75];
const MUCH: [f32; 8] = [1.0, f32::INFINITY, 0.5, 3.0, 0.25, -1.0, 2.0, 0.75];

const MOMENTUM: OptimizerConfig = OptimizerConfig::Sgd {
    momentum: 0.9,
    nesterov: false,
    weight_decay: 0.0,
};

/// A loss with parameters, a state of its own and running statistics.
fn loss(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[4, 2]);
    let x = linear(cx, "in", x, 3, Init::Normal { std: 0.5 });
    let seen = cx.trace().state("seen", DType::F32, &[]);
    cx.trace().assign(seen, seen + x.sum());
    let x = batch_norm(cx, "norm", x, BatchNorm::default());
    (x * x + cx.param("shift", &[3], Init::Ones)).mean()
}

fn options(non_finite: NonFinite) -> TrainerOptions {
    TrainerOptions {
        non_finite,
        ema: Some(0.5),
        ..TrainerOptions::new(0.1)
    }
}

fn trainer(options: TrainerOptions) -> Trainer {
    Trainer::new(device(1), options, loss).unwrap()
}

/// A step on batches of equal share.
fn step(trainer: &mut Trainer, batches: &[&[f32; 8]]) -> lessen_train::Result<StepReport> {
    let inputs: Vec<_> = batches.iter().map(|x| [("x", Host::F32(&x[..]))]).collect();
    let share = 1.0 / batches.len() as f32;
    let parts: Vec<Part<'_>> = inputs.iter().map(|inputs| Part::new(share, inputs)).collect();
    trainer.step_on(&parts)
}

/// Bits of all parameters and states.
fn bits(trainer: &mut Trainer) -> Vec<Vec<u32>> {
    let weights = trainer.weights().unwrap();
    let states = trainer.state().unwrap();
    let of = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect();
    let weights = weights.values().map(|weight| of(&weight.data));
    let states = states.iter().map(|state| of(state.data.host().as_f32().unwrap()));
    weights.chain(states).collect()
}

#[test]
fn a_step_that_is_not_finite_stops_and_nothing_is_saved_until_the_trainer_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
    let mut stopped = trainer(options(NonFinite::default()));
    step(&mut stopped, &[&GOOD]).unwrap();
    stopped.save_checkpoint(&good).unwrap();
    let expected = step(&mut stopped, &[&GOOD]).unwrap().loss.to_bits();
    let sentence = step(&mut stopped, &[&NAN]).unwrap_err().to_string();
    for part in ["the loss of step 3 is NaN", "learning rate", "go on from a checkpoint"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(stopped.done(), 2);
    for refused in [
        step(&mut stopped, &[&GOOD]).map(drop),
        stopped.save_checkpoint(&bad),
        stopped.save(&bad, &serde_json::Map::new(), lessen_nn::checkpoint::WeightDtype::F32),
    ] {
        assert!(refused.unwrap_err().to_string().contains("the loss of step 3 is NaN"));
    }
    assert!(!bad.exists());
    assert_eq!(stopped.resume_checkpoint(&good).unwrap(), 1);
    assert_eq!(step(&mut stopped, &[&GOOD]).unwrap().loss.to_bits(), expected);
}

#[test]
fn a_step_that_accumulates_stops_before_its_update() {
    let mut stopped = trainer(TrainerOptions {
        accumulate: 2,
        ..options(NonFinite::Stop)
    });
    step(&mut stopped, &[&GOOD, &GOOD]).unwrap();
    let before = bits(&mut stopped);
    let sentence = step(&mut stopped, &[&GOOD, &MUCH]).unwrap_err().to_string();
    assert!(sentence.contains("the loss of step 2 is NaN"), "{sentence}");
    assert_eq!(bits(&mut stopped), before);
    assert_eq!(step(&mut stopped, &[&GOOD, &GOOD]).unwrap().step, 2);
}

#[test]
fn a_skipped_step_changes_no_parameter_and_no_state() {
    for optimizer in [OptimizerConfig::adamw(0.1), MOMENTUM, OptimizerConfig::adafactor(0.0)] {
        for (accumulate, clip_norm) in [(1, None), (1, Some(1.0)), (2, None), (2, Some(1.0))] {
            for placement in [Placement::Separate, Placement::BackwardFused, Placement::ForwardFused] {
                if placement == Placement::ForwardFused && accumulate > 1 {
                    continue;
                }
                let mut skips = trainer(TrainerOptions {
                    optimizer,
                    accumulate,
                    clip_norm,
                    placement,
                    ..options(NonFinite::Skip)
                });
                let good = &[&GOOD, &GOOD][..accumulate];
                step(&mut skips, good).unwrap();
                for bad in [&NAN, &MUCH] {
                    let before = bits(&mut skips);
                    let report = step(&mut skips, &[&GOOD, bad][2 - accumulate..]).unwrap();
                    assert!(report.skipped && !report.loss.is_finite(), "{report:?}");
                    assert_eq!(bits(&mut skips), before, "{optimizer:?} {accumulate} {placement:?}");
                }
                let before = bits(&mut skips);
                assert!(!step(&mut skips, good).unwrap().skipped);
                assert_ne!(bits(&mut skips), before);
            }
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_skipped_where_the_loss_is_finite() {
    // The root of 0 has an infinite slope.
    let root = |cx: Cx| {
        (cx.input("x", DType::F32, &[1]) * cx.param("w", &[1], Init::Ones))
            .sqrt()
            .mean()
    };
    for accumulate in [1, 2] {
        let options = TrainerOptions {
            accumulate,
            ..TrainerOptions::new(0.1)
        };
        let with = |non_finite| TrainerOptions {
            non_finite,
            ..options.clone()
        };
        let mut skips = Trainer::new(device(1), with(NonFinite::Skip), root).unwrap();
        let report = skips.step(&[("x", Host::F32(&[0.0]))]).unwrap();
        assert!(report.skipped && report.loss == 0.0, "{report:?}");
        assert_eq!(skips.weights().unwrap()["w"].data, [1.0]);
        // With clipping the norm is known, and stops the step.
        let clipped = TrainerOptions {
            clip_norm: Some(1.0),
            ..with(NonFinite::Stop)
        };
        let mut stops = Trainer::new(device(1), clipped, root).unwrap();
        let sentence = stops.step(&[("x", Host::F32(&[0.0]))]).unwrap_err().to_string();
        assert!(sentence.contains("the norm of the gradient of step 1 is"), "{sentence}");
    }
}

#[test]
fn skipping_and_stopping_change_no_bit_of_finite_steps() {
    let train = |non_finite| {
        let mut trainer = trainer(options(non_finite));
        let losses: Vec<u32> = (0..4)
            .map(|_| step(&mut trainer, &[&GOOD]).unwrap().loss.to_bits())
            .collect();
        (losses, bits(&mut trainer))
    };
    let expected = train(NonFinite::Allow);
    assert_eq!(train(NonFinite::Stop), expected);
    assert_eq!(train(NonFinite::Skip), expected);
    let peak = |non_finite| trainer(options(non_finite)).peak().planned;
    assert_eq!(peak(NonFinite::Stop), peak(NonFinite::Allow));
}

#[test]
fn allowed_steps_go_on() {
    let mut allows = trainer(options(NonFinite::Allow));
    assert!(step(&mut allows, &[&NAN]).unwrap().loss.is_nan());
    assert!(step(&mut allows, &[&GOOD]).unwrap().loss.is_nan());
}
