//! Numbers as codes with one scale, restored from them, and sums of two.

use lessen_graph::ops;

use super::to_code::ToCode;
use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::map::{Map, Zip, map, zip};
use crate::simd::Level;

/// The number of a code.
#[derive(Clone, Copy)]
struct OfCode {
    scale: f32,
    zero: f32,
}

impl OfCode {
    fn of(codes: ops::DequantizeLinear) -> OfCode {
        OfCode {
            scale: codes.scale as f32,
            zero: f32::from(codes.zero),
        }
    }
}

impl Map for OfCode {
    type X = u8;
    type Y = f32;

    #[inline(always)]
    fn map<L: Level>(self, code: u8) -> f32 {
        (f32::from(code) - self.zero) * self.scale
    }
}

/// The code of the sum of the numbers of two codes.
#[derive(Clone, Copy)]
struct Sum {
    left: OfCode,
    right: OfCode,
    to_code: ToCode,
}

impl Zip for Sum {
    type X = u8;
    type Y = u8;

    #[inline(always)]
    fn zip<L: Level>(self, a: u8, b: u8) -> u8 {
        self.to_code.map::<L>(self.left.map::<L>(a) + self.right.map::<L>(b))
    }
}

/// The kernel of [`ops::AddCodes`].
pub(crate) fn add_codes_kernel(op: &ops::AddCodes, _: &Types<'_>) -> Option<Kernel> {
    let [left, right] = op.inputs().map(OfCode::of);
    let to_code = ToCode::of(op.result());
    let sum = Sum { left, right, to_code };
    RowKernel::elementwise(move |r| {
        // SAFETY: see `Run`.
        unsafe {
            zip(
                sum,
                r.n,
                r.c(),
                r.inputs[0].rows(),
                r.inputs[1].rows(),
                r.outputs[0].rows(),
            )
        };
    })
    .into()
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
    let of_code = OfCode::of(*op);
    RowKernel::elementwise(move |r| {
        // SAFETY: see `Run`.
        unsafe { map(of_code, r.n, r.c(), r.inputs[0].rows(), r.y(0)) };
    })
    .into()
}
