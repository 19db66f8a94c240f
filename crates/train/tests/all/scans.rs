//! Training of a body that is repeated.

use crate::support::{descent, device};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::{Cx, Init};
use lessen_train::{Trainer, TrainerOptions};

const TURNS: usize = 6;

/// The mean square of the states of a network, and of its last one.
fn loss(cx: Cx, scans: bool) -> Tensor {
    let x = cx.input("x", DType::F32, &[TURNS, 3, 4]);
    let start = cx.param("start", &[5], Init::Ones).broadcast_to(&[3, 5]);
    let next = |h: Tensor, x: Tensor| {
        let init = Init::Normal { std: 0.5 };
        (linear(cx, "h", h, 5, init) + linear(cx, "x", x, 5, init)).tanh()
    };
    let (last, all) = if scans {
        let (last, all) = cx.scan(TURNS, &[start], &[x], |h, x| {
            let h = next(h[0], x[0]);
            (vec![h], vec![(h * h).mean()])
        });
        (last[0], all[0].mean())
    } else {
        let (mut h, mut sum) = (start, None);
        for turn in 0..TURNS {
            h = next(h, x.slice(0, turn, 1).reshape(&[3, 4]));
            let square = (h * h).mean();
            sum = Some(sum.map_or(square, |sum: Tensor| sum + square));
        }
        (h, sum.expect("there are turns") / TURNS)
    };
    all + (last * last).mean()
}

/// Losses of five steps, and the bytes of a step.
fn trained(options: TrainerOptions, scans: bool) -> (Vec<f64>, usize) {
    let mut trainer = Trainer::new(device(2), options, |cx| loss(cx, scans)).unwrap();
    let x: Vec<f32> = (0..TURNS * 12).map(|i| ((7 * i) % 11) as f32 / 11.0 - 0.5).collect();
    let losses = (0..5).map(|_| trainer.step(&[("x", Host::F32(&x))]).unwrap().loss);
    let losses = losses.collect();
    let peak = trainer.peak();
    assert!(peak.measured <= peak.planned, "{peak:?}");
    (losses, peak.planned)
}

#[test]
fn a_scan_trains_as_its_turns_one_after_another_do() {
    let options = || descent(0.5, 0.0, None);
    let (scanned, unrolled) = (trained(options(), true).0, trained(options(), false).0);
    for (a, b) in scanned.iter().zip(&unrolled) {
        assert!((a - b).abs() < 1e-5 * b, "{scanned:?} {unrolled:?}");
    }
    assert!(scanned[4] < 0.9 * scanned[0], "{scanned:?}");
}

#[test]
fn a_budget_and_the_number_of_threads_change_no_bit_of_a_scan() {
    let (losses, bytes) = trained(descent(0.5, 0.0, None), true);
    let again = descent(0.5, 0.0, Some(bytes));
    assert_eq!(trained(again, true).0, losses);
    let mut alone = Trainer::new(device(1), descent(0.5, 0.0, None), |cx| loss(cx, true)).unwrap();
    let x: Vec<f32> = (0..TURNS * 12).map(|i| ((7 * i) % 11) as f32 / 11.0 - 0.5).collect();
    for expected in losses {
        assert_eq!(alone.step(&[("x", Host::F32(&x))]).unwrap().loss, expected);
    }
}
