//! Samples for the checks of views besides those of every operation: extents of one, whose strides say nothing, and
//! products that are large enough for kernels that pack their factors.

use lessen_graph::DType;
use lessen_graph::ops::temperature::{Clip, Temperature};
use lessen_graph::ops::{self, Divisor, ReduceKind, Weighting};

use super::sample::{Sample, sample};
use super::samples::SUM_OF_CODES;

/// Rows, `k` and columns of products.
const PRODUCTS: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (1, 1, 70),
    (1, 70, 1),
    (5, 1, 9),
    (3, 70, 130),
    (40, 70, 130),
    (40, 96, 64),
    (600, 64, 48),
];

/// The samples.
pub(super) fn view_samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for size in PRODUCTS {
        all.extend(products(size));
        all.extend(products_of_codes(size));
    }
    // A row of codes that is one byte.
    all.extend(products_of_codes((1, 1 << 16, 3)));
    for shape in [[1, 70], [70, 1], [1, 1], [2, 64]] {
        all.extend(of_rows(shape));
    }
    // Queries, keys, heads of queries and of keys, and extents of keys and of values.
    for sizes in [
        ([1, 9], [3, 3], [4, 6]),
        ([1, 9], [1, 1], [16, 16]),
        ([5, 9], [3, 3], [1, 1]),
        ([5, 5], [4, 2], [1, 6]),
        ([5, 5], [1, 1], [4, 1]),
        ([40, 70], [2, 1], [16, 8]),
    ] {
        all.extend(attentions(sizes));
    }
    all.extend(of_pixels());
    all
}

/// Products of `m` by `k` by `n`: with a shared matrix, over rows, and of stacks.
fn products((m, k, n): (usize, usize, usize)) -> Vec<Sample> {
    let mut all = Vec::new();
    let exchanged = |is: bool, a: usize, b: usize| if is { [b, a] } else { [a, b] };
    for transpose_b in [false, true] {
        let op = ops::MatMul {
            transpose_b,
            ..ops::MatMul::default()
        };
        let (a, b) = ([m, k], exchanged(transpose_b, k, n));
        let wide = sample(op, &[&a, &b]).with(0, DType::F32);
        all.push(wide.clone().with(1, DType::F32));
        all.push(wide.with(1, DType::BF16));
        let widens = ops::MatMul { widens: true, ..op };
        let narrow = sample(widens, &[&a, &b]).with(0, DType::BF16);
        all.push(narrow.with(1, DType::BF16));
    }
    for widens in [false, true] {
        let over_rows = ops::MatMul {
            transpose_a: true,
            widens,
            ..ops::MatMul::default()
        };
        let dtype = if widens { DType::BF16 } else { DType::F32 };
        let [a, b] = [[k, m], [k, n]];
        all.push(sample(over_rows, &[&a, &b]).with(0, dtype).with(1, dtype));
        let add = ops::AddMatMul { widens };
        let sum = sample(add, &[&a, &b, &[m, n]]);
        all.push(sum.with(0, dtype).with(1, dtype).with(2, DType::F32));
    }
    all
}

/// Products of codes of rows and a matrix.
fn products_of_codes((m, k, n): (usize, usize, usize)) -> Vec<Sample> {
    let mut all = Vec::new();
    let shapes: [&[usize]; 5] = [&[m, k], &[m], &[n, k], &[n], &[n]];
    for (zero, inputs) in [(128, 4), (3, 5)] {
        for result in [None, Some(ops::QuantizeLinear { scale: 0.5, zero: 20 })] {
            let op = ops::QuantizedMatMul { zero, result };
            let mut one = sample(op, &shapes[..inputs])
                .with(0, DType::U8)
                .with(1, DType::F32)
                .with(2, DType::U8)
                .with(3, DType::F32);
            if inputs == 5 {
                one = one.with(4, DType::I32);
            }
            all.push(one);
        }
        let op = ops::IntegerMatMul { zero };
        all.push(sample(op, &[&[m, k], &[n, k]]).with(0, DType::U8).with(1, DType::U8));
    }
    let group = 32;
    let codes = k.div_ceil(64) * 32;
    let groups = k.div_ceil(group);
    let grouped = sample(
        ops::GroupedMatMul { group },
        &[&[m, k], &[m], &[n, codes], &[n, groups]],
    );
    all.push(
        grouped
            .with(0, DType::U8)
            .with(1, DType::F32)
            .with(2, DType::U8)
            .with(3, DType::F32),
    );
    let restored = ops::DequantizeGroups { group, columns: k };
    all.push(
        sample(restored, &[&[m, codes], &[m, groups]])
            .with(0, DType::U8)
            .with(1, DType::F32),
    );
    all
}

/// Operations on rows of a matrix, some of which have one element.
fn of_rows([n, c]: [usize; 2]) -> Vec<Sample> {
    let (x, row, rows): ([usize; 2], [usize; 1], [usize; 1]) = ([n, c], [c], [n]);
    let mut all = vec![
        sample(ops::Softmax, &[&x]),
        sample(ops::SoftmaxBackward, &[&x, &x]),
        sample(ops::LogSoftmax, &[&x]),
        sample(ops::LayerNorm { eps: 1e-3 }, &[&x, &row, &row]),
        sample(ops::LayerNormBackward { eps: 1e-3 }, &[&x, &row, &rows, &rows, &x]),
        sample(ops::RmsNorm { eps: 1e-3 }, &[&x, &row]),
        sample(ops::QuantizeRows, &[&x]),
        sample(ops::QuantizeByRange, &[&x]),
        sample(ops::QuantizeLinear { scale: 0.125, zero: 77 }, &[&x]),
        sample(ops::DequantizeLinear { scale: 0.125, zero: 77 }, &[&x]).with(0, DType::U8),
        sample(SUM_OF_CODES, &[&x, &x]).with(0, DType::U8).with(1, DType::U8),
        sample(ops::DequantizeRows, &[&x, &rows])
            .with(0, DType::U8)
            .with(1, DType::F32),
        sample(ops::PackBits, &[&x]).with(0, DType::Bool),
        sample(ops::UnpackBits { width: c * 32 - 5 }, &[&x]).with(0, DType::U32),
        sample(ops::Cast { dtype: DType::I32 }, &[&x]),
        sample(ops::Identity, &[&x]),
        sample(ops::Concat { axis: 1 }, &[&x, &x, &x]),
    ];
    for axes in [vec![0], vec![1], vec![0, 1]] {
        let kind = ReduceKind::Sum;
        all.push(sample(ops::Reduce { kind, axes }, &[&x]));
    }
    all
}

/// Attentions and their derivatives.
fn attentions(([queries, keys], [heads, kv_heads], [d, dv]): ([usize; 2], [usize; 2], [usize; 2])) -> Vec<Sample> {
    let mut all = Vec::new();
    let q = [2, queries, heads, d];
    let (k, v) = ([2, keys, kv_heads, d], [2, keys, kv_heads, dv]);
    let (o, lse) = ([2, queries, heads, dv], [2, heads, queries]);
    for weighting in [
        Weighting::Softmax,
        Weighting::Sigmoid(Divisor::Keys),
        Weighting::Relu(Divisor::Keys),
        // A floor, so that equal scores are not divided by their rounding.
        Weighting::Norm(Temperature {
            clip: Clip::AtLeast(0.5),
            ..Temperature::default()
        }),
    ] {
        for causal in [false, true] {
            let op = ops::Attention {
                weighting,
                causal,
                scale: 0.4,
                ..ops::Attention::default()
            };
            all.push(sample(op, &[&q, &k, &v]));
            if weighting.is_softmax() {
                all.push(sample(ops::AttentionBackward::of(op), &[&q, &k, &v, &o, &lse, &o]));
            } else {
                all.push(sample(ops::AttentionBackward::of(op), &[&q, &k, &v, &o]));
            }
        }
    }
    all
}

/// Convolutions of single pixels.
fn of_pixels() -> Vec<Sample> {
    let options = ops::Conv2dOptions::default();
    let (x, weight): ([usize; 4], [usize; 4]) = ([2, 5, 4, 16], [24, 1, 1, 16]);
    let coded = ops::QuantizedConv2d::new(options, 100);
    vec![
        sample(coded, &[&x, &[2], &weight, &[24]])
            .with(0, DType::U8)
            .with(1, DType::F32)
            .with(2, DType::U8)
            .with(3, DType::F32),
        sample(ops::Conv2d { options }, &[&x, &[24, 16, 1, 1]]),
        sample(
            ops::Conv2dGradWeight {
                options,
                kernel: [1, 1],
            },
            &[&x, &[2, 5, 4, 24]],
        ),
        sample(
            ops::Conv2dGradInput { options, size: [5, 4] },
            &[&[2, 5, 4, 24], &[24, 16, 1, 1]],
        ),
    ]
}
