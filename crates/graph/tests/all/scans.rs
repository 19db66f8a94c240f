//! Scans: bodies that are repeated.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Graph, Tensor, Trace, TraceRef, lower};

use crate::cases::{Case, Smooth, case};
use crate::check::{assert_near, check_gradient, function, run};
use crate::prng::Prng;

/// A body with a carry of floats and one of integers, a slice, a constant, and a result.
fn body() -> Graph {
    let trace = Trace::new();
    let (h, n) = (
        trace.input("h", DType::F32, &[2, 3]),
        trace.input("n", DType::I32, &[2]),
    );
    let (x, w) = (
        trace.input("x", DType::F32, &[2, 3]),
        trace.input("w", DType::F32, &[3, 3]),
    );
    let next = (x + h.matmul(w)).tanh();
    trace.output("h", next);
    trace.output("n", n + n);
    trace.output("y", next * h * n.cast(DType::F32).unsqueeze(-1));
    trace.finish()
}

/// Scans on random inputs.
pub fn cases(r: &mut Prng) -> Vec<Case> {
    let inputs = [
        r.normal(&[2, 3]),
        Array::i32(&[2], &[1, -2]),
        r.normal(&[4, 2, 3]),
        r.normal(&[3, 3]),
    ];
    let inputs: Vec<&Array> = inputs.iter().collect();
    let all = [(false, false), (true, false), (false, true), (true, true)];
    let scans = all.map(|(reverse, keeps_carries)| {
        let options = ScanOptions {
            turns: 4,
            reverse,
            keeps_carries,
        };
        case(Scan::new(body(), options, 2, 1).unwrap(), &inputs, Smooth::Twice)
    });
    scans.into()
}

/// `h = tanh(x w + h v)` for each row of `x`, by a scan.
fn network(trace: TraceRef, options: ScanOptions, [x, h, w, v]: [Tensor; 4]) -> Vec<Tensor> {
    let (last, all) = trace.scan(options, &[h], &[x], |h, x| {
        let h = (x[0].matmul(w) + h[0].matmul(v)).tanh();
        (vec![h], vec![h])
    });
    vec![last[0], all[0]]
}

fn inputs(r: &mut Prng) -> Vec<Array> {
    [&[5, 2, 3][..], &[2, 4], &[3, 4], &[4, 4]]
        .map(|shape| r.normal(shape))
        .into()
}

#[test]
fn a_scan_is_its_turns_one_after_another() {
    let inputs = inputs(&mut Prng::new(1));
    for reverse in [false, true] {
        let options = ScanOptions { reverse, ..5.into() };
        let scanned = run(&inputs, &function(|t, x| network(t, options, [x[0], x[1], x[2], x[3]])));
        let unrolled = function(|_, x: &[Tensor]| {
            let mut h = x[1];
            let mut all = Vec::new();
            for turn in options_order(options) {
                let slice = x[0].slice(0, turn, 1).reshape(&[2, 3]);
                h = (slice.matmul(x[2]) + h.matmul(x[3])).tanh();
                all.push(h);
            }
            if reverse {
                all.reverse();
            }
            vec![h, lessen_graph::stack(&all, 0)]
        });
        for (a, b) in scanned.iter().zip(run(&inputs, &unrolled)) {
            assert_near("a scan", a, &b, 1e-12);
        }
    }
}

fn options_order(options: ScanOptions) -> Vec<usize> {
    let turns = 0..options.turns;
    if options.reverse {
        turns.rev().collect()
    } else {
        turns.collect()
    }
}

#[test]
fn the_derivative_reaches_what_the_body_takes_from_outside() {
    let inputs = inputs(&mut Prng::new(2));
    for keeps_carries in [false, true] {
        let options = ScanOptions {
            keeps_carries,
            ..5.into()
        };
        let loss = function(|trace, x: &[Tensor]| {
            // The weight is made outside, of another one.
            let results = network(trace, options, [x[0], x[1], x[2].sin(), x[3]]);
            vec![(results[0] * results[0]).sum() + (results[1] * 0.5).exp().sum()]
        });
        check_gradient("a scan", &inputs, &loss);
        let of_gradient = function(|trace, x: &[Tensor]| {
            let gradients = loss(trace, x)[0].grad(x);
            let squares = gradients.iter().map(|g| (*g * *g).sum());
            vec![squares.reduce(|a, b| a + b).unwrap()]
        });
        check_gradient("the derivative of a scan", &inputs, &of_gradient);
    }
}

#[test]
fn scans_lie_in_scans_and_swap_their_carries() {
    // Fibonacci numbers, each of three turns inside of each of two.
    let step = |trace: TraceRef, a: Tensor, b: Tensor, one: Tensor| {
        let (pair, _) = trace.scan(3, &[a, b], &[], |x, _| (vec![x[1], x[0] + x[1] * one], vec![]));
        (pair[0], pair[1])
    };
    let found = run(
        &[Array::scalar(0.0), Array::scalar(1.0), Array::scalar(1.0)],
        &function(|trace, x| {
            let (last, all) = trace.scan(2, &[x[0], x[1]], &[], |pair, _| {
                let (a, b) = step(trace, pair[0], pair[1], x[2]);
                (vec![a, b], vec![a])
            });
            vec![last[0], last[1], all[0]]
        }),
    );
    let found: Vec<&[f64]> = found.iter().map(|y| &y.data[..]).collect();
    assert_eq!(found, [&[8.0][..], &[13.0], &[2.0, 8.0]]);
}

#[test]
fn streams_of_a_body_are_of_no_other_operation() {
    let trace = Trace::new();
    let (x, key) = (
        trace.input("x", DType::F32, &[3, 4]),
        trace.input("key", DType::U32, &[2]),
    );
    let first = trace.new_stream();
    let mut inside = 0;
    trace.scan(3, &[], &[x], |_, x| {
        inside = x[0].trace().new_stream();
        (vec![], vec![x[0].dropout(0.5, key)])
    });
    let last = trace.new_stream();
    assert!(first < inside && inside + 1 < last, "{first} {inside} {last}");
    let text = lessen_graph::print(&trace.finish());
    let again = lessen_graph::parse(&text, &lessen_graph::Registry::standard()).unwrap();
    // Decompositions draw after the streams of the body.
    let drawn = lower(&again, &|op| !op.is::<Scan>());
    assert_eq!(drawn.nodes.iter().filter(|node| node.op.is::<Dropout>()).count(), 3);
}

#[test]
fn mistakes_in_scans_are_sentences() {
    let attempt = |f: &dyn Fn(TraceRef, Tensor)| {
        let trace = Trace::new();
        let x = trace.input("x", DType::F32, &[3, 2]);
        trace.attempt(|| f(*trace, x)).unwrap_err().to_string()
    };
    let same = |h: &[Tensor], _: &[Tensor]| (h.to_vec(), vec![]);
    for (sentence, error) in [
        (
            "a scan has at least one turn",
            attempt(&|t, x| drop(t.scan(0, &[x], &[], same))),
        ),
        (
            "2 turns need slices, not f32[3,2]",
            attempt(&|t, x| drop(t.scan(2, &[], &[x], |_, x| (vec![], x.to_vec())))),
        ),
        (
            "carry 0 begins as f32[3,2], but the body gives f32[3,1]",
            attempt(&|t, x| drop(t.scan(2, &[x], &[], |h, _| (vec![h[0].sum_last()], vec![])))),
        ),
        (
            "the body gives 0 carries for 1",
            attempt(&|t, x| drop(t.scan(2, &[x], &[], |_, _| (vec![], vec![])))),
        ),
        (
            "a tensor of another trace",
            attempt(&|t, x| {
                let mut kept = None;
                t.scan(2, &[x], &[], |h, _| {
                    kept = Some(h[0].exp());
                    (h.to_vec(), vec![])
                });
                let _ = x + kept.unwrap();
            }),
        ),
    ] {
        assert!(error.contains(sentence) || error.contains("is finished"), "{error}");
    }
}

#[test]
fn shapes_that_do_not_fit_in_a_body_have_the_line() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[3, 2]);
    let wrong = |h: &[Tensor], _: &[Tensor]| (vec![h[0].matmul(x)], vec![]);
    let error = trace
        .attempt(|| trace.scan(2, &[x], &[], wrong))
        .unwrap_err()
        .to_string();
    assert!(error.contains("scans.rs:") && error.contains("matmul"), "{error}");
}

#[test]
fn a_body_without_carries_maps_slices() {
    let x = Prng::new(3).normal(&[4, 3]);
    let found = run(
        std::slice::from_ref(&x),
        &function(|trace, x| trace.scan(4, &[], &[x[0]], |_, x| (vec![], vec![x[0].exp()])).1),
    );
    assert_eq!(found[0].data, x.data.iter().map(|x| x.exp()).collect::<Vec<_>>());
}
