//! Draws of tokens.

use super::*;

const LOGITS: [f32; 4] = [0.0, 2.0, 1.0, -30.0];

/// A text of a prompt alone.
fn after(tokens: &[i32]) -> SoFar<'_> {
    SoFar {
        tokens,
        prompt: tokens.len(),
        most: 100,
        ends: &[],
    }
}

fn penalty(repetition_penalty: f64) -> Rules {
    Rules {
        repetition_penalty,
        ..Rules::default()
    }
}

/// How often each token is drawn after `text`.
fn shares_after(text: &[i32], sampling: Sampling) -> Vec<f64> {
    let mut random = SplitMix64::keyed(3, 0);
    let mut counts = vec![0.0; LOGITS.len()];
    for _ in 0..20_000 {
        counts[sampling.choose(&LOGITS, after(text), &mut random).unwrap() as usize] += 1.0 / 20_000.0;
    }
    counts
}

fn shares(sampling: Sampling) -> Vec<f64> {
    shares_after(&[], sampling)
}

#[track_caller]
fn assert_shares(found: Vec<f64>, weights: [f64; 4]) {
    let total: f64 = weights.iter().sum();
    for (found, weight) in found.iter().zip(weights) {
        assert!(
            (found - weight / total).abs() < 0.02 && (weight > 0.0 || *found == 0.0),
            "{found} for {weights:?}"
        );
    }
}

#[test]
fn tokens_are_drawn_as_often_as_the_softmax_says() {
    let e = f64::exp;
    let all = Sampling::default();
    assert_shares(shares(all.clone()), [1.0, e(2.0), e(1.0), e(-30.0)]);
    let top_k = Sampling {
        temperature: 0.5,
        top_k: Some(2),
        ..all.clone()
    };
    assert_shares(shares(top_k), [0.0, e(4.0), e(2.0), 0.0]);
    assert_shares(shares(Sampling::greedy(1)), [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn the_token_that_reaches_the_share_is_the_last_one() {
    let e = f64::exp;
    // The most likely token has a share of 0.665, the two most likely ones of 0.910.
    let nucleus = |top_p| Sampling {
        top_p: Some(top_p),
        ..Sampling::default()
    };
    assert_shares(shares(nucleus(0.66)), [0.0, 1.0, 0.0, 0.0]);
    assert_shares(shares(nucleus(0.67)), [0.0, e(2.0), e(1.0), 0.0]);
    assert_shares(shares(nucleus(0.90)), [0.0, e(2.0), e(1.0), 0.0]);
    assert_shares(shares(nucleus(0.92)), [1.0, e(2.0), e(1.0), 0.0]);
    // Of two tokens the first one has a share of 0.731.
    let both = Sampling {
        top_k: Some(2),
        ..nucleus(0.72)
    };
    assert_shares(shares(both), [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn repeated_tokens_are_penalized_once_on_both_sides_of_zero() {
    let e = f64::exp;
    let penalized = Sampling {
        rules: penalty(2.0),
        ..Sampling::default()
    };
    assert_shares(
        shares_after(&[1, 1, 3, 1], penalized.clone()),
        [1.0, e(1.0), e(1.0), 0.0],
    );
    let greedy = Sampling {
        temperature: 0.0,
        ..penalized
    };
    let mut random = SplitMix64::keyed(3, 0);
    assert_eq!(greedy.choose(&[-1.0, -1.5], after(&[0]), &mut random), Ok(1));
    assert_eq!(greedy.choose(&[-1.0, -2.5], after(&[0]), &mut random), Ok(0));
    assert_eq!(greedy.choose(&[5.0, 3.0], after(&[0, 7, -1]), &mut random), Ok(1));
}

/// The token that is drawn where all tokens are sorted.
fn chosen_of_sorted(sampling: &Sampling, logits: &[f32], random: &mut SplitMix64) -> i32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    order.truncate(sampling.top_k.unwrap_or(logits.len()));
    let largest = f64::from(logits[order[0]]);
    let weight = |token: &usize| ((f64::from(logits[*token]) - largest) / sampling.temperature).exp();
    let least = sampling.top_p.unwrap_or(1.0) * order.iter().map(weight).sum::<f64>();
    let (mut sum, mut count) = (0.0, 0);
    while count < order.len() && (sum < least || sampling.top_p.is_none()) {
        sum += weight(&order[count]);
        count += 1;
    }
    let mut rest = random.unit() * sum;
    let drawn = order[..count].iter().find(|token| {
        rest -= weight(token);
        rest < 0.0
    });
    drawn.copied().unwrap_or(order[count - 1]) as i32
}

#[test]
fn draws_from_many_tokens_are_those_of_sorted_ones() {
    let mut random = SplitMix64::keyed(4, 0);
    for spread in [0.0, 0.5, 4.0, 40.0] {
        // Some of them are equal.
        let logits: Vec<f32> = (0..5000)
            .map(|_| (random.unit() * 900.0).floor() as f32 * spread / 900.0)
            .collect();
        for (top_k, top_p) in [
            (None, None),
            (Some(1), None),
            (Some(700), None),
            (None, Some(0.6)),
            (Some(90), Some(0.9)),
        ] {
            let sampling = Sampling {
                temperature: 0.9,
                top_k,
                top_p,
                ..Sampling::default()
            };
            for seed in 0..40 {
                let draw = || SplitMix64::keyed(seed, 1);
                let found = sampling.choose(&logits, after(&[]), &mut draw()).unwrap();
                let expected = chosen_of_sorted(&sampling, &logits, &mut draw());
                assert_eq!(found, expected, "seed {seed}, spread {spread}, {sampling:?}");
            }
        }
    }
}

#[test]
fn logits_that_are_nan_or_leave_no_token_are_an_error() {
    let all = Sampling::default();
    let (top_k, top_p) = (Some(1), Some(0.5));
    for sampling in [
        all.clone(),
        Sampling::greedy(1),
        Sampling { top_k, ..all.clone() },
        Sampling { top_p, ..all.clone() },
    ] {
        let refused = |logits: &[f32]| {
            let mut random = SplitMix64::keyed(3, 0);
            sampling
                .choose(logits, after(&[0]), &mut random)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&[1.0, f32::NAN, 2.0]).contains("the model's logit of token 1 is NaN"));
        assert!(refused(&[f32::NAN; 3]).contains("token 0 is NaN"));
        assert!(refused(&[-f32::NAN, f32::INFINITY]).contains("token 0 is NaN"));
        assert!(refused(&[f32::NEG_INFINITY; 2]).contains("no token has a probability"));
        assert!(refused(&[]).contains("no token has a probability"));
    }
}

#[test]
fn infinite_logits_are_limits() {
    let (top_k, top_p) = (Some(2), Some(0.9));
    let all = Sampling {
        rules: penalty(1.5),
        ..Sampling::default()
    };
    for sampling in [
        all.clone(),
        Sampling { top_k, ..all.clone() },
        Sampling { top_p, ..all.clone() },
    ] {
        for seed in 0..50 {
            let chosen = |logits: &[f32]| sampling.choose(logits, after(&[0]), &mut SplitMix64::keyed(seed, 0));
            let never = f32::NEG_INFINITY;
            assert_eq!(chosen(&[never, never, 0.5, never]), Ok(2), "{sampling:?}");
            assert_eq!(chosen(&[3.0, f32::INFINITY, 80.0, never]), Ok(1), "{sampling:?}");
        }
    }
    assert_eq!(
        Sampling::greedy(1).choose(&[1.0, f32::INFINITY], after(&[]), &mut SplitMix64::keyed(1, 0)),
        Ok(1)
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    let all = Sampling::default();
    all.check().unwrap();
    let refused = |sampling: Sampling| sampling.check().unwrap_err().to_string();
    let temperature = |temperature| Sampling {
        temperature,
        ..all.clone()
    };
    let top_p = |share| Sampling {
        top_p: Some(share),
        ..all.clone()
    };
    let penalty = |repetition_penalty| Sampling {
        rules: penalty(repetition_penalty),
        ..all.clone()
    };
    assert_eq!(
        refused(temperature(-1.0)),
        "temperature -1 makes no sense; choose a number from 0, such as 0.8"
    );
    for sampling in [
        temperature(f64::NAN),
        Sampling {
            top_k: Some(0),
            ..all.clone()
        },
        top_p(0.0),
        top_p(1.5),
        top_p(f64::NAN),
        penalty(0.0),
        penalty(f64::INFINITY),
    ] {
        assert!(refused(sampling.clone()).contains("makes no sense"), "{sampling:?}");
    }
}

#[test]
fn penalties_of_presence_and_frequency_count_what_was_added() {
    let rules = Rules {
        presence_penalty: 0.5,
        frequency_penalty: 0.25,
        ..Rules::default()
    };
    let mut logits = [1.0; 4];
    let text = SoFar {
        prompt: 2,
        ..after(&[0, 1, 1, 1, 2])
    };
    rules.apply(&mut logits, text);
    assert_eq!(logits, [1.0, 0.0, 0.25, 1.0]);
    let refused = |rules: Rules| rules.check().unwrap_err().to_string();
    for penalty in [-2.5, 2.5, f64::NAN] {
        let rules = Rules {
            presence_penalty: penalty,
            ..Rules::default()
        };
        assert!(refused(rules).contains(&format!("presence-penalty {penalty} makes no sense")));
    }
}

#[test]
fn filters_leave_the_tokens_that_transformers_leaves() {
    const LOGITS: [f32; 10] = [2.0, -1.0, 0.5, 1.9, -3.0, 0.1, 1.2, -0.4, 0.9, -6.0];
    let all = Sampling::default;
    let cases: [(Sampling, &[i32]); 22] = [
        (
            Sampling {
                min_p: Some(0.1),
                ..all()
            },
            &[0, 2, 3, 5, 6, 8],
        ),
        (
            Sampling {
                min_p: Some(0.3),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                min_p: Some(1.0),
                ..all()
            },
            &[0],
        ),
        (
            Sampling {
                top_h: Some(0.4),
                ..all()
            },
            &[0],
        ),
        (
            Sampling {
                top_h: Some(0.8),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                top_h: Some(0.05),
                ..all()
            },
            &[0],
        ),
        (
            Sampling {
                typical_p: Some(0.2),
                ..all()
            },
            &[3, 6],
        ),
        (
            Sampling {
                typical_p: Some(0.5),
                ..all()
            },
            &[3, 6, 8],
        ),
        (
            Sampling {
                typical_p: Some(0.9),
                ..all()
            },
            &[0, 2, 3, 6, 8],
        ),
        (
            Sampling {
                epsilon_cutoff: Some(0.05),
                ..all()
            },
            &[0, 2, 3, 6, 8],
        ),
        (
            Sampling {
                epsilon_cutoff: Some(0.1),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                epsilon_cutoff: Some(0.9),
                ..all()
            },
            &[0],
        ),
        (
            Sampling {
                eta_cutoff: Some(0.02),
                ..all()
            },
            &[0, 2, 3, 5, 6, 7, 8],
        ),
        (
            Sampling {
                eta_cutoff: Some(0.2),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                eta_cutoff: Some(0.9),
                ..all()
            },
            &[0, 3],
        ),
        (
            Sampling {
                temperature: 0.5,
                min_p: Some(0.1),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                top_k: Some(5),
                typical_p: Some(0.5),
                ..all()
            },
            &[0, 3],
        ),
        (
            Sampling {
                top_p: Some(0.8),
                min_p: Some(0.2),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                top_k: Some(6),
                epsilon_cutoff: Some(0.1),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                temperature: 2.0,
                top_h: Some(0.7),
                top_p: Some(0.9),
                typical_p: Some(0.8),
                ..all()
            },
            &[0, 3, 6, 8],
        ),
        (
            Sampling {
                top_p: Some(0.9),
                eta_cutoff: Some(0.1),
                ..all()
            },
            &[0, 2, 3, 6, 8],
        ),
        (
            Sampling {
                temperature: 0.7,
                typical_p: Some(0.6),
                epsilon_cutoff: Some(0.15),
                ..all()
            },
            &[0, 3],
        ),
    ];
    for (sampling, expected) in cases {
        let mut random = SplitMix64::keyed(5, 0);
        let mut draw = || sampling.choose(&LOGITS, after(&[]), &mut random).unwrap();
        let found: std::collections::BTreeSet<i32> = (0..4000).map(|_| draw()).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{sampling:?}");
    }
}
