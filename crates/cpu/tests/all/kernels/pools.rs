//! Pooling, resizing and moments at random shapes against the evaluation in `f64`, and beside plain loops in `f32`.

use std::collections::HashMap;

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Op, Trace, Type, evaluate_op};

use super::images::{case, check, image};
use super::support::*;
use crate::plans::runner::{Options, run_once};

#[test]
fn pools_of_random_shapes() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let kernel = [1 + random.below(4), 1 + random.below(4)];
        let (size, padding) = image(&mut random, kernel, [1, 1], 9);
        let windows = Pool2d {
            kernel,
            stride: [1 + random.below(3), 1 + random.below(3)],
            padding,
        };
        let Ok([rows, columns]) = windows.slides(size) else {
            continue;
        };
        let (images, channels) = (1 + random.below(2), random.pick(&[1, 3, 40, 130]));
        // Few distinct values, so that many elements are equal.
        let x = Array::from_fn(Type::f32(&[images, size[0], size[1], channels]), |_| {
            random.below(5) as f64
        });
        let shape = [images, rows.windows, columns.windows, channels];
        let taps = random.ids(&shape, kernel[0] * kernel[1] + 1);
        let dy = random.array(&shape, 1.0);
        let exact = |op: &dyn Op, inputs: &[&Array]| -> Vec<f32> {
            let found = evaluate_op(op, inputs).unwrap().remove(0);
            found.data.iter().map(|&y| y as f32).collect()
        };
        let (max, gather, scatter) = (
            MaxPool2d { windows },
            MaxPool2dGather { windows },
            MaxPool2dScatter { windows, size },
        );
        for case in [
            case(max, &[&x], dy.data.len(), 1.0, |y| {
                y.copy_from_slice(&exact(&max, &[&x]))
            }),
            case(gather, &[&x, &taps], dy.data.len(), 1.0, |y| {
                y.copy_from_slice(&exact(&gather, &[&x, &taps]))
            }),
            case(scatter, &[&dy, &taps], x.data.len(), 1.0, |y| {
                y.copy_from_slice(&exact(&scatter, &[&dy, &taps]))
            }),
        ] {
            check(&format!("seed {seed}"), &case, true);
        }
        for count_padding in [true, false] {
            resampled(
                seed,
                &mut random,
                size,
                channels,
                Sampling::Average { windows, count_padding },
            );
        }
        let size_of_result = [1 + random.below(9), 1 + random.below(9)];
        resampled(
            seed,
            &mut random,
            size,
            channels,
            Sampling::AdaptiveAverage { size: size_of_result },
        );
        resampled(
            seed,
            &mut random,
            size,
            channels,
            Sampling::Nearest { size: size_of_result },
        );
        resampled(
            seed,
            &mut random,
            size,
            channels,
            Sampling::Bilinear { size: size_of_result },
        );
    }
}

fn resampled(seed: u64, random: &mut Random, size: [usize; 2], channels: usize, sampling: Sampling) {
    let [height, width] = sampling.outputs(size).unwrap();
    let (x, dy) = (
        random.array(&[1, size[0], size[1], channels], 1.0),
        random.array(&[1, height, width, channels], 1.0),
    );
    let [rows, columns] = [0, 1].map(|axis| sampling.weights(size, axis));
    let mut weights = Vec::new();
    for (i, j) in (0..height).flat_map(|i| (0..width).map(move |j| (i, j))) {
        for (a, by_row) in &rows[i] {
            for (b, by_column) in &columns[j] {
                let weight = (by_row * by_column) as f32;
                let places = (0..channels).map(|c| ((a * size[1] + b) * channels + c, (i * width + j) * channels + c));
                weights.extend(places.map(|(from, to)| (from, to, weight)));
            }
        }
    }
    let forward = case(Resample2d { sampling }, &[&x], dy.data.len(), 0.1, |sums| {
        weights
            .iter()
            .for_each(|&(from, to, w)| sums[to] += w * x.data[from] as f32);
    });
    let grad = case(Resample2dGrad { sampling, size }, &[&dy], x.data.len(), 0.1, |sums| {
        weights
            .iter()
            .for_each(|&(from, to, w)| sums[from] += w * dy.data[to] as f32);
    });
    check(&format!("seed {seed}"), &forward, true);
    check(&format!("seed {seed}"), &grad, true);
}

#[test]
fn the_taps_of_the_largest_are_those_of_the_evaluation() {
    let mut random = Random::new(5);
    let windows = Pool2d {
        kernel: [3, 2],
        stride: [2, 1],
        padding: [1, 1, 0, 1],
    };
    let (nan, low) = (f64::NAN, f64::NEG_INFINITY);
    let x = Array::from_fn(Type::f32(&[2, 7, 6, 67]), |_| {
        random.pick(&[0.0, 1.0, 2.0, nan, low, low])
    });
    let trace = Trace::new();
    let input = trace.input("x", DType::F32, &x.ty.shape);
    let outputs = trace.apply(MaxPool2d { windows }, &[input]);
    trace.output("y", outputs[0]);
    trace.output("tap", outputs[1].cast(DType::F32));
    let inputs = HashMap::from([("x".to_string(), x.clone())]);
    let (_, found) = run_once(&trace.finish(), &Options::default(), &inputs);
    let expected = evaluate_op(&MaxPool2d { windows }, &[&x]).unwrap();
    let same = |a: &[f32], b: &Array| {
        a.iter()
            .zip(&b.data)
            .all(|(a, b)| *a == *b as f32 || a.is_nan() && b.is_nan())
    };
    assert!(same(&found["y"], &expected[0]));
    assert!(same(&found["tap"], &expected[1]));
}

#[test]
fn moments_of_columns_with_a_large_mean() {
    for (seed, shape) in [
        &[1, 1, 1][..],
        &[3, 7, 5],
        &[40, 130],
        &[2, 1000, 70],
        &[20_000, 3],
        &[70, 9, 64],
    ]
    .into_iter()
    .enumerate()
    {
        let mut random = Random::new(seed as u64);
        let mut x = random.array(shape, 1.0);
        x.data.iter_mut().for_each(|x| *x = f64::from((*x + 100.0) as f32));
        let trace = Trace::new();
        let [mean, variance] = trace.input("x", DType::F32, shape).moments();
        trace.output("mean", mean);
        trace.output("variance", variance);
        let (graph, inputs) = (trace.finish(), HashMap::from([("x".to_string(), x.clone())]));
        let expected = evaluate_op(&Moments, &[&x]).unwrap();
        at_all_levels(|level| {
            let (_, found) = run_once(&graph, &Options::default(), &inputs);
            for (name, expected, bound) in [("mean", &expected[0], 100.0 * 2e-7), ("variance", &expected[1], 4e-6)] {
                for (got, expected) in found[name].iter().zip(&expected.data) {
                    let error = (f64::from(*got) - expected).abs();
                    assert!(
                        error <= bound,
                        "{level:?} {shape:?}: the {name} is {got}, not {expected}"
                    );
                }
            }
        });
    }
}
