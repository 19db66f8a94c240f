//! All weightings with all biases and rules.

use super::case::Case;
use crate::kernels::support::at_all_levels_of_floats;

fn rules(weighting: &'static str, bias: &'static str) -> Vec<Case> {
    let case = Case {
        weighting,
        bias,
        ..Case::default()
    };
    vec![
        case.clone(),
        Case {
            causal: true,
            ..case.clone()
        },
        Case {
            batch: 2,
            queries: 33,
            keys: 130,
            masked: true,
            p: 0.25,
            ..case.clone()
        },
        Case {
            queries: 130,
            keys: 33,
            causal: true,
            masked: true,
            heads: 4,
            ..case.clone()
        },
        Case {
            queries: 150,
            keys: 150,
            starts: vec![3, 3, 20, 90, 149],
            causal: true,
            p: 0.5,
            ..case.clone()
        },
        Case {
            queries: 100,
            keys: 100,
            starts: vec![0, 70, 100],
            masked: true,
            heads: 4,
            d: 32,
            dv: 64,
            ..case.clone()
        },
        Case {
            queries: 5,
            keys: 90,
            offset: Some(70),
            causal: true,
            ..case.clone()
        },
        Case {
            batch: 3,
            queries: 2,
            keys: 90,
            offset: Some(40),
            causal: true,
            ..case.clone()
        },
        Case {
            queries: 70,
            keys: 70,
            heads: 10,
            kv_heads: 10,
            d: 64,
            dv: 32,
            causal: true,
            ..case
        },
    ]
}

fn check(weighting: &'static str) {
    at_all_levels_of_floats(|_| {
        for bias in ["none", "alibi", "fire"] {
            rules(weighting, bias).iter().for_each(Case::check);
        }
    });
}

#[test]
fn softmax() {
    check("softmax");
}

#[test]
fn norm_softmax() {
    check("norm_softmax");
    check("norm_softmax:gamma=inf,learned");
    check("norm_softmax:gamma=2,tau=0.5");
    check("norm_softmax:floor=1");
}

#[test]
fn logit_norm() {
    check("logit_norm");
    check("logit_norm:tau=0.5,learned");
}

#[test]
fn relu() {
    check("relu");
    check("relu:keys");
    check("relu:3");
}

#[test]
fn sigmoid() {
    check("sigmoid");
    check("sigmoid:keys");
}
