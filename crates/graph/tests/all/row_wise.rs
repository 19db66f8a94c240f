//! Declarations of operations about rows, places and layouts hold for their evaluation.

use lessen_graph::ops::{Reduce, ReduceKind};
use lessen_graph::{Array, Layout, Op, OutRole, Role, RowWise, Type, evaluate_op};

use crate::cases::{Case, cases};
use crate::check::assert_near;

fn evaluated(case: &Case, inputs: &[Array]) -> Vec<Array> {
    evaluate_op(&*case.op, &inputs.iter().collect::<Vec<_>>()).unwrap()
}

fn types(arrays: &[Array]) -> Vec<Type> {
    arrays.iter().map(|a| a.ty.clone()).collect()
}

/// Elements of row `r` of `rows`.
fn row_of(array: &Array, r: usize, rows: usize) -> std::ops::Range<usize> {
    let width = array.data.len() / rows;
    r * width..(r + 1) * width
}

/// The inputs with everything but row `kept` of the row-wise ones replaced by other valid elements of them.
fn other_rows_replaced(inputs: &[Array], roles: &[Role], kept: usize, rows: usize) -> Vec<Array> {
    let replaced = |(array, role): (&Array, &Role)| {
        let mut other = array.clone();
        if *role == Role::Rows {
            let range = row_of(array, kept, rows);
            for e in (0..array.data.len()).filter(|e| !range.contains(e)) {
                other.data[e] = array.data[range.start + e % range.len()];
            }
        }
        other
    };
    inputs.iter().zip(roles).map(replaced).collect()
}

#[test]
fn rows_depend_on_their_own_row_alone() {
    let seed = 21;
    let mut checked = std::collections::BTreeSet::new();
    for case in cases(seed) {
        let expected = evaluated(&case, &case.inputs);
        let outputs = types(&expected);
        let RowWise::Rows {
            rows,
            inputs: roles,
            outputs: out_roles,
        } = case.op.row_wise(&types(&case.inputs), &outputs)
        else {
            continue;
        };
        assert_eq!(
            (roles.len(), out_roles.len()),
            (case.inputs.len(), outputs.len()),
            "{:?}",
            case.op
        );
        let rowed = case.inputs.iter().zip(&roles).filter(|(_, role)| **role == Role::Rows);
        assert!(rowed.clone().all(|(a, _)| a.data.len() % rows == 0), "{:?}", case.op);
        for r in 0..rows {
            let found = evaluated(&case, &other_rows_replaced(&case.inputs, &roles, r, rows));
            for (k, role) in out_roles.iter().enumerate() {
                if *role == OutRole::Rows {
                    let range = row_of(&expected[k], r, rows);
                    assert_eq!(
                        expected[k].data[range.clone()],
                        found[k].data[range],
                        "seed {seed}, {:?}",
                        case.op
                    );
                }
            }
        }
        checked.insert(case.op.name());
    }
    let needed = [
        "concat",
        "cross_entropy",
        "dropout",
        "gather",
        "layer_norm_backward",
        "matmul",
        "softmax",
        "split",
    ];
    assert!(needed.iter().all(|name| checked.contains(name)), "{checked:?}");
}

#[test]
fn sums_over_rows_add_what_single_rows_give() {
    let seed = 22;
    let mut checked = std::collections::BTreeSet::new();
    for case in cases(seed) {
        let expected = evaluated(&case, &case.inputs);
        let RowWise::Rows {
            rows,
            inputs: roles,
            outputs: out_roles,
        } = case.op.row_wise(&types(&case.inputs), &types(&expected))
        else {
            continue;
        };
        for k in (0..out_roles.len()).filter(|&k| out_roles[k] == OutRole::Sum) {
            // With every row the same, each contributes an equal share of the sum.
            let mut sum = Array::full(expected[k].ty.clone(), 0.0);
            for r in 0..rows {
                let same = evaluated(&case, &other_rows_replaced(&case.inputs, &roles, r, rows));
                sum.data
                    .iter_mut()
                    .zip(&same[k].data)
                    .for_each(|(s, y)| *s += y / rows as f64);
            }
            assert_near(&format!("seed {seed}, {:?}", case.op), &expected[k], &sum, 1e-13);
            checked.insert(case.op.name());
        }
    }
    assert!(
        checked.iter().eq([
            "crms_norm_backward",
            "histogram",
            "layer_norm_backward",
            "layer_norm_backward_from_output",
            "reduce",
            "rms_norm_backward",
            "rms_norm_backward_from_output",
            "scale_shift_sums",
            "scale_shift_sums_from_output"
        ]
        .iter()),
        "{checked:?}"
    );
}

#[test]
fn a_sum_of_everything_goes_by_rows_of_the_last_axis() {
    let sum = |shape: &[usize]| {
        let axes = (0..shape.len()).collect();
        Reduce {
            kind: ReduceKind::Sum,
            axes,
        }
        .row_wise(&[Type::f32(shape)], &[Type::f32(&[])])
    };
    let by_rows = |rows| RowWise::Rows {
        rows,
        inputs: vec![Role::Rows],
        outputs: vec![OutRole::Sum],
    };
    assert_eq!(sum(&[2, 3, 4]), by_rows(6));
    assert_eq!(sum(&[5]), by_rows(1));
    assert_eq!(sum(&[]), RowWise::No);
}

#[test]
fn elementwise_operations_depend_on_their_own_element_alone() {
    let seed = 23;
    for case in cases(seed) {
        let expected = evaluated(&case, &case.inputs);
        if case.op.row_wise(&types(&case.inputs), &types(&expected)) != RowWise::Elementwise {
            continue;
        }
        let elements = expected[0].data.len();
        let sized = |a: &&Array| a.ty.rank() == 0 || a.data.len() == elements;
        assert!(case.inputs.iter().all(|a| sized(&a)) && expected.iter().all(|a| a.data.len() == elements));
        let roles: Vec<Role> = case
            .inputs
            .iter()
            .map(|a| if a.ty.rank() == 0 { Role::Whole } else { Role::Rows })
            .collect();
        for e in 0..elements {
            let found = evaluated(&case, &other_rows_replaced(&case.inputs, &roles, e, elements));
            for (a, b) in expected.iter().zip(&found) {
                assert_eq!(a.data[e], b.data[e], "seed {seed}, {:?}", case.op);
            }
        }
    }
}

#[test]
fn an_output_takes_the_place_of_an_input_of_its_type_only() {
    for case in cases(24) {
        let (inputs, outputs) = (types(&case.inputs), types(&evaluated(&case, &case.inputs)));
        for (i, input) in inputs.iter().enumerate() {
            for (k, output) in outputs.iter().enumerate() {
                if case.op.in_place(i, k, &inputs, &outputs) {
                    assert_eq!(input, output, "{:?}", case.op);
                }
            }
        }
    }
}

#[test]
fn views_lie_where_their_layouts_say() {
    let seed = 25;
    let mut checked = std::collections::BTreeSet::new();
    for case in cases(seed) {
        let expected = evaluated(&case, &case.inputs);
        let Some(base) = case.inputs.first() else { continue };
        let dense = Layout::dense(&base.ty.shape);
        let Some(layouts) = case.op.view(&dense, &types(&case.inputs), &types(&expected)) else {
            continue;
        };
        for (layout, y) in layouts.iter().zip(&expected) {
            let seen = Array::from_fn(y.ty.clone(), |index| {
                base.data[layout.offset + index.iter().zip(&layout.strides).map(|(i, s)| i * s).sum::<usize>()]
            });
            assert_eq!(&seen, y, "seed {seed}, {:?}", case.op);
        }
        assert_eq!(layouts.len(), expected.len());
        checked.insert(case.op.name());
    }
    assert!(
        checked
            .iter()
            .eq(["broadcast", "permute", "reshape", "slice", "split"].iter()),
        "{checked:?}"
    );
}
