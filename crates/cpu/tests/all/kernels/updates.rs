//! Updates of one element after another, and AdamW with 8-bit moments, against `f64`.

use std::array::from_fn;

use super::support::*;
use lessen_cpu::kernels::optimizer::*;
use lessen_graph::ops::block_codes::{BLOCK, Codebook, blocks};
use lessen_graph::{Array, DType, Type, evaluate_op, ops};

/// A learning rate that an `f32` holds.
const LR: f64 = 0.003_417_968_75;
const ADAM: ops::Adam = ops::Adam {
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.05,
};
const ADAGRAD: ops::Adagrad = ops::Adagrad {
    lr_decay: 0.1,
    initial: 0.1,
    eps: 1e-10,
    weight_decay: 0.05,
};
const ADADELTA: ops::Adadelta = ops::Adadelta {
    rho: 0.9,
    eps: 1e-6,
    weight_decay: 0.05,
};
const RMSPROP: ops::RmsProp = ops::RmsProp {
    alpha: 0.99,
    eps: 1e-8,
    momentum: 0.0,
    weight_decay: 0.05,
};
const LION: ops::Lion = ops::Lion {
    beta1: 0.9,
    beta2: 0.99,
    weight_decay: 0.05,
};

/// An update written down in a float type: gradient, parameter, two moments and two scalars of the step give the new
/// parameter and moments.
type Formula<T> = fn(T, T, T, T, T, T) -> [T; 3];

/// The same formula in `f32` and in `f64`.
macro_rules! formula {
    (|$($x:ident),*| $body:expr) => {
        (
            (|$($x: f32),*| $body) as Formula<f32>,
            (|$($x: f64),*| $body) as Formula<f64>,
        )
    };
}

/// Runs four steps of a kernel in several sizes and places, and compares it with the formula, which is given the
/// scalars of step `t`.
fn follows_its_formula<const M: usize>(
    name: &str,
    (plain, exact): (Formula<f32>, Formula<f64>),
    scalars: fn(f64) -> [f64; 2],
    kernel: impl Fn(Operands<M>, f32),
) {
    at_all_levels(|_| {
        let mut random = Random::new(1);
        for n in [0, 1, 63, 64, 65, 1000] {
            let mut p = random.vec(n, 1.0);
            let mut moments = vec![vec![0.0; n]; M];
            for t in 1..=4 {
                let mut g = random.vec(n, 2.0);
                if let Some(first) = g.first_mut() {
                    *first = 0.0;
                }
                let [a, b] = scalars(f64::from(t));
                let of = |i: usize| {
                    let moment = |k: usize| moments.get(k).map_or(0.0, |m| m[i]);
                    [g[i], p[i], moment(0), moment(1)]
                };
                let plain = (0..n).map(of).map(|[g, p, m, v]| plain(g, p, m, v, a as f32, b as f32));
                let wide = (0..n).map(|i| of(i).map(f64::from));
                let exact = wide.map(|[g, p, m, v]| exact(g, p, m, v, a, b));
                let (plain, exact): (Vec<[f32; 3]>, Vec<[f64; 3]>) = (plain.collect(), exact.collect());
                let mut x = Operands {
                    n,
                    g: g.as_ptr(),
                    p: p.as_ptr(),
                    moments: from_fn(|k| moments[k].as_ptr()),
                    new_p: p.as_mut_ptr(),
                    new_moments: from_fn(|k| moments[k].as_mut_ptr()),
                };
                if t % 2 == 0 {
                    kernel(x, t as f32);
                } else {
                    // The parameter goes elsewhere, the first moment where the gradient lies.
                    let mut elsewhere = vec![7.0; n];
                    (x.new_p, x.new_moments[0]) = (elsewhere.as_mut_ptr(), g.as_mut_ptr());
                    kernel(x, t as f32);
                    (p, moments[0]) = (elsewhere, g);
                }
                for (k, found) in std::iter::once(&p).chain(&moments).enumerate() {
                    let what = format!("{name}, {n} elements, step {t}, result {k}");
                    let plain: Vec<f32> = plain.iter().map(|new| new[k]).collect();
                    let exact: Vec<f64> = exact.iter().map(|new| new[k]).collect();
                    assert_close(&what, found, &plain, &exact, 0.1);
                }
            }
        }
    });
}

#[test]
fn adam_follows_its_formula() {
    let formula = formula!(|g, p, m, v, rate, root| {
        let d = g + 0.05 * p;
        let (m, v) = (0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d);
        [p - rate * m / (v.sqrt() / root + 1e-8), m, v]
    });
    let scalars = |t| [LR / (1.0 - 0.9f64.powf(t)), (1.0 - 0.999f64.powf(t)).sqrt()];
    // SAFETY: the operands have their elements.
    let kernel = |x, t| unsafe { adam(x, ADAM, LR as f32, t) };
    follows_its_formula::<2>("Adam", formula, scalars, kernel);
}

#[test]
fn adagrad_follows_its_formula() {
    let formula = formula!(|g, p, s, none, rate, _unused| {
        let d = g + 0.05 * p;
        let s = s + d * d;
        [p - rate * d / ((0.1 + s).sqrt() + 1e-10), s, none]
    });
    let scalars = |t| [LR / (1.0 + (t - 1.0) * 0.1), 0.0];
    // SAFETY: the operands have their elements.
    let kernel = |x, t| unsafe { adagrad(x, ADAGRAD, LR as f32, t) };
    follows_its_formula::<1>("Adagrad", formula, scalars, kernel);
}

#[test]
fn adadelta_follows_its_formula() {
    let formula = formula!(|g, p, v, u, rate, _unused| {
        let d = g + 0.05 * p;
        let v = 0.9 * v + 0.1 * d * d;
        let step = (u + 1e-6).sqrt() / (v + 1e-6).sqrt() * d;
        [p - rate * step, v, 0.9 * u + 0.1 * step * step]
    });
    // SAFETY: the operands have their elements.
    let kernel = |x, _| unsafe { adadelta(x, ADADELTA, LR as f32) };
    follows_its_formula::<2>("Adadelta", formula, |_| [LR, 0.0], kernel);
}

#[test]
fn rmsprop_follows_its_formula() {
    let formula = formula!(|g, p, v, none, rate, _unused| {
        let d = g + 0.05 * p;
        let v = 0.99 * v + 0.01 * d * d;
        [p - rate * d / (v.sqrt() + 1e-8), v, none]
    });
    // SAFETY: the operands have their elements.
    let kernel = |x, _| unsafe { rmsprop(x, RMSPROP, LR as f32) };
    follows_its_formula::<1>("RMSprop", formula, |_| [LR, 0.0], kernel);

    let formula = formula!(|g, p, v, b, rate, _unused| {
        let d = g + 0.05 * p;
        let v = 0.99 * v + 0.01 * d * d;
        let b = 0.9 * b + d / (v.sqrt() + 1e-8);
        [p - rate * b, v, b]
    });
    let op = ops::RmsProp {
        momentum: 0.9,
        ..RMSPROP
    };
    // SAFETY: the operands have their elements.
    let kernel = |x, _| unsafe { rmsprop_with_momentum(x, op, LR as f32) };
    follows_its_formula::<2>("RMSprop with momentum", formula, |_| [LR, 0.0], kernel);
}

#[test]
fn lion_follows_its_formula() {
    let formula = formula!(|g, p, m, none, rate, _unused| {
        let direction = 0.9 * m + 0.1 * g;
        let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
        [p * (1.0 - rate * 0.05) - rate * sign, 0.99 * m + 0.01 * g, none]
    });
    // SAFETY: the operands have their elements.
    let kernel = |x, _| unsafe { lion(x, LION, LR as f32) };
    follows_its_formula::<1>("Lion", formula, |_| [LR, 0.0], kernel);
}

#[test]
fn lion_keeps_zeros_and_nan() {
    at_all_levels(|_| {
        let g = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40];
        let (mut p, mut m) = ([1.0f32; 6], [0.0f32; 6]);
        let x = Operands {
            n: 6,
            g: g.as_ptr(),
            p: p.as_ptr(),
            moments: [m.as_ptr()],
            new_p: p.as_mut_ptr(),
            new_moments: [m.as_mut_ptr()],
        };
        let op = ops::Lion {
            weight_decay: 0.0,
            ..LION
        };
        // SAFETY: all have six elements.
        unsafe { lion(x, op, 0.25) };
        assert_eq!([p[0], p[1], p[3], p[4], p[5]], [1.0, 1.0, 0.75, 1.25, 0.75]);
        assert!(p[2].is_nan() && m[2].is_nan());
    });
}

/// Parameters and 8-bit moments.
#[derive(Clone, PartialEq, Debug)]
struct State {
    p: Vec<f32>,
    codes: [Vec<u8>; 2],
    scales: [Vec<f32>; 2],
}

const RULE: ops::AdamW = ops::AdamW {
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.05,
};

impl State {
    fn new(p: Vec<f32>) -> State {
        let (n, blocks) = (p.len(), blocks(p.len()));
        State {
            p,
            codes: [vec![0; n], vec![0; n]],
            scales: [vec![0.0; blocks], vec![0.0; blocks]],
        }
    }

    /// The state after a step of the kernel, which works in place or not.
    fn after(&self, g: &[f32], t: u32, in_place: bool) -> State {
        let mut new = self.clone();
        let old = if in_place { &new } else { self };
        let (p, moments) = (
            old.p.as_ptr(),
            Moments {
                codes: [0, 1].map(|k| old.codes[k].as_ptr()),
                scales: [0, 1].map(|k| old.scales[k].as_ptr()),
            },
        );
        let to = NewMoments {
            codes: new.codes.each_mut().map(|x| x.as_mut_ptr()),
            scales: new.scales.each_mut().map(|x| x.as_mut_ptr()),
        };
        let (n, constants) = (g.len(), AdamWConstants::from(&RULE));
        // SAFETY: all have `n` elements, or one for each block.
        unsafe {
            adamw_8bit(
                n,
                p,
                g.as_ptr(),
                moments,
                new.p.as_mut_ptr(),
                to,
                LR as f32,
                t as f32,
                constants,
            )
        };
        new
    }

    /// Parameters, codes and scales after a step of the reference evaluation.
    fn exactly(&self, g: &[f32], t: u32) -> Vec<Array> {
        let floats = |x: &[f32]| Array::f32(&[x.len()], x.iter().map(|&x| x.into()).collect());
        let codes = |x: &[u8]| Array::new(Type::new(DType::U8, &[x.len()]), x.iter().map(|&x| x.into()).collect());
        let inputs = [
            floats(&self.p),
            floats(g),
            codes(&self.codes[0]),
            floats(&self.scales[0]),
            codes(&self.codes[1]),
            floats(&self.scales[1]),
            Array::scalar(LR),
            Array::scalar(t.into()),
        ];
        evaluate_op(&ops::AdamW8bit { rule: RULE }, &inputs.each_ref()).unwrap()
    }
}

#[test]
fn adamw_with_8_bit_moments_follows_the_reference() {
    at_all_levels(|_| {
        let mut random = Random::new(2);
        for n in [1, 63, 255, 256, 257, 1000] {
            let mut state = State::new(random.vec(n, 1.0));
            for t in 1..=5 {
                let mut g = random.vec(n, 2.0);
                // Gradients of many sizes, and zeros.
                g.iter_mut().for_each(|g| *g = if *g < -1.9 { 0.0 } else { g.powi(5) });
                let expected = state.exactly(&g, t);
                let next = state.after(&g, t, true);
                assert_eq!(
                    next,
                    state.after(&g, t, false),
                    "{n} elements, step {t}, in place or not"
                );
                let close = |what: &str, found: &[f32], expected: &Array, floor: f64| {
                    let error = worst_error(found, &expected.data, floor);
                    assert!(error < 1e-6, "{n} elements, step {t}, {what}: {error:.1e}");
                };
                close("p", &next.p, &expected[0], 0.1);
                for (k, book) in [Codebook::Signed, Codebook::Unsigned].into_iter().enumerate() {
                    close("scales", &next.scales[k], &expected[2 + 2 * k], 1e-30);
                    let values = book.values();
                    for (found, expected) in next.codes[k].iter().zip(&expected[1 + 2 * k].data) {
                        // Where a number lies on the bound of two codes, rounding decides.
                        let (found, expected) = (values[usize::from(*found)], values[*expected as usize]);
                        assert!((found - expected).abs() <= 0.9 / 64.0 + 1e-7, "{found} and {expected}");
                    }
                    let found = next.codes[k].iter().map(|&code| f64::from(code));
                    let others = found.zip(&expected[1 + 2 * k].data).filter(|(a, b)| a != *b).count();
                    assert!(others <= 1, "{n} elements, step {t}: {others} codes are others");
                }
                state = next;
            }
        }
    });
}

#[test]
fn a_gradient_that_is_not_finite_breaks_its_element_then_its_block() {
    at_all_levels(|_| {
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut g = vec![0.5; 600];
            let first = State::new(vec![1.0; 600]).after(&g, 1, true);
            g[300] = wrong;
            let second = first.after(&g, 2, true);
            let broken = |state: &State| -> Vec<usize> { (0..600).filter(|&i| state.p[i].is_nan()).collect() };
            assert_eq!(broken(&second), [300]);
            assert!(
                broken(&second.after(&[0.5; 600], 3, true))
                    .into_iter()
                    .eq(BLOCK..2 * BLOCK)
            );
        }
    });
}
