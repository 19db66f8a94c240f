//! Words of 16 channels as two vectors of 256 bits, multiplied by either encoding of VNNI.

use std::arch::x86_64::*;

use crate::kernels::x86::byte_products::Dot;
use crate::kernels::x86::depthwise_words::{VECTOR, Words};

/// Two vectors of 256 bits.
impl<D: Dot> Words for D {
    type Vector = [__m256i; 2];

    #[inline(always)]
    unsafe fn zeros() -> [__m256i; 2] {
        // SAFETY: passed on.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> [__m256i; 2] {
        let from = from.cast::<__m256i>();
        // SAFETY: passed on.
        unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
    }

    #[inline(always)]
    unsafe fn add(sums: [__m256i; 2], words: [__m256i; 2], levels: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: passed on.
        unsafe {
            [
                D::dot(sums[0], words[0], levels[0]),
                D::dot(sums[1], words[1], levels[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sums(vector: [__m256i; 2]) -> [i32; VECTOR] {
        let mut sums = [0; VECTOR];
        // SAFETY: the array has room for them.
        unsafe {
            let to = sums.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(to, vector[0]);
            _mm256_storeu_si256(to.add(1), vector[1]);
        }
        sums
    }
}
