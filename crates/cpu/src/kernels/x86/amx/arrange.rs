//! Arranging: 16 by 32 numbers of `bf16` become a tile.

use std::arch::x86_64::*;

use super::source::{Order, Source};
use super::{STEP, STRIP, TILE_BYTES};
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::x86::avx512::transpose::transpose;

/// Copies a source into a tile.
///
/// # Safety
/// The CPU has AVX-512, the source's elements are readable, and the tile writable.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn arrange(source: Source<Bf16>, order: Order, to: *mut u8) {
    // SAFETY: passed on; a source whose elements do not follow each other in either direction is copied first.
    unsafe {
        let (rows, turned) = match (source.k, source.line) {
            (1, _) => (lines(source), order == Order::Pairs),
            (_, 1) => (pairs(source), order == Order::Lines),
            _ => return arrange(source.dense(&mut [Bf16::default(); STRIP * STEP]), order, to),
        };
        let rows = if turned { transpose(&rows) } else { rows };
        for (i, row) in rows.iter().enumerate() {
            _mm512_storeu_si512(to.add(i * (TILE_BYTES / STRIP)).cast(), *row);
        }
    }
}

/// Rows of the lines, whose `k` follow each other.
///
/// # Safety
/// As for [`arrange`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn lines(source: Source<Bf16>) -> [__m512i; STRIP] {
    let mask = ((1u64 << source.depth) - 1) as __mmask32;
    let mut rows = [_mm512_setzero_si512(); STRIP];
    for (i, row) in rows.iter_mut().enumerate().take(source.lines) {
        // SAFETY: the mask leaves out elements after the source, which are not accessed.
        *row = unsafe { _mm512_maskz_loadu_epi16(mask, source.ptr.wrapping_add(i * source.line).cast()) };
    }
    rows
}

/// Rows of two `k` in turn, whose lines follow each other.
///
/// # Safety
/// As for [`arrange`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
unsafe fn pairs(source: Source<Bf16>) -> [__m512i; STRIP] {
    let mask = ((1u32 << source.lines) - 1) as __mmask16;
    let row = |k: usize| {
        if k < source.depth {
            // SAFETY: as above.
            unsafe { _mm256_maskz_loadu_epi16(mask, source.ptr.wrapping_add(k * source.k).cast()) }
        } else {
            _mm256_setzero_si256()
        }
    };
    let mut rows = [_mm512_setzero_si512(); STRIP];
    for (pair, to) in rows.iter_mut().enumerate() {
        // The second number of each pair is the upper half of 32 bits.
        let first = _mm512_cvtepu16_epi32(row(2 * pair));
        let second = _mm512_cvtepu16_epi32(row(2 * pair + 1));
        *to = _mm512_or_si512(first, _mm512_slli_epi32::<16>(second));
    }
    rows
}
