//! Rules of operations about runs along an axis, against their evaluation.

use std::collections::BTreeSet;

use lessen_graph::{Along, AlongQuery, Array, Type, evaluate_op};

use crate::cases::{Case, cases};
use crate::prng::Prng;

fn evaluated(case: &Case, inputs: &[Array]) -> Vec<Array> {
    let inputs: Vec<&Array> = inputs.iter().collect();
    evaluate_op(&*case.op, &inputs).unwrap()
}

/// The runs of an array along an axis.
fn runs(array: &Array, axis: usize) -> Vec<Vec<f64>> {
    let (extent, inner) = (
        array.ty.shape[axis],
        array.ty.shape[axis + 1..].iter().product::<usize>(),
    );
    let block = (extent * inner).max(1);
    let starts = array
        .data
        .chunks(block)
        .enumerate()
        .flat_map(|(i, _)| (0..inner).map(move |j| i * block + j));
    starts
        .map(|start| (0..extent).map(|k| array.data[start + k * inner]).collect())
        .collect()
}

/// The array with a number added to each run along an axis: a random one, or the one that makes the mean zero.
fn shifted(array: &Array, axis: usize, random: Option<&mut Prng>) -> Array {
    let extent = array.ty.shape[axis];
    let mut shifts = Vec::new();
    match random {
        Some(random) => runs(array, axis)
            .iter()
            .for_each(|_| shifts.push(random.uniform(-1.0, 1.0))),
        None => shifts.extend(
            runs(array, axis)
                .iter()
                .map(|run| -run.iter().sum::<f64>() / extent as f64),
        ),
    }
    let inner: usize = array.ty.shape[axis + 1..].iter().product();
    let shift = |i: usize| shifts[i / (extent * inner) * inner + i % inner];
    let data = array.data.iter().enumerate().map(|(i, x)| x + shift(i)).collect();
    Array::new(array.ty.clone(), data)
}

#[test]
fn runs_are_what_rules_say() {
    let mut random = Prng::new(5);
    let mut checked = BTreeSet::new();
    for case in cases(43) {
        let types: Vec<Type> = case.inputs.iter().map(|array| array.ty.clone()).collect();
        let expected = evaluated(&case, &case.inputs);
        let outputs: Vec<Type> = expected.iter().map(|array| array.ty.clone()).collect();
        for output in 0..outputs.len() {
            for axis in 0..outputs[output].rank() {
                let rule = case.op.along(AlongQuery {
                    output,
                    axis,
                    constant: &vec![false; types.len()],
                    known: &vec![None; types.len()],
                    inputs: &types,
                    outputs: &outputs,
                });
                let what = format!("{:?}, output {output}, axis {axis}, {rule:?}", case.op);
                match rule {
                    Along::Constant => {
                        let constant = |run: &Vec<f64>| run.iter().all(|x| x.to_bits() == run[0].to_bits());
                        assert!(runs(&expected[output], axis).iter().all(constant), "{what}");
                    }
                    Along::Linear(terms) => {
                        check_linear(&case, (output, axis), &terms, &expected, &mut random, &what);
                        checked.insert(case.op.name());
                    }
                    Along::Unknown | Along::Centred | Along::Product => {}
                }
            }
        }
    }
    let expected = [
        "binary",
        "broadcast",
        "cast",
        "concat",
        "conv2d",
        "gather",
        "identity",
        "matmul",
        "pad",
        "permute",
        "reduce",
        "reshape",
        "slice",
        "split",
        "unary",
    ];
    assert!(checked.iter().eq(expected.iter()), "{checked:?}");
}

/// Shifted runs of inputs give shifted runs, and runs of mean zero give such.
fn check_linear(
    case: &Case,
    (output, axis): (usize, usize),
    terms: &[(usize, usize)],
    expected: &[Array],
    random: &mut Prng,
    what: &str,
) {
    let (mut moved, mut centred) = (case.inputs.clone(), case.inputs.clone());
    for &(input, of) in terms {
        assert_eq!(
            case.inputs[input].ty.shape[of], expected[output].ty.shape[axis],
            "{what}"
        );
        moved[input] = shifted(&moved[input], of, Some(random));
        centred[input] = shifted(&centred[input], of, None);
    }
    // A cast rounds the elements; all else is computed in f64.
    let rounding = if case.op.is_cast() { 0.05 } else { 1e-9 };
    let found = &evaluated(case, &moved)[output];
    for (a, b) in runs(&expected[output], axis).iter().zip(runs(found, axis)) {
        let shift = b.first().map_or(0.0, |b| b - a[0]);
        assert!(
            a.iter().zip(&b).all(|(a, b)| (b - a - shift).abs() < rounding),
            "{what}"
        );
    }
    let found = &evaluated(case, &centred)[output];
    for run in runs(found, axis) {
        assert!(run.iter().sum::<f64>().abs() < rounding, "{what}");
    }
}

#[test]
fn operations_ignore_the_shifts_that_they_say_they_ignore() {
    let mut random = Prng::new(6);
    let mut checked = BTreeSet::new();
    for case in cases(44) {
        let types: Vec<Type> = case.inputs.iter().map(|array| array.ty.clone()).collect();
        let expected = evaluated(&case, &case.inputs);
        for (input, ty) in types.iter().enumerate() {
            for axis in 0..ty.rank() {
                if !case.op.ignores_shift(input, axis, &types) {
                    continue;
                }
                let mut moved = case.inputs.clone();
                moved[input] = shifted(&moved[input], axis, Some(&mut random));
                let found = &evaluated(&case, &moved)[0];
                let pairs = expected[0].data.iter().zip(&found.data);
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9), "{:?}", case.op);
                checked.insert(case.op.name());
            }
        }
    }
    assert!(
        checked.iter().eq(["layer_norm", "log_softmax", "softmax"].iter()),
        "{checked:?}"
    );
}

#[test]
fn norms_of_centred_runs_are_what_rules_say() {
    for case in cases(45) {
        let Some(rule) = case.op.when_centred() else {
            continue;
        };
        let mut inputs = case.inputs.clone();
        let axis = inputs[0].ty.rank() - 1;
        inputs[0] = shifted(&inputs[0], axis, None);
        let expected = &evaluated(&case, &inputs)[0];
        let [x, scale, shift] = [0, rule.scale, rule.shift].map(|input| &inputs[input]);
        let found = &evaluate_op(&*rule.norm, &[x, scale]).unwrap()[0];
        let less_last = |array: &Array| {
            let mut ty = array.ty.clone();
            *ty.shape.last_mut().unwrap() -= 1;
            let rows = array.rows().flat_map(|row| row[..row.len() - 1].to_vec());
            Array::new(ty, rows.collect())
        };
        for (i, (a, b)) in expected.data.iter().zip(&found.data).enumerate() {
            assert!((a - b - shift.data[i % shift.data.len()]).abs() < 1e-9);
        }
        if x.ty.last() == 1 {
            continue;
        }
        let compressed = &evaluate_op(&*rule.compressed, &[&less_last(x), &less_last(scale)]).unwrap()[0];
        let pairs = less_last(found).data.into_iter().zip(&compressed.data);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9));
    }
}
