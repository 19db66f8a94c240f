//! Products of codes by vectors of 256 bits.
//!
//! The codes of some rows are copied as levels, with the sum of each row. Codes of the matrix are read in place as
//! numbers from 0 to 255: an element is their sum of products less 128 times the sum of the row. Where the codes of all
//! columns of the product follow each other, rows of codes are interleaved.

use std::arch::x86_64::*;
use std::ops::Range;

use super::multiply::{Multiply, Pairs, VECTOR};
use crate::kernels::codes::factors::{Factors, ZERO};
use crate::kernels::rows::Rows;
use crate::kernels::x86::byte_products::{Evex, Vex};

/// Rows whose levels are copied at a time.
const ROWS: usize = 16;

/// Sums of a vector.
const SUMS: usize = 8;

/// Columns of two vectors of sums, where the codes of all columns follow each other, and the rows of codes that are
/// asked for ahead.
const COLUMNS: usize = 2 * SUMS;
const AHEAD: usize = 16;

/// Bytes of columns of the matrix that are multiplied with all rows before the next ones, and the most such columns.
const CACHED: usize = 16 << 10;
const AT_ONCE: usize = 64;

/// Bytes of scratch for rows of `k` codes.
pub(crate) fn scratch_bytes(k: usize) -> usize {
    ROWS * k.next_multiple_of(VECTOR) * size_of::<i16>()
}

/// Some rows of codes as levels, and 128 times the sum of each row. A row is padded with zeros to whole vectors of the
/// matrix's codes.
struct Levels<M: Multiply> {
    rows: *mut M::Level,
    row: usize,
    zeros: [i32; ROWS],
    /// What the sums of some columns lack.
    lacking: [i32; AT_ONCE],
}

/// Defines the product by some instructions.
macro_rules! product {
    ($name:ident, $multiply:ident, $features:literal) => {
        /// Columns of the product of `n` rows of codes and a matrix with a row of codes for each column.
        ///
        /// # Safety
        /// The CPU has the instructions. The factors cover these elements, rows of codes and of `y` are runs of
        /// elements, the codes of columns follow each other or, where the code of zero is 128 or no VNNI is used, those
        /// of all columns, `y` overlaps nothing, and `scratch` has [`scratch_bytes`].
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>, scratch: *mut u8) {
            // SAFETY: passed on.
            unsafe { product::<$multiply>(n, columns, factors, y, scratch) }
        }
    };
}
product!(by_pairs, Pairs, "avx2,fma");
product!(by_vex, Vex, "avx2,fma,avxvnni");
product!(by_evex, Evex, "avx2,fma,avx512vnni,avx512vl");

#[inline(always)]
unsafe fn product<M: Multiply>(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>, scratch: *mut u8) {
    let mut levels = Levels::<M> {
        rows: scratch.cast(),
        row: factors.k.next_multiple_of(VECTOR),
        zeros: [0; ROWS],
        lacking: [0; AT_ONCE],
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
            let at_once = (CACHED / factors.k.max(1) / 4 * 4).clamp(4, AT_ONCE);
            let mut column = columns.start;
            while column < columns.end {
                let next = (column + at_once).min(columns.end);
                if M::lacking(factors.zero) != 0 {
                    for j in column..next {
                        levels.lacking[j - column] = lacking::<M>(&factors, j);
                    }
                }
                let mut r = 0;
                while r + 4 <= rows {
                    tiles::<M, 4, 2>(&levels, r, column..next, &factors, y);
                    r += 4;
                }
                while r < rows {
                    tiles::<M, 1, 4>(&levels, r, column..next, &factors, y);
                    r += 1;
                }
                column = next;
            }
        }
    }
}

impl<M: Multiply> Levels<M> {
    /// Copies a row of `k` codes with this code of zero.
    ///
    /// # Safety
    /// There are the codes, and room for the row.
    #[inline(always)]
    unsafe fn copy(&mut self, r: usize, k: usize, (codes, zero): (*const u8, u8), are_parted: bool) {
        let mut sum = 0;
        for i in 0..self.row {
            let at = if are_parted {
                i / VECTOR * VECTOR + M::place(i % VECTOR)
            } else {
                i
            };
            // SAFETY: passed on.
            unsafe {
                let to = self.rows.add(r * self.row + at);
                if i < k {
                    let level = M::level(*codes.add(i), zero);
                    to.write(level);
                    sum += level.into();
                } else {
                    to.write_bytes(0, 1);
                }
            }
        }
        self.zeros[r] = ZERO.wrapping_mul(sum);
    }
}

/// `R` rows from `r` on and some columns, `C` at a time.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn tiles<M: Multiply, const R: usize, const C: usize>(
    levels: &Levels<M>,
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
                add::<M, R, C>(&mut sums, (first.add(at), levels.row), (&right, at));
            }
            if whole < factors.k {
                let mut rest = [[0u8; VECTOR]; C];
                for (rest, right) in rest.iter_mut().zip(right) {
                    let right = right.add(whole);
                    right.copy_to_nonoverlapping(rest.as_mut_ptr(), factors.k - whole);
                }
                let rest = rest.each_ref().map(|rest| rest.as_ptr());
                add::<M, R, C>(&mut sums, (first.add(whole), levels.row), (&rest, 0));
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate().take(columns.end - column) {
                    let lacking = levels.lacking[column + j - columns.start];
                    let sum = total(sum).wrapping_sub(levels.zeros[r + i]).wrapping_add(lacking);
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
#[inline(always)]
unsafe fn add<M: Multiply, const R: usize, const C: usize>(
    sums: &mut [[__m256i; C]; R],
    (levels, row): (*const M::Level, usize),
    (right, at): (&[*const u8; C], usize),
) {
    for j in 0..C {
        // SAFETY: passed on.
        unsafe {
            let codes = _mm256_loadu_si256(right[j].add(at).cast());
            for i in 0..R {
                sums[i][j] = M::add(sums[i][j], codes, levels.wrapping_add(i * row));
            }
        }
    }
}

/// What the sums of products of a column lack: where levels are less another number than the code of zero, the
/// difference times the sum of the column's levels.
///
/// # Safety
/// The codes of the column lie side by side.
#[inline(always)]
unsafe fn lacking<M: Multiply>(factors: &Factors, column: usize) -> i32 {
    // SAFETY: passed on.
    let codes = unsafe { std::slice::from_raw_parts(factors.weight.at(column).cast_const(), factors.k) };
    let sum: i32 = codes.iter().map(|code| i32::from(*code)).sum();
    M::lacking(factors.zero).wrapping_mul(sum - ZERO * factors.k as i32)
}

/// The sum of the numbers of a vector.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn total(sums: __m256i) -> i32 {
    // SAFETY: passed on.
    unsafe {
        let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two)))
    }
}

/// Columns of the product of some rows and a matrix whose codes of one `k` follow each other.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn interleaved<M: Multiply>(
    levels: &Levels<M>,
    rows: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    // The columns of a cache line are multiplied with all rows before the next ones.
    for column in columns.clone().step_by(4 * COLUMNS) {
        let some = column..columns.end.min(column + 4 * COLUMNS);
        let mut r = 0;
        // SAFETY: passed on.
        unsafe {
            while r + 3 <= rows {
                interleaved_tiles::<M, 3, 2>(levels, r, some.clone(), factors, y);
                r += 3;
            }
            while r < rows {
                interleaved_tiles::<M, 1, 4>(levels, r, some.clone(), factors, y);
                r += 1;
            }
        }
    }
}

/// `R` rows from `r` on and these columns: `C` times 16 of them, then 16 at a time.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn interleaved_tiles<M: Multiply, const R: usize, const C: usize>(
    levels: &Levels<M>,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    let mut column = columns.start;
    // SAFETY: passed on.
    unsafe {
        while column + C * COLUMNS <= columns.end {
            interleaved_tile::<M, R, C, true>(levels, r, column..column + C * COLUMNS, factors, y);
            column += C * COLUMNS;
        }
        while column + COLUMNS <= columns.end {
            interleaved_tile::<M, R, 1, true>(levels, r, column..column + COLUMNS, factors, y);
            column += COLUMNS;
        }
        if column < columns.end {
            interleaved_tile::<M, R, 1, false>(levels, r, column..columns.end, factors, y);
        }
    }
}

/// `R` rows from `r` on and `C` times 16 columns, or fewer than 16 where they are not `WHOLE`.
///
/// # Safety
/// As for [`product`].
#[inline(always)]
unsafe fn interleaved_tile<M: Multiply, const R: usize, const C: usize, const WHOLE: bool>(
    levels: &Levels<M>,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    let (apart, first) = (factors.weight.col, factors.weight.ptr.wrapping_add(columns.start));
    // SAFETY: the CPU has the instructions.
    let mut sums = unsafe { [[[_mm256_setzero_si256(); 2]; C]; R] };
    for k in (0..factors.k).step_by(M::WORD) {
        for row in 0..M::WORD {
            // SAFETY: a prefetch reads nothing. Rows of codes may lie pages apart, where the CPU does not foresee them.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add((k + AHEAD + row) * apart).cast()) };
        }
        for c in 0..C {
            // SAFETY: passed on; levels beyond the last row of codes are zeros, so that this row stands for others.
            unsafe {
                let mut rows = [_mm_setzero_si128(); 4];
                for row in 0..M::WORD {
                    let from = first.wrapping_add((k + row).min(factors.k - 1) * apart + c * COLUMNS);
                    rows[row] = if WHOLE {
                        _mm_loadu_si128(from.cast())
                    } else {
                        fewer(from, columns.len())
                    };
                }
                let words = M::words(rows);
                for i in 0..R {
                    let word = levels.rows.add((r + i) * levels.row + k).cast::<i32>().read_unaligned();
                    let word = _mm256_set1_epi32(word);
                    for half in 0..2 {
                        sums[i][c][half] = M::dot(sums[i][c][half], words[half], word);
                    }
                }
            }
        }
    }
    for (i, of_row) in sums.into_iter().enumerate() {
        let starts = columns.clone().step_by(COLUMNS);
        for (start, halves) in starts.zip(of_row) {
            let mut all = [0i32; COLUMNS];
            for (j, sums) in halves.into_iter().enumerate() {
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

/// Fewer than 16 codes; the others are zeros.
///
/// # Safety
/// There are the codes.
#[inline(always)]
unsafe fn fewer(from: *const u8, count: usize) -> __m128i {
    let mut some = [0u8; COLUMNS];
    // SAFETY: passed on; the array has 16 codes.
    unsafe {
        from.copy_to_nonoverlapping(some.as_mut_ptr(), count);
        _mm_loadu_si128(some.as_ptr().cast())
    }
}
