//! The means of gradients and of their squares that Adam and AdamW share (Kingma and Ba 2014).

use crate::simd::{Level, fma};

/// The numbers of one step: decays of the means and their corrections.
#[derive(Clone, Copy)]
pub(super) struct Means {
    b1: f32,
    c1: f32,
    b2: f32,
    c2: f32,
    eps: f32,
    rate: f32,
    root: f32,
}

impl Means {
    /// The numbers of step number `t`, counted from 1, with learning rate `lr`.
    pub(super) fn at([beta1, beta2]: [f64; 2], eps: f64, lr: f32, t: f32) -> Means {
        let (lr, t) = (f64::from(lr), f64::from(t));
        Means {
            b1: beta1 as f32,
            c1: (1.0 - beta1) as f32,
            b2: beta2 as f32,
            c2: (1.0 - beta2) as f32,
            eps: eps as f32,
            rate: (lr / (1.0 - beta1.powf(t))) as f32,
            root: (1.0 / (1.0 - beta2.powf(t)).sqrt()) as f32,
        }
    }

    /// The number to subtract from the parameter, and the new means.
    #[inline(always)]
    pub(super) fn step<L: Level>(self, g: f32, [m, v]: [f32; 2]) -> (f32, [f32; 2]) {
        let m = fma::<L>(self.b1, m, self.c1 * g);
        let v = fma::<L>(self.b2, v, self.c2 * g * g);
        let denominator = fma::<L>(v.sqrt(), self.root, self.eps);
        (self.rate * m / denominator, [m, v])
    }
}
