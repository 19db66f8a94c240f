//! Mistakes in a model function: errors that name the line of the function, where tensors alone would panic.

use crate::support::device;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::{layer_norm, linear};
use lessen_nn::{Cx, Init};
use lessen_train::{Trainer, TrainerOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The sentence of a trainer that cannot be made of this loss.
fn refused(loss: impl Fn(Cx) -> Tensor) -> String {
    let error = Trainer::new(device(1), TrainerOptions::new(0.1), loss)
        .err()
        .expect("an error");
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

fn points(cx: Cx) -> Tensor {
    cx.input("x", DType::F32, &[4, 3])
}

/// A function has the type of all cases.
fn ignore<T>(_: T) {}

fn weight(cx: Cx, shape: &[usize]) -> Tensor {
    cx.param("w", shape, Init::Ones)
}

#[test]
fn a_loss_that_is_no_scalar_is_refused_with_the_line_that_made_it() {
    let line = line!() + 1;
    let sentence = refused(|cx| points(cx).matmul(weight(cx, &[3, 2])));
    let expected =
        format!("mistakes.rs:{line}: the loss is of type f32[4,2], but it must be a scalar; end it with .mean()");
    assert!(sentence.contains(&expected), "{sentence}");
    let sentence = refused(|cx| cx.input("label", DType::I32, &[]));
    assert!(
        sentence.starts_with("the loss is of type i32[], which has no gradient"),
        "{sentence}"
    );
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_line_of_the_operation() {
    type Case = (u32, fn(Cx), &'static str);
    // Each case is on a line of its own, because its line number is part of the expected sentence.
    #[rustfmt::skip]
    let cases: [Case; 7] = [
        (line!(), |cx| ignore(points(cx).matmul(weight(cx, &[2, 2]))), "matmul"),
        (line!(), |cx| ignore(points(cx) + weight(cx, &[2])), "[4, 3] and [2] do not broadcast"),
        (line!(), |cx| ignore(points(cx).reshape(&[5])), "reshape"),
        (line!(), |cx| ignore(points(cx).dim(2)), "axis 2"),
        (line!(), |cx| ignore(linear(cx, "a", cx.input("i", DType::I32, &[4, 3]), 2, Init::Ones)), "matmul"),
        (line!(), |cx| ignore(layer_norm(cx, "n", cx.input("i", DType::I32, &[3]), 1e-5)), "layer_norm"),
        (line!(), |cx| ignore((cx.param("v", &[2], Init::Ones), cx.param("v", &[3], Init::Ones))), "the parameter `v` is declared with two shapes"),
    ];
    for (line, case, expected) in cases {
        let sentence = refused(|cx| {
            case(cx);
            points(cx).mean()
        });
        let place = format!("mistakes.rs:{line}: ");
        assert!(
            sentence.contains(&place) && sentence.contains(expected),
            "{line}: {sentence}"
        );
    }
}

#[test]
fn functions_and_steps_that_come_later_are_checked_the_same() {
    let mut trainer = Trainer::new(device(1), TrainerOptions::new(0.1), |cx| {
        points(cx).matmul(weight(cx, &[3, 1])).mean()
    })
    .unwrap();
    let line = line!() + 1;
    let result = trainer.function(|cx| vec![("y", points(cx).matmul(weight(cx, &[3, 1]).reshape(&[2])))]);
    let sentence = result.err().unwrap().to_string();
    assert!(sentence.contains(&format!("mistakes.rs:{line}: reshape")), "{sentence}");
    // The trainer goes on.
    trainer.step(&[("x", Host::F32(&[1.0; 12]))]).unwrap();
}

#[test]
fn other_panics_stay_what_they_are() {
    let result = catch_unwind(AssertUnwindSafe(|| refused(|_| panic!("mine"))));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
    // Outside of a trainer an operation panics with its sentence.
    let result = catch_unwind(|| {
        let trace = lessen_graph::Trace::new();
        trace.input("x", DType::F32, &[4]).reshape(&[3]);
    });
    let payload = result.unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("reshape"));
}
