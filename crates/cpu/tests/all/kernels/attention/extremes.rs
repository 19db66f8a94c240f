//! Rows without a visible key, huge scores, and numbers that no query may see.

use lessen_graph::Array;

use super::case::{Arrays, Case};
use crate::kernels::support::at_all_levels_of_floats;
use crate::plans::runner::{Options, run_once};

const WEIGHTINGS: [&str; 6] = [
    "softmax",
    "norm_softmax",
    "norm_softmax:gamma=inf,learned",
    "logit_norm",
    "relu",
    "sigmoid",
];

fn fill(inputs: &mut Arrays, name: &str, mut value: impl FnMut(usize) -> Option<f64>) {
    let Array { data, .. } = inputs.get_mut(name).expect("an input");
    for (i, x) in data.iter_mut().enumerate() {
        *x = value(i).unwrap_or(*x);
    }
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    at_all_levels_of_floats(|_| {
        for weighting in WEIGHTINGS {
            let case = Case {
                weighting,
                masked: true,
                ..Case::default()
            };
            let mut inputs = case.inputs();
            fill(&mut inputs, "mask", |_| Some(0.0));
            let results = run_once(&case.graph(), &Options::default(), &inputs).1;
            for (name, values) in results {
                assert!(values.iter().all(|&x| x == 0.0), "{weighting}: {name} {values:?}");
            }
        }
    });
}

#[test]
fn huge_scores_do_not_overflow() {
    at_all_levels_of_floats(|_| {
        for weighting in WEIGHTINGS {
            Case {
                weighting,
                causal: true,
                size: 128.0,
                ..Case::default()
            }
            .check();
        }
    });
}

#[test]
fn equal_scores_and_one_key() {
    at_all_levels_of_floats(|_| {
        for weighting in WEIGHTINGS {
            for keys in [1, 70] {
                let case = Case {
                    weighting,
                    keys,
                    causal: keys > 1,
                    ..Case::default()
                };
                let mut inputs = case.inputs();
                fill(&mut inputs, "k", |_| Some(0.5));
                // Derivatives are zero here, as sums of terms that are not.
                case.check_with(&inputs, 5e-6);
            }
        }
    });
}

#[test]
fn what_is_behind_a_masked_key_may_be_anything() {
    at_all_levels_of_floats(|_| {
        for weighting in WEIGHTINGS {
            for hidden in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MAX)] {
                let case = Case {
                    weighting,
                    masked: true,
                    causal: true,
                    p: 0.25,
                    ..Case::default()
                };
                let clean = case.inputs();
                let mut inputs = clean.clone();
                let mask = inputs["mask"].data.clone();
                for (name, c) in [("k", case.d), ("v", case.dv)] {
                    fill(&mut inputs, name, |i| {
                        (mask[i / (case.kv_heads * c)] == 0.0).then_some(hidden)
                    });
                }
                let run = |inputs: &Arrays| run_once(&case.graph(), &Options::default(), inputs).1;
                assert_eq!(run(&clean), run(&inputs), "{weighting}: {hidden}");
            }
        }
    });
}

#[test]
fn a_later_key_that_is_nan_does_not_reach_earlier_queries() {
    at_all_levels_of_floats(|_| {
        // Keys and values of multiples of 32 elements are read where they lie.
        for (weighting, (d, dv)) in WEIGHTINGS.into_iter().flat_map(|w| [(w, (7, 9)), (w, (32, 64))]) {
            let case = Case {
                weighting,
                causal: true,
                d,
                dv,
                ..Case::of_length(70)
            };
            let clean = case.inputs();
            let mut inputs = clean.clone();
            for (name, c) in [("k", case.d), ("v", case.dv)] {
                fill(&mut inputs, name, |i| {
                    (i / (case.kv_heads * c) == 69).then_some(f64::NAN)
                });
            }
            let run = |inputs: &Arrays| run_once(&case.graph(), &Options::default(), inputs).1;
            let (finite, poisoned) = (run(&clean), run(&inputs));
            for (name, c) in [("o", case.dv), ("dq", case.d)] {
                let last = 69 * case.heads * c;
                for i in 0..last {
                    let (a, b) = (finite[name][i], poisoned[name][i]);
                    assert!((a - b).abs() < 1e-6, "{weighting}: {name} {i}: {a} and {b}");
                }
                assert!(poisoned[name][last..].iter().all(|x| x.is_nan()), "{weighting}: {name}");
            }
        }
    });
}
