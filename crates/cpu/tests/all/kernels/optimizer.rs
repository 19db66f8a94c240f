//! Optimizer kernels against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::optimizer::{AdamWConstants, SgdConstants, adamw, sgd};

/// Error relative to the magnitude of what was added up.
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
                let (pp, mp, vp) = (p.as_mut_ptr(), m.as_mut_ptr(), v.as_mut_ptr());
                if t % 2 == 0 {
                    // SAFETY: all have `n` elements; in place.
                    unsafe { adamw(n, pp, g.as_ptr(), mp, vp, pp, mp, vp, lr, t as f32, k) };
                } else {
                    let (mut p2, mut m2) = (vec![7.0; n], vec![7.0; n]);
                    // SAFETY: all have `n` elements; the new second mean lies where the gradient lies.
                    unsafe {
                        let g = g.as_mut_ptr();
                        adamw(n, pp, g, mp, vp, p2.as_mut_ptr(), m2.as_mut_ptr(), g, lr, t as f32, k);
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
