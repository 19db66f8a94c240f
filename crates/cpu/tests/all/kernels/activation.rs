//! Activation kernels against plain `f64`.

use super::support::*;
use lessen_cpu::kernels::Rows;
use lessen_cpu::kernels::elementwise::activation;
use lessen_graph::ops::UnaryKind;

fn erf(x: f64) -> f64 {
    UnaryKind::Erf.eval(x)
}

fn gelu(tanh: bool, x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    if tanh {
        0.5 * x * (1.0 + inner.tanh())
    } else {
        0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
    }
}

fn gelu_slope(tanh: bool, x: f64) -> f64 {
    if tanh {
        let k = (2.0 / std::f64::consts::PI).sqrt();
        let t = (k * (x + 0.044715 * x * x * x)).tanh();
        0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * k * (1.0 + 3.0 * 0.044715 * x * x)
    } else {
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2)) + x * density
    }
}

/// `|error| <= units eps max(1, |y|)` for all.
fn assert_within(what: &str, x: &[f32], got: &[f32], expected: impl Fn(f64) -> f64, units: f64) {
    for (&x, &y) in x.iter().zip(got) {
        let e = expected(f64::from(x));
        let allowed = units * f64::from(f32::EPSILON) * e.abs().max(1.0);
        assert!((f64::from(y) - e).abs() <= allowed, "{what}({x}) = {y}, not {e}");
    }
}

fn points() -> Vec<f32> {
    let mut random = Random::new(5);
    let mut x: Vec<f32> = (0..200_000)
        .map(|i| -15.0 + i as f32 * 1.5e-4 + random.unit_f32() * 1e-4)
        .collect();
    x.extend((0..1000).map(|_| random.unit_f32() * 1e-3));
    x.extend([0.0, -0.0, 1e-40, -1e-40, 1e20, -1e20, 3e38, -3e38, 100.0, -100.0]);
    x
}

#[test]
fn gelu_and_its_derivative_are_accurate() {
    at_all_levels(|_| {
        for tanh in [false, true] {
            let x = points();
            let c = x.len();
            let (mut y, mut dx, mut one) = (x.clone(), x.clone(), 1.0);
            let (yr, dr) = (Rows::dense(y.as_mut_ptr(), c), Rows::dense(dx.as_mut_ptr(), c));
            // SAFETY: one row each, in place.
            unsafe {
                activation::gelu(tanh, 1, c, yr, yr);
                activation::gelu_backward(tanh, 1, c, dr, Rows::scalar(&mut one), dr);
            }
            assert_within("gelu", &x, &y, |x| gelu(tanh, x), 2.0);
            assert_within("gelu'", &x[..c - 4], &dx, |x| gelu_slope(tanh, x), 4.0);
            let beyond = |x: f32| if x > 0.0 { 1.0 } else { 0.0 };
            assert!(
                (c - 6..c).all(|i| (dx[i] - beyond(x[i])).abs() < 1e-30),
                "{:?}",
                &dx[c - 6..]
            );
        }
    });
}

#[test]
fn others_are_accurate() {
    at_all_levels(|_| {
        let x = points();
        let c = x.len();
        let run = |f: &dyn Fn(Rows<f32>)| {
            let mut y = x.clone();
            f(Rows::dense(y.as_mut_ptr(), c));
            y
        };
        // SAFETY: one row in place.
        let y = run(&|r| unsafe { activation::relu(1, c, r, r) });
        assert_within("relu", &x, &y, |x| x.max(0.0), 0.0);
        // SAFETY: as above.
        let y = run(&|r| unsafe { activation::leaky_relu(0.25, 1, c, r, r) });
        let leaky = |x: f64| if x > 0.0 { x } else { f64::from(0.25 * x as f32) };
        assert_within("leaky relu", &x, &y, leaky, 0.0);
        // SAFETY: as above.
        let y = run(&|r| unsafe { activation::silu(1, c, r, r) });
        assert_within("silu", &x, &y, |x| x / (1.0 + (-x).exp()), 2.0);
        // SAFETY: as above.
        let y = run(&|r| unsafe { activation::elu(1.5, 1, c, r, r) });
        let elu = |x: f64| if x > 0.0 { x } else { 1.5 * x.exp_m1() };
        assert_within("elu", &x, &y, elu, 2.0);
        // Near zero the relative error counts, too.
        for (&x, &y) in x.iter().zip(&y).filter(|(x, _)| x.abs() < 0.1 && x.abs() > 1e-30) {
            assert!((f64::from(y) / elu(x.into()) - 1.0).abs() < 3e-7, "elu({x}) = {y}");
        }
    });
}

#[test]
fn the_derivative_of_silu_is_accurate() {
    at_all_levels(|_| {
        let mut x = points();
        x.extend([f32::INFINITY, f32::NEG_INFINITY]);
        let c = x.len();
        let (mut dx, mut one) = (x.clone(), 1.0);
        let rows = Rows::dense(dx.as_mut_ptr(), c);
        // SAFETY: one row in place.
        unsafe { activation::silu_backward(1, c, rows, Rows::scalar(&mut one), rows) };
        let slope = |x: f64| {
            let s = 1.0 / (1.0 + (-x).exp());
            if x.abs() > 200.0 { s } else { s * (1.0 + x * (1.0 - s)) }
        };
        assert_within("silu'", &x, &dx, slope, 4.0);
        let mut nan = f32::NAN;
        let row = Rows::scalar(&mut nan);
        // SAFETY: one element in place.
        unsafe { activation::silu_backward(1, 1, row, Rows::scalar(&mut one), row) };
        assert!(nan.is_nan());
    });
}

#[test]
fn nan_stays_and_infinity_is_met() {
    at_all_levels(|_| {
        type Case<'a> = (&'a str, &'a dyn Fn(Rows<f32>), [f32; 2]);
        let cases: [Case; 5] = [
            // SAFETY, of all: one row of three elements in place.
            (
                "relu",
                &|r| unsafe { activation::relu(1, 3, r, r) },
                [f32::INFINITY, 0.0],
            ),
            // SAFETY: as above.
            (
                "leaky relu",
                &|r| unsafe { activation::leaky_relu(0.1, 1, 3, r, r) },
                [f32::INFINITY, f32::NEG_INFINITY],
            ),
            // SAFETY: as above.
            (
                "elu",
                &|r| unsafe { activation::elu(2.0, 1, 3, r, r) },
                [f32::INFINITY, -2.0],
            ),
            // SAFETY: as above.
            (
                "gelu",
                &|r| unsafe { activation::gelu(false, 1, 3, r, r) },
                [f32::INFINITY, f32::NAN],
            ),
            // SAFETY: as above.
            (
                "tanh gelu",
                &|r| unsafe { activation::gelu(true, 1, 3, r, r) },
                [f32::INFINITY, f32::NAN],
            ),
        ];
        for (name, f, expected) in cases {
            let mut x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
            f(Rows::dense(x.as_mut_ptr(), 3));
            assert!(x[0].is_nan(), "{name}");
            assert_eq!(x[1], expected[0], "{name}");
            assert!(
                x[2] == expected[1] || (x[2].is_nan() && expected[1].is_nan()),
                "{name}: {}",
                x[2]
            );
        }
    });
}
