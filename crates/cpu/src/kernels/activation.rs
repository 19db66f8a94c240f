//! Activation functions.
//!
//! Every function takes `n` rows of `c` elements. An output may lie exactly where an input lies (same pointer
//! and strides); otherwise operands do not overlap.

use lessen_graph::ops;

use super::kernel::{Kernel, RowKernel, Types};
use super::map::{Map, Zip, map, maps, zip};
use super::rows::Rows;
use crate::math;
use crate::simd::{Level, fma};

/// `sqrt(2 / pi)`
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
/// The cubic term of the tanh form of GELU.
const CUBIC: f32 = 0.044_715;

maps! {
    Gelu: f32 => f32, |x| x * math::normal_cdf::<L>(x);
    // 0.5 x (1 + tanh u) = x / (1 + e^-2u), without cancellation.
    GeluTanh: f32 => f32, |x| {
        let u = SQRT_2_OVER_PI * fma::<L>(CUBIC * x * x, x, x);
        x / (1.0 + math::exp::<L>(-2.0 * u))
    };
    // NaN stays NaN.
    Relu: f32 => f32, |x| if x <= 0.0 { 0.0 } else { x };
    Silu: f32 => f32, |x| x / (1.0 + math::exp::<L>(-x));
}

#[derive(Clone, Copy)]
struct Elu {
    alpha: f32,
}

impl Map for Elu {
    type X = f32;
    type Y = f32;
    #[inline(always)]
    fn map<L: Level>(self, x: f32) -> f32 {
        if x > 0.0 {
            x
        } else {
            self.alpha * math::exp_minus_one_below_zero::<L>(x)
        }
    }
}

#[derive(Clone, Copy)]
struct LeakyRelu {
    slope: f32,
}

impl Map for LeakyRelu {
    type X = f32;
    type Y = f32;
    #[inline(always)]
    fn map<L: Level>(self, x: f32) -> f32 {
        if x > 0.0 { x } else { self.slope * x }
    }
}

#[derive(Clone, Copy)]
struct Clamp {
    low: f32,
    high: f32,
}

impl Map for Clamp {
    type X = f32;
    type Y = f32;
    // NaN stays NaN.
    #[inline(always)]
    fn map<L: Level>(self, x: f32) -> f32 {
        let x = if x <= self.low { self.low } else { x };
        if x >= self.high { self.high } else { x }
    }
}

#[derive(Clone, Copy)]
struct Between {
    low: f32,
    high: f32,
}

impl Map for Between {
    type X = f32;
    type Y = u8;
    #[inline(always)]
    fn map<L: Level>(self, x: f32) -> u8 {
        u8::from((self.low < x) & (x < self.high))
    }
}

#[derive(Clone, Copy)]
struct GeluBackward;

impl Zip for GeluBackward {
    type X = f32;
    type Y = f32;
    #[inline(always)]
    fn zip<L: Level>(self, x: f32, dy: f32) -> f32 {
        const INV_SQRT_2PI: f32 = 0.398_942_3;
        let density = INV_SQRT_2PI * math::exp::<L>(-0.5 * x * x);
        dy * fma::<L>(x, density, math::normal_cdf::<L>(x))
    }
}

#[derive(Clone, Copy)]
struct GeluTanhBackward;

impl Zip for GeluTanhBackward {
    type X = f32;
    type Y = f32;
    #[inline(always)]
    fn zip<L: Level>(self, x: f32, dy: f32) -> f32 {
        // The derivative is 0 or 1 to all digits beyond 10, where powers of x could overflow.
        let x = if x > 10.0 { 10.0 } else { x };
        let x = if x < -10.0 { -10.0 } else { x };
        let cubic = CUBIC * x * x;
        let u = SQRT_2_OVER_PI * fma::<L>(cubic, x, x);
        let slope = SQRT_2_OVER_PI * fma::<L>(3.0, cubic, 1.0);
        // With s = 1 / (1 + e^-2u), y = x s and 1 - s = e^-2u s.
        let e = math::exp::<L>(if u < -40.0 { 80.0 } else { -2.0 * u });
        let s = 1.0 / (1.0 + e);
        dy * fma::<L>(2.0 * x * slope, e * s * s, s)
    }
}

#[derive(Clone, Copy)]
struct SiluBackward;

impl Zip for SiluBackward {
    type X = f32;
    type Y = f32;
    #[inline(always)]
    fn zip<L: Level>(self, x: f32, dy: f32) -> f32 {
        // The derivative is 0 or 1 to all digits beyond, where the exponential or a product could overflow.
        let x = if x > 100.0 { 100.0 } else { x };
        let x = if x < -80.0 { -80.0 } else { x };
        // With s = 1 / (1 + e^-x), 1 - s = e^-x s.
        let e = math::exp::<L>(-x);
        let s = 1.0 / (1.0 + e);
        dy * s * fma::<L>(x, e * s, 1.0)
    }
}

/// GELU: `x Phi(x)` with the normal distribution function `Phi`, or its approximation
/// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`. Hendrycks and Gimpel 2016.
///
/// # Safety
/// The operands cover `n` rows of `c` elements; see the module for overlaps.
pub unsafe fn gelu(tanh: bool, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe {
        if tanh {
            map(GeluTanh, n, c, x, y)
        } else {
            map(Gelu, n, c, x, y)
        }
    }
}

/// `dx = dy gelu'(x)`.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn gelu_backward(tanh: bool, n: usize, c: usize, x: Rows<f32>, dy: Rows<f32>, dx: Rows<f32>) {
    // SAFETY: passed on.
    unsafe {
        if tanh {
            zip(GeluTanhBackward, n, c, x, dy, dx)
        } else {
            zip(GeluBackward, n, c, x, dy, dx)
        }
    }
}

/// `max(x, 0)`; NaN stays NaN.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn relu(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe { map(Relu, n, c, x, y) }
}

/// `x` where it is positive, else `alpha (e^x - 1)`. Clevert, Unterthiner and Hochreiter 2015.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn elu(alpha: f32, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe { map(Elu { alpha }, n, c, x, y) }
}

/// `x` where it is positive, else `slope x`.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn leaky_relu(slope: f32, n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe { map(LeakyRelu { slope }, n, c, x, y) }
}

/// `x / (1 + e^-x)`.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn silu(n: usize, c: usize, x: Rows<f32>, y: Rows<f32>) {
    // SAFETY: passed on.
    unsafe { map(Silu, n, c, x, y) }
}

/// `dx = dy s (1 + x (1 - s))` with `s = 1 / (1 + e^-x)`.
///
/// # Safety
/// As for [`gelu`].
pub unsafe fn silu_backward(n: usize, c: usize, x: Rows<f32>, dy: Rows<f32>, dx: Rows<f32>) {
    // SAFETY: passed on.
    unsafe { zip(SiluBackward, n, c, x, dy, dx) }
}

/// The kernel of [`ops::Gelu`].
pub(super) fn gelu_kernel(op: &ops::Gelu, types: &Types<'_>) -> Option<Kernel> {
    let tanh = op.tanh;
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(move |r| unsafe { gelu(tanh, r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::GeluBackward`].
pub(super) fn gelu_backward_kernel(op: &ops::GeluBackward, types: &Types<'_>) -> Option<Kernel> {
    let tanh = op.tanh;
    // SAFETY: see `Run`.
    let run = RowKernel::elementwise(move |r| unsafe {
        gelu_backward(tanh, r.n, r.c(), r.x(0), r.x(1), r.y(0));
    });
    of_f32(types, run)
}

/// The kernel of [`ops::Relu`].
pub(super) fn relu_kernel(_: &ops::Relu, types: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(|r| unsafe { relu(r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::Helu`], whose forward pass is that of ReLU.
pub(super) fn helu_kernel(_: &ops::Helu, types: &Types<'_>) -> Option<Kernel> {
    relu_kernel(&ops::Relu, types)
}

/// The kernel of [`ops::Clamp`].
pub(super) fn clamp_kernel(op: &ops::Clamp, types: &Types<'_>) -> Option<Kernel> {
    let clamp = Clamp {
        low: op.low as f32,
        high: op.high as f32,
    };
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(move |r| unsafe { map(clamp, r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::Between`].
pub(super) fn between_kernel(op: &ops::Between, types: &Types<'_>) -> Option<Kernel> {
    let between = Between {
        low: op.low as f32,
        high: op.high as f32,
    };
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(move |r| unsafe { map(between, r.n, r.c(), r.x(0), r.outputs[0].rows()) }),
    )
}

/// The kernel of [`ops::Elu`].
pub(super) fn elu_kernel(op: &ops::Elu, types: &Types<'_>) -> Option<Kernel> {
    let alpha = op.alpha as f32;
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(move |r| unsafe { elu(alpha, r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::LeakyRelu`].
pub(super) fn leaky_relu_kernel(op: &ops::LeakyRelu, types: &Types<'_>) -> Option<Kernel> {
    let slope = op.slope as f32;
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(move |r| unsafe { leaky_relu(slope, r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::Silu`].
pub(super) fn silu_kernel(_: &ops::Silu, types: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(|r| unsafe { silu(r.n, r.c(), r.x(0), r.y(0)) }),
    )
}

/// The kernel of [`ops::SiluBackward`].
pub(super) fn silu_backward_kernel(_: &ops::SiluBackward, types: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    of_f32(
        types,
        RowKernel::elementwise(|r| unsafe { silu_backward(r.n, r.c(), r.x(0), r.x(1), r.y(0)) }),
    )
}

fn of_f32(types: &Types<'_>, kernel: RowKernel) -> Option<Kernel> {
    types.floats_are_f32().then_some(Kernel::Rows(kernel))
}
