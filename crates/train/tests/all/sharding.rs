//! Parameters of which each process has a piece.

use crate::pieces::wide;
use crate::processes::{RANKS, ROWS, bits, on, options, rows, step, steps, trained};
use crate::support::device;
use lessen_comm::{Group, Network};
use lessen_compile::Placement;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{layer_norm, linear};
use lessen_nn::{Cx, Init, NormKind, OptimizerConfig};
use lessen_train::{NonFinite, StepGraphs, StepPlans, Trainer, TrainerOptions};
use std::time::Duration;

/// Layers with large parameters, one after another.
fn deep(cx: Cx) -> Tensor {
    layers(cx, 200)
}

fn layers(cx: Cx, width: usize) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let mut x = linear(cx, "first", x, width, Init::Normal { std: 0.5 });
    for layer in ["second", "third", "fourth", "fifth", "sixth", "seventh"] {
        x = linear(cx, layer, x.tanh(), width, Init::Normal { std: 0.07 });
    }
    let y = linear(cx, "last", x, 2, Init::Normal { std: 0.1 });
    cx.report("mean", y.mean());
    (y * y).mean()
}

/// A Pre-LN network, whose norms subtract no mean where what they read is recentred along rows.
fn normed(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let mut x = linear(cx, "first", x, 256, Init::Normal { std: 0.5 });
    for layer in ["second", "third"] {
        let weight = cx.param(&format!("{layer}.weight"), &[256, 256], Init::Normal { std: 0.1 });
        let inner = layer_norm(cx, &format!("{layer}.norm"), x, 1e-5).tanh().matmul(weight);
        x = x + inner;
    }
    let y = linear(
        cx,
        "last",
        layer_norm(cx, "norm", x, 1e-5),
        2,
        Init::Normal { std: 0.1 },
    );
    cx.report("mean", y.mean());
    (y * y).mean()
}

#[test]
fn recentred_parameters_are_cut_in_rows() {
    let centred = TrainerOptions {
        norm: NormKind::Rms,
        ..options(RANKS, OptimizerConfig::adamw(0.01))
    };
    let (expected, reports) = trained(1, &centred, normed);
    for (size, is_sharded) in [(3, false), (8, false), (2, true), (8, true)] {
        let options = TrainerOptions {
            shards_parameters: is_sharded,
            ..centred.clone()
        };
        let (bits, own) = trained(size, &options, normed);
        assert!(
            bits == expected,
            "{size} processes have other bits, in pieces: {is_sharded}"
        );
        assert_eq!(own, reports);
    }
    let states = |norm| {
        let all = on(8, move |group| {
            let options = TrainerOptions {
                norm,
                group,
                ..options(RANKS, OptimizerConfig::adamw(0.01))
            };
            let mut trainer = Trainer::new(device(1), options, normed).unwrap();
            assert_eq!(trainer.centred().is_empty(), norm == NormKind::Layer);
            trainer.session().unwrap().planned_memory().states
        });
        all[7]
    };
    // Moments of two matrices of 256 x 256, an eighth of each in both.
    let (layer, rms) = (states(NormKind::Layer), states(NormKind::Rms));
    assert!(rms <= layer + 4096, "{rms} bytes of states, {layer} with means");
}

fn in_pieces(options: TrainerOptions) -> TrainerOptions {
    TrainerOptions {
        shards_parameters: true,
        ..options
    }
}

#[test]
fn parameters_in_pieces_change_no_bit_on_any_number_of_processes() {
    let adam = OptimizerConfig::adamw(0.01);
    let all = [
        options(RANKS, adam),
        TrainerOptions {
            placement: Placement::Separate,
            non_finite: NonFinite::Skip,
            ..options(2 * RANKS, adam)
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(RANKS, OptimizerConfig::adamw_8bit(0.01))
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            clip_norm: None,
            ..options(2 * RANKS, adam)
        },
    ];
    for (number, options) in all.iter().enumerate() {
        let model = [wide, deep][number % 2];
        let (expected, reports) = trained(1, options, model);
        for size in [1, 2, 3, 8] {
            let (bits, own) = trained(size, &in_pieces(options.clone()), model);
            assert!(bits == expected, "{size} processes have other bits with {options:?}");
            assert_eq!(own, reports);
        }
    }
}

/// Bits after some steps, and planned bytes, within a budget or without one.
fn within(size: usize, budget: Option<usize>, is_sharded: bool) -> (Vec<u8>, usize, usize) {
    let mut all = on(size, move |group| {
        let options = TrainerOptions {
            shards_parameters: is_sharded,
            group,
            ..options(RANKS, OptimizerConfig::adamw(0.01))
        };
        let options = TrainerOptions { budget, ..options };
        let mut trainer = Trainer::new(device(1), options, deep).unwrap();
        trainer.session().unwrap().reserve().unwrap();
        for _ in 0..steps() {
            step(&mut trainer, None).unwrap();
        }
        let peak = trainer.peak();
        assert_eq!(peak.planned, peak.measured);
        (
            bits(&mut trainer),
            peak.planned,
            trainer.session().unwrap().planned_memory().states,
        )
    });
    all.swap_remove(0)
}

#[test]
fn a_process_has_a_piece_of_large_parameters_within_the_least_budget_too() {
    let (expected, whole, whole_states) = within(8, None, false);
    let (bits, pieces, states) = within(8, None, true);
    assert!(bits == expected);
    // Six matrices of 200 x 200, of which an eighth is left; some wholes are there at a time.
    let matrix = 200 * 200 * 4;
    assert!(
        whole_states - states >= 6 * matrix * 7 / 8 - 16384,
        "{states} bytes of states in pieces, {whole_states} of wholes"
    );
    assert!(pieces + matrix <= whole, "{pieces} bytes in pieces, {whole} whole");
    let floor = on(8, |group| {
        let options = in_pieces(TrainerOptions {
            group,
            ..options(RANKS, OptimizerConfig::adamw(0.01))
        });
        let graphs = StepGraphs::new(&options, deep).unwrap();
        graphs.floor_bytes(&*device(1), &options).unwrap()
    });
    let most = floor.into_iter().max().unwrap();
    let (bits, least, _) = within(8, Some(most), true);
    assert!(bits == expected && least <= most, "{least} bytes within {most}");
}

#[test]
fn wholes_that_are_kept_change_no_bit() {
    for placement in [Placement::BackwardFused, Placement::ForwardFused] {
        let of = |kept_quarters| {
            let options = TrainerOptions {
                placement,
                kept_quarters: Some(kept_quarters),
                ..options(RANKS, OptimizerConfig::adamw(0.01))
            };
            trained(8, &in_pieces(options), deep)
        };
        let expected = of(0);
        for quarters in [1, 2, 4] {
            assert!(of(quarters) == expected, "{quarters} quarters");
        }
    }
}

#[test]
fn the_planner_keeps_the_wholes_that_a_budget_allows() {
    let network = Network {
        latency: Duration::from_millis(1),
        rate: 1e8,
    };
    let options = in_pieces(TrainerOptions {
        group: Group::planned(0, 8, Some(network)),
        ..options(RANKS, OptimizerConfig::adamw(0.01))
    });
    // Wholes of 64 MiB, of which no two are under way.
    let graphs = StepGraphs::new(&options, |cx| layers(cx, 4096)).unwrap();
    let within = |kept_quarters, budget| {
        let options = TrainerOptions {
            kept_quarters,
            budget,
            ..options.clone()
        };
        StepPlans::new(device(1).as_ref(), &options, &graphs)
    };
    let floor = graphs.floor_bytes(&*device(1), &options).unwrap();
    let least = within(None, Some(floor)).unwrap();
    // Backward reads the last wholes first, so some are gone where it takes most.
    assert!(least.kept_quarters() < 4 && least.peak_bytes() <= floor);
    assert!(within(Some(4), Some(floor)).is_err());
    let (all, none) = (within(Some(4), None).unwrap(), within(Some(0), None).unwrap());
    assert_eq!(within(None, None).unwrap().kept_quarters(), 0);
    let most = all.peak_bytes().max(none.peak_bytes());
    let chosen = within(None, Some(most)).unwrap();
    assert_eq!(chosen.kept_quarters(), 4);
    assert!(chosen.peak_bytes() <= most && chosen.estimated_seconds(1) < none.estimated_seconds(1));
    // More budget keeps no less.
    let mut before = 0;
    for part in 0..=8 {
        let plans = within(None, Some(floor + (most - floor) * part / 8)).unwrap();
        assert!(
            plans.kept_quarters() >= before,
            "{part}: {} after {before}",
            plans.kept_quarters()
        );
        before = plans.kept_quarters();
    }
}

#[test]
fn functions_files_and_sessions_have_the_whole_parameters() {
    let made = |size: usize, is_sharded: bool| {
        let all = on(size, move |group| {
            let rank = group.rank();
            let options = TrainerOptions {
                shards_parameters: is_sharded,
                group,
                ..options(RANKS, OptimizerConfig::adamw(0.01))
            };
            let mut trainer = Trainer::new(device(1), options.clone(), wide).unwrap();
            step(&mut trainer, None).unwrap();
            let function = trainer.function(|cx| vec![("loss", wide(cx))]).unwrap();
            let x = rows(3, 1);
            let before = trainer.run(function, &[("x", Host::F32(&x))]).unwrap();
            let dir = tempfile::tempdir().unwrap();
            trainer.save_checkpoint(&dir.path().join("saved")).unwrap();
            step(&mut trainer, None).unwrap();
            let went_on = bits(&mut trainer);
            let mut again = Trainer::new(device(1), options, wide).unwrap();
            again.resume_checkpoint(&dir.path().join("saved")).unwrap();
            step(&mut again, None).unwrap();
            assert!(bits(&mut again) == went_on, "rank {rank} resumes otherwise");
            let mut session = trainer.finish().unwrap();
            let function = session.function(|cx| vec![("loss", wide(cx))]).unwrap();
            let after = session.run(function, &[("x", Host::F32(&x))]).unwrap();
            let loss = |results: &lessen_train::Results| results.scalar("loss").unwrap();
            (went_on, loss(&before), loss(&after))
        });
        all.into_iter().next().unwrap()
    };
    let expected = made(1, false);
    assert_eq!(made(3, true), expected);
    assert_eq!(made(8, true), expected);
}

#[test]
fn an_average_beside_parameters_in_pieces_is_refused() {
    let options = TrainerOptions {
        ema: Some(0.9),
        ..in_pieces(options(RANKS, OptimizerConfig::adamw(0.01)))
    };
    let error = Trainer::new(device(1), options, wide).err().unwrap().to_string();
    assert!(error.contains("set ema = 0"), "{error}");
}
