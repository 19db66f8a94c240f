//! Splitting: 16 by 32 numbers of `f32` become tiles of `bf16`, three parts of each number.
//!
//! With `a1` the nearest `bf16` of `a`, `a2` that of `a - a1` and `a3` that of `a - a1 - a2`, the sum of the three is
//! `a` but for 2^-26 of it at most.

use std::arch::x86_64::*;

pub(crate) use super::source::Order;
use super::source::Source;
use super::{STEP, STRIP, TILE_BYTES};
use crate::kernels::x86::avx512::transpose::transpose;

/// Parts of a number.
pub(crate) const PARTS: usize = 3;

/// Splits a source into one tile for each part, `apart` bytes from each other, and returns whether all its numbers are
/// finite and have a finite first part.
///
/// # Safety
/// The CPU has AVX-512 with BF16, the source's elements are readable, and the tiles writable.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
pub(crate) unsafe fn split(source: Source<f32>, order: Order, to: *mut u8, apart: usize) -> bool {
    let to = Tiles { to, apart };
    // SAFETY: passed on; a source whose elements do not follow each other in either direction is copied first.
    unsafe {
        let (source, along_k) = match (source.k, source.line) {
            (1, _) => (source, true),
            (_, 1) => (source, false),
            _ => return split(source.dense(&mut [0.0; STRIP * STEP]), order, to.to, apart),
        };
        match order {
            Order::Lines => lines(source, along_k, to),
            Order::Pairs => pairs(source, along_k, to),
        }
    }
}

impl Source<f32> {
    /// Reads 16 `k` from `from` on, as rows of the lines or as rows of the `k`.
    ///
    /// # Safety
    /// As for [`split`]; the source's elements follow each other along `k`, or along the lines.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn read(&self, from: usize, along_k: bool) -> [__m512; STRIP] {
        let depth = self.depth.saturating_sub(from).min(16);
        let (rows, mask, apart) = if along_k {
            (self.lines, first(depth), self.line)
        } else {
            (depth, first(self.lines), self.k)
        };
        let at = self.ptr.wrapping_add(from * self.k);
        let mut read = [_mm512_setzero_ps(); STRIP];
        for (i, row) in read.iter_mut().enumerate().take(rows) {
            // SAFETY: the mask leaves out elements after the source, which are not accessed.
            *row = unsafe { _mm512_maskz_loadu_ps(mask, at.wrapping_add(i * apart)) };
        }
        read
    }
}

/// Where the tiles of the parts lie.
#[derive(Clone, Copy)]
struct Tiles {
    to: *mut u8,
    apart: usize,
}

/// The first `n` of 16 elements.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n.min(16)) - 1) as __mmask16
}

/// Three parts of 16 numbers.
type Parts = [__m256i; PARTS];

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
fn parts(x: __m512, not_finite: &mut __mmask16) -> Parts {
    /// The least number that rounds to infinity as `bf16`.
    const TOO_LARGE: f32 = f32::from_bits(0x7f7f_8000);
    *not_finite |= _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(x), _mm512_set1_ps(TOO_LARGE));
    let narrow = |x: __m512| _mm512_cvtneps_pbh(x);
    let wide = |x: __m256bh| _mm512_cvtpbh_ps(x);
    let a = narrow(x);
    let rest = _mm512_sub_ps(x, wide(a));
    let b = narrow(rest);
    let c = narrow(_mm512_sub_ps(rest, wide(b)));
    // SAFETY: both types are 256 bits without invalid values.
    [a, b, c].map(|part| unsafe { std::mem::transmute::<__m256bh, __m256i>(part) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn transpose_numbers(rows: &mut [__m512; STRIP]) {
    // A loop stays in this function; a closure for `map` may become a function without its target features.
    let mut numbers = [_mm512_setzero_si512(); STRIP];
    for (number, row) in numbers.iter_mut().zip(rows.iter()) {
        *number = _mm512_castps_si512(*row);
    }
    let numbers = transpose(&numbers);
    for (row, number) in rows.iter_mut().zip(&numbers) {
        *row = _mm512_castsi512_ps(*number);
    }
}

/// Bytes of a row of a tile.
const ROW: usize = TILE_BYTES / STRIP;

/// Splits into tiles of a left factor.
///
/// # Safety
/// As for [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn lines(source: Source<f32>, along_k: bool, tiles: Tiles) -> bool {
    let mut not_finite = 0;
    for half in 0..2 {
        // SAFETY: passed on.
        let mut block = unsafe { source.read(16 * half, along_k) };
        if !along_k {
            transpose_numbers(&mut block);
        }
        for (i, row) in block.iter().enumerate() {
            let numbers = parts(*row, &mut not_finite);
            for part in 0..PARTS {
                // SAFETY: the row and its half lie within the tile.
                unsafe {
                    let at = tiles.to.add(part * tiles.apart + i * ROW + half * (ROW / 2));
                    _mm256_storeu_si256(at.cast(), numbers[part]);
                }
            }
        }
    }
    not_finite == 0
}

/// Splits into tiles of a right factor.
///
/// # Safety
/// As for [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
unsafe fn pairs(source: Source<f32>, along_k: bool, tiles: Tiles) -> bool {
    /// Where the numbers of a row of pairs come from: in turn from the one and the other 16.
    const INTERLEAVED: [u16; 32] = {
        let mut from = [0; 32];
        let mut i = 0;
        while i < 32 {
            from[i] = i as u16 / 2 + 16 * (i as u16 % 2);
            i += 1;
        }
        from
    };
    // SAFETY: the array has 64 bytes.
    let interleaved = unsafe { _mm512_loadu_si512(INTERLEAVED.as_ptr().cast()) };
    let mut not_finite = 0;
    for half in 0..2 {
        // SAFETY: passed on.
        let mut block = unsafe { source.read(16 * half, along_k) };
        if along_k {
            transpose_numbers(&mut block);
        }
        for (i, pair) in block.chunks_exact(2).enumerate() {
            let (x, y) = (parts(pair[0], &mut not_finite), parts(pair[1], &mut not_finite));
            for part in 0..PARTS {
                let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(x[part]), y[part]);
                // SAFETY: the row lies within the tile.
                unsafe {
                    let at = tiles.to.add(part * tiles.apart + (8 * half + i) * ROW);
                    _mm512_storeu_si512(at.cast(), _mm512_permutexvar_epi16(interleaved, both));
                }
            }
        }
    }
    not_finite == 0
}

/// The parts of the numbers of some lines, `line` elements apart, along some `k`, `k` elements apart: whether each
/// number has a finite first part, and for each part 16 lines by 32 `k`. None where the machine has no tiles.
///
/// # Panics
/// Where the lines are not in `data`, or are more than 16, or their `k` more than 32.
pub(crate) fn parts_of(
    data: &[f32],
    (line, k): (usize, usize),
    (lines, depth): (usize, usize),
    order: Order,
) -> Option<(bool, Vec<[[f32; STEP]; STRIP]>)> {
    assert!(lines <= STRIP && depth <= STEP && lines > 0 && depth > 0);
    assert!((lines - 1) * line + (depth - 1) * k < data.len());
    if !super::is_used() {
        return None;
    }
    let source = Source {
        ptr: data.as_ptr(),
        line,
        k,
        lines,
        depth,
    };
    let mut tiles = vec![0xffffu16; PARTS * TILE_BYTES / 2];
    // SAFETY: the CPU has AMX and the instructions that come with it, all elements are in `data` by the assertions, and
    // the tiles have their size.
    let finite = unsafe { split(source, order, tiles.as_mut_ptr().cast(), TILE_BYTES) };
    let number = |part: usize, line: usize, k: usize| {
        let at = match order {
            Order::Lines => line * STEP + k,
            Order::Pairs => k / 2 * (2 * STRIP) + 2 * line + k % 2,
        };
        f32::from_bits(u32::from(tiles[part * (TILE_BYTES / 2) + at]) << 16)
    };
    let part = |part| std::array::from_fn(|line| std::array::from_fn(|k| number(part, line, k)));
    Some((finite, (0..PARTS).map(part).collect()))
}
