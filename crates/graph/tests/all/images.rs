//! Operations on images applied to small random inputs: odd sizes, one row, one channel, groups, strides, dilation.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Type};

use crate::cases::{Case, Smooth, case};
use crate::prng::Prng;

/// A convolution: shapes of image and weight, stride, padding, dilation, groups.
type Convolution = ([usize; 4], [usize; 4], [usize; 2], [usize; 4], [usize; 2], usize);

const CONVOLUTIONS: [Convolution; 8] = [
    ([2, 3, 5, 2], [3, 2, 3, 3], [1, 1], [1; 4], [1, 1], 1),
    ([1, 5, 4, 4], [6, 2, 3, 2], [2, 1], [1, 0, 2, 1], [1, 2], 2),
    ([2, 4, 3, 3], [3, 1, 3, 3], [2, 2], [1; 4], [1, 1], 3),
    ([1, 3, 3, 2], [4, 1, 2, 2], [1, 1], [0, 1, 0, 1], [1, 1], 2),
    ([2, 1, 6, 1], [2, 1, 1, 3], [1, 2], [0, 0, 1, 2], [1, 2], 1),
    ([1, 7, 1, 1], [1, 1, 2, 1], [3, 1], [0; 4], [2, 1], 1),
    ([1, 4, 5, 3], [2, 3, 1, 1], [2, 3], [0; 4], [1, 1], 1),
    // The last row and column lie in no window.
    ([1, 4, 4, 1], [2, 1, 2, 2], [3, 3], [0; 4], [1, 1], 1),
];

const POOLS: [([usize; 4], Pool2d); 4] = [
    pool([2, 4, 5, 2], [2, 2], [2, 2], [0; 4]),
    pool([1, 4, 4, 1], [3, 3], [2, 2], [1; 4]),
    pool([1, 1, 5, 3], [1, 3], [1, 1], [0, 0, 2, 1]),
    pool([1, 5, 4, 1], [2, 1], [3, 2], [0; 4]),
];

const fn pool(shape: [usize; 4], kernel: [usize; 2], stride: [usize; 2], padding: [usize; 4]) -> ([usize; 4], Pool2d) {
    let windows = Pool2d {
        kernel,
        stride,
        padding,
    };
    (shape, windows)
}

pub fn cases(r: &mut Prng) -> Vec<Case> {
    let mut all = convolutions(r);
    all.extend(pools(r));
    for shape in [&[5, 3][..], &[2, 1, 4], &[1, 1]] {
        let (x, dy) = (r.normal(shape), r.normal(shape));
        let [center, scale, shift] = [(); 3].map(|()| r.normal(&shape[shape.len() - 1..]));
        all.push(case(ScaleShift, &[&x, &center, &scale, &shift], Smooth::Twice));
        all.push(case(ScaleShiftSums, &[&x, &center, &dy], Smooth::Twice));
    }
    for shape in [&[5, 3][..], &[2, 1, 4], &[2, 3, 1], &[1, 2, 3, 2]] {
        all.push(case(Moments, &[&r.normal(shape)], Smooth::Twice));
    }
    all
}

fn convolutions(r: &mut Prng) -> Vec<Case> {
    let mut all = Vec::new();
    for (x, weight, stride, padding, dilation, groups) in CONVOLUTIONS {
        let options = Conv2dOptions {
            stride,
            padding,
            dilation,
            groups,
            ..Conv2dOptions::default()
        };
        let (size, kernel) = ([x[1], x[2]], [weight[2], weight[3]]);
        let (x, weight) = (r.normal(&x), r.normal(&weight));
        let forward = case(Conv2d { options }, &[&x, &weight], Smooth::Twice);
        let y = forward.op.infer(&[x.ty.clone(), weight.ty.clone()]).unwrap().remove(0);
        let dy = r.normal(&y.shape);
        all.push(forward);
        all.push(case(Conv2dGradInput { options, size }, &[&dy, &weight], Smooth::Twice));
        all.push(case(Conv2dGradWeight { options, kernel }, &[&x, &dy], Smooth::Twice));
        let [outputs, inputs, height, width] = weight.ty.shape[..] else {
            unreachable!("a weight has four axes")
        };
        let codes = |r: &mut Prng, shape: &[usize]| {
            let codes = r.floats(shape, 0.0, 256.0);
            let codes = codes.data.iter().map(|code| code.floor().min(255.0));
            Array::new(Type::new(DType::U8, shape), codes.collect())
        };
        let images = codes(r, &x.ty.shape);
        let weights = codes(r, &[outputs, height, width, inputs]);
        let (scale, of_weight) = (r.floats(&x.ty.shape[..1], 0.01, 0.1), r.floats(&[outputs], 0.001, 0.01));
        let op = QuantizedConv2d::new(options, 128);
        all.push(case(op, &[&images, &scale, &weights, &of_weight], Smooth::Twice));
        let bias = Array::from_fn(Type::new(DType::I32, &[outputs]), |i| 100.0 - 77.0 * i[0] as f64);
        let op = QuantizedConv2d::new(options, 7);
        all.push(case(op, &[&images, &scale, &weights, &of_weight, &bias], Smooth::Twice));
        let op = QuantizedConv2d {
            result: Some(QuantizeLinear { scale: 0.25, zero: 9 }),
            ..op
        };
        all.push(case(op, &[&images, &scale, &weights, &of_weight, &bias], Smooth::No));
    }
    all
}

fn pools(r: &mut Prng) -> Vec<Case> {
    let mut all = Vec::new();
    let sampled = |r: &mut Prng, all: &mut Vec<Case>, shape: [usize; 4], sampling: Sampling| {
        let size = [shape[1], shape[2]];
        let [height, width] = sampling.outputs(size).unwrap();
        all.push(case(Resample2d { sampling }, &[&r.normal(&shape)], Smooth::Twice));
        let dy = r.normal(&[shape[0], height, width, shape[3]]);
        all.push(case(Resample2dGrad { sampling, size }, &[&dy], Smooth::Twice));
    };
    for (shape, windows) in POOLS {
        let size = [shape[1], shape[2]];
        let x = r.normal(&shape);
        let [rows, columns] = windows.slides(size).unwrap();
        let y = [shape[0], rows.windows, columns.windows, shape[3]];
        // Some of the taps lie in the padding, and one is none.
        let taps = r.ids(&y, windows.kernel[0] * windows.kernel[1] + 1);
        all.push(case(MaxPool2d { windows }, &[&x], Smooth::Twice));
        let scatter = MaxPool2dScatter { windows, size };
        all.push(case(scatter, &[&r.normal(&y), &taps], Smooth::Twice));
        all.push(case(MaxPool2dGather { windows }, &[&x, &taps], Smooth::Twice));
        for count_padding in [true, false] {
            sampled(r, &mut all, shape, Sampling::Average { windows, count_padding });
        }
    }
    for (shape, size) in [([2, 4, 5, 2], [3, 2]), ([1, 1, 3, 1], [2, 7]), ([1, 6, 2, 3], [1, 1])] {
        sampled(r, &mut all, shape, Sampling::AdaptiveAverage { size });
        sampled(r, &mut all, shape, Sampling::Nearest { size });
        sampled(r, &mut all, shape, Sampling::Bilinear { size });
    }
    all
}
