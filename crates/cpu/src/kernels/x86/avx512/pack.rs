//! Packing by AVX-512: 16 or 32 lines of a factor at a time become rows of their words.

use std::arch::x86_64::*;

use super::transpose::transpose;
use crate::kernels::codes::sums::Code;
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::x86::words::lines::Lines;
use crate::kernels::x86::words::{PANEL, VECTOR};

/// The mask of the first `n` of 16 lanes.
fn first(n: usize) -> __mmask16 {
    ((1u32 << n.min(VECTOR)) - 1) as __mmask16
}

/// Packs up to 16 lines of `f32`: a row of 16 words for each `k`, the rows `row` bytes apart. The words of lines beyond
/// the last one are zeros.
///
/// # Safety
/// The CPU has AVX-512, the lines are readable and the rows writable.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn words_of_f32(from: Lines<f32>, to: *mut u8, row: usize) {
    for k in (0..from.depth).step_by(VECTOR) {
        let depth = (from.depth - k).min(VECTOR);
        let at = from.ptr.wrapping_add(k * from.k);
        let mut rows = [_mm512_setzero_si512(); VECTOR];
        // SAFETY: only numbers of the lines are read; masks leave out the rest.
        unsafe {
            if from.line == 1 {
                for (i, row) in rows.iter_mut().enumerate().take(depth) {
                    *row = _mm512_maskz_loadu_epi32(first(from.lines), at.wrapping_add(i * from.k).cast());
                }
            } else {
                for (i, row) in rows.iter_mut().enumerate().take(from.lines) {
                    let line = at.wrapping_add(i * from.line);
                    *row = if from.k == 1 {
                        _mm512_maskz_loadu_epi32(first(depth), line.cast())
                    } else {
                        let mut words = [0.0f32; VECTOR];
                        for (j, word) in words.iter_mut().enumerate().take(depth) {
                            *word = *line.add(j * from.k);
                        }
                        _mm512_loadu_si512(words.as_ptr().cast())
                    };
                }
                rows = transpose(&rows);
            }
            store(&rows[..depth], to.add(k * row), row);
        }
    }
}

/// Packs [`PANEL`] lines of `f32` whose numbers of one `k` are side by side, as [`words_of_f32`] does.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn panel_of_f32(from: Lines<f32>, to: *mut u8, row: usize) {
    for k in 0..from.depth {
        // SAFETY: passed on.
        unsafe {
            let numbers = from.ptr.add(k * from.k).cast::<[f32; PANEL]>().read_unaligned();
            to.add(k * row).cast::<[f32; PANEL]>().write_unaligned(numbers);
        }
    }
}

/// Packs 32 lines of `bf16` whose numbers of one `k` are side by side: a row of 32 words for each pair of `k`.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn lines_of_bf16(from: Lines<Bf16>, to: *mut u8, row: usize) {
    /// For each number of 16 words its place in a pair of vectors, from which numbers are taken in turn.
    const IN_TURN: [[u16; 32]; 2] = {
        let mut from = [[0; 32]; 2];
        let mut i = 0;
        while i < 64 {
            from[i / 32][i % 32] = (i / 2 + 32 * (i % 2)) as u16;
            i += 1;
        }
        from
    };
    // SAFETY: each array has 64 bytes; the rest is passed on.
    unsafe {
        let in_turn = IN_TURN.each_ref().map(|from| from.as_ptr());
        let in_turn = [
            _mm512_loadu_si512(in_turn[0].cast()),
            _mm512_loadu_si512(in_turn[1].cast()),
        ];
        for k in (0..from.depth).step_by(2) {
            let at = from.ptr.wrapping_add(k * from.k);
            let first = _mm512_loadu_si512(at.cast());
            let second = if k + 1 < from.depth {
                _mm512_loadu_si512(at.wrapping_add(from.k).cast())
            } else {
                _mm512_setzero_si512()
            };
            let to = to.add(k / 2 * row);
            for half in 0..2 {
                let words = _mm512_permutex2var_epi16(first, in_turn[half], second);
                _mm512_storeu_si512(to.add(half * 64).cast(), words);
            }
        }
    }
}

/// Packs up to 16 lines of `bf16`: a row of 16 words for each pair of `k`. Numbers beyond the last line or `k` are
/// zeros.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn words_of_bf16(from: Lines<Bf16>, to: *mut u8, row: usize) {
    for k in (0..from.depth).step_by(2 * VECTOR) {
        let depth = (from.depth - k).min(2 * VECTOR);
        let at = from.ptr.wrapping_add(k * from.k);
        let mut rows = [_mm512_setzero_si512(); VECTOR];
        // SAFETY: as above.
        unsafe {
            if from.line == 1 {
                for k in 0..depth {
                    let number = at.wrapping_add(k * from.k).cast();
                    let wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(from.lines), number));
                    // The number of an odd `k` is the upper half of a word.
                    rows[k / 2] = match k % 2 {
                        0 => wide,
                        _ => _mm512_or_si512(rows[k / 2], _mm512_slli_epi32::<16>(wide)),
                    };
                }
            } else {
                for (i, row) in rows.iter_mut().enumerate().take(from.lines) {
                    let line = at.wrapping_add(i * from.line);
                    *row = if from.k == 1 {
                        let mask = ((1u64 << depth) - 1) as __mmask32;
                        _mm512_maskz_loadu_epi16(mask, line.cast())
                    } else {
                        let mut numbers = [Bf16::default(); 2 * VECTOR];
                        for (j, number) in numbers.iter_mut().enumerate().take(depth) {
                            *number = *line.add(j * from.k);
                        }
                        _mm512_loadu_si512(numbers.as_ptr().cast())
                    };
                }
                rows = transpose(&rows);
            }
            store(&rows[..depth.div_ceil(2)], to.add(k / 2 * row), row);
        }
    }
}

/// Packs up to 16 lines of codes: a row of 16 words for each four `k`, of levels, code less 128. Levels beyond the last
/// line or `k` are zeros.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) unsafe fn words_of_codes(from: Lines<Code>, to: *mut u8, row: usize) {
    const CODES: usize = 4 * VECTOR;
    for k in (0..from.depth).step_by(CODES) {
        let depth = (from.depth - k).min(CODES);
        let at = from.ptr.wrapping_add(k * from.k);
        let there = if depth == CODES { !0 } else { (1u64 << depth) - 1 };
        let mut rows = [_mm512_setzero_si512(); VECTOR];
        // SAFETY: as above.
        unsafe {
            for (i, row) in rows.iter_mut().enumerate().take(from.lines) {
                let line = at.wrapping_add(i * from.line);
                let codes = if from.k == 1 {
                    _mm512_maskz_loadu_epi8(there, line.cast())
                } else {
                    let mut codes = [Code::default(); CODES];
                    for (j, code) in codes.iter_mut().enumerate().take(depth) {
                        *code = *line.add(j * from.k);
                    }
                    _mm512_loadu_si512(codes.as_ptr().cast())
                };
                *row = _mm512_maskz_sub_epi8(there, codes, _mm512_set1_epi8(i8::MIN));
            }
            store(&transpose(&rows)[..depth.div_ceil(4)], to.add(k / 4 * row), row);
        }
    }
}

/// Writes rows of 16 words, `row` bytes from one to the next.
///
/// # Safety
/// The rows are writable.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(rows: &[__m512i], to: *mut u8, row: usize) {
    for (i, words) in rows.iter().enumerate() {
        // SAFETY: passed on.
        unsafe { _mm512_storeu_si512(to.add(i * row).cast(), *words) };
    }
}
