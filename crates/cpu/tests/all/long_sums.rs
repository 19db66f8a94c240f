//! Sums of many terms: the error of every kernel that adds up is the error of sums in pairs, about 1e-6 of a sum of a
//! million terms of one sign, at every CPU level, and its bits do not depend on the number of threads.

use std::collections::HashMap;
use std::sync::Arc;

use lessen_cpu::Device;
use lessen_cpu::simd::CpuSet;
use lessen_device::suite::Sample;
use lessen_graph::ops::{self, ReduceKind, Sampling};
use lessen_graph::{Array, DType, Op, Type, evaluate};

use crate::kernels::support::at_all_levels;
use crate::random::Random;
use crate::table_runs::{graph, run_on};

/// The largest error of a sum relative to the sum; chains of a million terms have 1e-3 to 1e-2.
const BOUND: f64 = 2e-6;

/// Asserts that outputs of an operation equal the outputs of the reference evaluator within [`BOUND`] of each element,
/// at all levels, and that three threads give the same bits.
fn check(op: impl Op, inputs: &[Array], outputs: &[usize]) {
    let types: Vec<Type> = inputs.iter().map(|x| x.ty.clone()).collect();
    let sample = Sample {
        op: Arc::new(op),
        inputs: Vec::new(),
    };
    let graph = graph(&sample, &types);
    let inputs: HashMap<String, Array> = inputs
        .iter()
        .enumerate()
        .map(|(i, x)| (format!("x{i}"), x.clone()))
        .collect();
    let expected = evaluate(&graph, &inputs).unwrap();
    let run = |threads| {
        let mut device = Device::new(threads).unwrap();
        run_on(&graph, &mut device, threads, &inputs).unwrap()
    };
    let together = run(3);
    at_all_levels(|level| {
        let found = run(1);
        for output in outputs {
            let name = format!("y{output}");
            for (i, (f, e)) in found[&name].iter().zip(&expected[&name].data).enumerate() {
                let error = (f - e).abs() / e.abs();
                assert!(
                    error < BOUND || f == e,
                    "{:?} on {types:?}: element {i} of {name} is {f}, not {e} (error {error:.1e}) at {level:?}",
                    sample.op
                );
            }
            if level == CpuSet::detect() {
                assert_eq!(found[&name], together[&name], "{:?}: threads change bits", sample.op);
            }
        }
    });
}

/// Equal numbers, whose rounding errors add up, and random ones, all above zero.
fn arrays(shape: &[usize]) -> Vec<Array> {
    let mut random = Random::new(40);
    let full = |x: f32| Array::full(Type::f32(shape), f64::from(x));
    let between = Array::from_fn(Type::f32(shape), |_| f64::from(random.unit_f32().abs()));
    vec![full(0.1), full(0.7), between]
}

fn sum(axes: &[usize]) -> ops::Reduce {
    ops::Reduce {
        kind: ReduceKind::Sum,
        axes: axes.to_vec(),
    }
}

#[test]
fn sums_over_middle_axes_keep_six_digits() {
    for x in arrays(&[2, 1_000_000, 4]) {
        check(sum(&[1]), &[x], &[0]);
    }
    for x in arrays(&[2, 224 * 224, 3]) {
        check(sum(&[1]), &[x], &[0]);
    }
    for x in arrays(&[2, 224, 224, 3]) {
        check(sum(&[1, 2]), &[x], &[0]);
    }
    for x in arrays(&[500, 3, 600, 5]) {
        check(sum(&[0, 2]), std::slice::from_ref(&x), &[0]);
        check(sum(&[0, 2, 3]), &[x], &[0]);
    }
    for x in arrays(&[100_000, 2, 3]) {
        check(sum(&[0, 2]), &[x], &[0]);
    }
    // More columns than are added up at a time.
    for x in arrays(&[3, 300, 2, 600]) {
        check(sum(&[1]), std::slice::from_ref(&x), &[0]);
        check(sum(&[0, 2]), &[x], &[0]);
    }
}

#[test]
fn sums_over_leading_axes_keep_six_digits() {
    for shape in [
        [300, 70],
        [513, 3],
        [1500, 70],
        [70_000, 5],
        [1_000_000, 4],
        [1 << 19, 3],
    ] {
        for x in arrays(&shape) {
            check(sum(&[0]), &[x], &[0]);
        }
    }
}

#[test]
fn sums_of_rows_and_of_whole_arrays_keep_six_digits() {
    for shape in [&[3, 1_000_000][..], &[1_000_000], &[2000, 700], &[7, 300, 333]] {
        let all: Vec<usize> = (0..shape.len()).collect();
        for x in arrays(shape) {
            check(sum(&all), std::slice::from_ref(&x), &[0]);
            check(sum(&all[shape.len() - 1..]), &[x], &[0]);
        }
    }
}

#[test]
fn statistics_of_long_rows_keep_six_digits() {
    let (rows, width) = (2, 300_000);
    let vector = |x: f64| Array::full(Type::f32(&[width]), x);
    for x in arrays(&[rows, width]) {
        let shifted = Array::from_fn(x.ty.clone(), |i| x.data[i[0] * width + i[1]] + (i[1] % 3) as f64);
        check(
            ops::LayerNorm { eps: 1e-5 },
            &[shifted.clone(), vector(1.0), vector(0.0)],
            &[1, 2],
        );
        check(ops::RmsNorm { eps: 1e-5 }, &[shifted.clone(), vector(1.0)], &[1]);
        check(ops::CrmsNorm { eps: 1e-5 }, &[shifted.clone(), vector(1.0)], &[1]);
        check(ops::Softmax, &[shifted], &[0]);
    }
    for x in arrays(&[2, 1_000_000]) {
        let labels = Array::full(Type::new(DType::I32, &[2]), 5.0);
        let loss = ops::CrossEntropy {
            ignore: -100,
            smoothing: 0.0,
        };
        check(loss, &[x, labels], &[0, 1]);
    }
}

#[test]
fn statistics_of_columns_keep_six_digits() {
    let (rows, columns) = (700_000, 3);
    for x in arrays(&[rows, columns]) {
        let shifted = Array::from_fn(x.ty.clone(), |i| x.data[i[0] * columns + i[1]] + (i[0] % 3) as f64);
        check(ops::Moments, std::slice::from_ref(&shifted), &[0, 1]);
        let center = Array::full(Type::f32(&[columns]), 0.0);
        check(ops::ScaleShiftSums, &[shifted, center, x], &[0, 1]);
    }
}

#[test]
fn gradients_of_norms_keep_six_digits() {
    let (rows, columns) = (100_000, 3);
    for dy in arrays(&[rows, columns]) {
        let x = Array::from_fn(dy.ty.clone(), |i| (i[1] + 1) as f64);
        let vector = |n: usize, x: f64| Array::full(Type::f32(&[n]), x);
        let (gamma, mean, rstd) = (vector(columns, 1.0), vector(rows, 0.0), vector(rows, 1.0));
        let layer = [x.clone(), gamma.clone(), mean, rstd.clone(), dy.clone()];
        check(ops::LayerNormBackward { eps: 1e-5 }, &layer, &[1, 2]);
        check(ops::RmsNormBackward { eps: 1e-5 }, &[x, gamma, rstd, dy], &[1]);
    }
}

#[test]
fn sums_over_windows_keep_six_digits() {
    for (height, width) in [(224, 224), (3, 4000), (4000, 3)] {
        let windows = ops::Pool2d {
            kernel: [height, width],
            stride: [1; 2],
            padding: [0; 4],
        };
        for count_padding in [false, true] {
            let sampling = Sampling::Average { windows, count_padding };
            for x in arrays(&[1, height, width, 3]) {
                check(ops::Resample2d { sampling }, &[x], &[0]);
            }
        }
        let size = [1, 1];
        let sampling = Sampling::AdaptiveAverage { size };
        for x in arrays(&[1, height, width, 3]) {
            check(ops::Resample2d { sampling }, &[x], &[0]);
        }
    }
    // One pixel of all windows: each of them routes its cotangent to it.
    let (side, size) = (30, [59, 59]);
    let windows = ops::Pool2d {
        kernel: [side; 2],
        stride: [1; 2],
        padding: [0; 4],
    };
    for dy in arrays(&[1, side, side, 2]) {
        let last = side - 1;
        let taps = Array::from_fn(Type::new(DType::I32, &[1, side, side, 2]), |i| {
            ((last - i[1]) * side + (last - i[2])) as f64
        });
        check(ops::MaxPool2dScatter { windows, size }, &[dy, taps], &[0]);
    }
}

#[test]
fn gradients_of_depthwise_weights_keep_six_digits() {
    let options = ops::Conv2dOptions {
        groups: 2,
        ..ops::Conv2dOptions::default()
    };
    for x in arrays(&[64, 80, 80, 2]) {
        let dy = Array::full(Type::f32(&[64, 80, 80, 2]), 0.3f32.into());
        check(
            ops::Conv2dGradWeight {
                options,
                kernel: [1, 1],
            },
            &[x, dy],
            &[0],
        );
    }
}
