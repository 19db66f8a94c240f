//! Pairs of pixels as words of `bf16`, by AVX-512.

use crate::kernels::elementwise::cast::Bf16;

/// Writes the numbers of two pixels in turn: `n` of each, zeros for an absent pixel, and zeros up to `padded`.
///
/// # Safety
/// The CPU has AVX-512, the numbers are readable, and `to` has room for them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn pair(n: usize, padded: usize, from: [Option<*const Bf16>; 2], to: *mut [Bf16; 2]) {
    // SAFETY: passed on.
    unsafe {
        match from {
            [Some(a), Some(b)] => {
                for i in 0..n {
                    to.add(i).write([*a.add(i), *b.add(i)]);
                }
            }
            [a, b] => {
                let at = |x: Option<*const Bf16>, i: usize| x.map_or(Bf16::default(), |x| *x.add(i));
                for i in 0..n {
                    to.add(i).write([at(a, i), at(b, i)]);
                }
            }
        }
        to.add(n).write_bytes(0, padded - n);
    }
}
