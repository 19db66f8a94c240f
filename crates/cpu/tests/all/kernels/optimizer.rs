//! Optimizer kernels against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::optimizer::{AdamWArrays, AdamWConstants, GradientRows, SgdConstants, adamw, adamw_rows, sgd};

/// Error relative to the magnitude of the numbers that were added up.
fn assert_near(what: &str, got: &[f32], expected: &[f64]) {
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(g) - e).abs() <= 3e-7 * e.abs().max(1.0),
            "{what} {i}: {g}, not {e}"
        );
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

#[test]
fn adamw_follows_its_equations_for_steps() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for n in [0, 1, 63, 64, 65, 1000] {
            let k = AdamWConstants {
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.05,
            };
            let (mut p, mut m, mut v) = (random.vec(n, 1.0), vec![0.0; n], vec![0.0; n]);
            let lr = 3e-3f32;
            for t in 1..=4 {
                let mut g = random.vec(n, 2.0);
                if n > 0 {
                    g[0] = 0.0;
                }
                let (mut pe, mut me, mut ve) = (wide(&p), wide(&m), wide(&v));
                for i in 0..n {
                    let gi = f64::from(g[i]);
                    me[i] = k.beta1 * me[i] + (1.0 - k.beta1) * gi;
                    ve[i] = k.beta2 * ve[i] + (1.0 - k.beta2) * gi * gi;
                    let denominator = ve[i].sqrt() / (1.0 - k.beta2.powi(t)).sqrt() + k.eps;
                    pe[i] = pe[i] * (1.0 - f64::from(lr) * k.weight_decay)
                        - f64::from(lr) / (1.0 - k.beta1.powi(t)) * me[i] / denominator;
                }
                let new = [p.as_mut_ptr(), m.as_mut_ptr(), v.as_mut_ptr()];
                let old = new.map(|x| x.cast_const());
                if t % 2 == 0 {
                    // SAFETY: all have `n` elements; in place.
                    unsafe { adamw(n, g.as_ptr(), AdamWArrays { old, new }, lr, t as f32, k) };
                } else {
                    let (mut p2, mut m2) = (vec![7.0; n], vec![7.0; n]);
                    // SAFETY: all have `n` elements; the new second mean lies where the gradient lies.
                    unsafe {
                        let g = g.as_mut_ptr();
                        let new = [p2.as_mut_ptr(), m2.as_mut_ptr(), g];
                        adamw(n, g, AdamWArrays { old, new }, lr, t as f32, k);
                    }
                    (p, m, v) = (p2, m2, g);
                }
                assert_near("p", &p, &pe);
                assert_near("m", &m, &me);
                for (v, e) in v.iter().zip(&ve) {
                    assert!((f64::from(*v) - e).abs() <= 3e-7 * e.abs());
                }
            }
        }
    });
}

#[test]
fn sgd_with_and_without_momentum() {
    at_all_levels(|_| {
        let mut random = Random::new(2);
        for n in [1, 64, 65, 300] {
            for (momentum, nesterov, weight_decay) in [
                (0.0, false, 0.0),
                (0.0, false, 0.1),
                (0.9, false, 0.01),
                (0.9, true, 0.0),
                (0.5, true, 0.2),
            ] {
                let k = SgdConstants {
                    momentum,
                    nesterov,
                    weight_decay,
                };
                let (mut p, g, mut v) = (random.vec(n, 1.0), random.vec(n, 1.0), random.vec(n, 1.0));
                let (mut pe, mut ve) = (wide(&p), wide(&v));
                for i in 0..n {
                    let d = f64::from(g[i]) + weight_decay * pe[i];
                    ve[i] = momentum * ve[i] + d;
                    pe[i] -= f64::from(0.1f32) * if nesterov { d + momentum * ve[i] } else { ve[i] };
                }
                if momentum == 0.0 {
                    let mut p = p.clone();
                    let null = std::ptr::null_mut();
                    // SAFETY: all have `n` elements; in place, without velocity.
                    unsafe { sgd(n, p.as_ptr(), g.as_ptr(), null, p.as_mut_ptr(), null, 0.1, k) };
                    assert_near("p without velocity", &p, &pe);
                }
                // SAFETY: all have `n` elements; in place.
                unsafe {
                    sgd(
                        n,
                        p.as_ptr(),
                        g.as_ptr(),
                        v.as_ptr(),
                        p.as_mut_ptr(),
                        v.as_mut_ptr(),
                        0.1,
                        k,
                    )
                };
                assert_near("p", &p, &pe);
                assert_near("v", &v, &ve);
            }
        }
    });
}

#[test]
fn adamw_of_rows_has_the_bits_of_the_whole_table() {
    at_all_levels(|_| {
        let mut random = Random::new(3);
        let k = AdamWConstants {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.05,
        };
        for (rows, c) in [(1, 3), (70, 64), (200, 130)] {
            let n = 90;
            let [mut whole, mut by_rows] =
                [0, 1].map(|_| [vec![0.5; rows * c], vec![0.0; rows * c], vec![0.0; rows * c]]);
            for t in 1..=3 {
                let ids: Vec<i32> = (0..n).map(|_| random.below(rows.div_ceil(2)) as i32).collect();
                let g = random.vec(n * c, 1.0);
                let mut dense = vec![0.0; rows * c];
                for (i, &id) in ids.iter().enumerate().filter(|(i, id)| !ids[..*i].contains(id)) {
                    dense[id as usize * c..][..c].copy_from_slice(&g[i * c..][..c]);
                }
                let arrays = |of: &mut [Vec<f32>; 3], first: usize| {
                    let new = of.each_mut().map(|x| x[first..].as_mut_ptr());
                    let old = new.map(|x| x.cast_const());
                    AdamWArrays { old, new }
                };
                // SAFETY: the arrays have these rows, and the gradient `n`.
                unsafe {
                    adamw(rows * c, dense.as_ptr(), arrays(&mut whole, 0), 1e-2, t as f32, k);
                    let (ids, g) = (ids.as_ptr(), g.as_ptr());
                    for part in [0..rows / 3, rows / 3..rows] {
                        let arrays = arrays(&mut by_rows, part.start * c);
                        adamw_rows(part, c, GradientRows { n, ids, g }, arrays, 1e-2, t as f32, k);
                    }
                }
            }
            assert_eq!(whole, by_rows, "{rows} {c}");
        }
    });
}
