//! Lengths around the tiles, and long ones.

use super::case::Case;
use crate::kernels::support::at_all_levels_of_floats;

#[test]
fn odd_lengths() {
    for length in [0, 1, 2, 7, 63, 64, 65, 129, 200] {
        for weighting in ["softmax", "norm_softmax:gamma=inf", "relu:keys", "sigmoid"] {
            for causal in [false, true] {
                Case {
                    weighting,
                    causal,
                    ..Case::of_length(length)
                }
                .check();
            }
        }
    }
}

#[test]
fn lengths_that_differ() {
    for (queries, keys) in [(0, 3), (3, 0), (1, 200), (200, 1), (64, 65), (65, 64), (3, 4097)] {
        for causal in [false, true] {
            Case {
                queries,
                keys,
                causal,
                ..Case::default()
            }
            .check();
        }
    }
}

#[test]
fn blocks_of_every_number_of_registers() {
    at_all_levels_of_floats(|_| {
        for queries in [5, 16, 17, 37, 49, 64, 69, 101] {
            for (keys, (d, dv)) in [(70, (32, 64)), (69, (7, 9))] {
                Case {
                    queries,
                    keys,
                    d,
                    dv,
                    ..Case::default()
                }
                .check();
            }
        }
    });
}

#[test]
fn one_query() {
    for keys in [1, 2, 15, 16, 63, 64, 65, 200, 1027] {
        for (bias, batch, offset, kv_heads, d, dv) in [
            ("none", 1, None, 6, 64, 64),
            ("none", 3, Some(keys as i32 / 2), 2, 7, 70),
            ("alibi", 3, Some(0), 3, 33, 1),
            ("alibi", 1, Some(keys as i32), 1, 1, 17),
            ("none", 1, Some(-1), 6, 16, 16),
        ] {
            for causal in [false, true] {
                Case {
                    bias,
                    batch,
                    queries: 1,
                    keys,
                    heads: 6,
                    kv_heads,
                    d,
                    dv,
                    causal,
                    offset,
                    // The derivative adds up scores in another order, which counts the more, the larger they are.
                    size: 1.0,
                    ..Case::default()
                }
                .check();
            }
        }
    }
}

#[test]
fn long_sequences() {
    for (length, causal) in [(700, false), (1025, true)] {
        Case {
            causal,
            heads: 1,
            kv_heads: 1,
            d: 4,
            dv: 3,
            ..Case::of_length(length)
        }
        .check();
    }
}

#[test]
fn fire_before_and_behind_its_length() {
    // L is about 64.
    for (length, causal) in [
        (1, true),
        (63, true),
        (65, false),
        (129, true),
        (200, false),
        (450, true),
    ] {
        for weighting in ["softmax", "relu", "norm_softmax:gamma=inf"] {
            Case {
                weighting,
                bias: "fire",
                causal,
                ..Case::of_length(length)
            }
            .check();
        }
    }
}

#[test]
fn fire_far_from_the_keys() {
    for offset in [-100, 5, 500] {
        Case {
            bias: "fire",
            queries: 70,
            keys: 90,
            offset: Some(offset),
            ..Case::default()
        }
        .check();
    }
}
