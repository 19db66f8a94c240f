//! Normalization of logits against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::norms::norm_logits;
use lessen_graph::ops::temperature::{Clip, LEAST_TEMPERATURE, Temperature};

fn temperature(centered: bool, clip: Clip, tau: f64) -> Temperature {
    Temperature {
        centered,
        clip,
        tau,
        learned: false,
    }
}

/// The temperature, whether it follows the row, the results and the derivative of one row in a float type.
macro_rules! reference {
    ($name:ident, $t:ty) => {
        fn $name(how: Temperature, x: &[f32], dy: &[f32]) -> ($t, bool, Vec<$t>, Vec<$t>) {
            let x: Vec<$t> = x.iter().map(|&x| x.into()).collect();
            let dy: Vec<$t> = dy.iter().map(|&x| x.into()).collect();
            let n = x.len() as $t;
            let center = |x: &[$t]| {
                if how.centered {
                    x.iter().sum::<$t>() / n
                } else {
                    0.0
                }
            };
            let (mean, mean_dy) = (center(&x), center(&dy));
            let sigma = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<$t>() / n).sqrt();
            let (clipped, free) = match how.clip {
                Clip::AtMost(gamma) => (sigma.min(gamma as $t), sigma < gamma as $t),
                Clip::AtLeast(floor) => (sigma.max(floor as $t), sigma > floor as $t),
            };
            let free = free && clipped > LEAST_TEMPERATURE as $t;
            let t = how.tau as $t * clipped.max(LEAST_TEMPERATURE as $t);
            let y: Vec<$t> = x.iter().map(|x| (x - mean) / t).collect();
            let s = if free { (how.tau * how.tau) as $t / n } else { 0.0 };
            let along = s * y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<$t>();
            let dx = y
                .iter()
                .zip(&dy)
                .map(|(y, dy)| (dy - mean_dy - along * y) / t)
                .collect();
            (t, free, y, dx)
        }
    };
}
reference!(exact, f64);
reference!(plain, f32);

#[test]
fn logits_in_all_sizes_and_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(8);
        let kinds = [
            temperature(true, Clip::AtMost(1.0), 1.0),
            temperature(true, Clip::AtMost(f64::INFINITY), 0.7),
            temperature(true, Clip::AtLeast(2.0), 1.0),
            temperature(false, Clip::AtMost(f64::INFINITY), 2.0),
        ];
        for (n, c) in [(1, 1), (3, 2), (5, 10), (2, 63), (4, 64), (3, 65), (2, 1000)] {
            for lie in WRITABLE {
                for (scale, offset) in [(1.0, 0.0), (10.0, 3.0), (1e4, -1e4)] {
                    for how in kinds {
                        let what = format!("{how:?} {n}x{c} {lie:?} {scale} {offset}");
                        let mut x = Block::new(n, c, lie, || random.unit_f32() * scale + offset);
                        let mut dy = random_block(&mut random, n, c, lie, 1.0);
                        let (mut y, mut dx) = (x.clone(), dy.clone());
                        let (mut t, mut s) = (vec![9.0; n], vec![9.0; n]);
                        let slope = (how.tau * how.tau / c as f64) as f32;
                        // SAFETY, of all: the blocks have these sizes; results lie apart or exactly on an input.
                        unsafe {
                            let (t, s) = (t.as_mut_ptr(), s.as_mut_ptr());
                            norm_logits::norm_logits(how, slope, n, c, y.rows(), y.rows(), t, s);
                            let (rows, on) = (y.rows(), dx.rows());
                            norm_logits::norm_logits_backward(how.centered, n, c, rows, t, s, on, on);
                        }
                        let (mut e, mut p) = ([vec![], vec![], vec![]], [vec![], vec![], vec![]]);
                        let mut largest = 1f64;
                        for (r, (row, dy)) in x.values().chunks(c).zip(dy.values().chunks(c)).enumerate() {
                            let (exact, plain) = (exact(how, row, dy), plain(how, row, dy));
                            assert_eq!(s[r], if exact.1 { slope } else { 0.0 }, "{what}");
                            largest = largest.max(1.0 / exact.0);
                            e[0].push(exact.0);
                            p[0].push(plain.0);
                            e[1].extend(exact.2);
                            p[1].extend(plain.2);
                            e[2].extend(exact.3);
                            p[2].extend(plain.3);
                        }
                        assert_close(&format!("t {what}"), &t, &p[0], &e[0], 1e-30);
                        let size = f64::from(offset.abs() + scale) * largest;
                        assert_close(&format!("y {what}"), &y.values(), &p[1], &e[1], size);
                        assert_close(&format!("dx {what}"), &dx.values(), &p[2], &e[2], largest);
                        assert!(y.same_gaps(&x) && dx.same_gaps(&dy), "{what}");
                        let (mut apart, mut also_on_y) = (x.clone(), y.clone());
                        // SAFETY: as above.
                        unsafe {
                            let (t, s) = (t.as_mut_ptr(), s.as_mut_ptr());
                            norm_logits::norm_logits(how, slope, n, c, x.rows(), apart.rows(), t, s);
                            let (on, dy) = (also_on_y.rows(), dy.rows());
                            norm_logits::norm_logits_backward(how.centered, n, c, on, t, s, dy, on);
                        }
                        assert_eq!(
                            (apart.values(), also_on_y.values()),
                            (y.values(), dx.values()),
                            "{what}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn a_nan_is_seen_in_the_whole_row() {
    at_all_levels(|_| {
        let mut x = vec![0.5; 2 * 70];
        x[3] = f32::NAN;
        let (mut t, mut s) = ([0.0; 2], [0.0; 2]);
        let rows = Rows::dense(x.as_mut_ptr(), 70);
        let how = Temperature::default();
        // SAFETY: two rows in place.
        unsafe { norm_logits::norm_logits(how, 0.1, 2, 70, rows, rows, t.as_mut_ptr(), s.as_mut_ptr()) };
        assert!(t[0].is_nan() && x[..70].iter().all(|y| y.is_nan()));
        // A row of equal logits has the least temperature.
        assert_eq!((t[1], s[1]), (LEAST_TEMPERATURE as f32, 0.0));
        assert!(x[70..].iter().all(|&y| y == 0.0));
    });
}
