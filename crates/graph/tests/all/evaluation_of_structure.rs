//! Hand-written cases: elementwise functions, comparisons, reductions, products, and what moves elements
//! about.

use std::panic::catch_unwind;
use std::sync::Arc;

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Op, Type, evaluate_op};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn eval(op: impl Op, inputs: &[&Array]) -> Vec<Array> {
    evaluate_op(&op, inputs).unwrap()
}

fn vector(data: &[f64]) -> Array {
    Array::f32(&[data.len()], data.to_vec())
}

/// Asserts equality of every element, NaN being equal to NaN.
#[track_caller]
fn assert_data(found: &Array, expected: &[f64]) {
    let equal = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    let all = found.data.len() == expected.len() && found.data.iter().zip(expected).all(equal);
    assert!(all, "{:?} instead of {expected:?}", found.data);
}

/// `[[0, 1, 2], [3, 4, 5]]`
fn matrix() -> Array {
    Array::from_fn(Type::f32(&[2, 3]), |i| (3 * i[0] + i[1]) as f64)
}

#[test]
fn unary_functions() {
    let x = vector(&[-4.0, 0.0, 1.0, NAN, INF]);
    for (kind, expected) in [
        (UnaryKind::Neg, [4.0, 0.0, -1.0, NAN, -INF]),
        (UnaryKind::Sqrt, [NAN, 0.0, 1.0, NAN, INF]),
        (UnaryKind::Rsqrt, [NAN, INF, 1.0, NAN, 0.0]),
        (UnaryKind::Recip, [-0.25, INF, 1.0, NAN, 0.0]),
        (UnaryKind::Abs, [4.0, 0.0, 1.0, NAN, INF]),
        (UnaryKind::Sign, [-1.0, 0.0, 1.0, NAN, 1.0]),
        (UnaryKind::Exp, [(-4f64).exp(), 1.0, std::f64::consts::E, NAN, INF]),
        (UnaryKind::Floor, [-4.0, 0.0, 1.0, NAN, INF]),
        (UnaryKind::Half, [-4.0, 0.0, 1.0, NAN, INF]),
        (UnaryKind::Log, [NAN, -INF, 0.0, NAN, INF]),
        (UnaryKind::Tanh, [(-4f64).tanh(), 0.0, 1f64.tanh(), NAN, 1.0]),
        (
            UnaryKind::Sigmoid,
            [1.0 / (1.0 + 4f64.exp()), 0.5, 1.0 / (1.0 + (-1f64).exp()), NAN, 1.0],
        ),
    ] {
        assert_data(&eval(Unary { kind }, &[&x])[0], &expected);
    }
}

#[test]
fn binary_functions() {
    let (a, b) = (vector(&[5.0, -2.0, NAN, 3.0]), vector(&[2.0, 4.0, 1.0, NAN]));
    for (kind, expected) in [
        (BinaryKind::Add, [7.0, 2.0, NAN, NAN]),
        (BinaryKind::Sub, [3.0, -6.0, NAN, NAN]),
        (BinaryKind::Mul, [10.0, -8.0, NAN, NAN]),
        (BinaryKind::Div, [2.5, -0.5, NAN, NAN]),
        (BinaryKind::Max, [5.0, 4.0, NAN, NAN]),
        (BinaryKind::Min, [2.0, -2.0, NAN, NAN]),
        (BinaryKind::Pow, [25.0, 16.0, NAN, NAN]),
    ] {
        assert_data(&eval(Binary { kind }, &[&a, &b])[0], &expected);
    }
    let (a, b) = (Array::i32(&[2], &[7, -7]), Array::i32(&[2], &[2, 2]));
    assert_data(&eval(Binary { kind: BinaryKind::Div }, &[&a, &b])[0], &[3.0, -3.0]);
}

#[test]
fn histograms_count_by_signed_octaves() {
    let bins = Histogram {
        least: -1,
        most: 1,
        parts: 2,
    };
    assert_eq!(
        bins.edges(),
        [
            -INF, -2.0, -1.5, -1.0, -0.75, -0.5, 0.0, 0.0, 0.5, 0.75, 1.0, 1.5, 2.0, INF
        ]
    );
    let x = vector(&[
        -INF, -2.0, -1.9, -0.5, -0.4, 0.0, -0.0, 1e-9, 0.5, 0.74, 0.75, 1.0, 1.99, 2.0, 1e30, INF, NAN,
    ]);
    assert_data(
        &eval(bins, &[&x])[0],
        &[2.0, 1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0],
    );
    for (least, most, parts) in [(1, 1, 1), (-127, 0, 1), (0, 128, 1), (0, 1, 3), (0, 1, 0), (0, 1, 2048)] {
        assert!(Histogram { least, most, parts }.infer(&[Type::f32(&[2])]).is_err());
    }
}

#[test]
fn truth_values_are_packed_row_by_row() {
    let bools = Array::from_fn(Type::new(DType::Bool, &[2, 34]), |i| {
        f64::from(i[1] == i[0] || i[1] > 31)
    });
    let words = &eval(PackBits, &[&bools])[0];
    assert_eq!(words.ty, Type::new(DType::U32, &[2, 2]));
    assert_data(words, &[1.0, 3.0, 2.0, 3.0]);
    assert_data(&eval(UnpackBits { width: 34 }, &[words])[0], &bools.data);
    let highest = Array::new(Type::new(DType::U32, &[1]), vec![f64::from(1u32 << 31)]);
    assert_eq!(eval(UnpackBits { width: 32 }, &[&highest])[0].data[31], 1.0);
    assert!(UnpackBits { width: 33 }.infer(&[highest.ty]).is_err());
    assert!(PackBits.infer(&[Type::f32(&[2])]).is_err() && PackBits.infer(&[Type::new(DType::Bool, &[])]).is_err());
}

#[test]
fn whole_numbers_wrap_and_divide_by_zero() {
    const MIN: i32 = i32::MIN;
    const MAX: i32 = i32::MAX;
    for (kind, a, b, expected) in [
        (BinaryKind::Add, MAX, 1, MIN),
        (BinaryKind::Sub, MIN, 1, MAX),
        (BinaryKind::Mul, 65536, 65537, 65536),
        (BinaryKind::Div, 1, 0, 0),
        (BinaryKind::Div, MIN, -1, MIN),
        (BinaryKind::Div, -7, 2, -3),
        (BinaryKind::Max, MIN, MAX, MAX),
        (BinaryKind::Min, -1, 0, -1),
        (BinaryKind::Pow, 2, 31, MAX),
        (BinaryKind::Pow, 0, -1, MAX),
        (BinaryKind::Pow, 2, -1, 0),
    ] {
        let found = eval(Binary { kind }, &[&Array::i32(&[1], &[a]), &Array::i32(&[1], &[b])]);
        assert_eq!(found[0].data, [f64::from(expected)], "{kind:?} {a} {b}");
    }
    // There is no negative zero, which would divide to another infinity.
    let zero = eval(
        Binary { kind: BinaryKind::Mul },
        &[&Array::i32(&[1], &[0]), &Array::i32(&[1], &[-5])],
    );
    assert_eq!(zero[0].data[0].to_bits(), 0);
}

#[test]
fn comparisons_with_nan() {
    let (a, b) = (vector(&[1.0, 2.0, 3.0, NAN]), vector(&[2.0, 2.0, 2.0, NAN]));
    for (kind, expected) in [
        (CompareKind::Eq, [0.0, 1.0, 0.0, 0.0]),
        (CompareKind::Ne, [1.0, 0.0, 1.0, 1.0]),
        (CompareKind::Lt, [1.0, 0.0, 0.0, 0.0]),
        (CompareKind::Le, [1.0, 1.0, 0.0, 0.0]),
        (CompareKind::Gt, [0.0, 0.0, 1.0, 0.0]),
        (CompareKind::Ge, [0.0, 1.0, 1.0, 0.0]),
    ] {
        assert_data(&eval(Compare { kind }, &[&a, &b])[0], &expected);
    }
}

#[test]
fn selected_and_given_values() {
    let cond = Array::new(Type::new(DType::Bool, &[3]), vec![1.0, 0.0, 1.0]);
    let chosen = eval(Select, &[&cond, &vector(&[1.0, NAN, 3.0]), &vector(&[NAN, 5.0, NAN])]);
    assert_data(&chosen[0], &[1.0, 5.0, 3.0]);
    assert_data(&eval(Identity, &[&matrix()])[0], &matrix().data);
    assert_data(
        &eval(
            Full {
                ty: Type::f32(&[2]),
                value: 7.0,
            },
            &[],
        )[0],
        &[7.0, 7.0],
    );
    assert_data(
        &eval(
            Constant {
                array: Arc::new(matrix()),
            },
            &[],
        )[0],
        &matrix().data,
    );
    let ty = Type::new(DType::I32, &[2, 3]);
    assert_data(
        &eval(
            Iota {
                ty: ty.clone(),
                axis: 0,
            },
            &[],
        )[0],
        &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
    );
    assert_data(&eval(Iota { ty, axis: 1 }, &[])[0], &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    assert_data(
        &eval(Cast { dtype: DType::I32 }, &[&vector(&[1.9, -1.9])])[0],
        &[1.0, -1.0],
    );
}

#[test]
fn reductions() {
    let x = matrix();
    let reduced = |kind, axes: &[usize]| {
        eval(
            Reduce {
                kind,
                axes: axes.to_vec(),
            },
            &[&x],
        )
        .remove(0)
    };
    assert_data(&reduced(ReduceKind::Sum, &[0]), &[3.0, 5.0, 7.0]);
    assert_data(&reduced(ReduceKind::Sum, &[1]), &[3.0, 12.0]);
    assert_data(&reduced(ReduceKind::Sum, &[0, 1]), &[15.0]);
    assert_data(&reduced(ReduceKind::Max, &[0]), &[3.0, 4.0, 5.0]);
    assert_data(&reduced(ReduceKind::Min, &[1]), &[0.0, 3.0]);
    let empty = Array::f32(&[0, 2], vec![]);
    assert_data(
        &eval(
            Reduce {
                kind: ReduceKind::Sum,
                axes: vec![0],
            },
            &[&empty],
        )[0],
        &[0.0, 0.0],
    );
    let error = evaluate_op(
        &Reduce {
            kind: ReduceKind::Max,
            axes: vec![0],
        },
        &[&empty],
    )
    .unwrap_err();
    assert_eq!(error.message(), "max of no elements: f32[0,2]");
    let with_nan = vector(&[1.0, NAN, 2.0]);
    assert_data(
        &eval(
            Reduce {
                kind: ReduceKind::Max,
                axes: vec![0],
            },
            &[&with_nan],
        )[0],
        &[NAN],
    );
}

#[test]
fn matrix_products() {
    let (a, b) = (matrix(), Array::f32(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let plain = MatMul {
        transpose_a: false,
        transpose_b: false,
        ..Default::default()
    };
    assert_data(&eval(plain, &[&a, &b])[0], &[13.0, 16.0, 40.0, 52.0]);
    let both = MatMul {
        transpose_a: true,
        transpose_b: true,
        ..Default::default()
    };
    assert_data(&eval(both, &[&b, &a])[0], &[13.0, 40.0, 16.0, 52.0]);
    // A stack of two matrices with one shared one, and with a stack.
    let stack = Array::f32(&[2, 1, 3], a.data.clone());
    assert_data(&eval(plain, &[&stack, &b])[0], &[13.0, 16.0, 40.0, 52.0]);
    let stack_b = Array::f32(&[2, 3, 1], vec![1.0, 1.0, 1.0, 0.0, 0.0, 2.0]);
    assert_data(&eval(plain, &[&stack, &stack_b])[0], &[3.0, 10.0]);
    // An inner extent of zero gives zeros.
    let (a, b) = (Array::f32(&[2, 0], vec![]), Array::f32(&[0, 1], vec![]));
    assert_data(&eval(plain, &[&a, &b])[0], &[0.0, 0.0]);
}

#[test]
fn moved_elements() {
    let x = matrix();
    assert_data(
        &eval(Permute { axes: vec![1, 0] }, &[&x])[0],
        &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0],
    );
    assert_data(&eval(Reshape { shape: vec![3, 2] }, &[&x])[0], &x.data);
    assert_data(
        &eval(Broadcast { shape: vec![2, 2] }, &[&vector(&[1.0, 2.0])])[0],
        &[1.0, 2.0, 1.0, 2.0],
    );
    let column = Array::f32(&[2, 1], vec![1.0, 2.0]);
    assert_data(
        &eval(Broadcast { shape: vec![2, 2] }, &[&column])[0],
        &[1.0, 1.0, 2.0, 2.0],
    );
    assert_data(
        &eval(
            Slice {
                axis: 1,
                start: 1,
                len: 2,
            },
            &[&x],
        )[0],
        &[1.0, 2.0, 4.0, 5.0],
    );
    assert_data(
        &eval(
            Slice {
                axis: 0,
                start: 1,
                len: 1,
            },
            &[&x],
        )[0],
        &[3.0, 4.0, 5.0],
    );
    let padded = eval(
        Pad {
            axis: 1,
            before: 1,
            after: 0,
            value: 9.0,
        },
        &[&x],
    );
    assert_data(&padded[0], &[9.0, 0.0, 1.0, 2.0, 9.0, 3.0, 4.0, 5.0]);
    assert_data(
        &eval(
            Pad {
                axis: 0,
                before: 0,
                after: 1,
                value: 9.0,
            },
            &[&x],
        )[0]
        .clone(),
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 9.0, 9.0],
    );
    assert_data(
        &eval(Concat { axis: 1 }, &[&x, &column])[0],
        &[0.0, 1.0, 2.0, 1.0, 3.0, 4.0, 5.0, 2.0],
    );
    let parts = eval(
        Split {
            axis: 1,
            sizes: vec![1, 2],
        },
        &[&x],
    );
    assert_data(&parts[0], &[0.0, 3.0]);
    assert_data(&parts[1], &[1.0, 2.0, 4.0, 5.0]);
}

#[test]
fn gathered_and_scattered_rows() {
    let ids = Array::i32(&[3], &[1, 0, 1]);
    assert_data(
        &eval(Gather, &[&matrix(), &ids])[0],
        &[3.0, 4.0, 5.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    );
    let updates = Array::f32(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_data(
        &eval(ScatterAdd { rows: 3 }, &[&ids, &updates])[0],
        &[3.0, 4.0, 6.0, 8.0, 0.0, 0.0],
    );
}

#[test]
fn ids_out_of_range_are_named() {
    for (id, op) in [(-1, "gather"), (2, "gather"), (2, "scatter_add")] {
        let result = catch_unwind(|| {
            let ids = Array::i32(&[2], &[0, id]);
            if op == "gather" {
                eval(Gather, &[&matrix(), &ids])
            } else {
                eval(ScatterAdd { rows: 2 }, &[&ids, &matrix()])
            }
        });
        let message = *result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("{op}: the id {id} at position 1 is not in 0..2"));
    }
}

#[test]
fn updated_slices_are_clamped() {
    let (base, update) = (matrix(), Array::f32(&[2, 2], vec![10.0, 11.0, 12.0, 13.0]));
    let at = |index| eval(UpdateSlice { axis: 1 }, &[&base, &update, &Array::i32(&[], &[index])]).remove(0);
    assert_data(&at(0), &[10.0, 11.0, 2.0, 12.0, 13.0, 5.0]);
    assert_data(&at(1), &[0.0, 10.0, 11.0, 3.0, 12.0, 13.0]);
    assert_eq!(at(-5), at(0));
    assert_eq!(at(7), at(1));
    let by_rows = eval(UpdateSlice { axis: 1 }, &[&base, &update, &Array::i32(&[2], &[7, 0])]);
    assert_data(&by_rows[0], &[0.0, 10.0, 11.0, 12.0, 13.0, 5.0]);
}

#[test]
fn erf_at_known_points() {
    let known = [
        (0.5, 0.5204998778130465),
        (1.0, 0.8427007929497149),
        (2.0, 0.9953222650189527),
        (3.5, 0.9999992569016276),
    ];
    for (x, y) in known {
        assert!(
            (UnaryKind::Erf.eval(x) - y).abs() < 5e-16 && (UnaryKind::Erf.eval(-x) + y).abs() < 5e-16,
            "erf({x}) = {}",
            UnaryKind::Erf.eval(x)
        );
    }
}

#[test]
fn casts_round_and_saturate() {
    let cases = [
        (-2.7, DType::F32, DType::I32, -2.0),
        (3e10, DType::F32, DType::I32, 2147483647.0),
        (f64::NAN, DType::F32, DType::I32, 0.0),
        (-1.0, DType::F32, DType::U32, 0.0),
        (-1.0, DType::I32, DType::U32, 4294967295.0),
        (4294967295.0, DType::U32, DType::I32, -1.0),
        (300.7, DType::F32, DType::U8, 255.0),
        (-1.0, DType::F32, DType::U8, 0.0),
        (257.0, DType::I32, DType::U8, 1.0),
        (200.0, DType::U8, DType::F32, 200.0),
        (0.5, DType::F32, DType::Bool, 1.0),
        (1.0, DType::Bool, DType::F32, 1.0),
        (0.1, DType::F64, DType::F32, 0.1f32 as f64),
        (1.0 + 1.0 / 256.0, DType::F32, DType::BF16, 1.0),
        (1.0 + 3.0 / 256.0, DType::F32, DType::BF16, 1.0 + 2.0 / 128.0),
        (3.4e38, DType::F32, DType::BF16, f64::INFINITY),
    ];
    for (x, from, to, y) in cases {
        let found = eval(Cast { dtype: to }, &[&Array::full(Type::new(from, &[]), x)]);
        assert_eq!(found[0].item(), y, "{x} from {from:?} to {to:?}");
    }
}
