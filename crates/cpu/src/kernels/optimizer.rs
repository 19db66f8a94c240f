//! Optimizer updates, in one pass over memory.

use lessen_graph::ops;

use super::kernel::{Kernel, RowKernel, Types};
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store};

/// The constants of AdamW.
#[derive(Clone, Copy, Debug)]
pub struct AdamWConstants {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the latter.
    pub eps: f64,
    /// Decay of parameters per step and unit of learning rate.
    pub weight_decay: f64,
}

/// The constants of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub struct SgdConstants {
    /// Decay of the velocity.
    pub momentum: f64,
    /// Whether the step looks ahead along the velocity. Nesterov 1983.
    pub nesterov: bool,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
}

dispatch! {
    /// One AdamW step (Loshchilov and Hutter 2017) of `n` parameters `p` with gradient `g`, means `m` and
    /// `v`, learning rate `lr`, step number `t` from 1, and new values in `p2`, `m2`, `v2`: `m2 = b1 m + (1 -
    /// b1) g`, `v2 = b2 v + (1 - b2) g^2`, `p2 = p (1 - lr wd) - lr / (1 - b1^t) m2 / (sqrt(v2) / sqrt(1 -
    /// b2^t) + eps)`.
    ///
    /// # Safety
    /// All pointers have `n` elements. Each of the new arrays may lie exactly where the old arrays or `g`
    /// lie, and overlaps nothing otherwise.
    pub unsafe fn adamw(
        n: usize, p: *const f32, g: *const f32, m: *const f32, v: *const f32, p2: *mut f32, m2: *mut f32,
        v2: *mut f32, lr: f32, t: f32, constants: AdamWConstants,
    ) = adamw_body;

    /// One step of stochastic gradient descent: `d = g + wd p`, `v2 = momentum v + d`, `p2 = p - lr (nesterov
    /// ? d + momentum v2 : v2)`. Without momentum, `v2` may be null: then no velocity is kept.
    ///
    /// # Safety
    /// As for [`adamw`]; `v` is not read if `v2` is null.
    pub unsafe fn sgd(
        n: usize, p: *const f32, g: *const f32, v: *const f32, p2: *mut f32, v2: *mut f32, lr: f32,
        constants: SgdConstants,
    ) = sgd_body;
}

#[inline(always)]
unsafe fn adamw_body<L: Level>(
    n: usize,
    p: *const f32,
    g: *const f32,
    m: *const f32,
    v: *const f32,
    p2: *mut f32,
    m2: *mut f32,
    v2: *mut f32,
    lr: f32,
    t: f32,
    constants: AdamWConstants,
) {
    let AdamWConstants {
        beta1,
        beta2,
        eps,
        weight_decay,
    } = constants;
    let (rate, t) = (f64::from(lr), f64::from(t));
    let decay = (1.0 - rate * weight_decay) as f32;
    let step = (rate / (1.0 - beta1.powf(t))) as f32;
    let root = (1.0 / (1.0 - beta2.powf(t)).sqrt()) as f32;
    let (b1, c1, b2, c2, eps) = (
        beta1 as f32,
        (1.0 - beta1) as f32,
        beta2 as f32,
        (1.0 - beta2) as f32,
        eps as f32,
    );
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len lie within all arrays; they are read before any of them is written.
        unsafe {
            let mut ps = load(p.add(j), 1, len, 0.0);
            let gs = load(g.add(j), 1, len, 0.0);
            let mut ms = load(m.add(j), 1, len, 0.0);
            let mut vs = load(v.add(j), 1, len, 0.0);
            for i in 0..LANES {
                ms[i] = fma::<L>(b1, ms[i], c1 * gs[i]);
                vs[i] = fma::<L>(b2, vs[i], c2 * gs[i] * gs[i]);
                let denominator = fma::<L>(vs[i].sqrt(), root, eps);
                ps[i] = fma::<L>(ps[i], decay, -(step * ms[i] / denominator));
            }
            store(p2.add(j), 1, len, &ps);
            store(m2.add(j), 1, len, &ms);
            store(v2.add(j), 1, len, &vs);
        }
    });
}

#[inline(always)]
unsafe fn sgd_body<L: Level>(
    n: usize,
    p: *const f32,
    g: *const f32,
    v: *const f32,
    p2: *mut f32,
    v2: *mut f32,
    lr: f32,
    constants: SgdConstants,
) {
    let (momentum, decay) = (constants.momentum as f32, constants.weight_decay as f32);
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len lie within all arrays; they are read before any of them is written.
        unsafe {
            let mut ps = load(p.add(j), 1, len, 0.0);
            let mut ds = load(g.add(j), 1, len, 0.0);
            for i in 0..LANES {
                ds[i] = fma::<L>(decay, ps[i], ds[i]);
            }
            if !v2.is_null() {
                let mut vs = load(v.add(j), 1, len, 0.0);
                for i in 0..LANES {
                    vs[i] = fma::<L>(momentum, vs[i], ds[i]);
                    ds[i] = if constants.nesterov {
                        fma::<L>(momentum, vs[i], ds[i])
                    } else {
                        vs[i]
                    };
                }
                store(v2.add(j), 1, len, &vs);
            }
            for i in 0..LANES {
                ps[i] = fma::<L>(-lr, ds[i], ps[i]);
            }
            store(p2.add(j), 1, len, &ps);
        }
    });
}

/// The kernel of [`ops::AdamW`]. All operands but the scalars lie densely, so that a run is one stretch.
pub(super) fn adamw_kernel(op: &ops::AdamW, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() {
        return None;
    }
    let constants = AdamWConstants {
        beta1: op.beta1,
        beta2: op.beta2,
        eps: op.eps,
        weight_decay: op.weight_decay,
    };
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        let [p, g, m, v] = [0, 1, 2, 3].map(|i| r.whole(i));
        let [p2, m2, v2] = [0, 1, 2].map(|i| r.column(i));
        adamw(r.n * r.c(), p, g, m, v, p2, m2, v2, r.scalar(4), r.scalar(5), constants);
    })
    .dense([0, 1, 2, 3])
    .into()
}

/// The kernel of [`ops::Sgd`], likewise.
pub(super) fn sgd_kernel(op: &ops::Sgd, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() {
        return None;
    }
    let constants = SgdConstants {
        momentum: op.momentum,
        nesterov: op.nesterov,
        weight_decay: op.weight_decay,
    };
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        let [p, g, buffer] = [0, 1, 2].map(|i| r.whole(i));
        sgd(
            r.n * r.c(),
            p,
            g,
            buffer,
            r.column(0),
            r.column(1),
            r.scalar(3),
            constants,
        );
    })
    .dense([0, 1, 2])
    .into()
}
