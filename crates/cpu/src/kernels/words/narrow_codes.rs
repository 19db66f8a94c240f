//! Products of codes by vectors of AVX2, on the panels of the products by AVX-512 VNNI and with the same sums.
//!
//! AVX2 multiplies pairs of 16 bits. A word of four codes is two such pairs, of its even and of its odd bytes, so that
//! no sum of products is out of range: the instruction that multiplies bytes would cut sums beyond 16 bits.

use std::arch::x86_64::*;

use super::narrow::{REGISTERS, Row, begun, both, read, written};
use super::pack::Lines;
use super::products::{Columns, Place, Runs};
use super::tiles::{in_tiles, unrolled};
use super::{VECTOR, WORD};
use crate::kernels::coded_sums::Code;

/// The most rows of a register tile: 8 registers of sums, 4 of the right factor and 2 of the left one.
const ROWS: usize = 4;

/// Adds the products of a word and a row of words to each row of a tile.
///
/// # Safety
/// The words are readable.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add<const R: usize>(sums: &mut [Row; R], left: impl Fn(usize) -> *const u8, right: Row) {
    let mut pairs = [[_mm256_setzero_si256(); 2]; REGISTERS];
    both!(J, {
        let words = _mm256_castps_si256(right[J]);
        pairs[J] = [
            _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(words)),
            _mm256_srai_epi16::<8>(words),
        ];
    });
    unrolled!(I < R, {
        // SAFETY: passed on.
        let word = _mm256_set1_epi32(unsafe { left(I).cast::<i32>().read_unaligned() });
        let even = _mm256_and_si256(word, _mm256_set1_epi16(0x00ff));
        let odd = _mm256_srli_epi16::<8>(word);
        both!(J, {
            let both = _mm256_add_epi32(
                _mm256_madd_epi16(even, pairs[J][0]),
                _mm256_madd_epi16(odd, pairs[J][1]),
            );
            sums[I][J] = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sums[I][J]), both));
        });
    });
}

/// The product of `rows` rows and `width` columns, as by AVX-512 VNNI.
///
/// # Safety
/// The CPU has AVX2 and FMA, the words are readable, and nobody else accesses the elements of the product.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn rows_of_codes(rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
    const R: usize = ROWS;
    for column in (0..width).step_by(VECTOR) {
        let terms = Runs {
            panel: terms.panel.wrapping_add(column * WORD),
            ..terms
        };
        let to = to.vector(column, width);
        // SAFETY: passed on.
        unsafe {
            in_tiles!(R, rows, |R, row| tile_of_rows::<R>(
                terms.from(row),
                to.from(row),
                accumulate
            ))
        };
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn tile_of_rows<const R: usize>(terms: Runs, to: Place, accumulate: bool) {
    const { assert!(R <= ROWS) };
    // SAFETY: passed on.
    unsafe {
        let mut sums = begun::<R>(&to, accumulate);
        for run in 0..terms.runs {
            let mut left = [std::ptr::null::<u8>(); R];
            let mut all_zeros = true;
            unrolled!(I < R, {
                let pointer = *terms.pointers.add(run * terms.apart + I);
                all_zeros &= pointer == terms.zeros;
                left[I] = pointer.add(terms.offset);
            });
            if all_zeros {
                continue;
            }
            let mut panel = terms.panel.add(run * terms.panel_apart);
            for word in 0..terms.words {
                let right = read(panel.cast(), !0);
                panel = panel.add(terms.panel_row);
                add(&mut sums, |i| left[i].wrapping_add(word * WORD), right);
            }
        }
        written(&to, &sums);
    }
}

/// The product of columns, as by AVX-512 VNNI.
///
/// # Safety
/// As for [`rows_of_codes`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn columns_of_codes(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool) {
    const R: usize = ROWS;
    for column in (0..width).step_by(VECTOR) {
        let terms = Columns {
            right: terms.right.wrapping_add(column * WORD),
            ..terms
        };
        let to = to.vector(column, width);
        // SAFETY: passed on.
        unsafe {
            in_tiles!(R, rows, |R, row| tile_of_columns::<R>(
                terms.from(row),
                to.from(row),
                accumulate
            ))
        };
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn tile_of_columns<const R: usize>(terms: Columns, to: Place, accumulate: bool) {
    const { assert!(R <= ROWS) };
    // SAFETY: passed on.
    unsafe {
        let mut sums = begun::<R>(&to, accumulate);
        let mut right = terms.right;
        for word in 0..terms.words {
            let left = (*terms.pointers.add(word)).add(terms.offset);
            let row = read(right.cast(), to.last);
            right = right.add(terms.right_row);
            add(&mut sums, |i| left.wrapping_add(i * WORD), row);
        }
        written(&to, &sums);
    }
}

/// Writes a row of 16 words for each four `k`, `row` bytes apart: codes less 128. Absent numbers are zeros.
///
/// # Safety
/// The lines are readable and the rows writable.
pub(super) unsafe fn words_of_codes(from: Lines<Code>, to: *mut u8, row: usize) {
    for k in (0..from.depth).step_by(WORD) {
        let depth = (from.depth - k).min(WORD);
        // SAFETY: only codes of the lines are read.
        unsafe {
            let to = to.add(k / WORD * row).cast::<[i8; WORD]>();
            for i in 0..VECTOR {
                let mut levels = [0; WORD];
                if i < from.lines {
                    let first = from.ptr.add(i * from.line + k * from.k);
                    for (j, level) in levels[..depth].iter_mut().enumerate() {
                        // A code less 128, modulo 256, is the code with its first bit turned.
                        *level = ((*first.add(j * from.k)).0 ^ 0x80) as i8;
                    }
                }
                to.add(i).write_unaligned(levels);
            }
        }
    }
}
