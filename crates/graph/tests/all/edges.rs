//! Derivatives where a formula has no value of its own: powers of zero, the side of a maximum that loses, the
//! norm of zeros. The expected numbers are PyTorch's, where these are numbers.

use lessen_graph::{Array, DType, Tensor, TraceRef, Type, clip_coefficient, global_norm};

use crate::check::{assert_near, function, run};

/// A scalar, so that its derivatives' names are short.
fn scalar(value: f64) -> Array {
    Array::new(Type::new(DType::F64, &[]), vec![value])
}

/// The function and its first three derivatives for the tensor.
fn derivatives(y: Tensor, x: Tensor) -> Vec<Tensor> {
    let mut all = vec![y];
    for order in 0..3 {
        all.push(all[order].grad(&[x])[0]);
    }
    all
}

#[test]
fn powers_of_zero_have_derivatives() {
    for (exponent, expected) in [
        (0.0, [1.0, 0.0, 0.0, 0.0]),
        (1.0, [0.0, 1.0, 0.0, 0.0]),
        (2.0, [0.0, 0.0, 2.0, 0.0]),
        (3.0, [0.0, 0.0, 0.0, 6.0]),
        (0.5, [0.0, f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY]),
        (
            -1.0,
            [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY],
        ),
    ] {
        let written = function(|_, x| derivatives(x[0].pow(x[0].scalar_like(exponent)), x[0]));
        let given = function(|_, x| derivatives(x[0].pow(x[1]), x[0]));
        for found in [
            run(&[scalar(0.0)], &written),
            run(&[scalar(0.0), scalar(exponent)], &given),
        ] {
            let found: Vec<f64> = found.iter().map(Array::item).collect();
            assert_eq!(found, expected, "the exponent {exponent}");
        }
    }
}

#[test]
fn powers_of_zero_do_not_depend_on_their_exponent() {
    for exponent in [0.0, 0.5, 1.0, 2.0] {
        let found = run(
            &[scalar(0.0), scalar(exponent)],
            &function(|_, x| derivatives(x[0].pow(x[1]), x[1])),
        );
        for derivative in &found[1..] {
            assert_eq!(derivative.item(), 0.0, "the exponent {exponent}");
        }
    }
    let below = run(
        &[scalar(0.0), scalar(-1.0)],
        &function(|_, x| x[0].pow(x[1]).grad(&[x[1]])),
    );
    assert_eq!(below[0].item(), f64::NEG_INFINITY);
}

#[test]
fn mixed_derivatives_of_powers_do_not_depend_on_their_order() {
    // d/da d/db a^b = a^(b - 1) (1 + b log a), and no less so where the exponent is zero or was written as a
    // number.
    let mixed = |a: f64, b: f64| a.powf(b - 1.0) * (1.0 + b * a.ln());
    for (a, b) in [(2.0, 0.0), (0.5, 1.0), (2.0, 2.0), (1.5, -0.7)] {
        let given = function(|_, x: &[Tensor]| {
            let y = x[0].pow(x[1]);
            vec![y.grad(&[x[0]])[0].grad(&[x[1]])[0], y.grad(&[x[1]])[0].grad(&[x[0]])[0]]
        });
        let written = function(|trace: TraceRef, x: &[Tensor]| {
            let exponent = trace.full(DType::F64, &[], b);
            let first = x[0].pow(exponent).grad(&[x[0]])[0];
            vec![first.grad(&[exponent])[0]]
        });
        let both = [run(&[scalar(a), scalar(b)], &given), run(&[scalar(a)], &written)].concat();
        for found in both {
            assert_near(&format!("{a}^{b}"), &found, &scalar(mixed(a, b)), 1e-14);
        }
    }
}

#[test]
fn the_losing_side_of_a_maximum_gets_nothing_of_an_infinite_cotangent() {
    let x = Array::f32(&[3], vec![-1.0, 0.0, 1.0]);
    let above = function(|_, x| x[0].maximum(x[0].scalar_like(0.0)).sqrt().sum().grad(x));
    assert_eq!(run(std::slice::from_ref(&x), &above)[0].data, [0.0, f64::INFINITY, 0.5]);
    let below = function(|_, x| (-x[0]).minimum(x[0].scalar_like(0.0)).abs().sqrt().sum().grad(x));
    let found = run(&[x], &below).remove(0);
    assert_eq!((found.data[0], found.data[2]), (0.0, 0.5));
}

#[test]
fn a_sign_takes_nothing_of_an_infinite_cotangent() {
    let x = Array::f32(&[1], vec![0.0]);
    let found = run(&[x], &function(|_, x| x[0].sign().sqrt().sum().grad(x)));
    assert_eq!(found[0].data, [0.0]);
}

#[test]
fn the_norm_of_zeros_has_the_derivative_zero() {
    let zeros = [Array::f32(&[2], vec![0.0; 2]), Array::f32(&[1], vec![0.0])];
    let found = run(
        &zeros,
        &function(|_, x| {
            let norm = global_norm(x);
            let clipped = (x[0] * clip_coefficient(norm, 1.0)).sum();
            [norm.grad(x), clipped.grad(x)].concat()
        }),
    );
    let found: Vec<&[f64]> = found.iter().map(|a| &a.data[..]).collect();
    assert_eq!(found, [&[0.0, 0.0][..], &[0.0], &[1.0, 1.0], &[0.0]]);
}

#[test]
fn logits_of_minus_infinity_have_finite_derivatives() {
    let logits = Array::f32(&[2, 3], vec![1.0, f64::NEG_INFINITY, 0.5, 0.0, 2.0, f64::NEG_INFINITY]);
    let labels = Array::i32(&[2], &[0, -100]);
    let found = run(
        &[logits, labels],
        &function(|_, x| {
            let loss = x[0].cross_entropy(x[1]);
            let first = loss.grad(&x[..1])[0];
            let second = (first * first).sum().grad(&x[..1])[0];
            let chosen = x[0].log_softmax().slice(-1, 0, 1).sum();
            vec![
                first,
                second,
                chosen.grad(&x[..1])[0],
                x[0].softmax().slice(-1, 0, 1).sum().grad(&x[..1])[0],
            ]
        }),
    );
    for derivative in &found {
        assert!(derivative.data.iter().all(|g| g.is_finite()), "{derivative:?}");
    }
    let p = 1.0 / (1.0 + (-0.5f64).exp());
    let expected = Array::f32(&[2, 3], vec![p - 1.0, 0.0, 1.0 - p, 0.0, 0.0, 0.0]);
    assert_near("cross entropy", &found[0], &expected, 1e-14);
}

#[test]
fn ignored_labels_alone_give_zero() {
    let inputs = [Array::f32(&[1, 2], vec![1.0, 2.0]), Array::i32(&[1], &[-100])];
    let found = run(
        &inputs,
        &function(|_, x| {
            let loss = x[0].cross_entropy(x[1]);
            vec![loss, loss.grad(&x[..1])[0]]
        }),
    );
    assert_eq!((found[0].item(), &found[1].data), (0.0, &vec![0.0; 2]));
}
