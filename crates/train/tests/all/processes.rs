//! Steps that several processes share: threads of this one stand for them.

use crate::support::device;
use lessen_comm::{Exchange, ThreadWire};
use lessen_compile::{Placement, Precision};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{BatchNorm, batch_norm, linear};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{Group, NonFinite, Part, Result, StepReport, Trainer, TrainerOptions};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub(crate) const RANKS: usize = 8;
pub(crate) const ROWS: usize = 3;

/// Steps of a training: 50 where `LESSEN_LONG` is 1.
pub(crate) fn steps() -> u64 {
    lessen_base::cases(50)
}

/// A loss with dropout, running statistics, a counter and values that are reported.
fn loss(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let x = linear(cx, "first", x, 40, Init::Normal { std: 0.5 });
    let x = batch_norm(cx, "norm", x, BatchNorm::default());
    let x = cx.dropout(x.relu(), 0.2);
    let seen = cx.trace().state("seen", DType::I32, &[]);
    cx.trace().assign(seen, (seen.cast(DType::F32) + 1.0).cast(DType::I32));
    let y = linear(cx, "last", x, 2, Init::Normal { std: 0.5 });
    cx.report("mean", y.mean());
    (y * y).mean()
}

pub(crate) fn options(accumulate: usize, optimizer: OptimizerConfig) -> TrainerOptions {
    TrainerOptions {
        accumulate,
        optimizer,
        ranks: RANKS,
        clip_norm: Some(0.3),
        ..TrainerOptions::new(0.05)
    }
}

/// The rows of a micro-batch of a step.
pub(crate) fn rows(step: u64, index: usize) -> Vec<f32> {
    let number = |at: usize| (step as usize * 977 + index * 131 + at * 37) % 101;
    (0..4 * ROWS).map(|at| number(at) as f32 / 50.0 - 1.0).collect()
}

/// The next step, on this process's micro-batches.
pub(crate) fn step(trainer: &mut Trainer, bad: Option<usize>) -> Result<StepReport> {
    let (own, done) = (trainer.options().own_batches(), trainer.done());
    let made: Vec<Vec<f32>> = own.clone().map(|index| rows(done, index)).collect();
    let shares = trainer.shares(Ok(own.clone().map(|index| 1.0 + index as f64).collect()))?;
    let name = |index| if bad == Some(index) { "y" } else { "x" };
    let inputs: Vec<_> = own.zip(&made).map(|(index, x)| [(name(index), Host::F32(x))]).collect();
    let parts: Vec<Part<'_>> = inputs
        .iter()
        .zip(shares)
        .map(|(inputs, share)| Part::new(share, inputs))
        .collect();
    trainer.step_on(&parts)
}

/// Bits of all parameters and states, in their order.
pub(crate) fn bits(trainer: &mut Trainer) -> Vec<u8> {
    let state = trainer
        .state()
        .unwrap()
        .into_iter()
        .flat_map(|state| state.data.to_le_bytes());
    let state: Vec<u8> = state.collect();
    let weights = trainer.weights().unwrap();
    let weights = weights
        .values()
        .flat_map(|weight| weight.data.iter().flat_map(|x| x.to_le_bytes()));
    weights.chain(state).collect()
}

/// What a process does with its group, for all processes.
pub(crate) fn on<T: Send + 'static>(size: usize, run: impl Fn(Group) -> T + Send + Sync + Clone + 'static) -> Vec<T> {
    let ranks = ThreadWire::connected(size).into_iter().map(|wire| {
        let run = run.clone();
        thread::spawn(move || {
            let exchange = Exchange::start(Duration::from_secs(60), || Ok(Box::new(wire)));
            run(Group::of(Arc::new(exchange.unwrap())))
        })
    });
    let ranks: Vec<_> = ranks.collect();
    ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
}

/// Bits and reports of a training on so many processes, which are the same on all of them.
pub(crate) fn trained(size: usize, options: &TrainerOptions, model: fn(Cx) -> Tensor) -> (Vec<u8>, Vec<StepReport>) {
    let options = options.clone();
    let mut all = on(size, move |group| {
        let options = TrainerOptions {
            group,
            ..options.clone()
        };
        let mut trainer = Trainer::new(device(1), options, model).unwrap();
        let reports = (0..steps()).map(|_| StepReport {
            time: Duration::ZERO,
            ..step(&mut trainer, None).unwrap()
        });
        let reports = reports.collect();
        assert_eq!(trainer.peak().planned, trainer.peak().measured);
        (bits(&mut trainer), reports)
    });
    assert!(all.iter().all(|own| *own == all[0]), "{size} processes differ");
    all.swap_remove(0)
}

#[test]
fn a_training_has_the_same_bits_on_any_number_of_processes() {
    let adam = OptimizerConfig::adamw(0.01);
    let all = [
        options(RANKS, adam),
        options(2 * RANKS, OptimizerConfig::adafactor(0.0)),
        TrainerOptions {
            ema: Some(0.9),
            placement: Placement::Separate,
            ..options(RANKS, OptimizerConfig::adamw_8bit(0.01))
        },
        TrainerOptions {
            precision: Precision::Bf16,
            clip_norm: None,
            ..options(RANKS, adam)
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(2 * RANKS, adam)
        },
    ];
    for options in &all {
        let (expected, reports) = trained(1, options, loss);
        assert!(reports[0].loss != reports[steps() as usize - 1].loss);
        for size in [2, 3, 4, 8] {
            let (bits, own) = trained(size, options, loss);
            assert!(bits == expected, "{size} processes have other bits with {options:?}");
            assert_eq!(own, reports);
        }
    }
}

#[test]
fn groups_change_a_result_by_rounding_alone_and_one_group_not_at_all() {
    let of = |ranks| {
        let options = TrainerOptions {
            ranks,
            ..options(RANKS, OptimizerConfig::adamw(0.0))
        };
        let plain = |cx: Cx| {
            let x = cx.input("x", DType::F32, &[ROWS, 4]);
            let y = linear(cx, "first", x, 40, Init::Normal { std: 0.5 }).relu();
            (y * y).mean()
        };
        let mut trainer = Trainer::new(device(1), options, plain).unwrap();
        (0..5)
            .map(|_| step(&mut trainer, None).unwrap().loss)
            .collect::<Vec<f32>>()
    };
    let (one, four) = (of(1), of(4));
    for (one, four) in one.iter().zip(&four) {
        assert!((one - four).abs() <= 1e-5 * one.abs(), "{one} {four}");
    }
}

#[test]
fn a_mistake_of_one_process_is_the_error_of_all_and_changes_nothing() {
    let all = on(4, |group| {
        let options = TrainerOptions {
            group,
            non_finite: NonFinite::Skip,
            ..options(RANKS, OptimizerConfig::adamw(0.0))
        };
        let mut trainer = Trainer::new(device(1), options, loss).unwrap();
        step(&mut trainer, None).unwrap();
        let before = bits(&mut trainer);
        let error = step(&mut trainer, Some(5)).unwrap_err().to_string();
        assert!(before == bits(&mut trainer));
        step(&mut trainer, None).unwrap();
        (error, bits(&mut trainer))
    });
    assert!(
        all.iter().all(|own| *own == all[0]),
        "{:?}",
        all.iter().map(|own| &own.0).collect::<Vec<_>>()
    );
    assert!(
        all[0].0.contains("`x`") && all[0].0.contains("rank 2 of 4"),
        "{}",
        all[0].0
    );
}

#[test]
fn more_processes_than_groups_and_groups_that_do_not_divide_the_batches_are_refused() {
    let wrong = TrainerOptions {
        ranks: 3,
        ..options(8, OptimizerConfig::adamw(0.0))
    };
    let error = Trainer::new(device(1), wrong, loss).err().unwrap().to_string();
    assert!(error.contains("ranks = 3 does not divide accumulate = 8"), "{error}");
    let errors = on(2, |group| {
        let options = TrainerOptions {
            group,
            ..TrainerOptions::new(0.1)
        };
        Trainer::new(device(1), options, loss).err().unwrap().to_string()
    });
    assert!(
        errors[1].contains("there are 2 processes for ranks = 1"),
        "{}",
        errors[1]
    );
}
