//! Temperatures from moments of keys: sequences that are long enough for them.

use super::case::Case;

/// The least keys of full and of causal attention from which on moments are taken, and some more.
const FULL: usize = 1030;
const CAUSAL: usize = 3080;

fn full(weighting: &'static str) -> Case {
    Case {
        weighting,
        queries: 130,
        keys: FULL,
        ..Case::default()
    }
}

fn causal(weighting: &'static str) -> Case {
    Case {
        causal: true,
        keys: CAUSAL,
        ..full(weighting)
    }
}

#[test]
fn every_temperature() {
    for weighting in [
        "norm_softmax",
        "norm_softmax:gamma=inf",
        "norm_softmax:floor=0.5,tau=2",
        "norm_softmax:gamma=inf,learned",
        "logit_norm:learned",
    ] {
        full(weighting).check();
        causal(weighting).check();
    }
}

#[test]
fn masks_dropout_batches_and_grouped_queries() {
    for case in [full("norm_softmax:gamma=inf"), causal("norm_softmax:gamma=inf")] {
        Case {
            masked: true,
            p: 0.25,
            batch: 2,
            queries: 40,
            heads: 4,
            d: 33,
            ..case
        }
        .check();
    }
}

#[test]
fn prefixes_that_begin_before_the_keys_or_end_behind_them() {
    for offset in [-70, 0, 1000, 3000, 4000] {
        Case {
            offset: Some(offset),
            heads: 1,
            kv_heads: 1,
            ..causal("norm_softmax:gamma=inf")
        }
        .check();
    }
}

#[test]
fn deviations_that_are_what_is_left_of_large_terms() {
    for mut case in [full("norm_softmax:gamma=inf"), causal("norm_softmax:gamma=inf")] {
        case.d = 8;
        let mut inputs = case.inputs();
        let (k, q) = (inputs["k"].data.clone(), inputs["q"].data.clone());
        // Two coordinates of all keys are nearly the same, and queries take their difference.
        let keys = &mut inputs.get_mut("k").expect("keys").data;
        for row in 0..keys.len() / case.d {
            let at = row * case.d;
            keys[at] = 64.0 * k[at];
            keys[at + 1] = 64.0 * k[at] + k[at + 1];
        }
        let queries = &mut inputs.get_mut("q").expect("queries").data;
        for row in 0..queries.len() / case.d {
            let at = row * case.d;
            queries[at + 1] = -q[at];
        }
        case.check_with(&inputs, 1e-6);
    }
}

#[test]
fn equal_keys_and_huge_scores() {
    for mut case in [full("norm_softmax:gamma=inf"), causal("norm_softmax")] {
        let mut inputs = case.inputs();
        inputs.get_mut("k").expect("keys").data.fill(0.5);
        // Derivatives are zero here, as sums of terms that are not.
        case.check_with(&inputs, 5e-6);
        case.size = 128.0;
        case.check();
    }
}
