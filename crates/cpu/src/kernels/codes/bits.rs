//! Truth values packed into words and taken apart again.

use lessen_graph::ops;

use crate::kernels::kernel::{Kernel, RowKernel, Types};
use crate::kernels::rows::Rows;
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

/// Bits of a word.
const WORD: usize = 32;

dispatch! {
    /// Bit `i % 32` of `y[r, i / 32]` is whether `x[r, i]` is not 0; bits after the last element are 0.
    ///
    /// # Safety
    /// `x` covers `n` rows of `c` elements and `y` rows of `ceil(c / 32)`; they do not overlap.
    pub unsafe fn pack_bits(n: usize, c: usize, x: Rows<u8>, y: Rows<u32>) = pack_bits_body;

    /// `y[r, i]` is bit `i % 32` of `x[r, i / 32]`.
    ///
    /// # Safety
    /// `x` covers `n` rows of `ceil(c / 32)` elements and `y` rows of `c`; they do not overlap.
    pub unsafe fn unpack_bits(n: usize, c: usize, x: Rows<u32>, y: Rows<u8>) = unpack_bits_body;
}

#[inline(always)]
unsafe fn pack_bits_body<L: Level>(n: usize, c: usize, x: Rows<u8>, y: Rows<u32>) {
    for r in 0..n {
        let row = x.at(r) as *const u8;
        chunks!(c, |j, len| {
            // SAFETY: elements j..j+len lie within the row.
            let xs = unsafe { load(row.add(j * x.col), x.col, len, 0) };
            let mut bits = [0; LANES];
            for i in 0..LANES {
                bits[i] = u32::from(xs[i] != 0) << (i % WORD);
            }
            for (word, bits) in bits.chunks_exact(WORD).enumerate().take(len.div_ceil(WORD)) {
                // SAFETY: words of elements j..j+len lie within the row of `y`.
                unsafe { *y.element(r, j / WORD + word) = bits.iter().fold(0, |word, bit| word | bit) };
            }
        });
    }
}

#[inline(always)]
unsafe fn unpack_bits_body<L: Level>(n: usize, c: usize, x: Rows<u32>, y: Rows<u8>) {
    for r in 0..n {
        let row = y.at(r);
        chunks!(c, |j, len| {
            // SAFETY: elements j..j+len lie within the row, and their words within that of `x`.
            unsafe {
                let words = load(x.element(r, j / WORD) as *const u32, x.col, len.div_ceil(WORD), 0);
                let mut bits = [0; LANES];
                for i in 0..LANES {
                    bits[i] = (words[i / WORD] >> (i % WORD) & 1) as u8;
                }
                store(row.add(j * y.col), y.col, len, &bits);
            }
        });
    }
}

/// The kernel of [`ops::PackBits`].
pub(crate) fn pack_bits_kernel(_: &ops::PackBits, _: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    RowKernel::rows(|r| unsafe { pack_bits(r.n, r.inputs[0].columns(), r.inputs[0].rows(), r.outputs[0].rows()) })
        .into()
}

/// The kernel of [`ops::UnpackBits`].
pub(crate) fn unpack_bits_kernel(_: &ops::UnpackBits, _: &Types<'_>) -> Option<Kernel> {
    // SAFETY: see `Run`.
    RowKernel::rows(|r| unsafe { unpack_bits(r.n, r.c(), r.inputs[0].rows(), r.outputs[0].rows()) }).into()
}
