//! Elementwise kernels against plain `f64`, and kernels of integers against the reference evaluator.

#[allow(dead_code)]
use std::collections::HashMap;

use super::support::*;
use crate::plans::runner::Options;
use crate::plans::runner::run_once;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::elementwise::operators;
use lessen_graph::ops::{Binary, BinaryKind, CompareKind, UnaryKind};
use lessen_graph::{Array, DType, Trace, evaluate, evaluate_op};

/// The straightforward `f32` computation.
fn plain(kind: UnaryKind, x: f32) -> f32 {
    match kind {
        UnaryKind::Neg => -x,
        UnaryKind::Exp => x.exp(),
        UnaryKind::Log => x.ln(),
        UnaryKind::Sqrt => x.sqrt(),
        UnaryKind::Rsqrt => 1.0 / x.sqrt(),
        UnaryKind::Recip => 1.0 / x,
        UnaryKind::Tanh => x.tanh(),
        UnaryKind::Erf => kind.eval(x.into()) as f32,
        UnaryKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryKind::Abs => x.abs(),
        UnaryKind::Sign => kind.eval(x.into()) as f32,
        UnaryKind::Sin => x.sin(),
        UnaryKind::Cos => x.cos(),
        UnaryKind::Floor => x.floor(),
        UnaryKind::Ceil => x.ceil(),
        UnaryKind::Round => x.round_ties_even(),
        UnaryKind::Half => kind.eval(x.into()) as f32,
    }
}

fn unary(kind: UnaryKind, x: &mut [f32]) {
    let rows = Rows::dense(x.as_mut_ptr(), x.len());
    // SAFETY: one row of all elements, in place.
    unsafe { operators::unary(kind, 1, x.len(), rows, rows) }
}

#[test]
fn functions_are_accurate_everywhere() {
    at_all_levels(|level| {
        for kind in UnaryKind::ALL {
            let (low, high) = match kind {
                UnaryKind::Exp => (-104.5, 89.5),
                UnaryKind::Sigmoid => (-87.0, 100.0),
                UnaryKind::Sin | UnaryKind::Cos => (-9000.0, 9000.0),
                UnaryKind::Log | UnaryKind::Sqrt | UnaryKind::Rsqrt => (1e-3, 1e4),
                _ => (-12.0, 12.0),
            };
            let mut random = Random::new(7);
            let mut x: Vec<f32> = (0..200_000)
                .map(|i| low + (high - low) * (i as f32 + random.unit_f32()) / 200_000.0)
                .collect();
            // Numbers of all magnitudes.
            x.extend(
                (0..100_000)
                    .map(|_| f32::from_bits(random.number() as u32))
                    .filter(|x| x.abs() < 1e30),
            );
            // An error below the resolution of subnormal `f32` numbers counts as nothing.
            let floor = match kind {
                UnaryKind::Sin | UnaryKind::Cos => 1e-4,
                UnaryKind::Sigmoid => 1e-37,
                UnaryKind::Erf => 1e-37,
                _ => 1.2e-38,
            };
            let expected: Vec<f64> = x.iter().map(|&x| kind.eval(x.into())).collect();
            let straight: Vec<f32> = x.iter().map(|&x| plain(kind, x)).collect();
            let mut got = x.clone();
            unary(kind, &mut got);
            let ours = worst_error(&got, &expected, floor);
            let theirs = worst_error(&straight, &expected, floor);
            // A correctly rounded result has an error of up to 6e-8 and the worst of ours about two units in
            // the last place of a result just above a power of two.
            assert!(
                ours <= (2.0 * theirs).max(2.5e-7),
                "{kind:?} {level:?}: {ours:.2e}, plain {theirs:.2e}"
            );
        }
    });
}

#[test]
fn functions_keep_special_values() {
    at_all_levels(|level| {
        for kind in UnaryKind::ALL {
            let mut got = EXTREMES.to_vec();
            unary(kind, &mut got);
            for (&x, &y) in EXTREMES.iter().zip(&got) {
                let expected = kind.eval(x.into());
                let close = (f64::from(y) - expected).abs() <= 3e-7 * expected.abs() + 3e-45;
                let same = y == expected as f32 || (y.is_nan() && expected.is_nan());
                let sigmoid_underflow = kind == UnaryKind::Sigmoid && x < -87.0 && (0.0..2e-38).contains(&y);
                assert!(
                    same || close || sigmoid_underflow,
                    "{kind:?}({x}) = {y}, not {expected} at {level:?}"
                );
            }
        }
    });
}

#[test]
fn functions_read_and_write_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for (n, c) in SIZES {
            for from in READABLE {
                for to in WRITABLE {
                    for kind in [UnaryKind::Exp, UnaryKind::Neg, UnaryKind::Sin] {
                        let mut x = random_block(&mut random, n, c, from, 3.0);
                        let mut y = random_block(&mut random, n, c, to, 1.0);
                        let before = y.clone();
                        // SAFETY: the blocks have these sizes.
                        unsafe { operators::unary(kind, n, c, x.rows(), y.rows()) };
                        let expected: Vec<f64> = x.values().iter().map(|&x| kind.eval(x.into())).collect();
                        assert!(
                            worst_error(&y.values(), &expected, 0.1) < 3e-7,
                            "{kind:?} {n}x{c} {from:?} {to:?}"
                        );
                        assert!(y.same_gaps(&before), "{kind:?} {n}x{c} {from:?} {to:?} wrote beside");
                    }
                }
            }
        }
    });
}

#[test]
fn binary_is_exact_in_all_strides_and_in_place() {
    at_all_levels(|_| {
        let mut random = Random::new(2);
        for (n, c) in SIZES {
            for a_lie in READABLE {
                for b_lie in READABLE {
                    for to in WRITABLE {
                        let kind = BinaryKind::ALL[random.below(6)];
                        let mut a = random_block(&mut random, n, c, a_lie, 3.0);
                        let mut b = random_block(&mut random, n, c, b_lie, 3.0);
                        let mut y = random_block(&mut random, n, c, to, 1.0);
                        let before = y.clone();
                        let expected: Vec<f32> = (a.values().iter().zip(b.values()))
                            .map(|(&a, b)| kind.eval(a.into(), b.into()) as f32)
                            .collect();
                        // SAFETY: the blocks have these sizes.
                        unsafe { operators::binary(kind, n, c, a.rows(), b.rows(), y.rows()) };
                        assert_eq!(y.values(), expected, "{kind:?} {n}x{c} {a_lie:?} {b_lie:?} {to:?}");
                        assert!(y.same_gaps(&before));
                        if a_lie == to {
                            // SAFETY: as above; the output lies exactly where an input lies.
                            unsafe { operators::binary(kind, n, c, a.rows(), b.rows(), a.rows()) };
                            assert_eq!(a.values(), expected, "{kind:?} in place {n}x{c} {a_lie:?} {b_lie:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn binary_handles_special_values_and_powers() {
    at_all_levels(|_| {
        for kind in BinaryKind::ALL {
            for &b in &EXTREMES {
                let (mut x, mut b) = (EXTREMES.to_vec(), b);
                let (rows, scalar) = (Rows::dense(x.as_mut_ptr(), 30), Rows::scalar(&mut b));
                // SAFETY: one row in place, one scalar.
                unsafe { operators::binary(kind, 1, 30, rows, scalar, rows) };
                for (&a, &y) in EXTREMES.iter().zip(&x) {
                    let expected = kind.eval(a.into(), b.into()) as f32;
                    let same = y == expected || (y.is_nan() && expected.is_nan());
                    let close = kind == BinaryKind::Pow && (y - expected).abs() <= 2e-7 * expected.abs();
                    assert!(same || close, "{kind:?}({a}, {b}) = {y}, not {expected}");
                }
            }
        }
        let (mut x, mut two) = (vec![1.5f32, -3.0, 1e-3], 2.0);
        let rows = Rows::dense(x.as_mut_ptr(), 3);
        // SAFETY: one row in place, one scalar.
        unsafe { operators::binary(BinaryKind::Pow, 1, 3, rows, Rows::scalar(&mut two), rows) };
        assert_eq!(x, [2.25, 9.0, 1e-3 * 1e-3]);
    });
}

#[test]
fn integers_compute_and_compare_as_the_evaluator() {
    at_all_levels(|_| {
        let values = [0, 1, -1, 7, -7, 2, i32::MAX, i32::MIN, 1000, -3];
        for kind in BinaryKind::ALL {
            for b in values {
                let (mut x, mut b) = (values, b);
                let rows = Rows::dense(x.as_mut_ptr(), 10);
                // SAFETY: one row in place, one scalar.
                unsafe { operators::binary_i32(kind, 1, 10, rows, Rows::scalar(&mut b), rows) };
                let arrays = [Array::i32(&[10], &values), Array::i32(&[10], &[b; 10])];
                let expected = &evaluate_op(&Binary { kind }, &[&arrays[0], &arrays[1]]).unwrap()[0];
                assert_eq!(x.map(f64::from), expected.data[..], "{kind:?} {b}");
            }
        }
        for kind in CompareKind::ALL {
            for b in values {
                let (mut a, mut b, mut y) = (values, b, [9u8; 10]);
                let (ar, yr) = (Rows::dense(a.as_mut_ptr(), 10), Rows::dense(y.as_mut_ptr(), 10));
                // SAFETY: one row each, one scalar.
                unsafe { operators::compare(kind, 1, 10, ar, Rows::scalar(&mut b), yr) };
                assert_eq!(y, values.map(|a| u8::from(kind.eval(a.into(), b.into()))), "{kind:?}");
                // SAFETY: the same bits as another type of the same size.
                unsafe {
                    let b = Rows::scalar(&mut b).cast::<u32>();
                    operators::compare::<u32>(kind, 1, 10, ar.cast(), b, yr);
                }
                assert_eq!(
                    y,
                    values.map(|a| u8::from(kind.eval((a as u32).into(), (b as u32).into())))
                );
            }
        }
    });
}

#[test]
fn powers_of_zero_have_derivatives_when_compiled() {
    let trace = Trace::new();
    let exponents = Array::f32(&[4], vec![0.0, 1.0, 2.0, 3.0]);
    let (x, b) = (trace.input("x", DType::F32, &[4]), trace.input("b", DType::F32, &[4]));
    let mut derivatives = vec![x.pow(b)];
    for order in 0..3 {
        let gradient = derivatives[order].sum().grad(&[x])[0];
        derivatives.push(gradient);
    }
    for (order, derivative) in derivatives.iter().enumerate() {
        trace.output(&order.to_string(), *derivative);
    }
    trace.output(
        "written",
        x.pow(x.scalar_like(1.0)).sum().grad(&[x])[0].sum().grad(&[x])[0],
    );
    trace.output("by the exponent", derivatives[0].sum().grad(&[b])[0]);
    let inputs = HashMap::from([
        ("x".to_string(), Array::f32(&[4], vec![0.0; 4])),
        ("b".to_string(), exponents),
    ]);
    let (_, got) = run_once(&trace.finish(), &Options::default(), &inputs);
    assert_eq!(got["0"], [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(got["1"], [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(got["2"], [0.0, 0.0, 2.0, 0.0]);
    assert_eq!(got["3"], [0.0, 0.0, 0.0, 6.0]);
    assert_eq!(
        (&got["written"], &got["by the exponent"]),
        (&vec![0.0; 4], &vec![0.0; 4])
    );
}

#[test]
fn integers_wrap_when_compiled_and_when_folded() {
    let values = [0, 1, -1, 7, -7, i32::MAX, i32::MIN];
    let pairs: Vec<(i32, i32)> = values.iter().flat_map(|&a| values.map(|b| (a, b))).collect();
    let array = |of: fn(&(i32, i32)) -> i32| Array::i32(&[49], &pairs.iter().map(of).collect::<Vec<_>>());
    let inputs = HashMap::from([("a".to_string(), array(|p| p.0)), ("b".to_string(), array(|p| p.1))]);
    let trace = Trace::new();
    let (a, b) = (trace.input("a", DType::I32, &[49]), trace.input("b", DType::I32, &[49]));
    let ways = [a + b, a - b, a * b, a / b, a.maximum(b), a.minimum(b)];
    for (i, y) in ways.into_iter().enumerate() {
        // The two halves of a number are exact in f32.
        let high = y / 65536.0;
        trace.output(&format!("{i} high"), high.cast(DType::F32));
        trace.output(&format!("{i} low"), (y - high * 65536.0).cast(DType::F32));
    }
    // Numbers that are known before the run wrap in the same way.
    let most = trace.full(DType::I32, &[2], i32::MAX.into());
    trace.output("folded", ((most + 1.0) / 65536.0).cast(DType::F32));
    trace.output("folded by zero", (most / 0.0).cast(DType::F32));
    let beyond = trace.full(DType::F32, &[2], 3e10).cast(DType::I32) / 65536.0;
    trace.output("folded beyond", beyond.cast(DType::F32));
    let graph = trace.finish();
    let (_, got) = run_once(&graph, &Options::default(), &inputs);
    for (name, expected) in evaluate(&graph, &inputs).unwrap() {
        let got: Vec<f64> = got[&name].iter().map(|&x| x.into()).collect();
        assert_eq!(got, expected.data, "{name}");
    }
    assert_eq!(got["folded"], [-32768.0; 2]);
    assert_eq!(got["folded by zero"], [0.0; 2]);
    assert_eq!(got["folded beyond"], [32767.0; 2]);
}

#[test]
fn comparison_and_selection_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(3);
        for (n, c) in SIZES {
            for lie in READABLE {
                for to in WRITABLE {
                    let kind = CompareKind::ALL[random.below(6)];
                    let special = |r: &mut Random| {
                        if r.below(4) == 0 {
                            EXTREMES[r.below(30)]
                        } else {
                            r.unit_f32().round()
                        }
                    };
                    let mut a = Block::new(n, c, lie, || special(&mut random));
                    let mut b = Block::new(n, c, to, || special(&mut random));
                    let mut cond = Block::new(n, c, to, || 7u8);
                    let before = cond.clone();
                    // SAFETY: the blocks have these sizes.
                    unsafe { operators::compare(kind, n, c, a.rows(), b.rows(), cond.rows()) };
                    let holds: Vec<u8> = (a.values().iter().zip(b.values()))
                        .map(|(&a, b)| u8::from(kind.eval(a.into(), b.into())))
                        .collect();
                    assert_eq!(cond.values(), holds, "{kind:?} {n}x{c} {lie:?} {to:?}");
                    assert!(cond.same_gaps(&before));
                    let expected: Vec<u32> = (holds.iter().zip(a.values()).zip(b.values()))
                        .map(|((&holds, a), b)| if holds != 0 { a.to_bits() } else { b.to_bits() })
                        .collect();
                    // SAFETY: as above, in place of `b`.
                    unsafe { operators::select(n, c, cond.rows(), a.rows(), b.rows(), b.rows()) };
                    let got: Vec<u32> = b.values().iter().map(|x| x.to_bits()).collect();
                    assert_eq!(got, expected, "select {n}x{c} {lie:?} {to:?}");
                }
            }
        }
    });
}

#[test]
fn copy_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(4);
        for (n, c) in SIZES {
            for lie in READABLE {
                for to in WRITABLE {
                    let mut x = Block::new(n, c, lie, || random.number() as u16);
                    let mut y = Block::new(n, c, to, || 9u16);
                    let before = y.clone();
                    // SAFETY: the blocks have these sizes.
                    unsafe { operators::copy(n, c, x.rows(), y.rows()) };
                    assert_eq!(y.values(), x.values(), "{n}x{c} {lie:?} {to:?}");
                    assert!(y.same_gaps(&before));
                }
            }
        }
    });
}
