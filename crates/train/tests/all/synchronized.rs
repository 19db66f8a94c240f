//! Batch normalization over all groups of a step.

use crate::endings::{is_same, trained_with_gaps};
use crate::processes::{RANKS, ROWS, bits, on, options, rows, step, steps, trained};
use crate::support::device;
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{BatchNorm, Spread, batch_norm, linear};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{NonFinite, Trainer, TrainerOptions};

fn norm(cx: Cx, name: &str, x: Tensor, spread: Spread) -> Tensor {
    let how = BatchNorm {
        spread,
        ..BatchNorm::default()
    };
    batch_norm(cx, name, x, how)
}

fn model(cx: Cx, rows: usize, spread: Spread, dropout: f64) -> Tensor {
    let x = cx.input("x", DType::F32, &[rows, 4]);
    let x = linear(cx, "first", x, 300, Init::Normal { std: 0.5 });
    let x = cx.dropout(norm(cx, "norm", x, spread).relu(), dropout);
    let x = linear(cx, "second", x, 300, Init::Normal { std: 0.1 });
    let x = norm(cx, "another", x, spread).tanh();
    let y = linear(cx, "last", x, 2, Init::Normal { std: 0.5 });
    cx.report("mean", y.mean());
    (y * y).mean()
}

/// A loss with dropout, and running statistics of all groups.
fn synchronized(cx: Cx) -> Tensor {
    model(cx, ROWS, Spread::Synchronized, 0.2)
}

#[test]
fn statistics_of_all_groups_have_the_same_bits_on_any_number_of_processes() {
    let adam = OptimizerConfig::adamw(0.01);
    let all = [
        options(RANKS, adam),
        TrainerOptions {
            ema: Some(0.9),
            placement: Placement::Separate,
            ..options(RANKS, OptimizerConfig::adamw_8bit(0.01))
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(RANKS, OptimizerConfig::adafactor(0.0))
        },
        TrainerOptions {
            shards_parameters: true,
            ..options(RANKS, adam)
        },
    ];
    for options in &all {
        let (expected, reports) = trained(1, options, synchronized);
        assert!(reports[0].loss != reports[steps() as usize - 1].loss);
        for size in [2, 3, 4, 8] {
            let (bits, own) = trained(size, options, synchronized);
            assert!(bits == expected, "{size} processes have other bits with {options:?}");
            assert_eq!(own, reports);
        }
    }
}

#[test]
fn groups_without_a_micro_batch_have_no_part_in_the_statistics() {
    for placement in [Placement::BackwardFused, Placement::ForwardFused] {
        let options = TrainerOptions {
            placement,
            non_finite: NonFinite::Skip,
            ..options(RANKS, OptimizerConfig::adamw(0.01))
        };
        let (expected, reports) = trained_with_gaps(1, &options, synchronized);
        let skipped: Vec<bool> = reports.iter().map(|report| report.skipped).collect();
        assert_eq!(skipped, [false, false, true, false, false, false]);
        for size in [2, 3, 8] {
            let (bits, own) = trained_with_gaps(size, &options, synchronized);
            assert!(is_same(&own, &reports), "{size} processes report something else");
            assert!(bits == expected, "{size} processes have other bits");
        }
    }
}

#[test]
fn statistics_of_all_groups_are_those_of_the_whole_batch() {
    // Steps in proportion to gradients do not enlarge the rounding errors of the biases before a norm, whose true
    // gradients are zero.
    let plain = TrainerOptions {
        clip_norm: None,
        ..options(
            RANKS,
            OptimizerConfig::Sgd {
                momentum: 0.9,
                nesterov: false,
                weight_decay: 0.0,
            },
        )
    };
    let mut groups = Trainer::new(device(1), plain.clone(), |cx| {
        model(cx, ROWS, Spread::Synchronized, 0.0)
    })
    .unwrap();
    let whole = TrainerOptions {
        accumulate: 1,
        ranks: 1,
        ..plain
    };
    let mut whole = Trainer::new(device(1), whole, |cx| model(cx, RANKS * ROWS, Spread::Variance, 0.0)).unwrap();
    for number in 0..5 {
        let all: Vec<Vec<f32>> = (0..RANKS).map(|index| rows(number, index)).collect();
        let parts: Vec<_> = all.iter().map(|x| [("x", Host::F32(x))]).collect();
        let parts: Vec<_> = parts
            .iter()
            .map(|inputs| lessen_train::Part::new(1.0 / RANKS as f32, inputs))
            .collect();
        let own = groups.step_on(&parts).unwrap().loss;
        let expected = whole.step(&[("x", Host::F32(&all.concat()))]).unwrap().loss;
        assert!((own - expected).abs() <= 2e-5 * expected.abs(), "{own} {expected}");
    }
    for (name, expected) in whole
        .weights()
        .unwrap()
        .iter()
        .filter(|(name, _)| name.contains("running"))
    {
        let own = groups.weights().unwrap();
        for (own, expected) in own[name].data.iter().zip(&expected.data) {
            assert!(
                (own - expected).abs() <= 1e-4 * (1.0 + expected.abs()),
                "{name}: {own} {expected}"
            );
        }
    }
}

#[test]
fn a_mistake_of_one_process_changes_nothing_where_groups_run_side_by_side() {
    let all = on(3, |group| {
        let options = TrainerOptions {
            group,
            ..options(RANKS, OptimizerConfig::adamw(0.0))
        };
        let mut trainer = Trainer::new(device(1), options, synchronized).unwrap();
        step(&mut trainer, None).unwrap();
        let before = bits(&mut trainer);
        let error = step(&mut trainer, Some(4)).unwrap_err().to_string();
        assert!(before == bits(&mut trainer));
        step(&mut trainer, None).unwrap();
        (error, bits(&mut trainer))
    });
    assert!(all.iter().all(|own| *own == all[0]));
    assert!(
        all[0].0.contains("`x of group 4`") && all[0].0.contains("rank 1 of 3"),
        "{}",
        all[0].0
    );
}
