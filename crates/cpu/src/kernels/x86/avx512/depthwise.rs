//! Words of 16 channels as a vector of AVX-512, multiplied by AVX-512 VNNI.

use std::arch::x86_64::*;

use crate::kernels::x86::depthwise_words::{VECTOR, Words};

/// One vector of AVX-512.
pub(crate) struct Wide;

impl Words for Wide {
    type Vector = __m512i;

    #[inline(always)]
    unsafe fn zeros() -> __m512i {
        // SAFETY: passed on.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: passed on.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn add(sums: __m512i, words: __m512i, levels: __m512i) -> __m512i {
        // SAFETY: passed on.
        unsafe { _mm512_dpbusd_epi32(sums, words, levels) }
    }

    #[inline(always)]
    unsafe fn sums(vector: __m512i) -> [i32; VECTOR] {
        let mut sums = [0; VECTOR];
        // SAFETY: the array has room for them.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), vector) };
        sums
    }
}
