//! Updates of one element after another: Adam, Adagrad, Adadelta, RMSprop and Lion.

use lessen_graph::ops;

use super::means::Means;
use super::update::{Operands, Rule, kernel, update};
use crate::kernels::kernel::{RowKernel, Types};
use crate::simd::{Level, dispatch, fma};

dispatch! {
    /// One step of [`ops::Adam`] with learning rate `lr`, step number `t` from 1; the moments are `m`, `v`.
    ///
    /// # Safety
    /// All arrays have `n` elements. Each of the new ones may lie exactly where one of the others lies, and overlaps
    /// nothing otherwise.
    pub unsafe fn adam(x: Operands<2>, op: ops::Adam, lr: f32, t: f32) = adam_body;

    /// One step of [`ops::Adagrad`] with learning rate `lr`, step number `t` from 1; the moment is `s`.
    ///
    /// # Safety
    /// As for [`adam`].
    pub unsafe fn adagrad(x: Operands<1>, op: ops::Adagrad, lr: f32, t: f32) = adagrad_body;

    /// One step of [`ops::Adadelta`] with learning rate `lr`; the moments are `v`, `u`.
    ///
    /// # Safety
    /// As for [`adam`].
    pub unsafe fn adadelta(x: Operands<2>, op: ops::Adadelta, lr: f32) = adadelta_body;

    /// One step of [`ops::RmsProp`] without momentum with learning rate `lr`; the moment is `v`.
    ///
    /// # Safety
    /// As for [`adam`].
    pub unsafe fn rmsprop(x: Operands<1>, op: ops::RmsProp, lr: f32) = rmsprop_body;

    /// One step of [`ops::RmsProp`] with momentum and learning rate `lr`; the moments are `v`, `b`.
    ///
    /// # Safety
    /// As for [`adam`].
    pub unsafe fn rmsprop_with_momentum(x: Operands<2>, op: ops::RmsProp, lr: f32) = rmsprop_with_momentum_body;

    /// One step of [`ops::Lion`] with learning rate `lr`; the moment is `m`.
    ///
    /// # Safety
    /// As for [`adam`].
    pub unsafe fn lion(x: Operands<1>, op: ops::Lion, lr: f32) = lion_body;
}

/// The numbers of one step of Adam.
#[derive(Clone, Copy)]
struct AdamStep {
    penalty: f32,
    means: Means,
}

impl Rule<2> for AdamStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, moments: [f32; 2]) -> (f32, [f32; 2]) {
        let (step, moments) = self.means.step::<L>(fma::<L>(self.penalty, p, g), moments);
        (p - step, moments)
    }
}

#[inline(always)]
unsafe fn adam_body<L: Level>(x: Operands<2>, op: ops::Adam, lr: f32, t: f32) {
    let step = AdamStep {
        penalty: op.weight_decay as f32,
        means: Means::at([op.beta1, op.beta2], op.eps, lr, t),
    };
    // SAFETY: passed on.
    unsafe { update::<L, 2>(x, step) };
}

/// The numbers of one step of Adagrad.
#[derive(Clone, Copy)]
struct AdagradStep {
    penalty: f32,
    initial: f32,
    rate: f32,
    eps: f32,
}

impl Rule<1> for AdagradStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, [s]: [f32; 1]) -> (f32, [f32; 1]) {
        let d = fma::<L>(self.penalty, p, g);
        let s = fma::<L>(d, d, s);
        (p - self.rate * d / ((self.initial + s).sqrt() + self.eps), [s])
    }
}

#[inline(always)]
unsafe fn adagrad_body<L: Level>(x: Operands<1>, op: ops::Adagrad, lr: f32, t: f32) {
    let step = AdagradStep {
        penalty: op.weight_decay as f32,
        initial: op.initial as f32,
        rate: (f64::from(lr) / (1.0 + (f64::from(t) - 1.0) * op.lr_decay)) as f32,
        eps: op.eps as f32,
    };
    // SAFETY: passed on.
    unsafe { update::<L, 1>(x, step) };
}

/// The numbers of one step of Adadelta.
#[derive(Clone, Copy)]
struct AdadeltaStep {
    penalty: f32,
    rho: f32,
    rest: f32,
    eps: f32,
    rate: f32,
}

impl Rule<2> for AdadeltaStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, [v, u]: [f32; 2]) -> (f32, [f32; 2]) {
        let d = fma::<L>(self.penalty, p, g);
        let v = fma::<L>(self.rho, v, self.rest * d * d);
        let step = (u + self.eps).sqrt() / (v + self.eps).sqrt() * d;
        let u = fma::<L>(self.rho, u, self.rest * step * step);
        (fma::<L>(-self.rate, step, p), [v, u])
    }
}

#[inline(always)]
unsafe fn adadelta_body<L: Level>(x: Operands<2>, op: ops::Adadelta, lr: f32) {
    let step = AdadeltaStep {
        penalty: op.weight_decay as f32,
        rho: op.rho as f32,
        rest: (1.0 - op.rho) as f32,
        eps: op.eps as f32,
        rate: lr,
    };
    // SAFETY: passed on.
    unsafe { update::<L, 2>(x, step) };
}

/// The numbers of one step of RMSprop.
#[derive(Clone, Copy)]
struct RmsPropStep {
    penalty: f32,
    alpha: f32,
    rest: f32,
    eps: f32,
    momentum: f32,
    rate: f32,
}

impl RmsPropStep {
    #[inline(always)]
    fn new(op: ops::RmsProp, lr: f32) -> RmsPropStep {
        RmsPropStep {
            penalty: op.weight_decay as f32,
            alpha: op.alpha as f32,
            rest: (1.0 - op.alpha) as f32,
            eps: op.eps as f32,
            momentum: op.momentum as f32,
            rate: lr,
        }
    }

    /// The gradient over the root of the new mean square, and the new mean square.
    #[inline(always)]
    fn scaled<L: Level>(self, g: f32, p: f32, v: f32) -> (f32, f32) {
        let d = fma::<L>(self.penalty, p, g);
        let v = fma::<L>(self.alpha, v, self.rest * d * d);
        (d / (v.sqrt() + self.eps), v)
    }
}

impl Rule<1> for RmsPropStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, [v]: [f32; 1]) -> (f32, [f32; 1]) {
        let (step, v) = self.scaled::<L>(g, p, v);
        (fma::<L>(-self.rate, step, p), [v])
    }
}

impl Rule<2> for RmsPropStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, [v, b]: [f32; 2]) -> (f32, [f32; 2]) {
        let (step, v) = self.scaled::<L>(g, p, v);
        let b = fma::<L>(self.momentum, b, step);
        (fma::<L>(-self.rate, b, p), [v, b])
    }
}

#[inline(always)]
unsafe fn rmsprop_body<L: Level>(x: Operands<1>, op: ops::RmsProp, lr: f32) {
    // SAFETY: passed on.
    unsafe { update::<L, 1>(x, RmsPropStep::new(op, lr)) };
}

#[inline(always)]
unsafe fn rmsprop_with_momentum_body<L: Level>(x: Operands<2>, op: ops::RmsProp, lr: f32) {
    // SAFETY: passed on.
    unsafe { update::<L, 2>(x, RmsPropStep::new(op, lr)) };
}

/// The numbers of one step of Lion.
#[derive(Clone, Copy)]
struct LionStep {
    b1: f32,
    c1: f32,
    b2: f32,
    c2: f32,
    decay: f32,
    rate: f32,
}

impl Rule<1> for LionStep {
    #[inline(always)]
    fn element<L: Level>(self, g: f32, p: f32, [m]: [f32; 1]) -> (f32, [f32; 1]) {
        let direction = fma::<L>(self.b1, m, self.c1 * g);
        // Zeros and NaN stay what they are.
        let sign = if (direction < 0.0) | (direction > 0.0) {
            1f32.copysign(direction)
        } else {
            direction
        };
        let m = fma::<L>(self.b2, m, self.c2 * g);
        (fma::<L>(p, self.decay, -(self.rate * sign)), [m])
    }
}

#[inline(always)]
unsafe fn lion_body<L: Level>(x: Operands<1>, op: ops::Lion, lr: f32) {
    let step = LionStep {
        b1: op.beta1 as f32,
        c1: (1.0 - op.beta1) as f32,
        b2: op.beta2 as f32,
        c2: (1.0 - op.beta2) as f32,
        decay: (1.0 - f64::from(lr) * op.weight_decay) as f32,
        rate: lr,
    };
    // SAFETY: passed on.
    unsafe { update::<L, 1>(x, step) };
}

/// The kernel of [`ops::Adam`].
pub(in crate::kernels) fn adam_kernel(op: &ops::Adam, _: &Types<'_>) -> RowKernel {
    let op = *op;
    // SAFETY: see `Run`.
    kernel(move |x, scalar| unsafe { adam(x, op, scalar(0), scalar(1)) })
}

/// The kernel of [`ops::Adagrad`].
pub(in crate::kernels) fn adagrad_kernel(op: &ops::Adagrad, _: &Types<'_>) -> RowKernel {
    let op = *op;
    // SAFETY: see `Run`.
    kernel(move |x, scalar| unsafe { adagrad(x, op, scalar(0), scalar(1)) })
}

/// The kernel of [`ops::Adadelta`].
pub(in crate::kernels) fn adadelta_kernel(op: &ops::Adadelta, _: &Types<'_>) -> RowKernel {
    let op = *op;
    // SAFETY: see `Run`.
    kernel(move |x, scalar| unsafe { adadelta(x, op, scalar(0)) })
}

/// The kernel of [`ops::RmsProp`].
pub(in crate::kernels) fn rmsprop_kernel(op: &ops::RmsProp, _: &Types<'_>) -> RowKernel {
    let op = *op;
    if op.momentum == 0.0 {
        // SAFETY: see `Run`.
        return kernel(move |x, scalar| unsafe { rmsprop(x, op, scalar(0)) });
    }
    // SAFETY: see `Run`.
    kernel(move |x, scalar| unsafe { rmsprop_with_momentum(x, op, scalar(0)) })
}

/// The kernel of [`ops::Lion`].
pub(in crate::kernels) fn lion_kernel(op: &ops::Lion, _: &Types<'_>) -> RowKernel {
    let op = *op;
    // SAFETY: see `Run`.
    kernel(move |x, scalar| unsafe { lion(x, op, scalar(0)) })
}
