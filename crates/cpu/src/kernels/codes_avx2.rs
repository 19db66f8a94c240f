//! Products of codes by AVX2, which multiplies pairs of 16 bits and adds both products up in 32 bits.
//!
//! The codes of some rows are copied as levels of 16 bits, code less the code of zero, with the sum of each row. Codes
//! of the matrix are read in place as numbers from 0 to 255: an element is their sum of products less 128 times the sum
//! of the row. Where the codes of a column of the product follow each other, their even and odd ones are multiplied
//! with the even and odd levels; where those of all columns do, two rows of codes are interleaved.

use std::arch::x86_64::*;
use std::ops::Range;

use super::coded_factors::{Factors, ZERO};
use super::rows::Rows;

/// Rows whose levels are copied at a time.
const ROWS: usize = 16;

/// Codes of a vector, and sums of one.
const VECTOR: usize = 32;
const SUMS: usize = 8;

/// Columns of two vectors of sums, where the codes of all columns follow each other, and the rows of codes that are
/// asked for ahead.
const COLUMNS: usize = 2 * SUMS;
const AHEAD: usize = 16;

/// Bytes of columns of the matrix that are multiplied with all rows before the next ones.
const CACHED: usize = 16 << 10;

/// Bytes of scratch for rows of `k` codes.
pub(super) fn scratch_bytes(k: usize) -> usize {
    ROWS * k.next_multiple_of(VECTOR) * size_of::<i16>()
}

/// Some rows of codes as levels, and 128 times the sum of each row.
///
/// A row is padded with zeros to whole vectors of the matrix's codes. Where these are multiplied column by column, the
/// 16 even levels of a vector are before the 16 odd ones.
struct Levels {
    rows: *mut i16,
    row: usize,
    zeros: [i32; ROWS],
}

/// Columns of the product of `n` rows of codes and a matrix with a row of codes for each column.
///
/// # Safety
/// The CPU has the instructions. The factors cover these elements, rows of codes and of `y` are runs of elements, the
/// codes of columns or of all columns follow each other, `y` overlaps nothing, and `scratch` has [`scratch_bytes`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn product(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>, scratch: *mut u8) {
    let mut levels = Levels {
        rows: scratch.cast(),
        row: factors.k.next_multiple_of(VECTOR),
        zeros: [0; ROWS],
    };
    let by_columns = factors.weight.col == 1;
    for first in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - first);
        // SAFETY: passed on; the rows exist, and the scratch has room for them.
        unsafe {
            for r in 0..rows {
                levels.copy(r, factors.k, (factors.codes.at(first + r), factors.zero), by_columns);
            }
            let (factors, y) = (factors.from(first), y.from(first));
            if !by_columns {
                interleaved(&levels, rows, columns.clone(), &factors, y);
                continue;
            }
            let at_once = (CACHED / factors.k.max(1) / 4 * 4).clamp(4, 64);
            let mut column = columns.start;
            while column < columns.end {
                let next = (column + at_once).min(columns.end);
                let mut r = 0;
                while r + 4 <= rows {
                    tiles::<4, 2>(&levels, r, column..next, &factors, y);
                    r += 4;
                }
                while r < rows {
                    tiles::<1, 4>(&levels, r, column..next, &factors, y);
                    r += 1;
                }
                column = next;
            }
        }
    }
}

impl Levels {
    /// Copies a row of `k` codes with this code of zero.
    ///
    /// # Safety
    /// There are the codes, and room for the row.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn copy(&mut self, r: usize, k: usize, (codes, zero): (*const u8, u8), are_parted: bool) {
        let mut sum = 0;
        for i in 0..self.row {
            let at = if are_parted {
                i / VECTOR * VECTOR + i % 2 * (VECTOR / 2) + i % VECTOR / 2
            } else {
                i
            };
            // SAFETY: passed on.
            unsafe {
                let level = if i < k {
                    i16::from(*codes.add(i)) - i16::from(zero)
                } else {
                    0
                };
                self.rows.add(r * self.row + at).write(level);
                sum += i32::from(level);
            }
        }
        self.zeros[r] = ZERO.wrapping_mul(sum);
    }
}

/// `R` rows from `r` on and some columns, `C` at a time.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn tiles<const R: usize, const C: usize>(
    levels: &Levels,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    for column in columns.clone().step_by(C) {
        // SAFETY: passed on; a column that is not there is read as the last one, and is not written.
        unsafe {
            let right: [*const u8; C] =
                std::array::from_fn(|j| factors.weight.at((column + j).min(columns.end - 1)).cast_const());
            let mut sums = [[_mm256_setzero_si256(); C]; R];
            let whole = factors.k / VECTOR * VECTOR;
            let first = levels.rows.add(r * levels.row).cast_const();
            for at in (0..whole).step_by(VECTOR) {
                add(&mut sums, (first.add(at), levels.row), (&right, at));
            }
            if whole < factors.k {
                let mut rest = [[0u8; VECTOR]; C];
                for (rest, right) in rest.iter_mut().zip(right) {
                    let right = right.add(whole);
                    right.copy_to_nonoverlapping(rest.as_mut_ptr(), factors.k - whole);
                }
                let rest = rest.each_ref().map(|rest| rest.as_ptr());
                add(&mut sums, (first.add(whole), levels.row), (&rest, 0));
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate().take(columns.end - column) {
                    let sum = total(sum).wrapping_sub(levels.zeros[r + i]);
                    *y.at(r + i).add(column + j) = f32::from_bits(factors.element(r + i, column + j, sum));
                }
            }
        }
    }
}

/// Adds the products of 32 levels of each row and 32 codes of each column, from a code of it on.
///
/// # Safety
/// The rows have the levels, and the columns the codes.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add<const R: usize, const C: usize>(
    sums: &mut [[__m256i; C]; R],
    (levels, row): (*const i16, usize),
    (right, at): (&[*const u8; C], usize),
) {
    // No closure is called here: the compiler would pass it vectors through memory.
    for j in 0..C {
        // SAFETY: passed on.
        let codes = unsafe { _mm256_loadu_si256(right[j].add(at).cast()) };
        let even = _mm256_and_si256(codes, _mm256_set1_epi16(0x00ff));
        let odd = _mm256_srli_epi16::<8>(codes);
        for i in 0..R {
            let of_row = levels.wrapping_add(i * row);
            // SAFETY: passed on.
            let evens = unsafe { _mm256_loadu_si256(of_row.cast()) };
            // SAFETY: passed on.
            let odds = unsafe { _mm256_loadu_si256(of_row.wrapping_add(VECTOR / 2).cast()) };
            let both = _mm256_add_epi32(_mm256_madd_epi16(even, evens), _mm256_madd_epi16(odd, odds));
            sums[i][j] = _mm256_add_epi32(sums[i][j], both);
        }
    }
}

/// The sum of the numbers of a vector.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn total(sums: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two)))
}

/// Columns of the product of some rows and a matrix whose codes of one `k` follow each other.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn interleaved(levels: &Levels, rows: usize, columns: Range<usize>, factors: &Factors, y: Rows<f32>) {
    let mut r = 0;
    // SAFETY: passed on.
    unsafe {
        while r + 4 <= rows {
            interleaved_tiles::<4, 1>(levels, r, columns.clone(), factors, y);
            r += 4;
        }
        while r < rows {
            interleaved_tiles::<1, 4>(levels, r, columns.clone(), factors, y);
            r += 1;
        }
    }
}

/// `R` rows from `r` on and these columns: `C` times 16 of them, then 16 at a time.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn interleaved_tiles<const R: usize, const C: usize>(
    levels: &Levels,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    let mut column = columns.start;
    // SAFETY: passed on.
    unsafe {
        while column + C * COLUMNS <= columns.end {
            interleaved_tile::<R, C>(levels, r, column..column + C * COLUMNS, factors, y);
            column += C * COLUMNS;
        }
        while column < columns.end {
            interleaved_tile::<R, 1>(levels, r, column..columns.end.min(column + COLUMNS), factors, y);
            column += COLUMNS;
        }
    }
}

/// `R` rows from `r` on and `C` times 16 columns, or, where `C` is 1, at most 16.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn interleaved_tile<const R: usize, const C: usize>(
    levels: &Levels,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    let mut sums = [[[_mm256_setzero_si256(); 2]; C]; R];
    let (apart, first) = (factors.weight.col, factors.weight.ptr.wrapping_add(columns.start));
    for k in (0..factors.k).step_by(2) {
        // Rows of codes may lie pages apart, where the CPU does not foresee them.
        for row in 0..2 {
            _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add((k + AHEAD + row) * apart).cast());
        }
        let (count, next) = (columns.len().min(COLUMNS), if k + 1 < factors.k { 1 } else { 0 });
        for c in 0..C {
            let from = first.wrapping_add(k * apart + c * COLUMNS);
            // SAFETY: passed on; behind the last row of codes there is none, and levels beyond the last one are zeros.
            unsafe {
                let one = sixteen(from, count);
                let other = sixteen(from.wrapping_add(next * apart), next * count);
                let (low, high) = (_mm256_unpacklo_epi16(one, other), _mm256_unpackhi_epi16(one, other));
                for i in 0..R {
                    let pair = levels.rows.add((r + i) * levels.row + k).cast::<i32>().read_unaligned();
                    let pair = _mm256_set1_epi32(pair);
                    sums[i][c][0] = _mm256_add_epi32(sums[i][c][0], _mm256_madd_epi16(low, pair));
                    sums[i][c][1] = _mm256_add_epi32(sums[i][c][1], _mm256_madd_epi16(high, pair));
                }
            }
        }
    }
    for (i, of_row) in sums.into_iter().enumerate() {
        let starts = columns.clone().step_by(COLUMNS);
        for (start, [low, high]) in starts.zip(of_row) {
            // Pairs of four columns lie in turn in the one and the other vector.
            let in_order = [
                _mm256_permute2x128_si256::<0x20>(low, high),
                _mm256_permute2x128_si256::<0x31>(low, high),
            ];
            let mut all = [0i32; COLUMNS];
            for (j, sums) in in_order.into_iter().enumerate() {
                // SAFETY: the array has room for both.
                unsafe { _mm256_storeu_si256(all.as_mut_ptr().add(j * SUMS).cast(), sums) };
            }
            for (column, sum) in (start..columns.end).zip(all) {
                let sum = sum.wrapping_sub(levels.zeros[r + i]);
                // SAFETY: passed on.
                unsafe { *y.at(r + i).add(column) = f32::from_bits(factors.element(r + i, column, sum)) };
            }
        }
    }
}

/// At most 16 codes as numbers of 16 bits; the others are zeros.
///
/// # Safety
/// There are the codes.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sixteen(from: *const u8, count: usize) -> __m256i {
    // SAFETY: passed on; the array has 16 codes.
    unsafe {
        if count == COLUMNS {
            return _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast()));
        }
        let mut some = [0u8; COLUMNS];
        from.copy_to_nonoverlapping(some.as_mut_ptr(), count);
        _mm256_cvtepu8_epi16(_mm_loadu_si128(some.as_ptr().cast()))
    }
}
