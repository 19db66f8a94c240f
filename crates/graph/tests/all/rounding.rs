//! A program means its types: the evaluator rounds every value to its dtype. The exact evaluator does not.

use std::collections::HashMap;

use lessen_graph::ops::UnaryKind;
use lessen_graph::{Array, DType, Trace, Type, evaluate, evaluate_exactly};

use crate::prng::Prng;

/// `(x + 1) - x` for `x` of this dtype.
fn lost_one(dtype: DType, x: f64) -> [f64; 2] {
    let trace = Trace::new();
    let t = trace.input("x", dtype, &[]);
    trace.output("y", t + t.scalar_like(1.0) - t);
    let graph = trace.finish();
    let given = HashMap::from([("x".to_string(), Array::full(Type::new(dtype, &[]), x))]);
    [evaluate(&graph, &given), evaluate_exactly(&graph, &given)].map(|found| found.unwrap()["y"].item())
}

#[test]
fn a_sum_beyond_the_mantissa_is_rounded() {
    assert_eq!(lost_one(DType::F32, 16_777_216.0), [0.0, 1.0]);
    assert_eq!(lost_one(DType::BF16, 256.0), [0.0, 1.0]);
    assert_eq!(lost_one(DType::F64, 16_777_216.0), [1.0, 1.0]);
    assert_eq!(lost_one(DType::F64, 9_007_199_254_740_992.0), [0.0, 0.0]);
    assert_eq!(lost_one(DType::I32, f64::from(i32::MAX)), [1.0, 1.0]);
}

#[test]
fn inputs_and_results_are_numbers_of_their_dtype() {
    let mut r = Prng::new(61);
    for dtype in [DType::F32, DType::BF16] {
        let trace = Trace::new();
        let (x, w) = (trace.input("x", dtype, &[3, 5]), trace.state("w", dtype, &[5, 4]));
        let y = x.matmul(w).gelu().softmax();
        trace.output("x again", x);
        trace.output("y", y);
        trace.assign(w, y.sum().grad(&[w])[0]);
        let given = [("x", [3, 5]), ("w", [5, 4])].map(|(name, shape)| {
            (
                name.to_string(),
                Array::new(Type::new(dtype, &shape), r.normal(&shape).data),
            )
        });
        let found = evaluate(&trace.finish(), &given.into()).unwrap();
        for (name, array) in &found {
            for &v in &array.data {
                assert_eq!(v, dtype.round(v), "`{name}` of {dtype:?}");
            }
        }
    }
}

#[test]
fn functions_that_round_take_the_even_of_two_numbers() {
    let tiny = 2f64.powi(-24);
    for (kind, x, expected) in [
        (UnaryKind::Floor, -1.5, -2.0),
        (UnaryKind::Ceil, -1.5, -1.0),
        (UnaryKind::Round, 2.5, 2.0),
        (UnaryKind::Round, -1.5, -2.0),
        // Numbers of 16 bits have 11 significant bits and end at 65504; the least is 2^-24.
        (UnaryKind::Half, 2049.0, 2048.0),
        (UnaryKind::Half, -2051.0, -2052.0),
        (UnaryKind::Half, 65519.0, 65504.0),
        (UnaryKind::Half, -65520.0, f64::NEG_INFINITY),
        (UnaryKind::Half, 0.5 * tiny, 0.0),
        (UnaryKind::Half, 1.5 * tiny, 2.0 * tiny),
    ] {
        assert_eq!(kind.eval(x), expected, "{kind:?} of {x}");
    }
}
