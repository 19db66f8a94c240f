//! The trainer on a small model of one's own: a regression by a network of two layers.

use crate::support::device;
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};
use lessen_train::{HostArray, Part, Session, StepGraphs, StepPlans, Trainer, TrainerOptions};

const ROWS: usize = 8;
const WIDTH: usize = 3;

fn predict(cx: Cx, rows: usize) -> Tensor {
    let x = cx.input("x", DType::F32, &[rows, WIDTH]);
    let hidden = cx.dropout(linear(cx, "first", x, 16, Init::Normal { std: 0.5 }).tanh(), 0.1);
    linear(cx, "second", hidden, 1, Init::Normal { std: 0.5 }).reshape(&[rows])
}

fn loss(cx: Cx, rows: usize) -> Tensor {
    let error = predict(cx, rows) - cx.input("y", DType::F32, &[rows]);
    (error * error).mean()
}

/// Points of `y = x0 x1 - x2`, others for every step.
fn points(step: usize, rows: usize) -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = (0..rows * WIDTH)
        .map(|i| (((step * 131 + i) * 37 % 100) as f32) / 50.0 - 1.0)
        .collect();
    let y = x.chunks(WIDTH).map(|x| x[0] * x[1] - x[2]).collect();
    (x, y)
}

fn trainer(change: impl FnOnce(&mut TrainerOptions), rows: usize, threads: usize) -> Trainer {
    let mut options = TrainerOptions::new(0.01);
    change(&mut options);
    Trainer::new(device(threads), options, |cx| loss(cx, rows)).unwrap()
}

fn train(trainer: &mut Trainer, steps: usize) -> Vec<f32> {
    let run = |step| {
        let (x, y) = points(step, ROWS);
        trainer
            .step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))])
            .unwrap()
            .loss
    };
    (0..steps).map(run).collect()
}

#[test]
fn a_loss_goes_down_and_the_parameters_serve_a_function() {
    let mut trainer = trainer(|_| {}, ROWS, 1);
    let losses = train(&mut trainer, 400);
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    assert!(mean(&losses[380..]) < 0.3 * mean(&losses[..20]), "{losses:?}");

    let (x, y) = points(1000, 5);
    let function = trainer.function(|cx| vec![("y", predict(cx, 5))]).unwrap();
    let results = trainer.run(function, &[("x", Host::F32(&x))]).unwrap();
    let found = results.f32("y").unwrap().to_vec();
    let error = found.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f32>() / 5.0;
    assert!(error < 0.2, "{found:?} for {y:?}");

    // The same weights elsewhere say the same.
    let (params, weights) = (trainer.params().to_vec(), trainer.weights().unwrap());
    let mut session = Session::new(device(2), params, &weights).unwrap();
    let function = session.function(|cx| vec![("y", predict(cx, 5))]).unwrap();
    let results = session.run(function, &[("x", Host::F32(&x))]).unwrap();
    assert_eq!(results.f32("y").unwrap(), found);
}

#[test]
fn placement_and_threads_change_no_bit() {
    // Only without clipping can an update go before the other gradients are there.
    for clip_norm in [None, Some(0.5)] {
        let build = |placement, threads| {
            let change = |options: &mut TrainerOptions| {
                options.clip_norm = clip_norm;
                options.placement = placement;
            };
            trainer(change, ROWS, threads)
        };
        let mut one = build(Placement::BackwardFused, 1);
        let mut other = build(Placement::Separate, 2);
        assert_eq!(train(&mut one, 20), train(&mut other, 20));
        assert_eq!(one.weights().unwrap(), other.weights().unwrap(), "{clip_norm:?}");
    }
}

#[test]
fn the_high_half_of_a_seed_decides_dropout_too() {
    let first = |seed: u64| {
        let mut trainer = trainer(|options| options.seed = seed, ROWS, 1);
        let weights = trainer.weights().unwrap();
        // The same parameters for all, so that only the masks can differ.
        let same = weights
            .into_iter()
            .map(|(name, mut weight)| {
                weight.data.fill(0.25);
                (name, weight)
            })
            .collect();
        trainer.set_weights(&same).unwrap();
        train(&mut trainer, 8)
    };
    let low = first(7);
    assert_eq!(low, first(7));
    for high in [1 << 32, 2 << 32, 1 << 63] {
        assert_ne!(low, first(7 + high), "{high}");
    }
    assert_ne!(first(7 + (1 << 32)), first(7 + (2 << 32)));
}

#[test]
fn a_step_may_have_fewer_batches_than_are_accumulated() {
    // With a batch that has no share in the loss, the step is that on the other one.
    let build = || trainer(|options| options.accumulate = 2, ROWS, 1);
    let (mut one, mut two) = (build(), build());
    for step in 0..4 {
        let ((x, y), (other_x, other_y)) = (points(step, ROWS), points(step + 50, ROWS));
        let own = [("x", Host::F32(&x)), ("y", Host::F32(&y))];
        let other = [("x", Host::F32(&other_x)), ("y", Host::F32(&other_y))];
        let found = one.step_on(&[Part::new(1.0, &own)]).unwrap();
        let expected = two.step_on(&[Part::new(1.0, &own), Part::new(0.0, &other)]).unwrap();
        assert_eq!(found.loss, expected.loss);
    }
    assert_eq!(one.weights().unwrap(), two.weights().unwrap());
}

#[test]
fn accumulated_batches_make_the_same_step_as_one_large_batch() {
    // Dropout would draw differently for two small batches.
    let build = |accumulate, rows| {
        let options = TrainerOptions {
            clip_norm: Some(0.1),
            accumulate,
            ..TrainerOptions::new(0.01)
        };
        Trainer::new(device(1), options, |cx| {
            let x = cx.input("x", DType::F32, &[rows, WIDTH]);
            let hidden = linear(cx, "first", x, 16, Init::Normal { std: 0.5 }).tanh();
            let y = linear(cx, "second", hidden, 1, Init::Normal { std: 0.5 }).reshape(&[rows]);
            let error = y - cx.input("y", DType::F32, &[rows]);
            (error * error).mean()
        })
        .unwrap()
    };
    let (mut large, mut small) = (build(1, ROWS), build(2, ROWS / 2));
    for step in 0..50 {
        let (x, y) = points(step, ROWS);
        let (at, half) = (ROWS / 2 * WIDTH, ROWS / 2);
        let first = [("x", Host::F32(&x[..at])), ("y", Host::F32(&y[..half]))];
        let second = [("x", Host::F32(&x[at..])), ("y", Host::F32(&y[half..]))];
        let report = small
            .step_on(&[Part::new(0.5, &first), Part::new(0.5, &second)])
            .unwrap();
        let expected = large.step(&[("x", Host::F32(&x)), ("y", Host::F32(&y))]).unwrap();
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-4 * b.abs() + 1e-6;
        assert!(
            close(report.loss, expected.loss),
            "step {step}: {report:?} for {expected:?}"
        );
        assert!(
            close(report.gradient_norm.unwrap(), expected.gradient_norm.unwrap()),
            "{report:?} for {expected:?}"
        );
    }
    let (found, expected) = (small.weights().unwrap(), large.weights().unwrap());
    for (name, weight) in &expected {
        for (a, b) in found[name].data.iter().zip(&weight.data) {
            assert!((a - b).abs() < 1e-4, "{name}: {a} for {b}");
        }
    }
}

#[test]
fn a_resumed_trainer_goes_on_with_the_same_bits() {
    let mut whole = trainer(|_| {}, ROWS, 1);
    train(&mut whole, 10);
    let mut resumed = trainer(|_| {}, ROWS, 1);
    resumed.set_weights(&whole.weights().unwrap()).unwrap();
    resumed.resume(10, &whole.state().unwrap()).unwrap();
    assert_eq!(train(&mut whole, 10), train(&mut resumed, 10));
    assert_eq!(
        (whole.weights().unwrap(), whole.done()),
        (resumed.weights().unwrap(), 20)
    );
    assert!(resumed.resume(10, &whole.state().unwrap()[1..]).is_err());
}

#[test]
fn mistakes_with_inputs_and_memory_are_sentences() {
    let mut trainer = trainer(|_| {}, ROWS, 1);
    let (x, y) = points(0, ROWS);
    let missing = trainer.step(&[("x", Host::F32(&x))]).unwrap_err();
    assert!(missing.to_string().contains("`y`"), "{missing}");
    let short = trainer
        .step(&[("x", Host::F32(&x[1..])), ("y", Host::F32(&y))])
        .unwrap_err();
    assert!(short.to_string().contains("`x`"), "{short}");
    let unknown = trainer
        .function(|cx| vec![("w", cx.param("third", &[2], Init::Zeros))])
        .err()
        .unwrap();
    assert!(
        unknown.to_string().contains("no parameter `third` of shape [2]"),
        "{unknown}"
    );
    let options = TrainerOptions {
        budget: Some(100),
        ..TrainerOptions::new(0.1)
    };
    let tight = Trainer::new(device(1), options, |cx| loss(cx, ROWS)).err().unwrap();
    assert!(
        tight.to_string().contains("below the floor of") && tight.exit_code() == 2,
        "{tight}"
    );
    let huge = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| loss(cx, 1 << 40))
        .err()
        .unwrap();
    assert!(huge.to_string().contains("of memory but only"), "{huge}");
}

#[test]
fn a_failed_step_leaves_parameters_states_and_sums_as_they_were() {
    for accumulate in [1, 2] {
        let build = || trainer(|options| options.accumulate = accumulate, ROWS, 1);
        let (mut failing, mut twin) = (build(), build());
        for step in 0..3 {
            let (x, y) = points(step, ROWS);
            let whole = [("x", Host::F32(&x)), ("y", Host::F32(&y))];
            let broken = [("x", Host::F32(&x))];
            let share = 1.0 / accumulate as f32;
            let mut batches = vec![Part::new(share, &whole); accumulate];
            batches[accumulate - 1].inputs = &broken;
            let before = (failing.weights().unwrap(), failing.state().unwrap());
            let error = failing.step_on(&batches).unwrap_err().to_string();
            assert!(error.contains("`y`"), "{error}");
            assert_eq!(failing.done(), step as u64);
            assert_eq!((failing.weights().unwrap(), failing.state().unwrap()), before);

            batches[accumulate - 1].inputs = &whole;
            let (found, expected) = (failing.step_on(&batches).unwrap(), twin.step_on(&batches).unwrap());
            assert_eq!(
                (found.step, found.loss.to_bits()),
                (expected.step, expected.loss.to_bits())
            );
        }
        assert_eq!(failing.weights().unwrap(), twin.weights().unwrap());
    }
}

/// A loss whose function counts its runs and remembers a mean, in states of its own.
fn counting(cx: Cx) -> Tensor {
    let value = loss(cx, ROWS);
    let trace = cx.trace();
    let count = trace.state("count", DType::I32, &[1]);
    trace.assign(count, count + count.full_like(1.0));
    let mean = trace.state("mean", DType::BF16, &[2]);
    trace.assign(mean, mean + mean.full_like(0.5));
    value
}

#[test]
fn states_of_other_dtypes_are_kept_and_resumed() {
    let build = || Trainer::new(device(1), TrainerOptions::new(0.01), counting).unwrap();
    let mut whole = build();
    train(&mut whole, 3);
    let states = whole.state().unwrap();
    let data = |name: &str| {
        let found = states.iter().find(|state| state.name == name);
        found.map(|state| state.data.clone())
    };
    assert_eq!(data("count"), Some(HostArray::I32(vec![3])));
    // 1.5 in bf16.
    assert_eq!(data("mean"), Some(HostArray::BF16(vec![0x3FC0; 2])));
    let mut resumed = build();
    resumed.set_weights(&whole.weights().unwrap()).unwrap();
    resumed.resume(3, &states).unwrap();
    train(&mut whole, 2);
    train(&mut resumed, 2);
    assert_eq!(resumed.state().unwrap(), whole.state().unwrap());
    assert_eq!(resumed.weights().unwrap(), whole.weights().unwrap());
    // The same elements in another dtype are another state.
    let mut other = states.clone();
    for state in &mut other {
        if let HostArray::I32(count) = &state.data {
            state.data = HostArray::U32(count.iter().map(|&n| n as u32).collect());
        }
    }
    assert!(build().resume(3, &other).is_err());
}

#[test]
fn functions_are_held_to_the_budget_and_count_in_its_floor() {
    let rows = 4096;
    let free = TrainerOptions::new(0.01);
    let step = StepGraphs::new(&free, |cx| loss(cx, ROWS)).unwrap();
    let backend = device(1);
    let peak = StepPlans::new(backend.as_ref(), &free, &step).unwrap().peak_bytes();
    let floor = step.floor_bytes(backend.as_ref(), &free).unwrap();
    let budget = TrainerOptions {
        budget: Some(peak),
        ..TrainerOptions::new(0.01)
    };
    // Added afterwards.
    let mut trainer = Trainer::new(device(1), budget.clone(), |cx| loss(cx, ROWS)).unwrap();
    let refused = trainer.function(|cx| vec![("y", predict(cx, rows))]);
    let sentence = refused.err().unwrap().to_string();
    assert!(sentence.contains("is below the floor of"), "{sentence}");
    // Planned together with the step.
    let both = step.with_function(|cx| vec![("y", predict(cx, rows))]).unwrap();
    let needed = both.floor_bytes(backend.as_ref(), &free).unwrap();
    assert!(needed > floor + rows * (WIDTH + 1) * 4, "{needed} after {floor}");
    let sentence = StepPlans::new(backend.as_ref(), &budget, &both)
        .err()
        .unwrap()
        .to_string();
    assert!(sentence.contains(&format!("({needed} bytes)")), "{sentence}");
    let enough = TrainerOptions {
        budget: Some(needed),
        ..free
    };
    let plans = StepPlans::new(backend.as_ref(), &enough, &both).unwrap();
    assert!(plans.peak_bytes() <= needed, "{} for {needed}", plans.peak_bytes());
}
