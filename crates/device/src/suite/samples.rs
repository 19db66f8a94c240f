//! Samples of every standard operation, for the tests of the table of kernels.

use std::sync::Arc;

use lessen_graph::ops::temperature::Temperature;
use lessen_graph::ops::{self, BinaryKind, CompareKind, ReduceKind, UnaryKind};
use lessen_graph::{Array, DType, Trace, Type};

use super::row_samples::row_samples;
use super::sample::{Sample, sample};

/// Samples of every standard operation.
pub fn samples() -> Vec<Sample> {
    let mut all = elementwise();
    all.extend(of_structure());
    all.extend(row_samples());
    all.extend(of_networks());
    all.extend(of_recurrent_networks());
    all.extend(of_images());
    all.extend(of_scans());
    all
}

fn of_recurrent_networks() -> Vec<Sample> {
    let mut all = Vec::new();
    for (reverse, order, batch, steps, n) in [(false, [0, 1, 2, 3], 3, 4, 5), (true, [1, 0, 3, 2], 9, 3, 70)] {
        let (state, states): (&[usize], &[usize]) = (&[batch, n], &[batch, steps, n]);
        let (sums, weight): (&[usize], &[usize]) = (&[batch, steps, 4 * n], &[4 * n, n]);
        all.push(sample(ops::Lstm { reverse, order }, &[sums, weight, state, state]));
        let backward = ops::LstmBackward { reverse, order };
        all.push(sample(backward, &[weight, state, states, sums, states, states]));
        let order = [order[0], order[1], 2];
        let (sums, weight): (&[usize], &[usize]) = (&[batch, steps, 3 * n], &[3 * n, n]);
        all.push(sample(ops::Gru { reverse, order }, &[sums, weight, &[n], state]));
        let backward = ops::GruBackward { reverse, order };
        all.push(sample(backward, &[weight, state, states, sums, states, states]));
    }
    all
}

/// Scans whose carries are of two dtypes and change their places.
fn of_scans() -> Vec<Sample> {
    let (state, weight, turns) = (Type::f32(&[5, 37]), Type::f32(&[37, 37]), 4);
    let slices = Type::f32(&[turns, 5, 37]);
    let counts = Type::new(DType::I32, &[3]);
    let trace = Trace::new();
    let declare = |name: &str, ty: &Type| trace.input(name, ty.dtype, &ty.shape);
    let (a, b, n) = (declare("a", &state), declare("b", &state), declare("n", &counts));
    let (x, w) = (declare("x", &state), declare("w", &weight));
    let next = (x + a.matmul(w)).tanh();
    trace.output("a", b);
    trace.output("b", next);
    trace.output("n", n + n);
    trace.output("y", (next * b).transpose(0, 1));
    let body = trace.finish();
    let all = [(false, false), (true, true)].map(|(reverse, keeps_carries)| {
        let options = ops::ScanOptions {
            turns,
            reverse,
            keeps_carries,
        };
        let scan = ops::Scan::new(body.clone(), options, 3, 1).expect("carries keep their types");
        let types = [&state, &state, &counts, &slices, &weight].map(Clone::clone);
        Sample::new(scan, &types)
    });
    all.into()
}

/// A sum of two arrays of codes with other scales and zeros.
pub(super) const SUM_OF_CODES: ops::AddCodes = ops::AddCodes {
    left_scale: 0.125,
    left_zero: 77,
    right_scale: 0.25,
    right_zero: 120,
    scale: 0.375,
    zero: 100,
};

/// A product of codes, whose numbers become codes or stay numbers.
fn product_of_codes(result: Option<ops::QuantizeLinear>) -> Sample {
    let op = ops::QuantizedMatMul {
        result,
        ..ops::QuantizedMatMul::default()
    };
    sample(op, &[&[5, 70], &[5], &[9, 70], &[9]])
        .with(0, DType::U8)
        .with(1, DType::F32)
        .with(2, DType::U8)
        .with(3, DType::F32)
}

fn of_images() -> Vec<Sample> {
    let mut all = Vec::new();
    for (groups, outputs) in [(1, 5), (2, 6), (6, 6)] {
        let options = ops::Conv2dOptions {
            padding: [1, 0, 2, 1],
            groups,
            ..ops::Conv2dOptions::default()
        };
        let (x, weight): (&[usize], &[usize]) = (&[2, 5, 4, 6], &[outputs, 6 / groups, 3, 2]);
        let y: &[usize] = &[2, 4, 6, outputs];
        let (size, kernel) = ([5, 4], [3, 2]);
        all.push(sample(ops::Conv2d { options }, &[x, weight]));
        all.push(sample(ops::Conv2dGradInput { options, size }, &[y, weight]));
        all.push(sample(ops::Conv2dGradWeight { options, kernel }, &[x, y]));
        let weight: &[usize] = &[outputs, 3, 2, 6 / groups];
        let codes = ops::QuantizeLinear { scale: 0.5, zero: 20 };
        for result in [None, Some(codes)] {
            let of_codes = ops::QuantizedConv2d {
                result,
                ..ops::QuantizedConv2d::new(options, 100)
            };
            let coded = sample(of_codes, &[x, &[2], weight, &[outputs], &[outputs]]);
            all.push(
                coded
                    .with(0, DType::U8)
                    .with(1, DType::F32)
                    .with(2, DType::U8)
                    .with(3, DType::F32)
                    .with(4, DType::I32),
            );
        }
    }
    all.push(sample(ops::Moments, &[&[3, 7, 70]]));
    let (rows, columns): (&[usize], &[usize]) = (&[3, 7, 70], &[70]);
    all.push(sample(ops::ScaleShift, &[rows, columns, columns, columns]));
    all.push(sample(ops::ScaleShiftSums, &[rows, columns, rows]));
    let again = [rows, columns, columns, columns, columns];
    all.push(sample(ops::ScaleShiftFromOutput, &again));
    all.push(sample(ops::ScaleShiftSumsFromOutput, &[rows, columns, columns, rows]));
    let windows = ops::Pool2d {
        kernel: [2, 3],
        stride: [2, 1],
        padding: [1; 4],
    };
    let (x, y, size): (&[usize], &[usize], [usize; 2]) = (&[2, 5, 4, 70], &[2, 3, 4, 70], [5, 4]);
    all.push(sample(ops::MaxPool2d { windows }, &[x]));
    all.push(sample(ops::MaxPool2dGather { windows }, &[x, y]).with(1, DType::I32));
    all.push(sample(ops::MaxPool2dScatter { windows, size }, &[y, y]).with(1, DType::I32));
    let count_padding = true;
    let sampling = ops::Sampling::Average { windows, count_padding };
    all.push(sample(ops::Resample2d { sampling }, &[x]));
    all.push(sample(ops::Resample2dGrad { sampling, size }, &[y]));
    all
}

fn elementwise() -> Vec<Sample> {
    let x: &[usize] = &[3, 70];
    let mut all: Vec<Sample> = UnaryKind::ALL.map(|kind| sample(ops::Unary { kind }, &[x])).into();
    all.extend(BinaryKind::ALL.map(|kind| sample(ops::Binary { kind }, &[x, x])));
    all.extend(CompareKind::ALL.map(|kind| sample(ops::Compare { kind }, &[x, x])));
    all.extend(DType::ALL.map(|dtype| sample(ops::Cast { dtype }, &[x])));
    for tanh in [false, true] {
        all.push(sample(ops::Gelu { tanh }, &[x]));
        all.push(sample(ops::GeluBackward { tanh }, &[x, x]));
        all.push(sample(ops::GeluBackwardFromOutput { tanh }, &[x, x, x]).with(1, DType::Bool));
    }
    all.extend([
        sample(ops::Between { low: -0.5, high: 0.5 }, &[x]),
        sample(ops::Clamp { low: -0.5, high: 0.5 }, &[x]),
        sample(ops::Elu { alpha: 0.7 }, &[x]),
        sample(ops::Helu { alpha: 0.2 }, &[x]),
        sample(ops::Identity, &[x]),
        sample(ops::StopGradient, &[x]),
        sample(ops::LeakyRelu { slope: 0.1 }, &[x]),
        sample(ops::Relu, &[x]),
        sample(ops::Select, &[x, x, x]).with(0, DType::Bool),
        sample(ops::Silu, &[x]),
        sample(ops::SiluBackward, &[x, x]),
        sample(ops::SiluBackwardFromOutput, &[x, x, x]).with(1, DType::Bool),
    ]);
    all
}

fn of_structure() -> Vec<Sample> {
    let x: &[usize] = &[3, 7, 5];
    let ty = |shape: &[usize]| Type::f32(shape);
    let mut all = Vec::new();
    for kind in ReduceKind::ALL {
        for axes in [&[][..], &[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
            let axes = axes.to_vec();
            all.push(sample(
                ops::Reduce {
                    kind,
                    axes: axes.clone(),
                },
                &[x],
            ));
            all.push(sample(
                ops::Reduce {
                    kind,
                    axes: axes.clone(),
                },
                &[&[2, 1, 3]],
            ));
            all.push(sample(ops::Reduce { kind, axes }, &[&[130, 3, 70]]));
        }
        all.push(sample(ops::Reduce { kind, axes: vec![1, 3] }, &[&[2, 3, 4, 5, 6]]));
        all.push(sample(ops::Reduce { kind, axes: vec![0] }, &[&[70_000]]));
    }
    for axis in 0..3 {
        let (before, after, value) = (1, 2, 1.0);
        all.extend([
            sample(ops::Concat { axis }, &[x, x]),
            sample(ops::Concat { axis }, &[x; 13]),
            sample(
                ops::Pad {
                    axis,
                    before,
                    after,
                    value,
                },
                &[x],
            ),
            sample(ops::Slice { axis, start: 1, len: 2 }, &[x]),
            sample(
                ops::UpdateSlice { axis },
                &[x, [&[1, 7, 5][..], &[3, 1, 5], &[3, 7, 1]][axis], &[]],
            )
            .with(2, DType::I32),
        ]);
    }
    all.push(sample(ops::UpdateSlice { axis: 1 }, &[x, &[3, 1, 5], &[3]]).with(2, DType::I32));
    all.extend([
        sample(
            ops::Broadcast {
                shape: vec![4, 3, 7, 5],
            },
            &[x],
        ),
        sample(
            ops::Constant {
                array: Arc::new(Array::full(ty(&[2]), 1.5)),
            },
            &[],
        ),
        sample(
            ops::Full {
                ty: ty(&[2]),
                value: 1.5,
            },
            &[],
        ),
        sample(ops::Gather, &[x, &[2, 9]]).with(1, DType::I32),
        sample(ops::Histogram::STANDARD, &[x]),
        sample(ops::Histogram::STANDARD, &[&[300, 70]]),
        sample(
            ops::Iota {
                ty: ty(&[2, 3]),
                axis: 1,
            },
            &[],
        ),
        sample(ops::Permute { axes: vec![2, 0, 1] }, &[x]),
        sample(
            ops::RandomBits {
                stream: 3,
                shape: vec![100],
            },
            &[&[2]],
        )
        .with(0, DType::U32),
        sample(ops::PackBits, &[&[5, 70]]).with(0, DType::Bool),
        sample(ops::UnpackBits { width: 70 }, &[&[5, 3]]).with(0, DType::U32),
        sample(ops::QuantizeRows, &[&[5, 70]]),
        sample(ops::QuantizeByRange, &[&[5, 70]]),
        sample(ops::QuantizeLinear { scale: 0.125, zero: 77 }, &[&[5, 70]]),
        sample(ops::DequantizeLinear { scale: 0.125, zero: 77 }, &[&[5, 70]]).with(0, DType::U8),
        sample(SUM_OF_CODES, &[&[5, 70], &[5, 70]])
            .with(0, DType::U8)
            .with(1, DType::U8),
        sample(ops::FakeQuantize::symmetric(4, 1), &[&[5, 70], &[70]]),
        sample(ops::FakeQuantize::unsigned(8, 0), &[&[5, 70], &[], &[]]),
        sample(ops::DequantizeRows, &[&[5, 70], &[5]])
            .with(0, DType::U8)
            .with(1, DType::F32),
        product_of_codes(None),
        product_of_codes(Some(ops::QuantizeLinear { scale: 0.5, zero: 20 })),
        sample(ops::DequantizeGroups { group: 32, columns: 70 }, &[&[5, 64], &[5, 3]])
            .with(0, DType::U8)
            .with(1, DType::F32),
        sample(ops::GroupedMatMul { group: 32 }, &[&[5, 70], &[5], &[9, 64], &[9, 3]])
            .with(0, DType::U8)
            .with(1, DType::F32)
            .with(2, DType::U8)
            .with(3, DType::F32),
        sample(ops::IntegerMatMul { zero: 3 }, &[&[5, 70], &[9, 70], &[9]])
            .with(0, DType::U8)
            .with(1, DType::U8)
            .with(2, DType::I32),
        sample(ops::Reshape { shape: vec![5, 21] }, &[x]),
        sample(ops::ScatterAdd { rows: 4 }, &[&[3, 7], x]).with(0, DType::I32),
        sample(ops::CombineRows { rows: 4 }, &[&[3, 7], x]).with(0, DType::I32),
        sample(
            ops::Split {
                axis: 1,
                sizes: vec![3, 4],
            },
            &[x],
        ),
    ]);
    all
}

fn of_networks() -> Vec<Sample> {
    let (x, row, rows): (&[usize], &[usize], &[usize]) = (&[5, 70], &[70], &[5]);
    let mut all = Vec::new();
    let sum: &[usize] = &[6, 70];
    all.push(sample(ops::AddMatMul { widens: false }, &[&[5, 6], &[5, 70], sum]));
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let op = ops::MatMul {
            transpose_a,
            transpose_b,
            ..Default::default()
        };
        let a: &[usize] = if transpose_a { &[2, 6, 5] } else { &[2, 5, 6] };
        let b: &[usize] = if transpose_b { &[2, 70, 6] } else { &[2, 6, 70] };
        all.push(sample(op, &[a, b]));
        if !transpose_a {
            all.push(sample(op, &[a, &b[1..]]));
        }
    }
    for (masked, p) in [(false, 0.0), (true, 0.0), (true, 0.25)] {
        let op = ops::Attention {
            causal: true,
            scale: 0.4,
            p,
            stream: 1,
            masked,
            ..ops::Attention::default()
        };
        let (q, k, v): (&[usize], &[usize], &[usize]) = (&[2, 5, 3, 4], &[2, 9, 3, 4], &[2, 9, 3, 6]);
        let (o, lse): (&[usize], &[usize]) = (&[2, 5, 3, 6], &[2, 3, 5]);
        for backward in [false, true] {
            let mut shapes = if backward {
                vec![q, k, v, o, lse, o]
            } else {
                vec![q, k, v]
            };
            let extra = shapes.len();
            shapes.extend(masked.then_some(&[2, 9][..]));
            shapes.extend((p > 0.0).then_some(&[2][..]));
            let mut one = if backward {
                sample(ops::AttentionBackward::of(op), &shapes)
            } else {
                sample(op, &shapes)
            };
            if masked {
                one = one.with(extra, DType::Bool);
            }
            if p > 0.0 {
                one = one.with(extra + 1, DType::U32);
            }
            all.push(one);
        }
    }
    for ignore in [-100, 2, i64::MIN] {
        let smoothing = 0.1;
        all.push(sample(ops::CrossEntropy { ignore, smoothing }, &[x, rows]).with(1, DType::I32));
        let shapes = [x, rows, rows, rows];
        all.push(sample(ops::CrossEntropyBackward { ignore, smoothing }, &shapes).with(2, DType::I32));
    }
    let adamw = ops::AdamW {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        weight_decay: 0.1,
    };
    let l2 = 0.1;
    let adam = ops::Adam {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-3,
        weight_decay: l2,
    };
    let adagrad = ops::Adagrad {
        lr_decay: 0.1,
        initial: 0.1,
        eps: 1e-3,
        weight_decay: l2,
    };
    let adadelta = ops::Adadelta {
        rho: 0.9,
        eps: 1e-3,
        weight_decay: l2,
    };
    let lion = ops::Lion {
        beta1: 0.9,
        beta2: 0.99,
        weight_decay: l2,
    };
    for momentum in [0.0, 0.9] {
        let rmsprop = ops::RmsProp {
            alpha: 0.99,
            eps: 1e-3,
            momentum,
            weight_decay: l2,
        };
        let shapes: &[&[usize]] = if momentum == 0.0 {
            &[x, x, x, &[]]
        } else {
            &[x, x, x, x, &[]]
        };
        all.push(sample(rmsprop, shapes));
    }
    // Blocks that are rows, and others.
    for (shape, blocks) in [([4, 128], [2]), ([300, 70], [83])] {
        let op = ops::AdamW8bit { rule: adamw };
        let shapes: [&[usize]; 8] = [&shape, &shape, &shape, &blocks, &shape, &blocks, &[], &[]];
        all.push(sample(op, &shapes).with(2, DType::U8).with(4, DType::U8));
    }
    let sgd = ops::Sgd {
        momentum: 0.9,
        nesterov: true,
        weight_decay: 0.1,
    };
    all.extend([
        sample(adamw, &[x, x, x, x, &[], &[]]),
        sample(ops::AdamWRows { rule: adamw }, &[x, &[4], &[4, 70], x, x, &[], &[]]).with(1, DType::I32),
        sample(sgd, &[x, x, x, &[]]),
        sample(adam, &[x, x, x, x, &[], &[]]),
        sample(adagrad, &[x, x, x, &[], &[]]),
        sample(adadelta, &[x, x, x, x, &[]]),
        sample(lion, &[x, x, x, &[]]),
        sample(
            ops::Dropout {
                p: 0.3,
                stream: 2,
                first: 0,
            },
            &[x, &[2]],
        )
        .with(1, DType::U32),
        sample(ops::LayerNorm { eps: 1e-3 }, &[x, row, row]),
        sample(ops::LayerNormBackward { eps: 1e-3 }, &[x, row, rows, rows, x]),
        sample(ops::LayerNormBackwardFromOutput, &[x, row, row, rows, x]),
        sample(ops::LogSoftmax, &[x]),
        sample(
            ops::Rope {
                base: 10000.0,
                scaling: ops::attention::RopeScaling::Linear { factor: 4.0 },
                inverse: false,
            },
            &[&[2, 5, 3, 6], &[5]],
        )
        .with(1, DType::I32),
        sample(
            ops::NormLogits {
                temperature: Temperature::default(),
            },
            &[x],
        ),
        sample(ops::NormLogitsBackward { centered: true }, &[x, rows, rows, x]),
        sample(ops::CrmsNorm { eps: 1e-3 }, &[x, row]),
        sample(ops::CrmsNormBackward, &[x, row, rows, x]),
        sample(ops::RmsNorm { eps: 1e-3 }, &[x, row]),
        sample(ops::RmsNormBackward { eps: 1e-3 }, &[x, row, rows, x]),
        sample(ops::RmsNormBackwardFromOutput, &[x, row, rows, x]),
        sample(ops::Softmax, &[x]),
        sample(ops::SoftmaxBackward, &[x, x]),
    ]);
    all
}
