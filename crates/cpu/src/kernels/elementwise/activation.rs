//! Activation functions.
//!
//! Every function takes `n` rows of `c` elements. An output may lie exactly where an input lies (same pointer
//! and strides); otherwise operands do not overlap.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::kernels::map::{Map, Zip, map, maps, zip, zips};
use crate::kernels::rows::Rows;
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
    Elu { alpha: f32 }: f32 => f32, |x| {
        if x > 0.0 {
            x
        } else {
            alpha * math::exp_minus_one_below_zero::<L>(x)
        }
    };
    LeakyRelu { slope: f32 }: f32 => f32, |x| if x > 0.0 { x } else { slope * x };
    // NaN stays NaN.
    Clamp { low: f32, high: f32 }: f32 => f32, |x| {
        let x = if x <= low { low } else { x };
        if x >= high { high } else { x }
    };
    Between { low: f32, high: f32 }: f32 => u8, |x| u8::from((low < x) & (x < high));
}

zips! {
    GeluBackward: f32 => f32, |x, dy| {
        const INV_SQRT_2PI: f32 = 0.398_942_3;
        let density = INV_SQRT_2PI * math::exp::<L>(-0.5 * x * x);
        dy * fma::<L>(x, density, math::normal_cdf::<L>(x))
    };
    GeluTanhBackward: f32 => f32, |x, dy| {
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
    };
    SiluBackward: f32 => f32, |x, dy| {
        // The derivative is 0 or 1 to all digits beyond, where the exponential or a product could overflow.
        let x = if x > 100.0 { 100.0 } else { x };
        let x = if x < -80.0 { -80.0 } else { x };
        // With s = 1 / (1 + e^-x), 1 - s = e^-x s.
        let e = math::exp::<L>(-x);
        let s = 1.0 / (1.0 + e);
        dy * s * fma::<L>(x, e * s, 1.0)
    };
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
pub(crate) fn gelu_kernel(op: &ops::Gelu, _: &Types<'_>) -> RowKernel {
    let tanh = op.tanh;
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { gelu(tanh, r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::GeluBackward`].
pub(crate) fn gelu_backward_kernel(op: &ops::GeluBackward, _: &Types<'_>) -> RowKernel {
    let tanh = op.tanh;
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        gelu_backward(tanh, r.n, r.c(), r.x(0), r.x(1), r.y(0));
    })
}

/// The kernel of [`ops::Relu`].
pub(crate) fn relu_kernel(_: &ops::Relu, _: &Types<'_>) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::elementwise(|r| unsafe { relu(r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::Helu`], whose forward pass is that of ReLU.
pub(crate) fn helu_kernel(_: &ops::Helu, types: &Types<'_>) -> RowKernel {
    relu_kernel(&ops::Relu, types)
}

/// The kernel of [`ops::Clamp`].
pub(crate) fn clamp_kernel(op: &ops::Clamp, _: &Types<'_>) -> RowKernel {
    let clamp = Clamp {
        low: op.low as f32,
        high: op.high as f32,
    };
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { map(clamp, r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::Between`].
pub(crate) fn between_kernel(op: &ops::Between, _: &Types<'_>) -> RowKernel {
    let between = Between {
        low: op.low as f32,
        high: op.high as f32,
    };
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { map(between, r.n, r.c(), r.x(0), r.outputs[0].rows()) })
}

/// The kernel of [`ops::Elu`].
pub(crate) fn elu_kernel(op: &ops::Elu, _: &Types<'_>) -> RowKernel {
    let alpha = op.alpha as f32;
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { elu(alpha, r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::LeakyRelu`].
pub(crate) fn leaky_relu_kernel(op: &ops::LeakyRelu, _: &Types<'_>) -> RowKernel {
    let slope = op.slope as f32;
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe { leaky_relu(slope, r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::Silu`].
pub(crate) fn silu_kernel(_: &ops::Silu, _: &Types<'_>) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::elementwise(|r| unsafe { silu(r.n, r.c(), r.x(0), r.y(0)) })
}

/// The kernel of [`ops::SiluBackward`].
pub(crate) fn silu_backward_kernel(_: &ops::SiluBackward, _: &Types<'_>) -> RowKernel {
    // SAFETY: see `Run`.
    RowKernel::elementwise(|r| unsafe { silu_backward(r.n, r.c(), r.x(0), r.x(1), r.y(0)) })
}
