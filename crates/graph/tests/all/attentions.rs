//! Attention with all options, applied to small random inputs of odd shapes.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Type, evaluate_op};

use crate::cases::{Case, Smooth, case};
use crate::prng::Prng;

/// The weightings, as the words of the text form.
pub const WEIGHTINGS: [&str; 13] = [
    "softmax",
    "norm_softmax",
    "norm_softmax:gamma=0.3,tau=0.7",
    "norm_softmax:gamma=inf",
    "norm_softmax:floor=0.4",
    "norm_softmax:gamma=inf,learned",
    "logit_norm",
    "logit_norm:tau=0.5,learned",
    "relu",
    "relu:keys",
    "relu:2.5",
    "sigmoid",
    "sigmoid:keys",
];

/// An attention and the inputs after `q`, `k` and `v` that its fields ask for, all drawn at random.
pub fn with_rest(r: &mut Prng, op: Attention, [batch, keys, heads]: [usize; 3]) -> Vec<Array> {
    let mut rest = Vec::new();
    if op.masked {
        rest.push(r.bools(&[batch, keys]));
    }
    if op.segmented {
        // The first token and the last one belong to no sequence where there are enough of them; one sequence is empty.
        let (first, last) = (1.min(keys as i32), (keys as i32 - 1).max(0));
        let middle = (first + last) / 2;
        rest.push(Array::i32(&[4], &[first, middle, middle, last.max(middle)]));
    }
    if op.placed {
        let offset = if op.bias == AttentionBias::Fire {
            FIRE_LENGTH - 1.0
        } else {
            (keys / 2) as f64
        };
        // Sequences of a batch have offsets of their own.
        let offsets: Vec<f64> = (0..batch).map(|b| offset + b as f64).collect();
        let shape: &[usize] = if batch == 1 { &[] } else { &[batch] };
        rest.push(Array::new(Type::new(DType::I32, shape), offsets));
    }
    if op.bias == AttentionBias::Fire {
        let width = 3;
        // With an offset there are rows before and after the length.
        rest.extend([Array::scalar(0.4), Array::scalar(1.0001)]);
        rest.extend([
            r.normal(&[width]),
            r.normal(&[width]),
            r.normal(&[heads, width]),
            r.normal(&[heads]),
        ]);
    }
    if op.weighting.is_learned() {
        rest.push(r.floats(&[heads], 0.5, 2.0));
    }
    if op.p > 0.0 {
        rest.push(r.key());
    }
    rest
}

/// The operation and its derivative on `q[B, Tq, H, D]`, `k[B, Tk, G, D]` and `v[B, Tk, G, Dv]`.
fn both(r: &mut Prng, op: Attention, [batch, tq, tk, heads, kv_heads, d, dv]: [usize; 7]) -> [Case; 2] {
    let (q, k) = (r.normal(&[batch, tq, heads, d]), r.normal(&[batch, tk, kv_heads, d]));
    let v = r.normal(&[batch, tk, kv_heads, dv]);
    let rest = with_rest(r, op, [batch, tk, heads]);
    let rest: Vec<&Array> = rest.iter().collect();
    let mut forward = case(op, &[&[&q, &k, &v], &rest[..]].concat(), Smooth::Twice);
    let hides = op.masked || op.segmented || op.causal && tq > tk;
    if hides && op.weighting.is_softmax() {
        // The lse of a query without a visible key is infinite, so that there is no difference to take.
        forward.outputs.truncate(1);
    }
    let (mut o, mut lse) = (
        r.normal(&[batch, tq, heads, dv]),
        r.floats(&[batch, heads, tq], 0.5, 2.0),
    );
    if op.weighting.temperature().is_some() {
        // Exponents are so large that another lse would give weights far from 1.
        let all = [&[&q, &k, &v], &rest[..]].concat();
        let found = evaluate_op(&op, &all).expect("the inputs fit");
        [o, lse] = found.try_into().expect("two outputs");
    }
    let dy = r.normal(&[batch, tq, heads, dv]);
    let results: &[&Array] = if op.weighting.is_softmax() {
        &[&o, &lse, &dy]
    } else {
        &[&dy]
    };
    let inputs = [&[&q, &k, &v], results, &rest[..]].concat();
    [forward, case(AttentionBackward::of(op), &inputs, Smooth::Twice)]
}

pub fn cases(r: &mut Prng) -> Vec<Case> {
    let mut all = Vec::new();
    let plain = Attention {
        scale: 0.7,
        stream: 3,
        ..Attention::default()
    };
    // The last but one has queries without a visible key.
    for (tq, tk, d, dv, causal, masked, p) in [
        (2, 3, 2, 2, false, false, 0.0),
        (2, 3, 2, 1, true, false, 0.0),
        (2, 2, 1, 2, false, true, 0.4),
        (3, 2, 2, 2, true, true, 0.0),
        (3, 3, 1, 1, true, false, 0.4),
    ] {
        let op = Attention {
            causal,
            masked,
            p,
            ..plain
        };
        all.extend(both(r, op, [2, tq, tk, 2, 2, d, dv]));
    }
    // Every query sees four keys at least: the deviation of fewer scores may be so small that differences of it are not
    // exact enough.
    for (i, weighting) in WEIGHTINGS.iter().enumerate() {
        let weighting: Weighting = weighting.parse().expect("a word of the list");
        let op = Attention { weighting, ..plain };
        let (masked, causal, p) = (i > 7 && i % 3 == 1, i % 2 == 0, if i % 4 == 2 { 0.4 } else { 0.0 });
        all.extend(both(
            r,
            Attention {
                masked,
                causal,
                p,
                ..op
            },
            [2, 2, 5, 2, 2, 4, 1],
        ));
    }
    for bias in [AttentionBias::Alibi, AttentionBias::Fire] {
        for weighting in [WEIGHTINGS[0], WEIGHTINGS[4], WEIGHTINGS[9], WEIGHTINGS[11]] {
            let weighting: Weighting = weighting.parse().expect("a word of the list");
            let op = Attention {
                weighting,
                bias,
                ..plain
            };
            all.extend(both(r, Attention { causal: true, ..op }, [2, 2, 5, 2, 2, 3, 1]));
        }
        let op = Attention { bias, ..plain };
        all.extend(both(r, op, [1, 3, 4, 3, 1, 2, 2]));
        all.extend(both(
            r,
            Attention {
                placed: true,
                causal: true,
                ..op
            },
            [1, 2, 4, 2, 1, 1, 2],
        ));
        all.extend(both(
            r,
            Attention {
                placed: true,
                causal: true,
                ..op
            },
            [2, 2, 4, 2, 1, 1, 1],
        ));
        all.extend(both(
            r,
            Attention {
                segmented: true,
                causal: true,
                ..op
            },
            [1, 6, 6, 2, 1, 1, 1],
        ));
        let op = Attention {
            weighting: "relu:keys".parse().expect("a word"),
            ..op
        };
        all.extend(both(r, Attention { segmented: true, ..op }, [1, 6, 6, 1, 1, 2, 1]));
    }
    all
}

#[test]
fn words_of_weightings_are_read_back() {
    for word in WEIGHTINGS {
        let weighting: Weighting = word.parse().unwrap();
        assert_eq!(weighting.to_string(), word);
    }
    let same = |a: &str, b: &str| assert_eq!(a.parse::<Weighting>().unwrap(), b.parse().unwrap(), "{a}");
    same("norm_softmax:gamma=1,tau=1", "norm_softmax");
    same("relu:1", "relu");
    for (wrong, what) in [
        ("softmx", "there is no attention `softmx`"),
        ("softmax:2", "there is no attention `softmax:2`"),
        ("norm_softmax:", "there is no attention"),
        ("norm_softmax:gamma=2,floor=1", "there is no attention"),
        ("norm_softmax:gamma=0", "must be at least 0.001"),
        ("norm_softmax:gamma=NaN", "must be at least 0.001"),
        ("norm_softmax:tau=-1", "above 0"),
        ("logit_norm:gamma=1", "there is no attention"),
        ("relu:0", "above 0"),
        ("sigmoid:inf", "finite"),
    ] {
        let message = wrong.parse::<Weighting>().unwrap_err().to_string();
        assert!(message.contains(what), "{wrong}: {message}");
    }
}

/// One query and keys whose scores with scale 1 are these numbers; the values tell the keys apart.
fn row(weighting: &str, scores: &[f64]) -> Vec<f64> {
    let n = scores.len();
    let op = Attention {
        weighting: weighting.parse().unwrap(),
        ..Attention::default()
    };
    let (q, k) = (
        Array::f32(&[1, 1, 1, 1], vec![1.0]),
        Array::f32(&[1, n, 1, 1], scores.to_vec()),
    );
    let v = Array::from_fn(Type::new(DType::F32, &[1, n, 1, n]), |at| f64::from(at[1] == at[3]));
    evaluate_op(&op, &[&q, &k, &v]).unwrap()[0].data.clone()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(
        close && found.len() == expected.len(),
        "{found:?} instead of {expected:?}"
    );
}

fn softmax(exponents: &[f64]) -> Vec<f64> {
    let sum: f64 = exponents.iter().map(|x| x.exp()).sum();
    exponents.iter().map(|x| x.exp() / sum).collect()
}

#[test]
fn weightings_follow_their_equations() {
    // Mean 5, population deviation 2, root mean square sqrt(29).
    let scores = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    let divided = |t: f64| softmax(&scores.map(|s| s / t));
    near(&row("softmax", &scores), &divided(1.0));
    near(&row("norm_softmax:gamma=inf", &scores), &divided(2.0));
    near(&row("norm_softmax:gamma=3", &scores), &divided(2.0));
    near(&row("norm_softmax", &scores), &divided(1.0));
    near(&row("norm_softmax:gamma=1.5,tau=2", &scores), &divided(3.0));
    near(&row("norm_softmax:floor=1", &scores), &divided(2.0));
    near(&row("norm_softmax:floor=4", &scores), &divided(4.0));
    near(&row("logit_norm", &scores), &divided(29f64.sqrt()));
    near(&row("logit_norm:tau=0.5", &scores), &divided(29f64.sqrt() / 2.0));
    near(&row("relu:keys", &[-1.0, 0.0, 3.0]), &[0.0, 0.0, 1.0]);
    near(&row("relu:2", &[-1.0, 0.0, 3.0]), &[0.0, 0.0, 1.5]);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    near(&row("sigmoid", &[-1.0, 0.0]), &[sigmoid(-1.0), 0.5]);
    near(
        &row("sigmoid:keys", &[-1.0, 0.0]),
        &[sigmoid(-1.0 - 2f64.ln()), 1.0 / 3.0],
    );
}

#[test]
fn logit_norm_of_centered_scores_is_norm_softmax() {
    // Equation 2.26.
    let scores = [0.3, -1.2, 2.5, 0.9];
    let mean = scores.iter().sum::<f64>() / 4.0;
    near(
        &row("logit_norm", &scores.map(|s| s - mean)),
        &row("norm_softmax:gamma=inf", &scores),
    );
}

#[test]
fn slopes_of_alibi_halve() {
    let slopes = |heads| (0..heads).map(|h| alibi_slope(h, heads)).collect::<Vec<_>>();
    near(
        &slopes(8),
        &[
            0.5,
            0.25,
            0.125,
            0.0625,
            1.0 / 32.0,
            1.0 / 64.0,
            1.0 / 128.0,
            1.0 / 256.0,
        ],
    );
    // For six heads the slopes of four heads, then every other slope of eight.
    near(&slopes(6), &[0.25, 0.0625, 1.0 / 64.0, 1.0 / 256.0, 0.5, 0.125]);
    near(&slopes(1), &[1.0 / 256.0]);
}

#[test]
fn fire_interpolates_logarithmic_distances() {
    let (c, length, width) = (0.1, 600.0, 2);
    let (w1, b1) = ([2.0, -1.0], [-0.5, 0.8]);
    let (w2, b2) = ([0.7, -1.5], 0.25);
    for (position, distance) in [(0.0, 0.0), (3.0, 2.0), (599.0, 300.0), (1000.0, 999.0)] {
        let psi = |x: f64| (c * x + 1.0f64).ln();
        let u = psi(distance) / (psi(f64::max(length, position)) + 1e-6);
        let hidden = |k: usize| (w1[k] * u + b1[k]).max(0.0);
        let expected = w2[0] * hidden(0) + w2[1] * hidden(1) + b2;
        // One key at position 0, and the query at its distance from there: the score is the bias.
        let op = Attention {
            weighting: Weighting::Sigmoid(Divisor::One),
            bias: AttentionBias::Fire,
            placed: true,
            scale: 0.0,
            ..Attention::default()
        };
        let keys = position as usize - distance as usize + 1;
        let one = Array::f32(&[1, 1, 1, 1], vec![1.0]);
        let k = Array::f32(&[1, keys, 1, 1], vec![0.0; keys]);
        let last = Array::from_fn(Type::new(DType::F32, &[1, keys, 1, 1]), |at| {
            f64::from(at[1] == keys - 1)
        });
        let offset = Array::new(Type::new(DType::I32, &[]), vec![position]);
        let parameters = [
            Array::scalar(c),
            Array::scalar(length / FIRE_LENGTH),
            Array::f32(&[width], w1.to_vec()),
            Array::f32(&[width], b1.to_vec()),
            Array::f32(&[1, width], w2.to_vec()),
            Array::f32(&[1], vec![b2]),
        ];
        let inputs: Vec<&Array> = [&one, &k, &last, &offset].into_iter().chain(&parameters).collect();
        let found = evaluate_op(&op, &inputs).unwrap()[0].item();
        near(&[found], &[1.0 / (1.0 + (-expected).exp())]);
    }
}

#[test]
fn segments_are_sequences_of_their_own() {
    let mut r = Prng::new(77);
    for bias in AttentionBias::ALL {
        for weighting in [WEIGHTINGS[0], WEIGHTINGS[3], WEIGHTINGS[9]] {
            let op = Attention {
                weighting: weighting.parse().unwrap(),
                bias,
                causal: true,
                ..Attention::default()
            };
            let [q, k, v] = [0, 1, 2].map(|_| r.normal(&[1, 7, 2, 3]));
            let rest = with_rest(&mut r, op, [1, 7, 2]);
            let evaluated = |op: Attention, inputs: &[&Array]| evaluate_op(&op, inputs).unwrap()[0].clone();
            // Token 0 and token 6 belong to no sequence.
            let starts = Array::i32(&[4], &[1, 3, 3, 6]);
            let packed = Attention { segmented: true, ..op };
            let inputs: Vec<&Array> = [&q, &k, &v, &starts].into_iter().chain(&rest).collect();
            let found = evaluated(packed, &inputs);
            let cut = |x: &Array, from: usize, to: usize| {
                Array::from_fn(Type::new(DType::F32, &[1, to - from, 2, 3]), |at| {
                    x.at(&[0, at[1] + from, at[2], at[3]])
                })
            };
            for (from, to) in [(1, 3), (3, 6)] {
                let [q, k, v] = [&q, &k, &v].map(|x| cut(x, from, to));
                let inputs: Vec<&Array> = [&q, &k, &v].into_iter().chain(&rest).collect();
                near(&cut(&found, from, to).data, &evaluated(op, &inputs).data);
            }
            for outside in [0, 6] {
                assert!(cut(&found, outside, outside + 1).data.iter().all(|&x| x == 0.0));
            }
        }
    }
}

#[test]
fn heads_of_queries_share_heads_of_keys() {
    let mut r = Prng::new(78);
    let (q, k, v) = (
        r.normal(&[1, 2, 4, 3]),
        r.normal(&[1, 3, 2, 3]),
        r.normal(&[1, 3, 2, 3]),
    );
    let repeated = |x: &Array| {
        Array::from_fn(Type::new(DType::F32, &[1, 3, 4, 3]), |at| {
            x.at(&[0, at[1], at[2] / 2, at[3]])
        })
    };
    let op = Attention::default();
    let found = evaluate_op(&op, &[&q, &k, &v]).unwrap();
    let expected = evaluate_op(&op, &[&q, &repeated(&k), &repeated(&v)]).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn rows_of_equal_scores_and_large_scores_have_finite_derivatives() {
    for weighting in WEIGHTINGS {
        for (what, size, keys) in [("equal", 0.0, 3), ("one key", 1.0, 1), ("large", 1e4, 4)] {
            let mut r = Prng::new(79);
            let weighting: Weighting = weighting.parse().unwrap();
            let op = Attention {
                weighting,
                causal: true,
                ..Attention::default()
            };
            let scaled = |x: Array| Array {
                data: x.data.iter().map(|x| x * size).collect(),
                ..x
            };
            let (q, k) = (r.normal(&[1, keys, 1, 2]), scaled(r.normal(&[1, keys, 1, 2])));
            let v = r.normal(&[1, keys, 1, 2]);
            let rest = with_rest(&mut r, op, [1, keys, 1]);
            let inputs: Vec<&Array> = [&q, &k, &v].into_iter().chain(&rest).collect();
            let forward = evaluate_op(&op, &inputs).unwrap();
            let softmax = forward.iter().filter(|_| weighting.is_softmax());
            let results: Vec<&Array> = softmax.chain([&v]).collect();
            let inputs: Vec<&Array> = [&q, &k, &v].into_iter().chain(results).chain(&rest).collect();
            let backward = evaluate_op(&AttentionBackward::of(op), &inputs).unwrap();
            let all = || forward.iter().chain(&backward).flat_map(|a| &a.data);
            assert!(
                all().all(|x| x.is_finite()),
                "{weighting}, {what}: {forward:?} {backward:?}"
            );
            if keys == 1 && weighting.is_softmax() {
                assert_eq!(backward[0].data, [0.0, 0.0], "{weighting}");
            }
        }
    }
}
