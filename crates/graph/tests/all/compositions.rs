//! Functions made of several operations: values, derivatives of first and second order, mistakes.

use std::slice::from_ref;

use lessen_graph::ops::pooling::reached_beyond;
use lessen_graph::{
    Array, Conv1dOptions, Conv2dOptions, DType, Pool1d, Pool2d, Tensor, Trace, TraceRef, Type, evaluate, stack,
};

use crate::check::{Function, assert_near, check_gradient, function, run};
use crate::prng::Prng;

/// Compares first and second derivatives of the sum of `y^2 + y^3` with differences.
#[track_caller]
fn check_derivatives(what: &str, inputs: &[Array], make: impl Fn(&[Tensor]) -> Tensor) {
    let loss = function(|_, x| {
        let y = make(x);
        vec![(y * y + y * y * y * 0.25).sum()]
    });
    check_gradient(what, inputs, &loss);
    let along = function(|trace, x| directional(trace, x, inputs.len(), &loss));
    check_gradient(&format!("{what}, second order"), inputs, &along);
}

/// The derivative along a direction.
fn directional(trace: TraceRef, x: &[Tensor], count: usize, loss: &impl Function) -> Vec<Tensor> {
    let mut r = Prng::new(99);
    let gradients = loss(trace, x)[0].grad(&x[..count]);
    let terms = gradients
        .into_iter()
        .map(|g| (g * trace.constant(r.normal(&g.shape()))).sum());
    vec![terms.reduce(|a, b| a + b).unwrap()]
}

/// One function of arrays.
fn made(inputs: &[Array], make: impl Fn(&[Tensor]) -> Tensor) -> Array {
    run(inputs, &function(|_, x| vec![make(x)])).remove(0)
}

/// The sentence of a mistake with an input `x` of `f32[2,3]`.
fn mistake(wrong: impl FnOnce(Tensor)) -> String {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 3]);
    let error = trace.attempt(|| wrong(x)).unwrap_err().to_string();
    assert!(error.contains("compositions.rs:"), "{error} names the line");
    error.split_once(": ").unwrap().1.to_string()
}

#[test]
fn operators_take_numbers_of_all_types_at_both_sides() {
    let x = Array::f32(&[2], vec![2.0, -4.0]);
    let (count, rate) = (4usize, 0.5f32);
    let all = run(
        &[x],
        &function(|_, x| {
            let x = x[0];
            vec![
                2.0 - x,
                x * 2,
                1.0 / x,
                1 / x,
                3 + x,
                3 * x - 1,
                x / count,
                x * rate,
                x - 1u8,
                -(x + 1i64),
                (x * 2.0).abs(),
            ]
        }),
    );
    let expected = [
        [0.0, 6.0],
        [4.0, -8.0],
        [0.5, -0.25],
        [0.5, -0.25],
        [5.0, -1.0],
        [5.0, -13.0],
        [0.5, -1.0],
        [1.0, -2.0],
        [1.0, -5.0],
        [-3.0, 3.0],
        [4.0, 8.0],
    ];
    for (found, expected) in all.iter().zip(expected) {
        assert_eq!(found.data, expected);
    }
    let whole = made(&[Array::i32(&[3], &[7, -7, 0])], |x| 2 * x[0] / 3 + 1);
    assert_eq!((whole.ty.dtype, whole.data), (DType::I32, vec![5.0, -3.0, 1.0]));
    let sentence = mistake(|x| drop(vec![x.cast(DType::I32) * 2.5f32]));
    assert_eq!(sentence, "full: i32[] cannot hold 2.5");
}

#[test]
fn one_hot_vectors_have_a_1_at_the_id() {
    let ids = Array::i32(&[2, 2], &[2, 0, -100, 3]);
    let found = made(&[ids], |x| x[0].one_hot(3));
    assert_eq!(found.ty, Type::f32(&[2, 2, 3]));
    assert_eq!(found.data, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let sentence = mistake(|x| drop(vec![x.one_hot(3)]));
    assert_eq!(
        sentence,
        "one_hot: needs i32 ids and at least one class, not f32[2,3] and 3"
    );
}

#[test]
fn stacked_tensors_lie_along_a_new_axis() {
    let (a, b) = (Array::f32(&[2, 1], vec![1.0, 2.0]), Array::f32(&[2, 1], vec![3.0, 4.0]));
    for (axis, shape, data) in [
        (0, [2, 2, 1], [1.0, 2.0, 3.0, 4.0]),
        (1, [2, 2, 1], [1.0, 3.0, 2.0, 4.0]),
        (-1, [2, 1, 2], [1.0, 3.0, 2.0, 4.0]),
        (-3, [2, 2, 1], [1.0, 2.0, 3.0, 4.0]),
    ] {
        let found = made(&[a.clone(), b.clone()], |x| stack(x, axis));
        assert_eq!(
            (&found.ty.shape[..], &found.data[..]),
            (&shape[..], &data[..]),
            "axis {axis}"
        );
    }
    check_derivatives("stack", &[a, b], |x| stack(&[x[0], x[1] * x[0]], 1).softmax());
    let sentence = mistake(|x| drop(stack(&[x, x.transpose(0, 1)], 0).shape()));
    assert_eq!(sentence, "stack: f32[2,3] and f32[3,2] differ");
    let sentence = mistake(|x| drop(stack(&[x, x], 4).shape()));
    assert_eq!(sentence, "axis 4 cannot be inserted into f32[2,3]");
}

#[test]
fn softmax_along_an_axis_is_that_of_its_rows() {
    let x = Prng::new(1).normal(&[2, 3, 4]);
    for axis in [0, 1, -2, 2, -1] {
        let found = made(std::slice::from_ref(&x), |x| x[0].softmax_along(axis));
        let logarithm = made(std::slice::from_ref(&x), |x| x[0].log_softmax_along(axis).exp());
        assert_near("the exponential of the logarithm", &found, &logarithm, 1e-14);
        let at = axis.rem_euclid(3) as usize;
        let expected = Array::from_fn(x.ty.clone(), |index| {
            let power = |i: usize| {
                let mut index = index.to_vec();
                index[at] = i;
                x.at(&index).exp()
            };
            power(index[at]) / (0..x.ty.shape[at]).map(power).sum::<f64>()
        });
        assert_near(&format!("axis {axis}"), &found, &expected, 1e-14);
        check_derivatives(&format!("axis {axis}"), std::slice::from_ref(&x), |x| {
            x[0].softmax_along(axis)
        });
        check_derivatives(&format!("axis {axis}"), std::slice::from_ref(&x), |x| {
            x[0].log_softmax_along(axis)
        });
    }
    let sentence = mistake(|x| drop(x.softmax_along(2).shape()));
    assert_eq!(sentence, "axis 2 of a tensor of type f32[2,3]");
}

#[test]
fn softplus_is_exact_at_both_ends_and_smooth_at_zero() {
    let x = Array::f32(&[7], vec![-80.0, -20.0, -16.0, 0.0, 1.0, 16.0, 300.0]);
    let expected: Vec<f64> = x.data.iter().map(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()).collect();
    let found = made(std::slice::from_ref(&x), |x| x[0].softplus());
    assert_near("softplus", &found, &Array::f32(&[7], expected.clone()), 1e-15);
    // Rounded to f32 after every operation.
    let trace = Trace::new();
    let input = trace.input("x", DType::F32, &[7]);
    trace.output("y", input.softplus());
    let rounded = evaluate(&trace.finish(), &[("x".to_string(), x)].into()).unwrap();
    for (found, expected) in rounded["y"].data.iter().zip(expected) {
        assert!((found - expected).abs() <= 3e-7 * expected, "{found} for {expected}");
    }
    check_derivatives("softplus", &[Array::f32(&[4], vec![0.0, -3.0, 2.0, 9.0])], |x| {
        x[0].softplus()
    });
}

/// A convolution of sequences `[n, t, c]` with a weight `[o, c / g, k]`, by its definition.
fn convolved(x: &Array, weight: &Array, how: Conv1dOptions) -> Array {
    let (&[n, t, c], &[o, _, k]) = (&x.ty.shape[..], &weight.ty.shape[..]) else {
        panic!("{} and {}", x.ty, weight.ty)
    };
    let steps = (t + how.padding[0] + how.padding[1] - (k - 1) * how.dilation - 1) / how.stride + 1;
    let (inputs, outputs) = (c / how.groups, o / how.groups);
    Array::from_fn(Type::f32(&[n, steps, o]), |i| {
        let mut sum = 0.0;
        for (tap, channel) in (0..k).flat_map(|tap| (0..inputs).map(move |channel| (tap, channel))) {
            let place = (i[1] * how.stride + tap * how.dilation).checked_sub(how.padding[0]);
            if let Some(place) = place.filter(|&place| place < t) {
                let group = i[2] / outputs;
                sum += x.at(&[i[0], place, group * inputs + channel]) * weight.at(&[i[2], channel, tap]);
            }
        }
        sum
    })
}

/// Ways to slide over a sequence, and the groups of channels.
const SLIDES: [Conv1dOptions; 4] = [
    Conv1dOptions {
        stride: 1,
        padding: [0, 0],
        dilation: 1,
        groups: 1,
    },
    Conv1dOptions {
        stride: 2,
        padding: [1, 0],
        dilation: 1,
        groups: 2,
    },
    Conv1dOptions {
        stride: 1,
        padding: [4, 0],
        dilation: 2,
        groups: 1,
    },
    Conv1dOptions {
        stride: 3,
        padding: [2, 1],
        dilation: 2,
        groups: 2,
    },
];

#[test]
fn convolutions_of_sequences_are_those_of_their_definition() {
    let mut r = Prng::new(2);
    for how in SLIDES {
        let inputs = [r.normal(&[2, 7, 4]), r.normal(&[2, 4 / how.groups, 3])];
        let found = made(&inputs, |x| x[0].conv1d(x[1], how));
        assert_near(
            &format!("{how:?}"),
            &found,
            &convolved(&inputs[0], &inputs[1], how),
            1e-14,
        );
        check_derivatives(&format!("{how:?}"), &inputs, |x| x[0].conv1d(x[1], how));
    }
    let wrong = |x: Tensor| drop(x.conv1d(x, Conv1dOptions::default()).shape());
    assert_eq!(
        mistake(wrong),
        "conv1d: the weight f32[2,3] is not one of three axes of the dtype of f32[2,3]"
    );
    let wrong = |x: Tensor| drop(x.conv1d(x.unsqueeze(0), Conv1dOptions::default()).shape());
    assert_eq!(mistake(wrong), "conv1d: the sequences f32[2,3] are not [N,T,C]");
}

#[test]
fn a_transposed_convolution_is_the_transpose_of_the_convolution() {
    let mut r = Prng::new(3);
    for how in SLIDES {
        // The sum of u conv(v) is that of v conv_transpose(u).
        let v = r.normal(&[2, 7, 4]);
        let weight = r.normal(&[2, 4 / how.groups, 3]);
        let forward = convolved(&v, &weight, how);
        let u = r.normal(&forward.ty.shape);
        let steps = u.ty.shape[1];
        let least = (steps - 1) * how.stride + 2 * how.dilation + 1 - how.padding[0] - how.padding[1];
        let beyond = 7 - least;
        let transposed = |x: &[Tensor]| x[0].conv_transpose1d(x[1], how, beyond);
        let inputs = [u, weight];
        let found = made(&inputs, transposed);
        assert_eq!(found.ty, v.ty, "{how:?}");
        let product = |a: &Array, b: &Array| a.data.iter().zip(&b.data).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (product(&inputs[0], &forward), product(&v, &found));
        assert!((left - right).abs() < 1e-12, "{how:?}: {left} and {right}");
        check_derivatives(&format!("{how:?}"), &inputs, transposed);
    }
}

#[test]
fn transposed_convolutions_of_images_have_pytorchs_sizes() {
    // torch.nn.functional.conv_transpose2d of an image of two pixels, 1 and 2, with a kernel of 1, 10, 100 and stride
    // 2.
    let options = Conv2dOptions {
        stride: [1, 2],
        ..Conv2dOptions::default()
    };
    let inputs = [
        Array::f32(&[1, 1, 2, 1], vec![1.0, 2.0]),
        Array::f32(&[1, 1, 1, 3], vec![1.0, 10.0, 100.0]),
    ];
    let found = made(&inputs, |x| x[0].conv_transpose2d(x[1], options, [0, 0]));
    assert_eq!(found.data, [1.0, 10.0, 102.0, 20.0, 200.0]);
    let found = made(&inputs, |x| x[0].conv_transpose2d(x[1], options, [0, 1]));
    assert_eq!(found.data, [1.0, 10.0, 102.0, 20.0, 200.0, 0.0]);
    let padded = Conv2dOptions {
        padding: [0, 0, 1, 2],
        ..options
    };
    let found = made(&inputs, |x| x[0].conv_transpose2d(x[1], padded, [0, 0]));
    assert_eq!(found.data, [10.0, 102.0]);
    let image = |x: Tensor| x.reshape(&[1, 1, 2, 3]);
    let sentence = mistake(|x| drop(image(x).conv_transpose2d(image(x), options, [0, 0]).shape()));
    assert_eq!(
        sentence,
        "conv_transpose2d: the weight f32[1,1,2,3] takes 1 channels of f32, the images f32[1,1,2,3] have 3"
    );
    let weight = |x: Tensor| x.reshape(&[3, 1, 1, 2]);
    let sentence = mistake(|x| drop(image(x).conv_transpose2d(weight(x), options, [0, 2]).shape()));
    assert_eq!(
        sentence,
        "conv_transpose2d: the output padding 2 along the width is not below the stride 2"
    );
    let wide = Conv2dOptions {
        padding: [1, 1, 0, 0],
        ..options
    };
    let sentence = mistake(|x| drop(image(x).conv_transpose2d(weight(x), wide, [0, 0]).shape()));
    assert_eq!(
        sentence,
        "conv_transpose2d: the height 1 with a kernel 1 and a padding of 1 before and 1 after it gives a result of no size \
         that can be counted"
    );
    let sentence = mistake(|x| drop(x.conv_transpose2d(x, options, [0, 0]).shape()));
    assert_eq!(
        sentence,
        "conv_transpose2d: the images f32[2,3] are not [N,H,W,C], or the weight f32[2,3] is not [C,O/G,KH,KW]"
    );
}

#[test]
fn pooling_of_sequences_is_that_of_images_of_one_row() {
    let x = Prng::new(4).normal(&[2, 5, 3]);
    let windows = Pool1d {
        kernel: 3,
        stride: 2,
        padding: [1, 1],
    };
    let row = Pool2d {
        kernel: [1, 3],
        stride: [1, 2],
        padding: [0, 0, 1, 1],
    };
    let of_row = |x: Tensor, pool: fn(Tensor, Pool2d) -> Tensor| pool(x.unsqueeze(1), row).reshape(&[2, 3, 3]);
    let all = run(
        std::slice::from_ref(&x),
        &function(|_, x| {
            let x = x[0];
            vec![
                x.max_pool1d(windows),
                of_row(x, |x, row| x.max_pool2d(row)),
                x.avg_pool1d(windows, false),
                of_row(x, |x, row| x.avg_pool2d(row, false)),
                x.global_max_pool1d(),
                x.unsqueeze(2).global_max_pool2d(),
                x.global_avg_pool1d(),
                x.mean_axes(&[1]),
            ]
        }),
    );
    for pair in all.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert_eq!(all[0].data[0], x.at(&[0, 0, 0]).max(x.at(&[0, 1, 0])));
    assert_near("mean", &all[2], &all[3], 0.0);
    assert_eq!((&all[4].ty, &all[6].ty), (&Type::f32(&[2, 3]), &Type::f32(&[2, 3])));
    check_derivatives("average", std::slice::from_ref(&x), |x| x[0].avg_pool1d(windows, true));
    check_derivatives("largest", &[x], |x| x[0].global_max_pool1d());
    let sentence = mistake(|x| drop(x.max_pool1d(Pool1d::of(2)).shape()));
    assert_eq!(sentence, "max_pool1d: the sequences f32[2,3] are not [N,T,C]");
    let sentence = mistake(|x| drop(x.global_max_pool2d().shape()));
    assert_eq!(sentence, "global_max_pool2d: the images f32[2,3] are not [N,H,W,C]");
}

#[test]
fn elements_are_taken_by_positions_of_any_axis_in_any_dtype() {
    let x = Array::f32(&[2, 3, 2], (0..12).map(f64::from).collect());
    let taken = |axis: isize, ids: &[i32]| {
        let ids = Array::i32(&[ids.len()], ids);
        made(from_ref(&x), |x| x[0].take(axis, x[0].trace().constant(ids.clone())))
    };
    assert_eq!(taken(0, &[1]).data, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(taken(1, &[2, 0]).data, [4.0, 5.0, 0.0, 1.0, 10.0, 11.0, 6.0, 7.0]);
    assert_eq!(taken(-1, &[1]).data, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]);
    let truths = made(from_ref(&x), |x| {
        let ids = x[0].trace().constant(Array::i32(&[1], &[1]));
        x[0].gt(x[0].scalar_like(2.0)).take(1, ids)
    });
    assert_eq!(
        (truths.ty.dtype, &truths.data[..]),
        (DType::Bool, &[0.0, 1.0, 1.0, 1.0][..])
    );
}

#[test]
fn groups_of_channels_are_normalized_each_by_itself() {
    let mut r = Prng::new(5);
    let x = r.normal(&[2, 4, 3]);
    let y = made(from_ref(&x), |x| x[0].normalize_groups(2, 0.0));
    for group in y.data.chunks(6) {
        let mean = group.iter().sum::<f64>() / 6.0;
        let square = group.iter().map(|x| x * x).sum::<f64>() / 6.0;
        assert!(mean.abs() < 1e-6 && (square - 1.0).abs() < 1e-5, "{mean} {square}");
    }
    check_derivatives("normalize_groups", &[x], |x| x[0].normalize_groups(2, 0.1));
    let sentence = mistake(|x| drop(x.normalize_groups(2, 0.0).shape()));
    assert_eq!(sentence, "3 channels of f32[2,3] do not divide into 2 groups");
}

#[test]
fn pixels_in_place_of_padding_change_no_convolution() {
    let mut r = Prng::new(6);
    let (x, weight) = (r.normal(&[1, 4, 5, 2]), r.normal(&[3, 2, 3, 3]));
    let options = Conv2dOptions {
        padding: [1, 1, 1, 0],
        ..Conv2dOptions::default()
    };
    let plain = made(&[x.clone(), weight.clone()], |x| x[0].conv2d(x[1], options));
    let padded = made(&[x, weight], |x| {
        let (image, options) = options.padded(x[0]);
        assert_eq!((image.shape()[2], options.padding), (6, [1, 1, 0, 0]));
        image.conv2d(x[1], options)
    });
    assert_eq!(plain.data, padded.data);
}

#[test]
fn a_last_window_that_is_rounded_up_reaches_beyond_the_padding_unless_it_begins_there() {
    assert_eq!(reached_beyond(5, [0, 0], 2, 2), 1);
    assert_eq!(reached_beyond(5, [1, 1], 3, 2), 0);
    assert_eq!(reached_beyond(4, [1, 1], 2, 3), 0);
    assert_eq!(reached_beyond(2, [0, 0], 3, 1), 0);
}
