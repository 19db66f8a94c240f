//! Processes that update pieces of large parameters, and have the optimizer's states of these alone.

use crate::processes::{RANKS, ROWS, bits, on, options, step, steps, trained};
use crate::support::device;
use lessen_compile::Placement;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{NonFinite, Snapshot, Trainer, TrainerOptions};

/// Columns of a matrix that is cut in eight pieces.
pub(crate) const WIDTH: usize = 8200;

/// A loss with a parameter that is cut, whose last piece is longer, and others that are not.
pub(crate) fn wide(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[ROWS, 4]);
    let y = linear(cx, "wide", x, WIDTH, Init::Normal { std: 0.5 }).tanh();
    let y = linear(cx, "last", y, 2, Init::Normal { std: 0.1 });
    cx.report("mean", y.mean());
    (y * y).mean()
}

#[test]
fn pieces_change_no_bit_on_any_number_of_processes() {
    let adam = OptimizerConfig::adamw(0.01);
    let all = [
        TrainerOptions {
            ema: Some(0.9),
            ..options(RANKS, adam)
        },
        TrainerOptions {
            placement: Placement::Separate,
            clip_norm: None,
            ..options(2 * RANKS, OptimizerConfig::adamw_8bit(0.01))
        },
        TrainerOptions {
            placement: Placement::ForwardFused,
            ..options(RANKS, adam)
        },
        TrainerOptions {
            non_finite: NonFinite::Skip,
            clip_norm: None,
            ..options(RANKS, OptimizerConfig::adafactor(0.0))
        },
    ];
    for options in &all {
        let (expected, reports) = trained(1, options, wide);
        for size in [2, 3, 4, 8] {
            let (bits, own) = trained(size, options, wide);
            assert!(bits == expected, "{size} processes have other bits with {options:?}");
            assert_eq!(own, reports);
        }
    }
}

/// Planned bytes of the first of `size` processes, its state after some steps, and the bits of that.
fn state_bytes(size: usize, snapshot: Option<Snapshot>) -> (usize, Snapshot, Vec<u8>) {
    let mut all = on(size, move |group| {
        let options = TrainerOptions {
            group,
            ..options(RANKS, OptimizerConfig::adamw(0.01))
        };
        let mut trainer = Trainer::new(device(1), options, wide).unwrap();
        if let Some(snapshot) = &snapshot {
            trainer.restore(snapshot).unwrap();
        }
        for _ in 0..steps() {
            step(&mut trainer, None).unwrap();
        }
        assert_eq!(trainer.peak().planned, trainer.peak().measured);
        (trainer.peak().planned, trainer.snapshot().unwrap(), bits(&mut trainer))
    });
    all.swap_remove(0)
}

#[test]
fn a_process_has_the_moments_of_its_piece_alone_and_any_number_goes_on_with_them() {
    let (all, first, _) = state_bytes(4, None);
    let (piece, second, _) = state_bytes(8, None);
    assert_eq!(first, second);
    // Two moments of f32: an eighth less of them in place of a quarter, and one held sum less.
    let moments = 2 * 4 * 4 * WIDTH;
    assert!(
        all - piece >= moments / 8,
        "{all} bytes with 4 processes, {piece} with 8"
    );
    let (_, _, expected) = state_bytes(1, Some(first.clone()));
    for size in [2, 3, 8] {
        let (_, _, own) = state_bytes(size, Some(first.clone()));
        assert!(own == expected, "{size} processes go on with other bits");
    }
}
