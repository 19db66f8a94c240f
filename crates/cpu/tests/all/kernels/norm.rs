//! Normalization kernels against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::norms::norm;

const EPS: f32 = 1e-5;

/// Forward and backward of one block in a float type: y, mean, rstd, dx, dgamma, dbeta.
macro_rules! reference {
    ($name:ident, $t:ty) => {
        #[allow(clippy::type_complexity)]
        fn $name(center: bool, c: usize, x: &[f32], gamma: &[f32], beta: &[f32], dy: &[f32]) -> [Vec<$t>; 6] {
            let mut out: [Vec<$t>; 6] = Default::default();
            (out[4], out[5]) = (vec![0.0; c], vec![0.0; c]);
            for (x, dy) in x.chunks(c).zip(dy.chunks(c)) {
                let x: Vec<$t> = x.iter().map(|&x| x.into()).collect();
                let dy: Vec<$t> = dy.iter().map(|&x| x.into()).collect();
                let size = c as $t;
                let mean = if center { x.iter().sum::<$t>() / size } else { 0.0 };
                let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<$t>() / size;
                let rstd = 1.0 / (variance + <$t>::from(EPS)).sqrt();
                let xhat: Vec<$t> = x.iter().map(|x| (x - mean) * rstd).collect();
                let g: Vec<$t> = (0..c).map(|j| dy[j] * <$t>::from(gamma[j])).collect();
                let m1 = if center { g.iter().sum::<$t>() / size } else { 0.0 };
                let m2 = (0..c).map(|j| g[j] * xhat[j]).sum::<$t>() / size;
                for j in 0..c {
                    let shift = if center { <$t>::from(beta[j]) } else { 0.0 };
                    out[0].push(xhat[j] * <$t>::from(gamma[j]) + shift);
                    out[3].push(rstd * (g[j] - m1 - xhat[j] * m2));
                    out[4][j] += dy[j] * xhat[j];
                    out[5][j] += dy[j];
                }
                out[1].push(mean);
                out[2].push(rstd);
            }
            out
        }
    };
}
reference!(exact, f64);
reference!(plain, f32);

fn check(center: bool, n: usize, c: usize, lie: Lie, scale: f32, offset: f32) {
    let mut random = Random::new((n * 1000 + c) as u64);
    let mut x = Block::new(n, c, lie, || random.unit_f32() * scale + offset);
    let (gamma, beta) = (random.vec(c, 2.0), random.vec(c, 1.0));
    let mut dy = random_block(&mut random, n, c, lie, 1.0);
    let mut y = random_block(&mut random, n, c, lie, 1.0);
    let (mut mean, mut rstd, mut dgamma, mut dbeta) = (vec![0.0; n], vec![9.0; n], vec![0.0; c], vec![0.0; c]);
    let (e, p) = (
        exact(center, c, &x.values(), &gamma, &beta, &dy.values()),
        plain(center, c, &x.values(), &gamma, &beta, &dy.values()),
    );
    let before = y.clone();
    let (mean_ptr, rstd_ptr) = (mean.as_mut_ptr(), rstd.as_mut_ptr());
    let (dgamma_ptr, dbeta_ptr) = (dgamma.as_mut_ptr(), dbeta.as_mut_ptr());
    let (gp, bp) = (gamma.as_ptr(), beta.as_ptr());
    let what = format!("center {center} {n}x{c} {lie:?} {scale} {offset}");
    // SAFETY, of all calls: the blocks have these sizes, and the written memory lies apart or exactly on an input.
    unsafe {
        if center {
            norm::layer_norm(n, c, x.rows(), gp, bp, EPS, y.rows(), mean_ptr, rstd_ptr);
        } else {
            norm::rms_norm(n, c, x.rows(), gp, EPS, y.rows(), rstd_ptr);
        }
    }
    assert!(y.same_gaps(&before), "{what}");
    assert_close(&format!("y {what}"), &y.values(), &p[0], &e[0], 1.0);
    assert_close(&format!("mean {what}"), &mean, &p[1], &e[1], f64::from(scale));
    assert_close(&format!("rstd {what}"), &rstd, &p[2], &e[2], 1e-30);
    let mut in_place = x.clone();
    let mut dx = before.clone();
    let (mut dx_on_dy, mut dx_on_x) = (dy.clone(), x.clone());
    // SAFETY: as above.
    unsafe {
        let rows = in_place.rows();
        let backward = |x, dy, dx| {
            if center {
                norm::layer_norm_backward(n, c, x, gp, mean_ptr, rstd_ptr, dy, dx, dgamma_ptr, dbeta_ptr);
            } else {
                norm::rms_norm_backward(n, c, x, gp, rstd_ptr, dy, dx, dgamma_ptr);
            }
        };
        backward(x.rows(), dy.rows(), Some(dx.rows()));
        let sums = (dgamma.clone(), dbeta.clone());
        backward(x.rows(), dx_on_dy.rows(), Some(dx_on_dy.rows()));
        backward(dx_on_x.rows(), dy.rows(), Some(dx_on_x.rows()));
        backward(x.rows(), dy.rows(), None);
        assert!(
            dgamma
                .iter()
                .zip(&sums.0)
                .all(|(a, b)| (a - 4.0 * b).abs() <= 1e-5 * (1.0 + b.abs())),
            "{what}"
        );
        (dgamma, dbeta) = sums;
        if center {
            norm::layer_norm(n, c, rows, gp, bp, EPS, rows, mean_ptr, rstd_ptr);
        } else {
            norm::rms_norm(n, c, rows, gp, EPS, rows, rstd_ptr);
        }
    }
    assert_eq!(in_place.values(), y.values(), "in place {what}");
    assert_eq!(dx_on_dy.values(), dx.values(), "dx on dy {what}");
    assert_eq!(dx_on_x.values(), dx.values(), "dx on x {what}");
    assert!(dx.same_gaps(&before));
    // A derivative is as exact as its terms, which are as large as rstd.
    let floor = e[2].iter().fold(0f64, |a, b| a.max(*b));
    assert_close(&format!("dx {what}"), &dx.values(), &p[3], &e[3], floor);
    assert_close(&format!("dgamma {what}"), &dgamma, &p[4], &e[4], n as f64);
    if center {
        assert_close(&format!("dbeta {what}"), &dbeta, &p[5], &e[5], n as f64);
    }
}

#[test]
fn norms_in_all_sizes_and_strides() {
    at_all_levels(|_| {
        for (n, c) in [(1, 1), (3, 2), (5, 10), (2, 63), (4, 64), (3, 65), (2, 384), (7, 130)] {
            for lie in WRITABLE {
                for center in [true, false] {
                    check(center, n, c, lie, 2.0, 0.3);
                }
            }
        }
    });
}

#[test]
fn a_large_mean_costs_no_digits() {
    at_all_levels(|_| check(true, 3, 500, Lie::Dense, 1.0, 1000.0));
}

#[test]
fn constant_rows_and_nan() {
    at_all_levels(|_| {
        let (gamma, beta) = (vec![2.0; 70], vec![0.5; 70]);
        let mut x = Block::new(3, 70, Lie::Dense, || 4.0f32);
        x.data[70] = f32::NAN;
        x.data[140] = 5.0;
        let (mut mean, mut rstd) = ([0.0; 3], [0.0; 3]);
        let rows = x.rows();
        // SAFETY: three rows in place.
        unsafe {
            let (g, b) = (gamma.as_ptr(), beta.as_ptr());
            norm::layer_norm(3, 70, rows, g, b, EPS, rows, mean.as_mut_ptr(), rstd.as_mut_ptr());
        }
        assert!(x.data[..70].iter().all(|&y| y == 0.5), "a constant row gives beta");
        assert!(
            x.data[70..140].iter().all(|y| y.is_nan()),
            "NaN in a row is seen in all of it"
        );
        assert!(x.data[140..].iter().all(|y| y.is_finite()), "and in no other");
    });
}
