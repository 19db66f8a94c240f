//! Hand-written cases: normalizations, activations, softmax and losses, attention, optimizers, clipping.

use std::panic::catch_unwind;

use lessen_graph::ops::*;
use lessen_graph::{
    Array, AttentionOptions, DType, Op, Tensor, Type, attention, clip_coefficient, evaluate_op, global_norm,
};

use crate::check::{assert_near, function, run};
use crate::prng::Prng;

const INF: f64 = f64::INFINITY;

fn eval(op: impl Op, inputs: &[&Array]) -> Vec<Array> {
    evaluate_op(&op, inputs).unwrap()
}

#[track_caller]
fn near(found: &Array, expected: &[f64]) {
    assert_near("case", found, &Array::new(found.ty.clone(), expected.to_vec()), 1e-9);
}

fn vector(data: &[f64]) -> Array {
    Array::f32(&[data.len()], data.to_vec())
}

#[test]
fn activations() {
    let x = vector(&[-1.0, 0.0, 1.0, f64::NAN]);
    near(&eval(Relu, &[&x])[0], &[0.0, 0.0, 1.0, f64::NAN]);
    near(
        &eval(Elu { alpha: 2.0 }, &[&x])[0],
        &[-1.2642411176571153, 0.0, 1.0, f64::NAN],
    );
    near(
        &eval(Silu, &[&x])[0],
        &[-0.2689414213699951, 0.0, 0.7310585786300049, f64::NAN],
    );
    near(
        &eval(Gelu { tanh: false }, &[&x])[0],
        &[-0.15865525393145707, 0.0, 0.8413447460685429, f64::NAN],
    );
    near(
        &eval(Gelu { tanh: true }, &[&x])[0],
        &[-0.15880800939172324, 0.0, 0.8411919906082768, f64::NAN],
    );
    let dy = vector(&[1.0, 1.0, 2.0, 0.0]);
    // Phi(x) + x phi(x) with phi(1) = 0.24197072451914337.
    let slopes = [
        0.15865525393145707 - 0.24197072451914337,
        0.5,
        2.0 * (0.8413447460685429 + 0.24197072451914337),
    ];
    near(
        &eval(GeluBackward { tanh: false }, &[&x, &dy])[0],
        &[slopes[0], slopes[1], slopes[2], f64::NAN],
    );
}

#[test]
fn relu_has_no_slope_at_zero() {
    let found = run(
        &[vector(&[-1.0, 0.0, 2.0])],
        &function(|_, x| x[0].relu().sum().grad(x)),
    );
    near(&found[0], &[0.0, 0.0, 1.0]);
}

#[test]
fn softmax_of_ordinary_and_extreme_rows() {
    let x = Array::f32(
        &[4, 3],
        vec![1., 2., 3., 1000., 1000., -INF, -INF, -INF, -INF, 0., f64::NAN, 0.],
    );
    let (a, b, c) = (0.09003057317038046, 0.24472847105479764, 0.6652409557748218);
    let nan = f64::NAN;
    near(
        &eval(Softmax, &[&x])[0],
        &[a, b, c, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, nan, nan, nan],
    );
    let logs = [
        a.ln(),
        b.ln(),
        c.ln(),
        0.5f64.ln(),
        0.5f64.ln(),
        -INF,
        nan,
        nan,
        nan,
        nan,
        nan,
        nan,
    ];
    near(&eval(LogSoftmax, &[&x])[0], &logs);
    let (y, dy) = (vector(&[0.25, 0.75]), vector(&[1.0, 3.0]));
    near(&eval(SoftmaxBackward, &[&y, &dy])[0], &[-0.375, 0.375]);
}

#[test]
fn cross_entropy_with_ignored_labels_and_smoothing() {
    let z = Array::f32(&[3, 2], vec![0.0, 3f64.ln(), 0.0, 0.0, f64::NAN, INF]);
    let labels = Array::i32(&[3], &[0, 1, -100]);
    let plain = eval(
        CrossEntropy {
            ignore: -100,
            smoothing: 0.0,
        },
        &[&z, &labels],
    );
    near(&plain[0], &[4f64.ln(), 2f64.ln(), 0.0]);
    near(&plain[1], &[4f64.ln(), 2f64.ln(), f64::NAN]);
    let smooth = eval(
        CrossEntropy {
            ignore: -100,
            smoothing: 0.5,
        },
        &[&z, &labels],
    );
    near(&smooth[0], &[4f64.ln() - 0.25 * 3f64.ln(), 2f64.ln(), 0.0]);
    let dloss = vector(&[2.0, 1.0, 5.0]);
    let backward = CrossEntropyBackward {
        ignore: -100,
        smoothing: 0.5,
    };
    let dz = eval(backward, &[&z, &plain[1], &labels, &dloss]);
    near(&dz[0], &[-1.0, 1.0, 0.25, -0.25, 0.0, 0.0]);
}

#[test]
fn mean_cross_entropy_counts_labels() {
    let z = Array::f32(&[1, 3, 2], vec![0.0, 3f64.ln(), 0.0, 0.0, 1.0, 2.0]);
    let both = |labels: &[i32]| {
        run(
            &[z.clone(), Array::i32(&[1, 3], labels)],
            &function(|_, x| {
                let loss = x[0].cross_entropy(x[1]);
                vec![loss, loss.grad(&[x[0]])[0]]
            }),
        )
    };
    let found = both(&[0, 1, -100]);
    near(&found[0], &[(4f64.ln() + 2f64.ln()) / 2.0]);
    near(&found[1], &[-0.375, 0.375, 0.25, -0.25, 0.0, 0.0]);
    let none = both(&[-100; 3]);
    near(&none[0], &[0.0]);
    near(&none[1], &[0.0; 6]);
    let smooth = run(
        &[z, Array::i32(&[1, 3], &[0, 5, 5])],
        &function(|_, x| vec![x[0].cross_entropy_with(x[1], 5, 0.5)]),
    );
    near(&smooth[0], &[4f64.ln() - 0.25 * 3f64.ln()]);
}

#[test]
fn labels_out_of_range_are_named() {
    for label in [-1, 2] {
        let result = catch_unwind(|| {
            let labels = Array::i32(&[2], &[0, label]);
            let z = Array::f32(&[2, 2], vec![0.0; 4]);
            eval(
                CrossEntropy {
                    ignore: -100,
                    smoothing: 0.0,
                },
                &[&z, &labels],
            )
        });
        let message = *result.unwrap_err().downcast::<String>().unwrap();
        let expected = format!("cross_entropy: the label {label} of row 1 is neither in 0..2 nor the ignored -100");
        assert_eq!(message, expected);
    }
}

#[test]
fn normalizations() {
    let x = Array::f32(&[2, 2], vec![1.0, 3.0, 5.0, 5.0]);
    let (gamma, beta) = (vector(&[2.0, 3.0]), vector(&[0.5, -0.5]));
    let found = eval(LayerNorm { eps: 1e-5 }, &[&x, &gamma, &beta]);
    let r = 1.0 / 1.00001f64.sqrt();
    near(&found[0], &[0.5 - 2.0 * r, 3.0 * r - 0.5, 0.5, -0.5]);
    near(&found[1], &[2.0, 5.0]);
    near(&found[2], &[r, 1.0 / 1e-5f64.sqrt()]);
    let found = eval(RmsNorm { eps: 0.0 }, &[&Array::f32(&[2], vec![3.0, 4.0]), &gamma]);
    let rstd = 1.0 / 12.5f64.sqrt();
    near(&found[0], &[6.0 * rstd, 12.0 * rstd]);
    near(&found[1], &[rstd]);
}

/// Values of four keys that tell the keys apart, and queries that score them all the same.
fn even_attention(queries: usize, op: Attention, rest: &[&Array]) -> Vec<Array> {
    let q = Array::f32(&[1, queries, 1, 2], vec![0.0; 2 * queries]);
    let (k, v) = (
        Array::f32(&[1, 4, 1, 2], vec![1.0; 8]),
        Array::f32(&[1, 4, 1, 1], vec![1.0, 10.0, 100.0, 1000.0]),
    );
    eval(op, &[&[&q, &k, &v], rest].concat())
}

#[test]
fn attention_sees_what_is_visible() {
    let found = even_attention(1, Attention::default(), &[]);
    near(&found[0], &[1111.0 / 4.0]);
    near(&found[1], &[4f64.ln()]);
    // The last query is aligned with the last key.
    let found = even_attention(
        2,
        Attention {
            causal: true,
            ..Attention::default()
        },
        &[],
    );
    near(&found[0], &[111.0 / 3.0, 1111.0 / 4.0]);
    near(&found[1], &[3f64.ln(), 4f64.ln()]);
    let mask = Array::new(Type::new(DType::Bool, &[1, 4]), vec![0.0, 1.0, 0.0, 1.0]);
    let found = even_attention(
        2,
        Attention {
            causal: true,
            masked: true,
            ..Attention::default()
        },
        &[&mask],
    );
    near(&found[0], &[10.0, 1010.0 / 2.0]);
    // Of six queries to four keys the first two see none.
    let found = even_attention(
        6,
        Attention {
            causal: true,
            ..Attention::default()
        },
        &[],
    );
    near(&found[0], &[0.0, 0.0, 1.0, 11.0 / 2.0, 111.0 / 3.0, 1111.0 / 4.0]);
    near(&found[1], &[-INF, -INF, 0.0, 2f64.ln(), 3f64.ln(), 4f64.ln()]);
}

#[test]
fn attention_drops_weights_by_their_flat_index() {
    let mut r = Prng::new(41);
    let (q, k, v) = (
        r.normal(&[2, 3, 2, 2]),
        r.normal(&[2, 5, 2, 2]),
        r.normal(&[2, 5, 2, 3]),
    );
    let key = r.key();
    let op = Attention {
        p: 0.5,
        stream: 8,
        ..Attention::default()
    };
    let found = eval(op, &[&q, &k, &v, &key]);
    let whole = eval(Attention::default(), &[&q, &k, &v]);
    assert_near("lse does not know of dropout", &found[1], &whole[1], 0.0);
    let words = [key.data[0] as u32, key.data[1] as u32];
    let mut expected = Array::full(found[0].ty.clone(), 0.0);
    for index in 0..2 * 2 * 3 * 5 {
        let (b, h, i, j) = (index / 30, index / 15 % 2, index / 5 % 3, index % 5);
        let score: f64 = (0..2).map(|d| q.at(&[b, i, h, d]) * k.at(&[b, j, h, d])).sum();
        let weight = (score - whole[1].at(&[b, h, i])).exp();
        if lessen_graph::philox::dropout_keeps(words, 8, index as u64, 32768) {
            for d in 0..3 {
                let at = expected.offset(&[b, i, h, d]);
                expected.data[at] += 2.0 * weight * v.at(&[b, j, h, d]);
            }
        }
    }
    assert_near("o", &found[0], &expected, 1e-12);
}

#[test]
fn attention_options_have_sensible_defaults() {
    let mut r = Prng::new(42);
    let inputs = [
        r.normal(&[1, 2, 1, 4]),
        r.normal(&[1, 3, 1, 4]),
        r.normal(&[1, 3, 1, 4]),
        r.key(),
    ];
    let found = run(
        &inputs,
        &function(|_, x| {
            let none = AttentionOptions {
                dropout: Some((0.0, x[3])),
                ..Default::default()
            };
            let given = AttentionOptions {
                scale: Some(0.5),
                ..Default::default()
            };
            vec![attention(x[0], x[1], x[2], none), attention(x[0], x[1], x[2], given)]
        }),
    );
    assert_eq!(found[0], found[1]);
}

#[test]
fn adamw_takes_two_steps_as_torch() {
    let op = AdamW {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.1,
    };
    let lr = Array::scalar(0.1);
    let zero = vector(&[0.0]);
    let first = eval(
        op,
        &[&vector(&[1.0]), &vector(&[0.5]), &zero, &zero, &lr, &Array::scalar(1.0)],
    );
    // After one step both corrected moments are the gradient's, so the step is the learning rate.
    near(&first[0], &[0.99 - 0.1 * 0.5 / (0.5 + 1e-8)]);
    near(&first[1], &[0.05]);
    near(&first[2], &[0.0025]);
    let second = eval(
        op,
        &[
            &first[0],
            &vector(&[-0.25]),
            &first[1],
            &first[2],
            &lr,
            &Array::scalar(2.0),
        ],
    );
    near(&second[1], &[0.02]);
    near(&second[2], &[0.0031]);
    let (mean, square) = (0.02 / 0.19, 0.0031 / 0.0199f64);
    near(
        &second[0],
        &[first[0].data[0] * 0.99 - 0.1 * mean / (square.sqrt() + 1e-8)],
    );
}

#[test]
fn sgd_takes_two_steps_as_torch() {
    let lr = Array::scalar(0.1);
    for (nesterov, p1, p2) in [
        (false, 0.75, 0.3875),
        (true, 0.525, 0.525 - 0.1 * (1.2625 + 0.9 * 3.5125)),
    ] {
        let op = Sgd {
            momentum: 0.9,
            nesterov,
            weight_decay: 0.5,
        };
        let first = eval(op, &[&vector(&[1.0]), &vector(&[2.0]), &vector(&[0.0]), &lr]);
        near(&first[0], &[p1]);
        near(&first[1], &[2.5]);
        let second = eval(op, &[&first[0], &vector(&[1.0]), &first[1], &lr]);
        near(&second[0], &[p2]);
        near(&second[1], &[0.9 * 2.5 + 1.0 + 0.5 * p1]);
    }
}

#[test]
fn clipping_by_global_norm() {
    let inputs = [vector(&[3.0, 0.0]), Array::f32(&[1, 1], vec![4.0])];
    let found = run(
        &inputs,
        &function(|_, x: &[Tensor]| {
            let norm = global_norm(x);
            vec![norm, clip_coefficient(norm, 1.0), clip_coefficient(norm, 10.0)]
        }),
    );
    near(&found[0], &[5.0]);
    near(&found[1], &[1.0 / 5.000001]);
    near(&found[2], &[1.0]);
}
