//! Numbers as codes with one scale, and restored from them.

use lessen_graph::ops;

use super::to_code::ToCode;
use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::map::{Map, map};
use crate::simd::Level;

/// The number of a code.
#[derive(Clone, Copy)]
struct OfCode {
    scale: f32,
    zero: f32,
}

impl Map for OfCode {
    type X = u8;
    type Y = f32;

    #[inline(always)]
    fn map<L: Level>(self, code: u8) -> f32 {
        (f32::from(code) - self.zero) * self.scale
    }
}

/// The kernel of [`ops::QuantizeLinear`].
pub(crate) fn quantize_linear_kernel(op: &ops::QuantizeLinear, _: &Types<'_>) -> Option<Kernel> {
    let to_code = ToCode::of(*op);
    RowKernel::elementwise(move |r| {
        // SAFETY: see `Run`.
        unsafe { map(to_code, r.n, r.c(), r.x(0), r.outputs[0].rows()) };
    })
    .into()
}

/// The kernel of [`ops::DequantizeLinear`].
pub(crate) fn dequantize_linear_kernel(op: &ops::DequantizeLinear, _: &Types<'_>) -> Option<Kernel> {
    let (scale, zero) = (op.scale as f32, f32::from(op.zero));
    RowKernel::elementwise(move |r| {
        // SAFETY: see `Run`.
        unsafe { map(OfCode { scale, zero }, r.n, r.c(), r.inputs[0].rows(), r.y(0)) };
    })
    .into()
}
