//! Instructions that multiply bytes and add up fours of products: VNNI, by vectors of 512 or of 256 bits.

use std::arch::x86_64::*;

use crate::simd::{CpuSet, Feature};

/// The instructions by which kernels multiply codes.
#[derive(Clone, Copy)]
pub(crate) enum CodeProducts {
    /// AVX-512 VNNI.
    Wide,
    /// VNNI on vectors of 256 bits, encoded as AVX-512 VNNI with VL.
    Evex,
    /// VNNI on vectors of 256 bits, encoded as AVX-VNNI.
    Vex,
    /// AVX-512 without VNNI.
    WidePairs,
    /// AVX2 without VNNI.
    Pairs,
    /// None.
    Plain,
}

impl CodeProducts {
    /// Those that kernels use on this thread.
    pub(crate) fn used() -> CodeProducts {
        let set = CpuSet::current();
        match (set.has(Feature::Vnni), set.has(Feature::Avx512)) {
            (true, true) => CodeProducts::Wide,
            (true, false) if std::arch::is_x86_feature_detected!("avxvnni") => CodeProducts::Vex,
            // A machine with VNNI but without AVX-VNNI has AVX-512 VNNI, and VL.
            (true, false) => CodeProducts::Evex,
            (false, true) => CodeProducts::WidePairs,
            (false, false) if set.has(Feature::Avx2) => CodeProducts::Pairs,
            (false, false) => CodeProducts::Plain,
        }
    }
}

/// VNNI on vectors of 256 bits: one loop is compiled for each encoding.
pub(crate) trait Dot: Copy {
    /// Adds the products of 32 numbers from 0 to 255 and 32 from -128 to 127 to eight sums, four products to each.
    ///
    /// # Safety
    /// The CPU has the instruction.
    unsafe fn dot(sums: __m256i, left: __m256i, right: __m256i) -> __m256i;
}

/// The encoding of AVX-512 VNNI with VL.
#[derive(Clone, Copy)]
pub(crate) struct Evex;

/// The encoding of AVX-VNNI.
#[derive(Clone, Copy)]
pub(crate) struct Vex;

impl Dot for Evex {
    #[inline(always)]
    unsafe fn dot(sums: __m256i, left: __m256i, right: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_dpbusd_epi32(sums, left, right) }
    }
}

impl Dot for Vex {
    #[inline(always)]
    unsafe fn dot(sums: __m256i, left: __m256i, right: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_dpbusd_avx_epi32(sums, left, right) }
    }
}
