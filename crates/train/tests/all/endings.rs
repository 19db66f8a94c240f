//! The end of a step that processes share: micro-batches that are missing, losses that are not finite, and the memory
//! of gradients.

use crate::pieces::wide;
use crate::processes::{RANKS, bits, on, options, rows};
use crate::support::device;
use lessen_comm::{Group, Network};
use lessen_compile::Placement;
use lessen_cpu::CpuBackend;
use lessen_device::Host;
use lessen_graph::Tensor;
use lessen_nn::models::BatchShape;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{Cx, Model, OptimizerConfig};
use lessen_train::{NonFinite, Part, StepGraphs, StepPlans, StepReport, Trainer, TrainerOptions};
use std::time::Duration;

/// A step on the first `count` micro-batches, of which number `broken` has a number that is not finite.
fn step(trainer: &mut Trainer, count: usize, broken: Option<usize>) -> StepReport {
    let (own, done) = (trainer.options().own_batches(), trainer.done());
    let own = own.start.min(count)..own.end.min(count);
    let mut made: Vec<Vec<f32>> = own.clone().map(|index| rows(done, index)).collect();
    if let Some(index) = broken.filter(|index| own.contains(index)) {
        made[index - own.start][0] = f32::NAN;
    }
    let shares = trainer.shares(Ok(vec![1.0; own.len()])).unwrap();
    let inputs: Vec<_> = made.iter().map(|x| [("x", Host::F32(x))]).collect();
    let parts = inputs.iter().zip(shares);
    let parts: Vec<Part<'_>> = parts.map(|(inputs, share)| Part::new(share, inputs)).collect();
    StepReport {
        time: Duration::ZERO,
        ..trainer.step_on(&parts).unwrap()
    }
}

/// Steps of which some lack micro-batches, and one is not finite.
pub(crate) fn trained_with_gaps(
    size: usize,
    options: &TrainerOptions,
    model: fn(Cx) -> Tensor,
) -> (Vec<u8>, Vec<StepReport>) {
    let options = options.clone();
    let mut all = on(size, move |group| {
        let options = TrainerOptions {
            group,
            ..options.clone()
        };
        let all = options.accumulate;
        let mut trainer = Trainer::new(device(1), options, model).unwrap();
        let counts = [all, 3, all, all - 1, 1, all];
        let reports = counts.iter().enumerate().map(|(number, &count)| {
            let broken = (number == 2).then(|| count - 2);
            step(&mut trainer, count, broken)
        });
        let reports: Vec<StepReport> = reports.collect();
        (bits(&mut trainer), reports)
    });
    assert!(
        all.iter().all(|own| own.0 == all[0].0 && is_same(&own.1, &all[0].1)),
        "{size} processes differ"
    );
    all.swap_remove(0)
}

/// Whether reports are the same, also where a number is none.
pub(crate) fn is_same(one: &[StepReport], other: &[StepReport]) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

#[test]
fn processes_without_a_last_micro_batch_and_skipped_steps_change_no_bit() {
    let all = [
        options(RANKS, OptimizerConfig::adamw(0.01)),
        options(2 * RANKS, OptimizerConfig::adamw(0.01)),
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(RANKS, OptimizerConfig::adamw(0.01))
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(2 * RANKS, OptimizerConfig::adamw_8bit(0.01))
        },
    ];
    for options in &all {
        let options = TrainerOptions {
            non_finite: NonFinite::Skip,
            ..options.clone()
        };
        let (expected, reports) = trained_with_gaps(1, &options, wide);
        let skipped: Vec<bool> = reports.iter().map(|report| report.skipped).collect();
        assert_eq!(skipped, [false, false, true, false, false, false]);
        for size in [2, 3, 8] {
            let (bits, own) = trained_with_gaps(size, &options, wide);
            assert!(is_same(&own, &reports), "{size} processes report something else");
            assert!(bits == expected, "{size} processes have other bits with {options:?}");
        }
    }
}

/// Planned bytes of the states of a process among `size`, with `accumulate` micro-batches in a step.
fn planned(size: usize, accumulate: usize, placement: Placement) -> usize {
    let all = on(size, move |group| {
        let options = TrainerOptions {
            group,
            placement,
            ..options(accumulate, OptimizerConfig::adamw(0.01))
        };
        let mut trainer = Trainer::new(device(1), options, wide).unwrap();
        trainer.session().unwrap().reserve().unwrap();
        step(&mut trainer, accumulate, None);
        assert_eq!(trainer.peak().planned, trainer.peak().measured);
        trainer.session().unwrap().planned_memory().states
    });
    all[0]
}

#[test]
fn a_process_with_one_micro_batch_has_no_sums_of_gradients_and_pieces_of_those_that_wait() {
    let gradients = 4 * (4 * crate::pieces::WIDTH + crate::pieces::WIDTH);
    let one = planned(8, 8, Placement::BackwardFused);
    let two = planned(8, 16, Placement::BackwardFused);
    assert!(
        two - one >= gradients,
        "{one} bytes with one micro-batch, {two} with two"
    );
    let waiting = planned(8, 8, Placement::ForwardFused);
    // The matrix that is cut waits as an eighth of it, the others as wholes.
    let (matrix, all) = (16 * crate::pieces::WIDTH, 4 * (7 * crate::pieces::WIDTH + 2));
    let more = waiting - one;
    assert!(more <= all - matrix * 7 / 8 + 1024, "{more} bytes wait of {all}");
}

/// The loss of a network with blocks, whose plans are put together from samples of them.
fn of_blocks(cx: Cx) -> Tensor {
    let config = Gpt2Config {
        vocab_size: 64,
        n_positions: 32,
        n_embd: 128,
        n_layer: 2,
        n_head: 2,
        ..Gpt2Config::default()
    };
    let model: Model = GPT2LMHeadModel { config }.into();
    model.forward(cx, BatchShape::Padded { size: 2, length: 32 }).loss
}

#[test]
fn a_forecast_takes_at_least_the_time_of_the_messages() {
    let rate = 1e3;
    let network = Network {
        latency: Duration::ZERO,
        rate,
    };
    for placement in [Placement::Separate, Placement::BackwardFused, Placement::ForwardFused] {
        let options = TrainerOptions {
            accumulate: 2,
            ranks: 2,
            placement,
            clip_norm: Some(1.0),
            group: Group::planned(0, 2, Some(network)),
            ..TrainerOptions::new(0.1)
        };
        let graphs = StepGraphs::new(&options, of_blocks).unwrap();
        let plans = StepPlans::new(&CpuBackend::new(1).unwrap(), &options, &graphs).unwrap();
        let (seconds, sent) = (plans.estimated_seconds(1), plans.gradient_bytes() as f64);
        assert!(seconds >= sent / rate, "{placement:?}: {seconds} s for {sent} bytes");
    }
}
