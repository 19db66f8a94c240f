//! Operations along an axis whose kernels are functions of rows: positions of extrema, sorting, cumulative sums and
//! products, elements by their positions.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Tensor, Trace, TraceRef, evaluate_op};

use crate::cases::{Case, Smooth, case};
use crate::check::{function, run};
use crate::prng::Prng;

/// These operations on random inputs.
pub fn cases(r: &mut Prng) -> Vec<Case> {
    use Smooth::*;
    let (x, ids) = (r.normal(&[2, 3, 5]), r.ids(&[2, 3, 4], 5));
    let integers = r.ids(&[3, 4], 3);
    let mut all = vec![
        case(TakeAlong, &[&x, &ids], Twice),
        case(TakeAlong, &[&integers, &r.ids(&[3, 6], 4)], No),
        case(SumAlong { extent: 5 }, &[&ids, &r.normal(&[2, 3, 4])], Twice),
    ];
    for largest in [false, true] {
        for k in [0, 2, 5] {
            all.push(case(TopK { k, largest }, &[&x], Twice));
        }
        all.push(case(TopK { k: 3, largest }, &[&integers], No));
    }
    for kind in [ReduceKind::Max, ReduceKind::Min] {
        all.push(case(ArgReduce { kind }, &[&x], No));
        all.push(case(ArgReduce { kind }, &[&integers], No));
    }
    for kind in CumulateKind::ALL {
        for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
            let op = Cumulate {
                kind,
                exclusive,
                reverse,
            };
            // A zero, by which no derivative divides.
            let mut x = r.signed(&[2, 5]);
            x.data[1] = 0.0;
            all.push(case(op, &[&x], Twice));
            all.push(case(op, &[&integers], No));
        }
    }
    all
}

/// The results of a function of an `f32` array.
fn of(x: &Array, f: impl Fn(Tensor) -> Vec<Tensor>) -> Vec<Array> {
    run(std::slice::from_ref(x), &function(|_, x| f(x[0])))
}

const NAN: f64 = f64::NAN;

#[test]
fn positions_of_extrema_are_the_first_of_equals_and_of_nan() {
    let x = Array::f32(
        &[4, 3],
        vec![1.0, 5.0, 5.0, 2.0, 2.0, 7.0, 0.0, NAN, NAN, -0.0, 0.0, 1.0],
    );
    let found = of(&x, |x| vec![x.argmax(-1), x.argmin(1), x.argmax(0), x.argmin(0)]);
    assert_eq!(found[0].data, [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(found[1].data, [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(found[2].data, [1.0, 2.0, 2.0]);
    assert_eq!(found[3].data, [2.0, 2.0, 2.0]);
    assert!(found.iter().all(|y| y.ty.dtype == DType::I32));
}

#[test]
fn an_axis_in_the_middle_vanishes_or_stays_where_it_was() {
    let x = Array::from_fn(lessen_graph::Type::f32(&[2, 3, 4]), |i| {
        ((7 * i[0] + 5 * i[1] + 3 * i[2]) % 11) as f64
    });
    let found = of(&x, |x| {
        let (values, positions) = x.topk(2, 1, true);
        vec![x.argmax(1), values, positions, x.cumsum(1), x.take_along(1, positions)]
    });
    let shapes: Vec<&[usize]> = found.iter().map(|y| &y.ty.shape[..]).collect();
    assert_eq!(shapes, [&[2, 4][..], &[2, 2, 4], &[2, 2, 4], &[2, 3, 4], &[2, 2, 4]]);
    for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
        let run: Vec<f64> = (0..3).map(|k| x.at(&[i, k, j])).collect();
        let largest = run.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(found[1].at(&[i, 0, j]), largest);
        assert_eq!(run[found[0].at(&[i, j]) as usize], largest);
        assert_eq!(found[3].at(&[i, 2, j]), run.iter().sum::<f64>());
    }
    assert_eq!(found[1].data, found[4].data);
}

#[test]
fn equal_numbers_keep_their_order_and_nan_is_the_largest() {
    let x = Array::f32(&[6], vec![2.0, NAN, -1.0, 2.0, f64::INFINITY, 2.0]);
    let found = of(&x, |x| {
        let (values, positions) = x.topk(3, 0, true);
        vec![x.argsort(0, false), x.argsort(-1, true), values, positions]
    });
    assert_eq!(found[0].data, [2.0, 0.0, 3.0, 5.0, 4.0, 1.0]);
    assert_eq!(found[1].data, [1.0, 4.0, 0.0, 3.0, 5.0, 2.0]);
    assert!(found[2].data[0].is_nan() && found[2].data[1..] == [f64::INFINITY, 2.0]);
    assert_eq!(found[3].data, [1.0, 4.0, 0.0]);
}

#[test]
fn cumulative_sums_and_products_leave_out_their_own_element_and_begin_at_either_end() {
    let x = Array::f32(&[4], vec![2.0, 3.0, 0.0, 5.0]);
    let all = [(false, false), (false, true), (true, false), (true, true)];
    let expected = [
        [
            [2.0, 5.0, 5.0, 10.0],
            [10.0, 8.0, 5.0, 5.0],
            [0.0, 2.0, 5.0, 5.0],
            [8.0, 5.0, 5.0, 0.0],
        ],
        [
            [2.0, 6.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 5.0],
            [1.0, 2.0, 6.0, 0.0],
            [0.0, 0.0, 5.0, 1.0],
        ],
    ];
    for (kind, expected) in CumulateKind::ALL.into_iter().zip(expected) {
        for ((exclusive, reverse), expected) in all.into_iter().zip(expected) {
            let op = Cumulate {
                kind,
                exclusive,
                reverse,
            };
            assert_eq!(evaluate_op(&op, &[&x]).unwrap()[0].data, expected, "{op:?}");
        }
    }
}

#[test]
fn a_product_has_a_derivative_where_an_element_is_zero() {
    let x = Array::f32(&[3], vec![2.0, 0.0, 5.0]);
    let gradient = of(&x, |x| x.cumprod(0).sum().grad(&[x]));
    // y = a + a b + a b c
    assert_eq!(gradient[0].data, [1.0, 12.0, 0.0]);
}

#[test]
fn updates_are_added_where_their_positions_say() {
    let x = Array::f32(&[2, 3], vec![1.0; 6]);
    let found = of(&x, |x| {
        let trace = x.trace();
        let ids = trace.constant(Array::i32(&[2, 4], &[0, 2, 2, 0, 1, 1, 1, 1]));
        let updates = trace.constant(Array::f32(&[2, 4], (1..9).map(f64::from).collect()));
        vec![x.scatter_add_along(1, ids, updates)]
    });
    assert_eq!(found[0].data, [6.0, 1.0, 6.0, 1.0, 27.0, 1.0]);
}

/// The mistake of a function of `f32[2,3]` and `i32[2,3]`.
fn mistake(f: impl Fn(TraceRef, Tensor, Tensor) -> Tensor) -> String {
    let trace = Trace::new();
    let (x, ids) = (
        trace.input("x", DType::F32, &[2, 3]),
        trace.input("ids", DType::I32, &[2, 3]),
    );
    match trace.attempt(|| f(*trace, x, ids)) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("there is no mistake"),
    }
}

#[test]
fn mistakes_name_shapes_and_the_line() {
    let found = [
        mistake(|_, x, _| x.topk(4, 1, true).0),
        mistake(|_, x, ids| x.take_along(0, ids.slice(1, 0, 2))),
        mistake(|_, x, ids| x.take_along(0, ids.slice(0, 0, 1).reshape(&[3]))),
        mistake(|_, x, _| x.take_along(0, x)),
        mistake(|_, x, ids| x.scatter_add_along(1, ids, ids)),
        mistake(|_, x, _| x.slice(1, 0, 0).argmax(1)),
        mistake(|_, x, _| x.gt(x).cumsum(1)),
        mistake(|_, x, _| x.argmax(2)),
    ];
    let expected = [
        "the rows of f32[2,3] have fewer than 4 elements; choose fewer",
        "shapes differ along one axis alone, not f32[3,2] and i32[2,2]",
        "take_along needs operands with the same number of axes, not f32[2,3] and i32[3]",
        "needs a tensor and i32 ids",
        "needs a float tensor, not i32[2,3]",
        "the position among no elements: f32[2,0]",
        "needs a tensor of floats or i32, not bool[2,3]",
        "axis 2 of a tensor of type f32[2,3]",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected) && found.contains("along_rows.rs:"), "{found}");
    }
}
