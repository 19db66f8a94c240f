//! Attention against plain `f64` loops.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::attention::{BLOCK, Head, WeightDropout, backward, forward};
use lessen_graph::philox;

/// A case: sizes and rules.
#[derive(Clone, Copy, Debug)]
struct Case {
    tq: usize,
    tk: usize,
    d: usize,
    dv: usize,
    causal: bool,
    masked: bool,
    p: f64,
}

const KEY: [u32; 2] = [11, 12];
const FIRST: u64 = 12_347;

struct Exact {
    o: Vec<f64>,
    lse: Vec<f64>,
    dq: Vec<f64>,
    dk: Vec<f64>,
    dv: Vec<f64>,
}

/// Forward and backward by the definition; operands are dense.
fn exact(c: Case, scale: f64, q: &[f32], k: &[f32], v: &[f32], mask: &[u8], d_o: &[f32]) -> Exact {
    let Case { tq, tk, d, dv, .. } = c;
    let w = |x: f32| f64::from(x);
    let threshold = philox::dropout_threshold(c.p);
    let grow = 65536.0 / (65536.0 - f64::from(threshold));
    let mut out = Exact {
        o: vec![0.0; tq * dv],
        lse: vec![f64::NEG_INFINITY; tq],
        dq: vec![0.0; tq * d],
        dk: vec![0.0; tk * d],
        dv: vec![0.0; tk * dv],
    };
    for i in 0..tq {
        let sees = |j: usize| (!c.causal || j + tq <= i + tk) && (!c.masked || mask[j] != 0);
        let seen: Vec<usize> = (0..tk).filter(|&j| sees(j)).collect();
        let s: Vec<f64> = seen
            .iter()
            .map(|&j| scale * (0..d).map(|e| w(q[i * d + e]) * w(k[j * d + e])).sum::<f64>())
            .collect();
        let largest = s.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        if seen.is_empty() {
            continue;
        }
        out.lse[i] = largest + s.iter().map(|s| (s - largest).exp()).sum::<f64>().ln();
        let p: Vec<f64> = s.iter().map(|s| (s - out.lse[i]).exp()).collect();
        let factor = |j: usize| {
            let index = FIRST + (i * tk + j) as u64;
            if c.p == 0.0 {
                1.0
            } else {
                grow * f64::from(u8::from(philox::dropout_keeps(KEY, 3, index, threshold)))
            }
        };
        let dp: Vec<f64> = seen
            .iter()
            .map(|&j| factor(j) * (0..dv).map(|e| w(d_o[i * dv + e]) * w(v[j * dv + e])).sum::<f64>())
            .collect();
        let delta: f64 = p.iter().zip(&dp).map(|(p, dp)| p * dp).sum();
        for (at, &j) in seen.iter().enumerate() {
            for e in 0..dv {
                out.o[i * dv + e] += p[at] * factor(j) * w(v[j * dv + e]);
                out.dv[j * dv + e] += p[at] * factor(j) * w(d_o[i * dv + e]);
            }
            let ds = scale * p[at] * (dp[at] - delta);
            for e in 0..d {
                out.dq[i * d + e] += ds * w(k[j * d + e]);
                out.dk[j * d + e] += ds * w(q[i * d + e]);
            }
        }
    }
    out
}

/// Runs a case with operands that lie in this way; returns all results, dense. Keys and values behind the mask are
/// `hidden`, where that is given.
fn run_hiding(c: Case, scale: f32, seed: u64, lie: Lie, cut: bool, hidden: Option<f32>) -> ([Vec<f32>; 5], Exact) {
    let Case { tq, tk, d, dv, .. } = c;
    let mut random = Random::new(seed);
    let mut q = random_block(&mut random, tq, d, lie, 2.0);
    let mut k = random_block(&mut random, tk, d, lie, 2.0);
    let mut v = random_block(&mut random, tk, dv, lie, 1.0);
    let mut d_o = random_block(&mut random, tq, dv, lie, 1.0);
    let mask: Vec<u8> = (0..tk).map(|_| u8::from(random.below(3) > 0)).collect();
    if let Some(hidden) = hidden {
        for j in (0..tk).filter(|&j| mask[j] == 0) {
            for (block, c) in [(&mut k, d), (&mut v, dv)] {
                (0..c).for_each(|e| block.data[j * block.row + e * block.col] = hidden);
            }
        }
    }
    let nan = |n, c| Block::new(n, c, lie, || f32::NAN);
    let (mut o, mut dq, mut dk, mut d_v) = (nan(tq, dv), nan(tq, d), nan(tk, d), nan(tk, dv));
    let mut lse = vec![f32::NAN; tq];
    let dropout = (c.p > 0.0).then_some(WeightDropout {
        p: c.p,
        stream: 3,
        key: KEY,
        first: FIRST,
    });
    let mask_ptr = if c.masked { mask.as_ptr() } else { std::ptr::null() };
    let head = Head {
        tq,
        tk,
        d,
        dv,
        scale,
        causal: c.causal,
        mask: mask_ptr,
        dropout,
    };
    let mut scratch = vec![f32::NAN; head.forward_scratch().max(head.backward_scratch())];
    let s = scratch.as_mut_ptr();
    // SAFETY: the blocks have the shapes of the head, and the scratch is as long as asked for.
    unsafe {
        let middle = if cut { BLOCK.min(tq) } else { 0 };
        for range in [0..middle, middle..tq] {
            forward(
                &head,
                q.rows(),
                k.rows(),
                v.rows(),
                o.rows(),
                lse.as_mut_ptr(),
                range,
                s,
            );
        }
        let (q, k, v, o, d_o) = (q.rows(), k.rows(), v.rows(), o.rows(), d_o.rows());
        backward(
            &head,
            q,
            k,
            v,
            o,
            lse.as_ptr(),
            d_o,
            dq.rows(),
            dk.rows(),
            d_v.rows(),
            s,
        );
    }
    let e = exact(
        c,
        scale.into(),
        &q.values(),
        &k.values(),
        &v.values(),
        &mask,
        &d_o.values(),
    );
    ([o.values(), lse, dq.values(), dk.values(), d_v.values()], e)
}

fn run(c: Case, scale: f32, seed: u64, lie: Lie, cut: bool) -> ([Vec<f32>; 5], Exact) {
    run_hiding(c, scale, seed, lie, cut, None)
}

fn check(c: Case, lie: Lie) {
    check_hiding(c, lie, None);
}

fn check_hiding(c: Case, lie: Lie, hidden: Option<f32>) {
    let (got, e) = run_hiding(c, 0.3, (c.tq * 7 + c.tk) as u64, lie, true, hidden);
    let expected = [&e.o, &e.lse, &e.dq, &e.dk, &e.dv];
    for (name, (got, expected)) in ["o", "lse", "dq", "dk", "dv"].iter().zip(got.iter().zip(expected)) {
        // Sums of up to `tk` terms of about 1.
        let largest = expected
            .iter()
            .filter(|e| e.is_finite())
            .fold(1f64, |a, b| a.max(b.abs()));
        let error = worst_error(got, expected, largest);
        assert!(error < 3e-6, "{name} {c:?} {lie:?}: {error:.1e}");
    }
}

#[test]
fn all_rules_and_odd_sizes() {
    at_all_levels(|_| {
        for (tq, tk) in [
            (1, 1),
            (5, 5),
            (64, 64),
            (65, 65),
            (33, 130),
            (130, 33),
            (129, 129),
            (1, 200),
            (0, 3),
            (3, 0),
        ] {
            for rules in 0..8 {
                let (causal, masked, p) = (rules & 1 != 0, rules & 2 != 0, if rules & 4 != 0 { 0.25 } else { 0.0 });
                check(
                    Case {
                        tq,
                        tk,
                        d: 7,
                        dv: 9,
                        causal,
                        masked,
                        p,
                    },
                    Lie::Padded,
                );
            }
        }
        check(
            Case {
                tq: 70,
                tk: 70,
                d: 64,
                dv: 64,
                causal: true,
                masked: true,
                p: 0.1,
            },
            Lie::Dense,
        );
        check(
            Case {
                tq: 70,
                tk: 70,
                d: 32,
                dv: 1,
                causal: true,
                masked: false,
                p: 0.1,
            },
            Lie::Transposed,
        );
        check(
            Case {
                tq: 20,
                tk: 90,
                d: 3,
                dv: 80,
                causal: false,
                masked: true,
                p: 0.5,
            },
            Lie::Spread,
        );
    });
}

#[test]
fn a_query_that_sees_nothing_gives_zeros() {
    at_all_levels(|_| {
        let mut x = vec![1.0f32; 3 * 8];
        let mask = [0u8; 3];
        let head = Head {
            tq: 3,
            tk: 3,
            d: 8,
            dv: 8,
            scale: 1.0,
            causal: false,
            mask: mask.as_ptr(),
            dropout: None,
        };
        let mut results = vec![f32::NAN; 4 * 24];
        let mut lse = [0.0; 3];
        let mut scratch = vec![f32::NAN; head.backward_scratch()];
        let (r, s) = (Rows::dense(x.as_mut_ptr(), 8), scratch.as_mut_ptr());
        let [o, dq, dk, dv] = [0, 24, 48, 72].map(|i| Rows::dense(results[i..].as_mut_ptr(), 8));
        // SAFETY: the blocks have the shapes of the head.
        unsafe {
            forward(&head, r, r, r, o, lse.as_mut_ptr(), 0..3, s);
            backward(&head, r, r, r, o, lse.as_ptr(), r, dq, dk, dv, s);
        }
        assert!(results.iter().all(|&y| y == 0.0), "{results:?}");
        assert_eq!(lse, [f32::NEG_INFINITY; 3]);
    });
}

#[test]
fn ranges_of_queries_do_not_change_bits() {
    at_all_levels(|_| {
        let c = Case {
            tq: 150,
            tk: 150,
            d: 16,
            dv: 16,
            causal: true,
            masked: false,
            p: 0.1,
        };
        let (whole, cut) = (
            run(c, 0.25, 1, Lie::Dense, false).0,
            run(c, 0.25, 1, Lie::Dense, true).0,
        );
        assert_eq!(whole, cut);
    });
}

#[test]
fn huge_scores_do_not_overflow() {
    at_all_levels(|_| {
        let c = Case {
            tq: 40,
            tk: 40,
            d: 8,
            dv: 8,
            causal: true,
            masked: false,
            p: 0.0,
        };
        let (got, e) = run(c, 100.0, 2, Lie::Dense, false);
        assert!(got.iter().flatten().all(|x| x.is_finite()));
        assert!(
            worst_error(&got[0], &e.o, 1.0) < 1e-3,
            "weights of scores in the hundreds"
        );
    });
}

#[test]
fn a_half_word_equal_to_the_threshold_keeps_its_weight() {
    at_all_levels(|_| {
        // Of the weights of five queries and keys, one whose half-word is neither very small nor very large.
        let half = |i: u64| {
            let word = philox::block(KEY, 3, (FIRST + i) / 8)[((FIRST + i) % 8 / 2) as usize];
            if (FIRST + i).is_multiple_of(2) {
                word & 0xffff
            } else {
                word >> 16
            }
        };
        let threshold = (0..25).map(half).find(|h| (10_000..30_000).contains(h)).unwrap();
        let p = f64::from(threshold) / 65536.0;
        check(
            Case {
                tq: 5,
                tk: 5,
                d: 7,
                dv: 9,
                causal: false,
                masked: false,
                p,
            },
            Lie::Dense,
        );
    });
}

#[test]
fn what_is_behind_a_masked_key_may_be_anything() {
    at_all_levels(|_| {
        for hidden in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            for (tq, tk, causal, p) in [
                (1, 200, false, 0.0),
                (70, 70, true, 0.0),
                (65, 130, true, 0.25),
                (5, 9, false, 0.25),
            ] {
                let case = Case {
                    tq,
                    tk,
                    d: 7,
                    dv: 66,
                    causal,
                    masked: true,
                    p,
                };
                check_hiding(case, Lie::Dense, Some(hidden));
                check_hiding(case, Lie::Transposed, Some(hidden));
            }
        }
    });
}

#[test]
fn a_later_key_that_is_nan_does_not_reach_earlier_queries() {
    at_all_levels(|_| {
        let (t, d) = (70, 8);
        let mut random = Random::new(4);
        let (mut q, mut k) = (random.vec(t * d, 1.0), random.vec(t * d, 1.0));
        let mut v = random.vec(t * d, 1.0);
        let head = Head {
            tq: t,
            tk: t,
            d,
            dv: d,
            scale: 1.0,
            causal: true,
            mask: std::ptr::null(),
            dropout: None,
        };
        let mut scratch = vec![f32::NAN; head.forward_scratch()];
        let mut results = [vec![0.0; t * d], vec![0.0; t * d]];
        let mut lse = vec![0.0; t];
        for (pass, o) in results.iter_mut().enumerate() {
            if pass == 1 {
                k[(t - 1) * d..].fill(f32::NAN);
                v[(t - 1) * d..].fill(f32::NAN);
            }
            let [q, k, v, o] = [&mut q, &mut k, &mut v, o].map(|x| Rows::dense(x.as_mut_ptr(), d));
            // SAFETY: the blocks have the shapes of the head.
            unsafe { forward(&head, q, k, v, o, lse.as_mut_ptr(), 0..t, scratch.as_mut_ptr()) };
        }
        let [finite, poisoned] = &results;
        for i in 0..(t - 1) * d {
            assert!((finite[i] - poisoned[i]).abs() < 1e-6, "element {i}: {}", poisoned[i]);
        }
        assert!(poisoned[(t - 1) * d..].iter().all(|x| x.is_nan()));
    });
}
