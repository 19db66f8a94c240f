//! Every operation on tensors without elements, with axes of extent one, and without axes: types, first
//! derivatives and second ones.

use lessen_graph::{Array, AttentionOptions, DType, Tensor, TraceRef, attention, concat};

use crate::check::{check_gradient, function};
use crate::prng::Prng;

type Along = fn(Tensor, isize) -> Tensor;
type Build = fn(TraceRef, &[Tensor]) -> Tensor;

/// Checks first derivatives of the sum of a function's `tanh`, and derivatives of their squares.
fn check(what: &str, inputs: &[Array], build: Build) {
    let first = function(move |trace, x| vec![build(trace, x).tanh().sum()]);
    check_gradient(what, inputs, &first);
    let second = function(move |trace, x| {
        let floats: Vec<Tensor> = x.iter().copied().filter(|x| x.dtype().is_float()).collect();
        let gradients = build(trace, x).tanh().sum().grad(&floats);
        vec![
            gradients
                .iter()
                .map(|g| (*g * *g + *g).sum())
                .reduce(|a, b| a + b)
                .unwrap(),
        ]
    });
    check_gradient(&format!("{what}, twice"), inputs, &second);
}

const SHAPES: [&[usize]; 9] = [
    &[],
    &[0],
    &[1],
    &[0, 3],
    &[3, 0],
    &[1, 1],
    &[2, 0, 3],
    &[1, 2, 1],
    &[2, 1, 3],
];

#[test]
fn of_any_shape() {
    let any: &[(&str, Build)] = &[
        ("arithmetic", |_, x| x[0] * 2.0 - x[0] / 3.0 + (-x[0])),
        ("functions", |_, x| {
            x[0].exp().sqrt() + x[0].sigmoid().log() + x[0].erf() * x[0].sin()
        }),
        ("activations", |_, x| {
            x[0].silu() + x[0].gelu() + x[0].gelu_tanh() + x[0].elu(1.0)
        }),
        ("power", |_, x| (x[0] * x[0] + 0.5).pow(x[0])),
        ("extrema", |_, x| x[0].maximum(x[0] * 0.5).minimum(x[0].exp())),
        ("selection", |_, x| {
            x[0].gt(x[0].scalar_like(0.3)).select(x[0] * x[0], x[0])
        }),
        ("sum of everything", |_, x| x[0].sum() * x[0]),
        ("flat", |_, x| {
            x[0].reshape(&[x[0].ty().numel()]).unsqueeze(0).unsqueeze(-1)
        }),
        ("rows", |_, x| x[0].flatten_rows()),
        ("turned", |_, x| {
            x[0].permute(&(0..x[0].rank()).rev().collect::<Vec<_>>())
        }),
        ("repeated", |_, x| {
            x[0].broadcast_to(&[&[2, 1], &x[0].shape()[..]].concat())
        }),
        ("dropped", |t, x| {
            x[0].dropout(0.5, t.constant(Array::new(key(), vec![1.0, 2.0])))
        }),
        ("the same", |_, x| x[0].identity()),
        ("a table of tensors", |t, x| {
            let ids = t.constant(Array::i32(&[2, 1], &[1, 0]));
            concat(&[x[0].unsqueeze(0), x[0].unsqueeze(0) * 2.0], 0).gather(ids)
        }),
        ("no rows of a table", |t, x| {
            x[0].unsqueeze(0).gather(t.constant(Array::i32(&[0], &[]))).sum() + x[0]
        }),
        ("rows summed", |t, x| {
            x[0].unsqueeze(0).scatter_add(t.constant(Array::i32(&[1], &[2])), 4)
        }),
    ];
    let mut r = Prng::new(51);
    for shape in SHAPES {
        for (what, build) in any {
            check(&format!("{what} of {shape:?}"), &[r.signed(shape)], *build);
        }
    }
}

fn key() -> lessen_graph::Type {
    lessen_graph::Type::new(DType::U32, &[2])
}

#[test]
fn along_any_axis() {
    let along: &[(&str, Along)] = &[
        ("sum", |x, a| x.sum_axes(&[x.axis(a)])),
        ("pad", |x, a| x.pad(a, 1, 0, 0.5)),
        ("nothing of it", |x, a| x.slice(a, x.dim(a), 0)),
        ("all of it", |x, a| x.slice(a, 0, x.dim(a))),
        ("twice", |x, a| concat(&[x, x * 2.0], a)),
        ("parts", |x, a| x.split(a, &[0, x.dim(a)])[1]),
        ("the empty part", |x, a| x.split(a, &[0, x.dim(a)])[0]),
        ("exchanged", |x, a| x.transpose(a, 0)),
        ("overwritten", |x, a| {
            let base = x.pad(a, 1, 1, 0.5);
            base.update_slice(x.pad(a, 0, 1, 0.0), x.trace().constant(Array::i32(&[], &[1])), a)
        }),
    ];
    let mut r = Prng::new(52);
    for shape in SHAPES.iter().filter(|s| !s.is_empty()) {
        for axis in -(shape.len() as isize)..shape.len() as isize {
            let x = r.signed(shape);
            for (what, build) in along {
                let what = format!("{what} along {axis} of {shape:?}");
                let first = function(|_, x| vec![build(x[0], axis).tanh().sum()]);
                check_gradient(&what, std::slice::from_ref(&x), &first);
                let second = function(|_, x| vec![first_of(build(x[0], axis).tanh(), x[0])]);
                check_gradient(&format!("{what}, twice"), std::slice::from_ref(&x), &second);
            }
        }
    }
}

/// The sum of the squares of a sum's gradient.
fn first_of(y: Tensor, x: Tensor) -> Tensor {
    let gradient = y.sum().grad(&[x])[0];
    (gradient * gradient).sum()
}

#[test]
fn of_rows() {
    let rows: &[(&str, Build)] = &[
        ("softmax", |_, x| x[0].softmax()),
        ("log-softmax", |_, x| x[0].log_softmax()),
        ("layer norm", |_, x| x[0].layer_norm(x[1], x[1], 0.1)),
        ("rms norm", |_, x| x[0].rms_norm(x[1], 0.1)),
        ("maximum", |_, x| x[0].max_last()),
        ("mean", |_, x| x[0].mean_last()),
        ("sums", |_, x| x[0].sum_rows()),
        ("cross entropy", |t, x| {
            let shape = x[0].shape();
            let labels = t.full(DType::I32, &shape[..shape.len() - 1], 0.0);
            x[0].cross_entropy_rows(labels, -100, 0.1)
        }),
    ];
    let mut r = Prng::new(53);
    let shapes: [&[usize]; 6] = [&[1], &[3], &[0, 3], &[1, 1], &[2, 0, 3], &[1, 2, 1]];
    for shape in shapes {
        let inputs = [r.normal(shape), r.normal(&shape[shape.len() - 1..])];
        for (what, build) in rows {
            check(&format!("{what} of {shape:?}"), &inputs, *build);
        }
    }
}

#[test]
fn of_products() {
    let mut r = Prng::new(54);
    let leads: [(&[usize], &[usize]); 7] = [
        (&[], &[]),
        (&[2], &[]),
        (&[0], &[]),
        (&[2], &[2]),
        (&[0], &[0]),
        (&[0], &[1]),
        (&[1, 2], &[]),
    ];
    for (lead_a, lead_b) in leads {
        for (m, k, n) in [(2, 3, 1), (0, 2, 2), (2, 0, 2), (2, 2, 0), (0, 0, 0)] {
            let (a, b) = (
                r.normal(&[lead_a, &[m, k]].concat()),
                r.normal(&[lead_b, &[k, n]].concat()),
            );
            let what = format!("{} times {}", a.ty, b.ty);
            check(&what, &[a, b], |_, x| {
                x[0].matmul(x[1]) + x[0].matmul_t(x[1].transpose(-1, -2))
            });
        }
    }
}

#[test]
fn of_attention() {
    let mut r = Prng::new(55);
    // Batch, queries, keys, heads, extents of a head.
    for (b, tq, tk, h, d, dv) in [
        (1, 1, 1, 1, 1, 1),
        (0, 2, 2, 1, 1, 1),
        (1, 0, 2, 1, 1, 1),
        (1, 2, 0, 1, 1, 1),
        (1, 2, 2, 0, 1, 1),
        (1, 2, 2, 1, 1, 0),
        (1, 2, 2, 1, 0, 1),
    ] {
        let inputs = [
            r.normal(&[b, tq, h, d]),
            r.normal(&[b, tk, h, d]),
            r.normal(&[b, tk, h, dv]),
        ];
        let what = format!("batch {b}, {tq} queries, {tk} keys, {h} heads of {d} and {dv}");
        check(&what, &inputs, |t, x| {
            let mask = t.full(DType::Bool, &[x[1].dim(0), x[1].dim(1)], 1.0);
            let options = AttentionOptions {
                causal: true,
                mask: Some(mask),
                ..Default::default()
            };
            attention(x[0], x[1], x[2], options)
        });
    }
}
