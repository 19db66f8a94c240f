//! Numbers of images and weights of convolutions, and their products on machines without tiles.

use super::super::rows::Rows;
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::products::gemm::gemm;
use crate::kernels::products::gemm_bf16::{gemm_bf16, widened_bytes};
use crate::kernels::x86::amx::number::Number;
use crate::kernels::x86::words::Word;

/// A number of an image or a weight.
pub(super) trait Factor: Number + Word {
    /// Bytes of scratch of a product of this many rows and columns.
    fn product_bytes(rows: usize, columns: usize) -> usize;

    /// `c = a b` or `c += a b` for the extents `m`, `k` and `n`.
    ///
    /// # Safety
    /// The elements are readable, the elements of `c` are writable and nobody else's; `scratch` has
    /// [`Factor::product_bytes`].
    unsafe fn product(
        extents: (usize, usize, usize),
        a: Rows<Self>,
        b: Rows<Self>,
        c: Rows<f32>,
        accumulate: bool,
        scratch: *mut u8,
    );
}

impl Factor for f32 {
    fn product_bytes(_: usize, _: usize) -> usize {
        0
    }

    unsafe fn product(
        (m, k, n): (usize, usize, usize),
        a: Rows<f32>,
        b: Rows<f32>,
        c: Rows<f32>,
        accumulate: bool,
        _: *mut u8,
    ) {
        let read = |x: Rows<f32>| (x.ptr.cast_const(), x.row as isize, x.col as isize);
        let to = (c.ptr, c.row as isize, c.col as isize);
        // SAFETY: passed on.
        unsafe { gemm(m, k, n, read(a), read(b), to, accumulate) }
    }
}

impl Factor for Bf16 {
    fn product_bytes(rows: usize, columns: usize) -> usize {
        widened_bytes(rows, columns)
    }

    unsafe fn product(
        extents: (usize, usize, usize),
        a: Rows<Bf16>,
        b: Rows<Bf16>,
        c: Rows<f32>,
        accumulate: bool,
        scratch: *mut u8,
    ) {
        // SAFETY: passed on.
        unsafe { gemm_bf16(extents, a, b, c, accumulate, scratch.cast()) }
    }
}
