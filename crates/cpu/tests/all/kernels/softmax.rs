//! Softmax and cross entropy against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::norms::cross_entropy::{cross_entropy, cross_entropy_backward};
use lessen_cpu::kernels::norms::softmax;

fn lse(x: &[f64]) -> f64 {
    let m = x.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    m + x.iter().map(|x| (x - m).exp()).sum::<f64>().ln()
}

fn lse_plain(x: &[f32]) -> f32 {
    let m = x.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    m + x.iter().map(|x| (x - m).exp()).sum::<f32>().ln()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

#[test]
fn softmax_and_log_softmax_in_all_strides() {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for (n, c) in SIZES {
            for lie in WRITABLE {
                for scale in [1.0, 30.0, 1000.0] {
                    let mut x = random_block(&mut random, n, c, lie, scale);
                    let mut dy = random_block(&mut random, n, c, lie, 1.0);
                    let (mut y, mut log_y) = (x.clone(), x.clone());
                    // SAFETY, of all: the blocks have these sizes; results lie apart or exactly on an input.
                    unsafe {
                        let rows = y.rows();
                        softmax::softmax(n, c, rows, rows);
                        softmax::log_softmax(n, c, x.rows(), log_y.rows());
                    }
                    let (mut e, mut p, mut le, mut lp) = (vec![], vec![], vec![], vec![]);
                    for row in x.values().chunks(c) {
                        let (l, lf) = (lse(&wide(row)), lse_plain(row));
                        let m = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                        let total: f32 = row.iter().map(|x| (x - m).exp()).sum();
                        e.extend(row.iter().map(|&x| (f64::from(x) - l).exp()));
                        p.extend(row.iter().map(|x| (x - m).exp() / total));
                        le.extend(row.iter().map(|&x| f64::from(x) - l));
                        lp.extend(row.iter().map(|x| x - lf));
                    }
                    let what = format!("{n}x{c} {lie:?} {scale}");
                    assert_close(&format!("softmax {what}"), &y.values(), &p, &e, 1e-37);
                    assert_close(&format!("log-softmax {what}"), &log_y.values(), &lp, &le, 1.0);
                    assert!(y.same_gaps(&x), "{what}");
                    let (mut de, mut dp) = (vec![], vec![]);
                    for (y, dy) in y.values().chunks(c).zip(dy.values().chunks(c)) {
                        let dot: f64 = y.iter().zip(dy).map(|(&y, &dy)| f64::from(y) * f64::from(dy)).sum();
                        let dot_plain: f32 = y.iter().zip(dy).map(|(y, dy)| y * dy).sum();
                        de.extend(y.iter().zip(dy).map(|(&y, &dy)| f64::from(y) * (f64::from(dy) - dot)));
                        dp.extend(y.iter().zip(dy).map(|(y, dy)| y * (dy - dot_plain)));
                    }
                    // SAFETY: as above.
                    unsafe {
                        let rows = dy.rows();
                        softmax::softmax_backward(n, c, y.rows(), rows, rows);
                    }
                    assert_close(&format!("softmax' {what}"), &dy.values(), &dp, &de, 1.0);
                }
            }
        }
    });
}

#[test]
fn rows_of_special_values() {
    at_all_levels(|_| {
        const INF: f32 = f32::INFINITY;
        let mut x = vec![-INF; 5 * 70];
        x[70] = 1.0;
        x[71] = 1.0;
        x[140..210].fill(f32::MAX);
        x[210..280].fill(0.0);
        x[220] = f32::NAN;
        x[280..].fill(-3e38);
        let rows = Rows::dense(x.as_mut_ptr(), 70);
        // SAFETY: five rows in place.
        unsafe { softmax::softmax(5, 70, rows, rows) };
        assert!(x[..70].iter().all(|&y| y == 0.0), "a row of -inf gives zeros");
        assert_eq!(x[70..73], [0.5, 0.5, 0.0]);
        assert!(x[140..210].iter().all(|y| (y - 1.0 / 70.0).abs() < 1e-8), "no overflow");
        assert!(x[210..280].iter().all(|y| y.is_nan()), "NaN is seen in the whole row");
        assert!(x[280..].iter().all(|y| (y - 1.0 / 70.0).abs() < 1e-8), "no underflow");
    });
}

#[test]
fn cross_entropy_and_its_derivative() {
    at_all_levels(|_| {
        let mut random = Random::new(2);
        for (n, c) in [(1, 1), (7, 2), (5, 10), (3, 64), (4, 65), (3, 1000)] {
            for lie in WRITABLE {
                for smoothing in [0.0f32, 0.1] {
                    let mut z = random_block(&mut random, n, c, lie, 8.0);
                    let mut labels: Vec<i32> = (0..n).map(|_| random.below(c) as i32).collect();
                    labels[n / 2] = -100;
                    let (mut loss, mut lses) = (vec![9.0; n], vec![9.0; n]);
                    let mut dloss = random_block(&mut random, n, 1, Lie::Spread, 1.0);
                    let mut dz = random_block(&mut random, n, c, lie, 1.0);
                    let before = dz.clone();
                    let mut in_place = z.clone();
                    let lp = labels.as_ptr();
                    // SAFETY, of all: the blocks have these sizes; results lie apart or exactly on an input.
                    unsafe {
                        let (loss, lse) = (loss.as_mut_ptr(), lses.as_mut_ptr());
                        cross_entropy(n, c, z.rows(), lp, -100, smoothing, loss, lse);
                        let d = dloss.rows();
                        cross_entropy_backward(n, c, z.rows(), lse, lp, d, -100, smoothing, dz.rows());
                        let rows = in_place.rows();
                        cross_entropy_backward(n, c, rows, lse, lp, d, -100, smoothing, rows);
                    }
                    assert!(dz.same_gaps(&before));
                    assert_eq!(in_place.values(), dz.values(), "in place");
                    let s = f64::from(smoothing);
                    let (mut e, mut p, mut de) = (vec![], vec![], vec![]);
                    for (r, row) in z.values().chunks(c).enumerate() {
                        let (l, lf, w) = (lse(&wide(row)), lse_plain(row), wide(row));
                        assert!((f64::from(lses[r]) - l).abs() < 2e-7 * (l.abs() + 8.0));
                        if labels[r] == -100 {
                            e.push(0.0);
                            p.push(0.0);
                            de.extend(vec![0.0; c]);
                            continue;
                        }
                        let label = labels[r] as usize;
                        let mean: f64 = w.iter().sum::<f64>() / c as f64;
                        e.push((1.0 - s) * (l - w[label]) + s * (l - mean));
                        let mean: f32 = row.iter().sum::<f32>() / c as f32;
                        p.push((1.0 - smoothing) * (lf - row[label]) + smoothing * (lf - mean));
                        for (j, z) in w.iter().enumerate() {
                            let target = if j == label {
                                1.0 - s + s / c as f64
                            } else {
                                s / c as f64
                            };
                            de.push(f64::from(dloss.get(r, 0)) * ((z - l).exp() - target));
                        }
                    }
                    let what = format!("{n}x{c} {lie:?} {smoothing}");
                    assert_close(&format!("loss {what}"), &loss, &p, &e, 8.0);
                    assert!(worst_error(&dz.values(), &de, 1.0) < 3e-6, "derivative {what}");
                }
            }
        }
    });
}

#[test]
fn a_label_that_is_no_class_gives_nan() {
    at_all_levels(|_| {
        let mut z = vec![0.5; 3 * 4];
        let labels = [4, -1, 2];
        let (mut loss, mut lse, mut one) = ([0.0; 3], [0.0; 3], 1.0);
        let rows = Rows::dense(z.as_mut_ptr(), 4);
        // SAFETY: three rows of four, in place.
        unsafe {
            let l = labels.as_ptr();
            cross_entropy(3, 4, rows, l, -100, 0.0, loss.as_mut_ptr(), lse.as_mut_ptr());
            cross_entropy_backward(3, 4, rows, lse.as_ptr(), l, Rows::scalar(&mut one), -100, 0.0, rows);
        }
        assert!(loss[0].is_nan() && loss[1].is_nan());
        assert!((loss[2] - 4f32.ln()).abs() < 2e-7);
        assert!(z[..8].iter().all(|z| z.is_nan()) && z[8..].iter().all(|z| z.is_finite()));
    });
}
