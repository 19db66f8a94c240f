//! Convolution, pooling and resizing on small images of whole numbers. The expected numbers are PyTorch's.

use lessen_graph::ops::*;
use lessen_graph::{Array, Op, Type, evaluate_op};

use crate::check::assert_near;

/// The numbers `i step mod m`, less half of `m`.
fn whole(shape: &[usize], step: usize, m: usize) -> Array {
    let ty = Type::f32(shape);
    let data = (0..ty.numel())
        .map(|i| (i * step % m) as f64 - (m / 2) as f64)
        .collect();
    Array::new(ty, data)
}

#[track_caller]
fn expect(op: impl Op, inputs: &[&Array], shape: &[usize], expected: &[f64]) {
    let found = evaluate_op(&op, inputs).unwrap().remove(0);
    assert_near(op.name(), &found, &Array::f32(shape, expected.to_vec()), 1e-9);
}

#[test]
fn a_convolution_with_groups_strides_dilation_and_uneven_padding() {
    let (x, weight) = (whole(&[1, 5, 4, 4], 7, 11), whole(&[4, 2, 3, 2], 5, 7));
    let options = Conv2dOptions {
        stride: [2, 1],
        padding: [1, 0, 2, 1],
        dilation: [1, 2],
        groups: 2,
        ..Conv2dOptions::default()
    };
    let y = &[
        19.0, -10.0, 19.0, -20.0, -2.0, 5.0, -20.0, 19.0, 8.0, 8.0, 24.0, -5.0, 5.0, 0.0, -4.0, 13.0, -10.0, 19.0,
        -16.0, -6.0, -24.0, 18.0, 12.0, -2.0, 4.0, 11.0, 1.0, -17.0, -19.0, 26.0, -4.0, 13.0, 3.0, -24.0, 28.0, -40.0,
        3.0, 13.0, -18.0, 13.0,
    ];
    expect(Conv2d { options }, &[&x, &weight], &[1, 2, 5, 4], y);
    let dy = whole(&[1, 2, 5, 4], 3, 5);
    let dx = &[
        6.0, 1.0, 3.0, -11.0, -10.0, 2.0, 0.0, 3.0, -1.0, 3.0, 7.0, 2.0, 6.0, -6.0, -6.0, 4.0, -9.0, -5.0, 6.0, 13.0,
        8.0, 11.0, 0.0, -8.0, 5.0, -8.0, -21.0, 11.0, -9.0, 2.0, 2.0, -6.0, 6.0, 1.0, 3.0, -11.0, -10.0, 2.0, 0.0, 3.0,
        -1.0, 3.0, 7.0, 2.0, 6.0, -6.0, -6.0, 4.0, 2.0, -10.0, 3.0, 10.0, 1.0, 6.0, 1.0, -10.0, 5.0, 2.0, -11.0, 5.0,
        -5.0, -3.0, 2.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ];
    let size = [5, 4];
    expect(Conv2dGradInput { options, size }, &[&dy, &weight], &[1, 5, 4, 4], dx);
    let dw = &[
        -11.0, -2.0, -22.0, 7.0, -3.0, 3.0, 14.0, 2.0, -5.0, 4.0, 3.0, 0.0, 8.0, -1.0, 16.0, -24.0, -2.0, 2.0, -7.0,
        6.0, -3.0, 1.0, 1.0, 5.0, 2.0, -7.0, 4.0, -3.0, 4.0, -22.0, 2.0, 12.0, -18.0, 13.0, 4.0, 5.0, 10.0, 14.0, -2.0,
        -5.0, 16.0, 28.0, -8.0, -19.0, -5.0, -16.0, 2.0, -5.0,
    ];
    let kernel = [3, 2];
    expect(Conv2dGradWeight { options, kernel }, &[&x, &dy], &[4, 2, 3, 2], dw);
}

#[test]
fn the_largest_of_windows_and_its_cotangents() {
    let x = whole(&[1, 4, 5, 2], 7, 5);
    let windows = Pool2d {
        kernel: [3; 2],
        stride: [2; 2],
        padding: [1; 4],
    };
    let y = &[2.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0, 0.0, 2.0];
    expect(MaxPool2d { windows }, &[&x], &[1, 2, 3, 2], y);
    let taps = evaluate_op(&MaxPool2d { windows }, &[&x]).unwrap().remove(1);
    let dx = &[
        0.0, 1.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 3.0, 0.0, 0.0, 0.0, -2.0, 1.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ];
    let size = [4, 5];
    let scatter = MaxPool2dScatter { windows, size };
    expect(scatter, &[&whole(&[1, 2, 3, 2], 3, 5), &taps], &[1, 4, 5, 2], dx);
    expect(MaxPool2dGather { windows }, &[&x, &taps], &[1, 2, 3, 2], y);
}

#[test]
fn nan_is_the_largest_and_a_window_of_minus_infinity_has_a_tap() {
    let (nan, low) = (f64::NAN, f64::NEG_INFINITY);
    let x = Array::f32(&[1, 1, 6, 1], vec![1.0, nan, low, low, low, 2.0]);
    let windows = Pool2d {
        kernel: [1, 2],
        stride: [1, 2],
        padding: [0; 4],
    };
    let found = evaluate_op(&MaxPool2d { windows }, &[&x]).unwrap();
    assert!(found[0].data[0].is_nan());
    assert_eq!(found[0].data[1..], [low, 2.0]);
    assert_eq!(found[1].data, [1.0, 0.0, 1.0]);
}

#[test]
fn averages_of_windows() {
    let x = whole(&[1, 4, 5, 1], 7, 12);
    let windows = Pool2d {
        kernel: [3, 2],
        stride: [2, 1],
        padding: [1; 4],
    };
    let with_padding = &[
        -0.166666667,
        0.0,
        -1.333333333,
        -0.666666667,
        0.0,
        -0.833333333,
        2.0,
        1.5,
        -1.5,
        -0.5,
        -1.5,
        -2.0,
    ];
    let without = &[-0.5, 0.0, -2.0, -1.0, 0.0, -2.5, 4.0, 1.5, -1.5, -0.5, -1.5, -4.0];
    for (count_padding, expected) in [(true, with_padding), (false, without)] {
        let sampling = Sampling::Average { windows, count_padding };
        expect(Resample2d { sampling }, &[&x], &[1, 2, 6, 1], expected);
    }
    let sampling = Sampling::AdaptiveAverage { size: [3, 2] };
    let adaptive = &[-1.5, -1.5, -0.5, -2.5, 0.5, -1.5];
    expect(Resample2d { sampling }, &[&x], &[1, 3, 2, 1], adaptive);
}

#[test]
fn interpolation() {
    let x = whole(&[1, 4, 5, 1], 7, 12);
    let nearest = &[
        -6.0, -6.0, 1.0, -4.0, -4.0, 3.0, -2.0, 5.0, 5.0, 0.0, -5.0, -5.0, 2.0, -3.0, 4.0, 4.0, -1.0, -6.0, -6.0, 1.0,
        -4.0,
    ];
    let sampling = Sampling::Nearest { size: [3, 7] };
    expect(Resample2d { sampling }, &[&x], &[1, 3, 7, 1], nearest);
    let larger = &[
        -6.0,
        1.0,
        -4.0,
        3.0,
        -2.0,
        -0.5,
        0.5,
        -4.5,
        2.5,
        -2.5,
        4.833333333,
        -0.166666667,
        -5.166666667,
        1.833333333,
        -3.166666667,
        4.166666667,
        -0.833333333,
        -5.833333333,
        1.166666667,
        -3.833333333,
        3.5,
        -1.5,
        -0.5,
        0.5,
        -4.5,
        3.0,
        -2.0,
        5.0,
        0.0,
        -5.0,
    ];
    let sampling = Sampling::Bilinear { size: [6, 5] };
    expect(Resample2d { sampling }, &[&x], &[1, 6, 5, 1], larger);
    let smaller = &[-0.416666667, 1.583333333, 0.75, 0.25, -0.583333333, -1.083333333];
    let sampling = Sampling::Bilinear { size: [3, 2] };
    expect(Resample2d { sampling }, &[&x], &[1, 3, 2, 1], smaller);
}
