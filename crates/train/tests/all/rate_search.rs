//! The search for a learning rate.

use crate::support::{descent, device, line};
use lessen_data::{ArrayBatches, Field, Order, Source};
use lessen_nn::{LrSchedule, LrScheduleKind};
use lessen_train::{RateCurve, RatePoint, RateSearch, Trainer, TrainerOptions, inputs_of};

fn source() -> ArrayBatches {
    let x = (0..20).map(|i| (i * 7 % 20) as f32 / 10.0 - 1.0).collect();
    ArrayBatches::new(vec![("x", Field::f32([20], x))], 4, Order::Shuffled(3)).unwrap()
}

#[test]
fn a_search_leaves_the_training_as_it_was() {
    let options = TrainerOptions {
        schedule: LrSchedule {
            kind: LrScheduleKind::Cosine,
            peak: 0.1,
            warmup: 2,
            total: 9,
        },
        ..TrainerOptions::new(0.1)
    };
    let (mut plain, mut searching) = (
        Trainer::new(device(1), options.clone(), line).unwrap(),
        Trainer::new(device(1), options, line).unwrap(),
    );
    let source = source();
    for step in 0..6 {
        if step % 2 == 1 {
            let before = searching.snapshot().unwrap();
            let curve = searching.search_rate(&source, &RateSearch::default()).unwrap();
            assert!(curve.points.len() > 2);
            assert_eq!(searching.snapshot().unwrap(), before);
        }
        let batch = source.batch(step).unwrap();
        let (found, expected) = (
            searching.step(&inputs_of(&batch)).unwrap(),
            plain.step(&inputs_of(&batch)).unwrap(),
        );
        assert_eq!(
            (found.loss, found.lr, found.step),
            (expected.loss, expected.lr, expected.step)
        );
    }
    assert_eq!(searching.snapshot().unwrap(), plain.snapshot().unwrap());
}

#[test]
fn rates_grow_by_equal_factors_until_the_loss_does() {
    // Descent on a parabola: the loss falls fast from some rate on, and grows above twice the inverse curvature.
    let mut trainer = Trainer::new(device(1), descent(0.1, 0.0, None), line).unwrap();
    let search = RateSearch {
        first: 1e-4,
        last: 1e4,
        steps: 81,
        smoothing: 0.5,
        ..RateSearch::default()
    };
    let x = Field::f32([4], vec![-1.0, -0.3, 0.4, 1.0]);
    let same = ArrayBatches::new(vec![("x", x)], 4, Order::InOrder).unwrap();
    let curve = trainer.search_rate(&same, &search).unwrap();
    assert!(curve.points.len() < 81, "it ends when the loss grows");
    for pair in curve.points.windows(2) {
        assert!((pair[1].rate / pair[0].rate - 10f64.powf(0.1)).abs() < 1e-9);
    }
    assert_eq!(
        (curve.points[0].rate, curve.points[0].loss),
        (1e-4, curve.points[0].smoothed)
    );
    let suggestion = curve.suggestion().unwrap();
    assert!((0.01..2.0).contains(&suggestion), "{suggestion}");
}

#[test]
fn a_loss_that_is_not_finite_ends_the_search_alone() {
    let mut trainer = Trainer::new(device(1), descent(0.1, 0.0, None), line).unwrap();
    trainer.set_lr(0.05).unwrap();
    let before = trainer.snapshot().unwrap();
    let search = RateSearch {
        first: 1.0,
        last: 1e30,
        steps: 60,
        smoothing: 0.0,
        stop_at: f64::INFINITY,
    };
    let curve = trainer.search_rate(&source(), &search).unwrap();
    assert!((2..60).contains(&curve.points.len()), "{}", curve.points.len());
    assert_eq!(trainer.snapshot().unwrap(), before);
    let report = trainer.step(&inputs_of(&source().batch(0).unwrap())).unwrap();
    assert!(report.lr == 0.05 && report.loss.is_finite());
}

#[test]
fn the_suggestion_is_where_the_loss_falls_fastest() {
    let curve = |smoothed: &[f64]| RateCurve {
        points: (1..)
            .zip(smoothed)
            .map(|(number, &smoothed)| RatePoint {
                rate: f64::from(number),
                loss: 0.0,
                smoothed,
            })
            .collect(),
    };
    assert_eq!(curve(&[5.0, 4.9, 3.0, 2.0, 9.0, 8.5]).suggestion(), Some(2.0));
    assert_eq!(curve(&[1.0, 2.0, 2.0]).suggestion(), None);
    assert_eq!(curve(&[]).suggestion(), None);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.1), line).unwrap();
    let mut refused = |search: RateSearch, part: &str| {
        let sentence = trainer.search_rate(&source(), &search).unwrap_err().to_string();
        assert!(sentence.contains(part), "{sentence}");
    };
    let good = RateSearch::default;
    refused(RateSearch { first: 0.0, ..good() }, "first = 0");
    refused(RateSearch { last: 1e-8, ..good() }, "last = 0.00000001");
    refused(
        RateSearch {
            last: f64::NAN,
            ..good()
        },
        "last = NaN",
    );
    refused(RateSearch { steps: 1, ..good() }, "steps = 1");
    refused(
        RateSearch {
            smoothing: 1.0,
            ..good()
        },
        "smoothing = 1",
    );
    refused(RateSearch { stop_at: 1.0, ..good() }, "stop_at = 1");
    refused(
        RateSearch {
            stop_at: f64::NAN,
            ..good()
        },
        "stop_at = NaN",
    );
}
