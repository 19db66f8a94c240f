//! Packing: lines of a factor, 16 or 32 at a time, become rows of their words.

use std::arch::x86_64::*;

use super::VECTOR;
use crate::kernels::cast::Bf16;
use crate::kernels::coded_sums::Code;
use crate::kernels::panels::source::transpose;

/// Some rows or columns of a matrix along with some of its extent in `k`.
#[derive(Clone, Copy)]
pub(crate) struct Lines<T> {
    pub(super) ptr: *const T,
    /// Elements from line to line, and from one `k` to the next.
    pub(super) line: usize,
    pub(super) k: usize,
    /// How many lines there are, and how many `k`.
    pub(super) lines: usize,
    pub(super) depth: usize,
}

impl<T> Lines<T> {
    /// The lines from one on.
    pub(super) fn from(self, line: usize) -> Lines<T> {
        Lines {
            ptr: self.ptr.wrapping_add(line * self.line),
            lines: self.lines.saturating_sub(line),
            ..self
        }
    }

    /// The first lines, at most `most` of them.
    pub(super) fn at_most(self, most: usize) -> Lines<T> {
        Lines {
            lines: self.lines.min(most),
            ..self
        }
    }
}

/// The first `n` of 16 lanes.
fn first(n: usize) -> __mmask16 {
    ((1u32 << n.min(VECTOR)) - 1) as __mmask16
}

/// Writes a row of 16 words for each `k`, `row` bytes apart; lines that there are not are zeros.
///
/// # Safety
/// The CPU has AVX-512, the lines are readable and the rows writable.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn words_of_f32(from: Lines<f32>, to: *mut u8, row: usize) {
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

/// Packs 32 lines that follow each other: a row of 32 words for each two `k`.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn lines_of_bf16(from: Lines<Bf16>, to: *mut u8, row: usize) {
    /// Where the numbers of 16 words come from: in turn from the one and the other vector.
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

/// Writes a row of 16 words for each two `k`; absent numbers are zeros.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn words_of_bf16(from: Lines<Bf16>, to: *mut u8, row: usize) {
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
                    // The second number of a word is the upper half of its 32 bits.
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

/// Writes a row of 16 words for each four `k`: codes less 128. Absent numbers are zeros.
///
/// # Safety
/// As for [`words_of_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn words_of_codes(from: Lines<Code>, to: *mut u8, row: usize) {
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

/// Writes rows `row` bytes apart.
///
/// # Safety
/// They are writable.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(rows: &[__m512i], to: *mut u8, row: usize) {
    for (i, words) in rows.iter().enumerate() {
        // SAFETY: passed on.
        unsafe { _mm512_storeu_si512(to.add(i * row).cast(), *words) };
    }
}
