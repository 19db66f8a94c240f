//! Kernels of compressed normalization against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::norms::compressed_norm;

const EPS: f32 = 1e-5;

/// Forward and backward of one block in a float type: y, rstd, dx, dgamma.
macro_rules! reference {
    ($name:ident, $t:ty) => {
        fn $name(c: usize, x: &[f32], gamma: &[f32], dy: &[f32]) -> [Vec<$t>; 4] {
            let mut out: [Vec<$t>; 4] = Default::default();
            out[3] = vec![0.0; c];
            let size = (c + 1) as $t;
            for (x, dy) in x.chunks(c).zip(dy.chunks(c)) {
                let x: Vec<$t> = x.iter().map(|&x| x.into()).collect();
                let g: Vec<$t> = (0..c).map(|j| <$t>::from(dy[j]) * <$t>::from(gamma[j])).collect();
                let sum = x.iter().sum::<$t>();
                let squares = x.iter().map(|x| x * x).sum::<$t>() + sum * sum;
                let rstd = 1.0 / (squares / size + <$t>::from(EPS)).sqrt();
                let factor = rstd * rstd * (0..c).map(|j| g[j] * x[j]).sum::<$t>() / size;
                for j in 0..c {
                    out[0].push(x[j] * rstd * <$t>::from(gamma[j]));
                    out[2].push(rstd * (g[j] - (x[j] + sum) * factor));
                    out[3][j] += <$t>::from(dy[j]) * x[j] * rstd;
                }
                out[1].push(rstd);
            }
            out
        }
    };
}
reference!(exact, f64);
reference!(plain, f32);

fn check(n: usize, c: usize, lie: Lie) {
    let mut random = Random::new((n * 1000 + c) as u64);
    let mut x = random_block(&mut random, n, c, lie, 2.0);
    let gamma = random.vec(c, 2.0);
    let mut dy = random_block(&mut random, n, c, lie, 1.0);
    let mut y = random_block(&mut random, n, c, lie, 1.0);
    let (mut rstd, mut dgamma) = (vec![9.0; n], vec![0.0; c]);
    let e = exact(c, &x.values(), &gamma, &dy.values());
    let p = plain(c, &x.values(), &gamma, &dy.values());
    let before = y.clone();
    let what = format!("{n}x{c} {lie:?}");
    let mut in_place = x.clone();
    let mut dx = before.clone();
    let (mut dx_on_dy, mut dx_on_x) = (dy.clone(), x.clone());
    let (gp, rstd_ptr, dgamma_ptr) = (gamma.as_ptr(), rstd.as_mut_ptr(), dgamma.as_mut_ptr());
    // SAFETY, of all calls: the blocks have these sizes, and the written memory lies apart or exactly on an input.
    let sums = unsafe {
        compressed_norm::crms_norm(n, c, x.rows(), gp, EPS, y.rows(), rstd_ptr);
        let rows = in_place.rows();
        compressed_norm::crms_norm(n, c, rows, gp, EPS, rows, rstd_ptr);
        let backward = |x, dy, dx| compressed_norm::crms_norm_backward(n, c, x, gp, rstd_ptr, dy, dx, dgamma_ptr);
        backward(x.rows(), dy.rows(), dx.rows());
        let sums = dgamma.clone();
        backward(x.rows(), dx_on_dy.rows(), dx_on_dy.rows());
        backward(dx_on_x.rows(), dy.rows(), dx_on_x.rows());
        sums
    };
    assert!(y.same_gaps(&before) && dx.same_gaps(&before), "{what}");
    assert_eq!(in_place.values(), y.values(), "in place {what}");
    assert_eq!(dx_on_dy.values(), dx.values(), "dx on dy {what}");
    assert_eq!(dx_on_x.values(), dx.values(), "dx on x {what}");
    let is_added = |(a, b): (&f32, &f32)| (a - 3.0 * b).abs() <= 1e-5 * (1.0 + b.abs());
    assert!(dgamma.iter().zip(&sums).all(is_added), "{what}");
    let floor = e[1].iter().fold(0f64, |a, b| a.max(*b));
    assert_close(&format!("y {what}"), &y.values(), &p[0], &e[0], 1.0);
    assert_close(&format!("rstd {what}"), &rstd, &p[1], &e[1], 1e-30);
    assert_close(&format!("dx {what}"), &dx.values(), &p[2], &e[2], floor);
    assert_close(&format!("dgamma {what}"), &sums, &p[3], &e[3], n as f64);
}

#[test]
fn compressed_norms_in_all_sizes_and_strides() {
    at_all_levels(|_| {
        for (n, c) in [(1, 1), (3, 2), (5, 10), (2, 63), (4, 64), (3, 65), (2, 383), (7, 130)] {
            WRITABLE.into_iter().for_each(|lie| check(n, c, lie));
        }
    });
}
