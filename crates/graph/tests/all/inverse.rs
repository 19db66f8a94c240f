//! Inputs from outputs: exactly in real arithmetic, and after rounding to the declared error.

use std::collections::BTreeSet;
use std::sync::Arc;

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Inverse, Op, Operand, Type, evaluate_op};

use crate::cases::cases;
use crate::check::assert_near;
use crate::prng::Prng;

fn types(arrays: &[Array]) -> Vec<Type> {
    arrays.iter().map(|a| a.ty.clone()).collect()
}

/// Output 0 of an operation, rounded to its dtype or not.
fn evaluated(op: &Arc<dyn Op>, inputs: &[Array], rounds: bool) -> Array {
    let inputs: Vec<&Array> = inputs.iter().collect();
    let y = evaluate_op(&**op, &inputs).unwrap().remove(0);
    if rounds { rounded(&y) } else { y }
}

/// The numbers rounded to their dtype.
fn rounded(array: &Array) -> Array {
    let round = |x: &f64| array.ty.dtype.round(*x);
    Array::new(array.ty.clone(), array.data.iter().map(round).collect())
}

/// Input `input` of a forward operation by its rule.
fn inverted(rule: &Inverse, input: usize, inputs: &[Array], y: &Array, rounds: bool) -> Array {
    let operand = |operand: &Operand| match operand {
        Operand::ForwardInput(i) if *i != input => inputs[*i].clone(),
        Operand::ForwardOutput(0) => y.clone(),
        other => panic!("{other:?} is not there"),
    };
    let operands: Vec<Array> = rule.operands.iter().map(operand).collect();
    evaluated(&rule.op, &operands, rounds)
}

#[test]
fn inputs_follow_from_outputs() {
    let mut checked = BTreeSet::new();
    for case in cases(41) {
        let inputs: Vec<Array> = case.inputs.iter().map(rounded).collect();
        for input in 0..inputs.len() {
            let Some(rule) = case.op.inverse(input, &types(&inputs)) else {
                continue;
            };
            let y = evaluated(&case.op, &inputs, false);
            let found = inverted(&rule, input, &inputs, &y, false);
            let what = format!("{:?}, input {input}", case.op);
            let tolerance = if rule.error == 0.0 { 0.0 } else { 1e-15 };
            assert_near(&what, &inputs[input], &found, tolerance);
            let kind = case.op.downcast_ref::<Binary>().map(|op| op.kind.name());
            checked.insert(format!("{} {input}", kind.unwrap_or(case.op.name())));
        }
    }
    let expected = [
        "add 0",
        "add 1",
        "cast 0",
        "concat 0",
        "concat 1",
        "concat 2",
        "div 0",
        "identity 0",
        "leaky_relu 0",
        "mul 0",
        "mul 1",
        "pad 0",
        "permute 0",
        "reshape 0",
        "sub 0",
        "sub 1",
        "unary 0",
    ];
    assert!(checked.iter().eq(expected.iter()), "{checked:?}");
}

/// Two factors or terms of many magnitudes whose results have a magnitude of at most 1.
fn pair(r: &mut Prng, kind: BinaryKind, dtype: DType) -> [Array; 2] {
    let ty = Type::new(dtype, &[10_000]);
    let is_factor = matches!(kind, BinaryKind::Mul | BinaryKind::Div);
    let largest = if is_factor { 1.0 } else { 0.5 };
    let [a, mut b] = [(); 2].map(|()| Array::from_fn(ty.clone(), |_| r.uniform(-largest, largest)));
    b.data.iter_mut().for_each(|b| *b *= 2f64.powi(-(r.below(20) as i32)));
    let mut pair = [a, b];
    if kind == BinaryKind::Div {
        let [a, b] = &mut pair;
        a.data.iter_mut().zip(&b.data).for_each(|(a, b)| *a *= b);
    }
    pair.map(|array| rounded(&array))
}

#[test]
fn errors_are_within_what_is_declared() {
    let mut r = Prng::new(42);
    for kind in [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Div] {
        for dtype in [DType::F32, DType::BF16] {
            let inputs = pair(&mut r, kind, dtype);
            let forward: Arc<dyn Op> = Arc::new(Binary { kind });
            let y = evaluated(&forward, &inputs, true);
            for input in 0..if kind == BinaryKind::Div { 1 } else { 2 } {
                let rule = forward.inverse(input, &types(&inputs)).unwrap();
                let x = inverted(&rule, input, &inputs, &y, true);
                let errors = x.data.iter().zip(&inputs[input].data).map(|(x, a)| (x - a).abs());
                let worst = errors.fold(0.0, f64::max);
                println!("{kind:?} of {dtype:?}: {worst:.2e}, declared {:.2e}", rule.error);
                assert!(
                    worst <= rule.error && worst > rule.error / 3.0,
                    "{kind:?} of {dtype:?}: {worst}"
                );
            }
        }
    }
}

#[test]
fn leaky_relu_is_within_the_error_that_is_declared() {
    let mut r = Prng::new(45);
    let x = rounded(&Array::from_fn(Type::f32(&[1000]), |_| r.uniform(-1.0, 1.0)));
    let mut largest = 0f64;
    for slope in (1..200).map(|i| f64::from(i) / 100.0) {
        let op = LeakyRelu { slope };
        let rule = Op::inverse(&op, 0, std::slice::from_ref(&x.ty)).unwrap();
        // As on a device: the slope is a number of the dtype, too.
        let of = |op: &LeakyRelu, x: &Array| {
            let slope = DType::F32.round(op.slope);
            let op: Arc<dyn Op> = Arc::new(LeakyRelu { slope });
            evaluated(&op, std::slice::from_ref(x), true)
        };
        let back = rule.op.downcast_ref::<LeakyRelu>().expect("a leaky ReLU");
        let found = of(back, &of(&op, &x));
        for (x, found) in x.data.iter().zip(&found.data) {
            assert!((x - found).abs() <= rule.error, "slope {slope}: {found}, not {x}");
            largest = largest.max((x - found).abs() / rule.error);
        }
    }
    println!("{largest} of what is declared");
    assert!(largest > 1.0 / 3.0, "{largest}");
    for slope in [0.0, -0.1, f64::INFINITY, f64::NAN] {
        assert!(Op::inverse(&LeakyRelu { slope }, 0, std::slice::from_ref(&x.ty)).is_none());
    }
}

#[test]
fn small_factors_magnify_no_error() {
    let forward: Arc<dyn Op> = Arc::new(Binary { kind: BinaryKind::Mul });
    let ty = Type::f32(&[1000]);
    let rule = forward.inverse(0, &[ty.clone(), ty.clone()]).unwrap();
    let condition = rule.condition.expect("a least factor");
    assert_eq!(condition.operand, Operand::ForwardInput(1));
    let mut r = Prng::new(44);
    // Products down to subnormal numbers.
    let x = Array::from_fn(ty.clone(), |_| {
        DType::F32.round(r.uniform(-1.0, 1.0) * 2f64.powi(-(r.below(40) as i32)))
    });
    let inputs = [x, Array::full(ty, DType::F32.round(condition.least))];
    let y = evaluated(&forward, &inputs, true);
    let found = inverted(&rule, 0, &inputs, &y, true);
    for (x, found) in inputs[0].data.iter().zip(&found.data) {
        assert!((x - found).abs() <= rule.error, "{found}, not {x}");
    }
}

#[test]
fn integers_are_exact_and_products_of_them_have_no_rule() {
    let whole = [(); 2].map(|()| Type::new(DType::I32, &[3]));
    let rule_of = |kind| Binary { kind }.inverse(0, &whole);
    assert_eq!(rule_of(BinaryKind::Add).unwrap().error, 0.0);
    for kind in [BinaryKind::Mul, BinaryKind::Div, BinaryKind::Max, BinaryKind::Pow] {
        assert!(rule_of(kind).is_none(), "{kind:?}");
    }
    let f32_of = |dtype| Cast { dtype }.inverse(0, &[Type::f32(&[2])]).map(|rule| rule.error);
    assert_eq!(f32_of(DType::F64), Some(0.0));
    assert_eq!(f32_of(DType::BF16), None);
    assert!(Cast { dtype: DType::F32 }.inverse(0, &whole[..1]).is_none());
}
