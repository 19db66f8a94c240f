//! Products of codes and levels by vectors of 256 bits, with VNNI and without.

use std::arch::x86_64::*;

use crate::kernels::codes::factors::ZERO;
use crate::kernels::x86::byte_products::Dot;

/// Codes of a vector.
pub(crate) const VECTOR: usize = 32;

/// The instructions that multiply codes and levels, and what levels are for them.
pub(crate) trait Multiply {
    /// A level. As many of them as are 32 bits are multiplied and added up by one instruction.
    type Level: Copy + Into<i32>;

    /// Levels of 32 bits.
    const WORD: usize = size_of::<i32>() / size_of::<Self::Level>();

    /// The level of a code of rows with this code of zero.
    fn level(code: u8, zero: u8) -> Self::Level;

    /// The place of a level among those of a vector of codes of one column.
    fn place(level: usize) -> usize;

    /// What the sums of a column lack, times the sum of its levels: the code of zero of levels less that of the rows.
    fn lacking(zero: u8) -> i32;

    /// Adds the products of 32 levels and 32 codes of a column.
    ///
    /// # Safety
    /// The CPU has the instructions, and there are the levels.
    unsafe fn add(sums: __m256i, codes: __m256i, levels: *const Self::Level) -> __m256i;

    /// Words of 16 columns from as many rows of codes as a word has levels.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn words(rows: [__m128i; 4]) -> [__m256i; 2];

    /// Adds the products of such words and levels.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn dot(sums: __m256i, words: __m256i, levels: __m256i) -> __m256i;
}

/// AVX2 multiplies pairs of 16 bits and adds both products up in 32 bits. Even and odd codes of a column are multiplied
/// with even and odd levels.
pub(crate) struct Pairs;

impl Multiply for Pairs {
    type Level = i16;

    #[inline(always)]
    fn level(code: u8, zero: u8) -> i16 {
        i16::from(code) - i16::from(zero)
    }

    /// The 16 even levels are before the 16 odd ones.
    #[inline(always)]
    fn place(level: usize) -> usize {
        level % 2 * (VECTOR / 2) + level / 2
    }

    #[inline(always)]
    fn lacking(_: u8) -> i32 {
        0
    }

    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, levels: *const i16) -> __m256i {
        // SAFETY: passed on.
        unsafe {
            let even = _mm256_and_si256(codes, _mm256_set1_epi16(0x00ff));
            let odd = _mm256_srli_epi16::<8>(codes);
            let evens = _mm256_loadu_si256(levels.cast());
            let odds = _mm256_loadu_si256(levels.wrapping_add(VECTOR / 2).cast());
            let both = _mm256_add_epi32(_mm256_madd_epi16(even, evens), _mm256_madd_epi16(odd, odds));
            _mm256_add_epi32(sums, both)
        }
    }

    #[inline(always)]
    unsafe fn words([a, b, ..]: [__m128i; 4]) -> [__m256i; 2] {
        // SAFETY: passed on.
        unsafe {
            [
                _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)),
                _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: __m256i, words: __m256i, levels: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(words, levels)) }
    }
}

/// VNNI multiplies words of four bytes: levels are codes less 128.
impl<D: Dot> Multiply for D {
    type Level = i8;

    #[inline(always)]
    fn level(code: u8, _: u8) -> i8 {
        // A code less 128, modulo 256, is the code with its first bit turned.
        (code ^ 0x80) as i8
    }

    #[inline(always)]
    fn place(level: usize) -> usize {
        level
    }

    #[inline(always)]
    fn lacking(zero: u8) -> i32 {
        ZERO - i32::from(zero)
    }

    #[inline(always)]
    unsafe fn add(sums: __m256i, codes: __m256i, levels: *const i8) -> __m256i {
        // SAFETY: passed on.
        unsafe { D::dot(sums, codes, _mm256_loadu_si256(levels.cast())) }
    }

    #[inline(always)]
    unsafe fn words([a, b, c, d]: [__m128i; 4]) -> [__m256i; 2] {
        // SAFETY: passed on.
        unsafe {
            let (low, low_next) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
            let (high, high_next) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
            [
                _mm256_set_m128i(_mm_unpackhi_epi16(low, low_next), _mm_unpacklo_epi16(low, low_next)),
                _mm256_set_m128i(_mm_unpackhi_epi16(high, high_next), _mm_unpacklo_epi16(high, high_next)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn dot(sums: __m256i, words: __m256i, levels: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe { <D as Dot>::dot(sums, words, levels) }
    }
}
