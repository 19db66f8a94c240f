//! Derivatives of normalizations from their outputs: the error that rules declare, beside that of the derivatives from
//! the inputs, for outputs and statistics of the forward kernels.

use lessen_cpu::kernels::norms::norm;
use lessen_cpu::kernels::norms::norm_from_output::{
    Columns, layer_norm_backward_from_output, rms_norm_backward_from_output,
};
use lessen_cpu::kernels::norms::scale_shift_from_output::{scale_shift_from_output, scale_shift_sums_from_output};
use lessen_graph::{FromOutput, Op, Type, ops};

use super::support::*;

const EPS: f32 = 1e-5;

/// The rule of the derivative of a norm.
fn rule(center: bool) -> FromOutput {
    let (x, row, rows) = (Type::f32(&[2, 3]), Type::f32(&[3]), Type::f32(&[2]));
    let eps = 1e-5;
    let rule = if center {
        let inputs = [x.clone(), row, rows.clone(), rows, x];
        ops::LayerNormBackward { eps }.from_output(&inputs)
    } else {
        ops::RmsNormBackward { eps }.from_output(&[x.clone(), row, rows, x])
    };
    rule.expect("a rule of f32")
}

/// The error that the documentation promises for scales of at least this magnitude.
fn promised(center: bool, least: f32) -> f64 {
    let units = if center { 12.0 + 1.0 / f64::from(least) } else { 10.0 };
    units * f64::from(f32::EPSILON) / 2.0
}

/// A norm of rows: its operands, and its outputs by the forward kernel.
struct Norm {
    center: bool,
    n: usize,
    c: usize,
    x: Block<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    y: Block<f32>,
    mean: Vec<f32>,
    rstd: Vec<f32>,
    dy: Block<f32>,
}

/// `dx`, and the sums of columns.
type Found = (Block<f32>, Vec<f32>, Vec<f32>);

impl Norm {
    /// Scales of magnitude `least..least + wide`.
    fn new(center: bool, n: usize, c: usize, lie: Lie, (least, wide): (f32, f32)) -> Norm {
        let mut random = Random::new((n * 1000 + c) as u64);
        let gamma = (0..c).map(|_| {
            let size = least + wide * random.unit_f32().abs();
            if random.chance(50) { size } else { -size }
        });
        let gamma: Vec<f32> = gamma.collect();
        let mut of = Norm {
            center,
            n,
            c,
            x: random_block(&mut random, n, c, lie, 2.0),
            beta: random.vec(c, 1.0),
            y: random_block(&mut random, n, c, lie, 1.0),
            mean: vec![0.0; n],
            rstd: vec![0.0; n],
            dy: random_block(&mut random, n, c, lie, 1.0),
            gamma,
        };
        let (gp, bp) = (of.gamma.as_ptr(), of.beta.as_ptr());
        let (x, y, mean, rstd) = (of.x.rows(), of.y.rows(), of.mean.as_mut_ptr(), of.rstd.as_mut_ptr());
        // SAFETY: the blocks have these sizes.
        unsafe {
            if center {
                norm::layer_norm(n, c, x, gp, bp, EPS, y, mean, rstd);
            } else {
                norm::rms_norm(n, c, x, gp, EPS, y, rstd);
            }
        }
        of
    }

    /// The kernel from the output, on `dx`, or where `y` or `dy` lies.
    fn by_output(&mut self, place: Place) -> Found {
        let (mut dgamma, mut dbeta) = (vec![0.0; self.c], vec![0.0; self.c]);
        let columns = Columns {
            gamma: self.gamma.as_ptr(),
            beta: self.beta.as_ptr(),
            dgamma: dgamma.as_mut_ptr(),
            dbeta: dbeta.as_mut_ptr(),
        };
        let (mut y, mut dy, mut dx) = (self.y.clone(), self.dy.clone(), self.x.clone());
        let to = match place {
            Place::Apart => dx.rows(),
            Place::OnY => y.rows(),
            Place::OnDy => dy.rows(),
        };
        let (n, c, rstd) = (self.n, self.c, self.rstd.as_ptr());
        // SAFETY: the blocks have these sizes, and `to` lies apart or exactly on an input.
        unsafe {
            if self.center {
                layer_norm_backward_from_output(n, c, y.rows(), columns, rstd, dy.rows(), to);
            } else {
                rms_norm_backward_from_output(n, c, y.rows(), columns, rstd, dy.rows(), to);
            }
        }
        let written = match place {
            Place::Apart => dx,
            Place::OnY => y,
            Place::OnDy => dy,
        };
        (written, dgamma, dbeta)
    }

    /// The kernel from the input.
    fn by_input(&mut self) -> Found {
        let (mut dgamma, mut dbeta, mut dx) = (vec![0.0; self.c], vec![0.0; self.c], self.y.clone());
        let (n, c, gamma, rstd) = (self.n, self.c, self.gamma.as_ptr(), self.rstd.as_ptr());
        let (x, dy, to) = (self.x.rows(), self.dy.rows(), Some(dx.rows()));
        let (dg, db) = (dgamma.as_mut_ptr(), dbeta.as_mut_ptr());
        // SAFETY: as above.
        unsafe {
            if self.center {
                norm::layer_norm_backward(n, c, x, gamma, self.mean.as_ptr(), rstd, dy, to, dg, db);
            } else {
                norm::rms_norm_backward(n, c, x, gamma, rstd, dy, to, dg);
            }
        }
        (dx, dgamma, dbeta)
    }

    fn error_by_input(&mut self) -> f64 {
        let found = self.by_input();
        self.error(&found)
    }

    /// The largest error of the derivatives that a kernel has found, in the sizes that the rule is relative to.
    fn error(&self, (dx, dgamma, dbeta): &Found) -> f64 {
        let wide = |v: &[f32]| -> Vec<f64> { v.iter().map(|&v| v.into()).collect() };
        let (gamma, c) = (wide(&self.gamma), self.c);
        let (mut sums, mut sizes, mut plain) = (vec![0.0; c], vec![0.0; c], vec![0.0; c]);
        let mut worst = 0f64;
        for r in 0..self.n {
            let (mean, rstd) = (f64::from(self.mean[r]), f64::from(self.rstd[r]));
            let row = |block: &Block<f32>| -> Vec<f64> { (0..c).map(|j| block.get(r, j).into()).collect() };
            let (x, dy, dx) = (row(&self.x), row(&self.dy), row(dx));
            let h: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
            let g: Vec<f64> = (0..c).map(|j| dy[j] * gamma[j]).collect();
            let m1 = if self.center {
                g.iter().sum::<f64>() / c as f64
            } else {
                0.0
            };
            let m2 = (0..c).map(|j| g[j] * h[j]).sum::<f64>() / c as f64;
            let largest = g.iter().fold(0f64, |m, g| m.max(g.abs()));
            for j in 0..c {
                let exact = rstd * (g[j] - m1 - h[j] * m2);
                worst = worst.max((dx[j] - exact).abs() / (rstd * largest * (1.0 + h[j].abs())));
                sums[j] += dy[j] * h[j];
                sizes[j] += dy[j].abs() * (1.0 + h[j].abs());
                plain[j] += dy[j];
            }
        }
        for j in 0..c {
            worst = worst.max((f64::from(dgamma[j]) - sums[j]).abs() / sizes[j]);
            if self.center {
                worst = worst.max((f64::from(dbeta[j]) - plain[j]).abs() / sizes[j]);
            }
        }
        worst
    }
}

/// Where a kernel writes `dx`.
#[derive(Clone, Copy)]
enum Place {
    Apart,
    OnY,
    OnDy,
}

#[test]
fn norms_in_all_sizes_and_strides() {
    at_all_levels(|level| {
        for center in [true, false] {
            for (n, c) in [(1, 2), (3, 3), (5, 10), (2, 63), (4, 64), (3, 65), (2, 384), (7, 130)] {
                for lie in WRITABLE {
                    let what = format!("center {center} {n}x{c} {lie:?} {level:?}");
                    let mut of = Norm::new(center, n, c, lie, (0.5, 1.0));
                    let found = of.by_output(Place::Apart);
                    let allowed = promised(center, 0.5) + 2.0 * of.error_by_input();
                    assert!(of.error(&found) <= allowed, "{what}: {}", of.error(&found));
                    assert!(found.0.same_gaps(&of.x), "{what}");
                    for (place, original) in [(Place::OnY, of.y.clone()), (Place::OnDy, of.dy.clone())] {
                        let again = of.by_output(place);
                        assert_eq!(again.0.values(), found.0.values(), "{what} in place");
                        assert_eq!((&again.1, &again.2), (&found.1, &found.2), "{what} in place");
                        assert!(again.0.same_gaps(&original), "{what} in place");
                    }
                }
            }
        }
    });
}

#[test]
fn norms_are_within_the_error_that_is_declared() {
    for center in [true, false] {
        let rule = rule(center);
        let condition = rule.condition.expect("a condition on gamma");
        let declared = condition.least as f32;
        assert!((rule.error / promised(center, declared) - 1.0).abs() < 1e-6, "{rule:?}");
        for least in [declared, 0.1, 1.0] {
            for c in [3, 64, 384, 1024] {
                at_all_levels(|level| {
                    // All scales as small as they may be, and some of them.
                    let found = [0.0, 1.0].map(|wide| {
                        let mut of = Norm::new(center, 40, c, Lie::Dense, (least, wide));
                        let found = of.by_output(Place::Apart);
                        let (from_output, from_input) = (of.error(&found), of.error_by_input());
                        let allowed = promised(center, least) + 2.0 * from_input;
                        let what = format!("center {center} {c} {least} {wide} {level:?}");
                        assert!(from_output <= allowed, "{what}: {from_output}, allowed are {allowed}");
                        println!("{what}: {from_output:.2e} from the output, {from_input:.2e} from the input");
                        from_output
                    });
                    // The bound is not far from the error that is found.
                    assert!(
                        found[0] > promised(center, least) / 20.0,
                        "center {center} {c}: {found:?}"
                    );
                });
            }
        }
    }
}

/// Rows that are centered, scaled and shifted.
struct Scaled {
    n: usize,
    c: usize,
    x: Block<f32>,
    /// Center, scale, shift, and scale and shift of the second time.
    vectors: [Vec<f32>; 5],
    y: Block<f32>,
    dy: Block<f32>,
}

impl Scaled {
    fn new(n: usize, c: usize, padding: bool, least: f32, wide: f32) -> Scaled {
        let mut random = Random::new((n * 77 + c) as u64);
        let lie = if padding { Lie::Padded } else { Lie::Dense };
        let mut vectors = [(); 5].map(|()| random.vec(c, 1.0));
        vectors[1]
            .iter_mut()
            .for_each(|a| *a = (least + wide * a.abs()).copysign(*a));
        let x = random_block(&mut random, n, c, lie, 3.0);
        let dy = random_block(&mut random, n, c, lie, 1.0);
        let [center, scale, shift, ..] = &vectors;
        let mut y = x.clone();
        for r in 0..n {
            for j in 0..c {
                // The result of the kernel without a fused multiply-add, which has one rounding more.
                y.data[r * y.row + j] = (x.get(r, j) - center[j]) * scale[j] + shift[j];
            }
        }
        Scaled {
            n,
            c,
            x,
            vectors,
            y,
            dy,
        }
    }

    /// The largest errors of `z` and of the sums, in the sizes that the rules are relative to.
    fn errors(&mut self) -> (f64, f64) {
        let (n, c) = (self.n, self.c);
        let [_, scale, shift, by, plus] = [0, 1, 2, 3, 4].map(|i| self.vectors[i].as_ptr());
        let (mut dshift, mut dscale) = (vec![0.0f32; c], vec![0.0f32; c]);
        let (mut z, mut in_place) = (self.x.clone(), self.y.clone());
        let rows = in_place.rows();
        // SAFETY: the blocks have these sizes.
        unsafe {
            scale_shift_from_output(n, c, self.y.rows(), scale, shift, by, plus, z.rows());
            scale_shift_from_output(n, c, rows, scale, shift, by, plus, rows);
            let (ds, da) = (dshift.as_mut_ptr(), dscale.as_mut_ptr());
            scale_shift_sums_from_output(n, c, self.y.rows(), scale, shift, self.dy.rows(), ds, da);
        }
        assert_eq!(z.values(), in_place.values(), "{n}x{c} in place");
        assert!(z.same_gaps(&self.x) && in_place.same_gaps(&self.y), "{n}x{c}");
        let (mut of_z, mut of_sums) = (0f64, 0f64);
        for j in 0..c {
            let [center, _, _, by, plus] = [0, 1, 2, 3, 4].map(|i| f64::from(self.vectors[i][j]));
            let (mut sum, mut plain, mut size) = (0.0, 0.0, 0.0);
            for r in 0..n {
                let (d, dy) = (f64::from(self.x.get(r, j)) - center, f64::from(self.dy.get(r, j)));
                let error = (f64::from(z.get(r, j)) - (d * by + plus)).abs();
                of_z = of_z.max(error / (by.abs() * (1.0 + d.abs()) + plus.abs()));
                sum += dy * d;
                plain += dy;
                size += dy.abs() * (1.0 + d.abs());
            }
            let errors = [f64::from(dscale[j]) - sum, f64::from(dshift[j]) - plain];
            of_sums = errors.iter().fold(of_sums, |m, e| m.max(e.abs() / size));
        }
        (of_z, of_sums)
    }
}

#[test]
fn scale_shift_is_within_the_error_that_is_declared() {
    let (x, row) = (Type::f32(&[2, 3]), Type::f32(&[3]));
    let rules = [
        ops::ScaleShift.from_output(&[x.clone(), row.clone(), row.clone(), row.clone()]),
        ops::ScaleShiftSums.from_output(&[x.clone(), row, x]),
    ];
    let [again, sums] = rules.map(|rule| rule.expect("a rule of f32"));
    let least = again.condition.expect("a condition on the scale").least as f32;
    at_all_levels(|level| {
        for (n, c) in [(1, 1), (5, 3), (3, 10), (40, 63), (40, 200)] {
            for (padding, wide) in [(false, 0.0), (true, 0.0), (false, 1.0)] {
                let (of_z, of_sums) = Scaled::new(n, c, padding, least, wide).errors();
                let what = format!("{n}x{c} {wide} {level:?}: {of_z:.2e} and {of_sums:.2e}");
                println!("{what}");
                assert!(of_z <= again.error && of_sums <= sums.error, "{what}");
                assert!(
                    c < 63 || wide > 0.0 || of_z > again.error / 4.0,
                    "{what}: far below what is declared"
                );
            }
        }
    });
}
