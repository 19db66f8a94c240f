//! Vectors of words of 16 channels, a word being codes of four rows of an image.

use std::arch::x86_64::*;

use super::super::byte_products::Dot;

/// Channels of a vector, and rows of a word.
pub(super) const VECTOR: usize = 16;
pub(super) const WORD: usize = 4;

/// The words of 16 channels.
pub(super) trait Words {
    /// They, or their sums of products.
    type Vector: Copy;

    /// Zeros.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn zeros() -> Self::Vector;

    /// Reads words.
    ///
    /// # Safety
    /// As above; the words are readable.
    unsafe fn load(from: *const u8) -> Self::Vector;

    /// Adds the products of words to their sums.
    ///
    /// # Safety
    /// As above.
    unsafe fn add(sums: Self::Vector, words: Self::Vector, levels: Self::Vector) -> Self::Vector;

    /// The sums.
    ///
    /// # Safety
    /// As above.
    unsafe fn sums(vector: Self::Vector) -> [i32; VECTOR];
}

/// One vector of AVX-512.
pub(super) struct Wide;

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
