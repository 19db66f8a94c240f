//! Products of codes by AVX-512 VNNI, which multiplies four numbers from 0 to 255 by four from -128 to 127 and adds the
//! products up in 32 bits.
//!
//! The codes of some rows are copied as levels, code less 128, with the sum of each row. Rows of the matrix are read in
//! place as numbers from 0 to 255: an element is their sum of products less 128 times the sum of the row. Where the
//! codes of a column of the product follow each other, they are multiplied by 64; where those of all columns do, four
//! rows of codes are interleaved.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernels::codes::factors::{Factors, ZERO};
use crate::kernels::rows::Rows;

/// Rows whose levels are copied at a time.
const ROWS: usize = 128;

/// Codes of a vector.
const VECTOR: usize = 64;

/// Sums of a register tile: 4 rows of 4 columns, 2 of 8 or 1 of 16.
const SUMS: usize = 16;

/// Bytes of columns of the matrix that are multiplied with all rows before the next ones, so that they stay in the
/// first-level cache.
const CACHED: usize = 32 << 10;

/// Bytes of scratch for rows of `k` codes.
pub(crate) fn scratch_bytes(k: usize) -> usize {
    ROWS * k.next_multiple_of(VECTOR) + (ROWS + SUMS) * (size_of::<i32>() + size_of::<f32>())
}

/// Some rows of codes as levels, padded with zeros to whole vectors, with 128 times the sum of each row and its scale.
/// A vector of sums and scales can be read from each row on.
struct Levels {
    rows: *mut i8,
    row: usize,
    zeros: *mut i32,
    scales: *mut f32,
    /// What the sums of columns of the product lack, where the code of zero of the rows is not 128.
    lacking: [i32; SUMS],
}

/// Columns of the product of `n` rows of codes and a matrix with a row of codes for each column.
///
/// # Safety
/// The CPU has the instructions. The factors cover these elements, rows of codes and of `y` are runs of elements, `y`
/// overlaps nothing, and `scratch` has [`scratch_bytes`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
pub(crate) unsafe fn product(n: usize, columns: Range<usize>, factors: Factors, y: Rows<f32>, scratch: *mut u8) {
    let row = factors.k.next_multiple_of(VECTOR);
    let zeros = scratch.wrapping_add(ROWS * row).cast::<i32>();
    let mut levels = Levels {
        rows: scratch.cast(),
        row,
        zeros,
        scales: zeros.wrapping_add(ROWS + SUMS).cast(),
        lacking: [0; SUMS],
    };
    for first in (0..n).step_by(ROWS) {
        let rows = ROWS.min(n - first);
        // SAFETY: passed on; the rows exist, and the scratch has room for them.
        unsafe {
            for r in 0..rows {
                levels.copy(r, factors.k, factors.codes.at(first + r));
                if !factors.gives_sums() {
                    levels.scales.add(r).write(*factors.scale.at(first + r));
                }
            }
            let (factors, y) = (factors.from(first), y.from(first));
            if factors.weight.col != 1 {
                interleaved(&levels, rows, columns.clone(), &factors, y);
                continue;
            }
            let at_once = (CACHED / row.max(1) / 4 * 4).clamp(4, SUMS);
            let mut column = columns.start;
            while column < columns.end {
                let next = (column + at_once).min(columns.end);
                if factors.lacks() {
                    for j in column..next {
                        levels.lacking[j - column] = lacking(&factors, j);
                    }
                }
                let mut r = 0;
                while r + 4 <= rows {
                    for j in (column..next).step_by(4) {
                        tile::<4, 4>(&levels, r, (column, j..next), &factors, y);
                    }
                    r += 4;
                }
                if r + 2 <= rows {
                    for j in (column..next).step_by(8) {
                        tile::<2, 8>(&levels, r, (column, j..next), &factors, y);
                    }
                    r += 2;
                }
                if r < rows {
                    tile::<1, 16>(&levels, r, (column, column..next), &factors, y);
                }
                column = next;
            }
        }
    }
}

impl Levels {
    /// Copies a row of `k` codes.
    ///
    /// # Safety
    /// There are the codes, and room for the row.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
    unsafe fn copy(&self, r: usize, k: usize, codes: *const u8) {
        // SAFETY: passed on; masks leave out what is beyond the codes.
        unsafe {
            let to = self.rows.add(r * self.row);
            let (mut sums, ones) = (_mm512_setzero_si512(), _mm512_set1_epi8(1));
            for j in (0..k).step_by(VECTOR) {
                let there = there(k - j);
                let codes = _mm512_maskz_loadu_epi8(there, codes.add(j).cast());
                let levels = _mm512_maskz_sub_epi8(there, codes, _mm512_set1_epi8(ZERO as i8));
                sums = _mm512_dpbusd_epi32(sums, ones, levels);
                _mm512_storeu_si512(to.add(j).cast(), levels);
            }
            self.zeros.add(r).write(ZERO * _mm512_reduce_add_epi32(sums));
        }
    }

    /// Writes elements of `R` rows from `r` on and at most `C` columns, of which there are `count`, from the sums of
    /// products of 16 elements. What columns lack begins with column `first`.
    ///
    /// # Safety
    /// There are the rows and the columns.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
    unsafe fn write<const R: usize, const C: usize>(
        &self,
        r: usize,
        sums: __m512i,
        (first, column, count): (usize, usize, usize),
        factors: &Factors,
        y: Rows<f32>,
    ) {
        const { assert!(R * C == SUMS) };
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let of_row = _mm512_srl_epi32(lanes, _mm_cvtsi32_si128(C.ilog2() as i32));
        let of_column = _mm512_and_si512(lanes, _mm512_set1_epi32(const { C as i32 - 1 }));
        let columns = ((1u32 << count) - 1) as __mmask16;
        // SAFETY: passed on; masks leave out columns that are not there, and a vector of zeros and scales exists.
        unsafe {
            let zeros = _mm512_permutexvar_epi32(of_row, _mm512_loadu_si512(self.zeros.add(r).cast()));
            let mut sums = _mm512_sub_epi32(sums, zeros);
            if factors.lacks() {
                let lacking = _mm512_maskz_loadu_epi32(columns, self.lacking.as_ptr().add(column - first));
                sums = _mm512_add_epi32(sums, _mm512_permutexvar_epi32(of_column, lacking));
            }
            if !factors.bias.is_null() {
                let bias = _mm512_maskz_loadu_epi32(columns, factors.bias.add(column));
                sums = _mm512_add_epi32(sums, _mm512_permutexvar_epi32(of_column, bias));
            }
            let all = if factors.gives_sums() {
                _mm512_castsi512_ps(sums)
            } else {
                let scales = _mm512_permutexvar_ps(of_row, _mm512_loadu_ps(self.scales.add(r)));
                let of_matrix = _mm512_maskz_loadu_ps(columns, factors.weight_scale.add(column));
                let both = _mm512_mul_ps(scales, _mm512_permutexvar_ps(of_column, of_matrix));
                _mm512_mul_ps(_mm512_cvtepi32_ps(sums), both)
            };
            for i in 0..R {
                let to = y.at(r + i).wrapping_add(column).wrapping_sub(i * C);
                _mm512_mask_storeu_ps(to, columns << (i * C), all);
            }
        }
    }
}

/// What the sums of levels less 128 of a column lack: 128 less the code of zero times the sum of the column's levels.
///
/// # Safety
/// The codes of the column lie side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn lacking(factors: &Factors, column: usize) -> i32 {
    let (mut sums, ones) = (_mm512_setzero_si512(), _mm512_set1_epi8(1));
    for k in (0..factors.k).step_by(VECTOR) {
        // SAFETY: passed on; the mask leaves out what is beyond the column.
        let codes = unsafe { _mm512_maskz_loadu_epi8(there(factors.k - k), factors.weight.at(column).add(k).cast()) };
        sums = _mm512_dpbusd_epi32(sums, codes, ones);
    }
    let sum = _mm512_reduce_add_epi32(sums) - ZERO * factors.k as i32;
    (ZERO - i32::from(factors.zero)).wrapping_mul(sum)
}

/// Which of 64 codes there are, where `left` are left.
#[inline(always)]
fn there(left: usize) -> __mmask64 {
    if left >= VECTOR { !0 } else { (1 << left) - 1 }
}

/// `R` rows from `r` on and the first `C` of these columns, or fewer.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn tile<const R: usize, const C: usize>(
    levels: &Levels,
    r: usize,
    (first, columns): (usize, Range<usize>),
    factors: &Factors,
    y: Rows<f32>,
) {
    const { assert!(R * C == SUMS) };
    // SAFETY: passed on; a column that is not there is read as the last one, and is not written.
    unsafe {
        let mut left = [std::ptr::null::<i8>(); R];
        for (i, left) in left.iter_mut().enumerate() {
            *left = levels.rows.add((r + i) * levels.row);
        }
        let mut right = [std::ptr::null::<u8>(); C];
        for (j, right) in right.iter_mut().enumerate() {
            *right = factors.weight.at((columns.start + j).min(columns.end - 1));
        }
        let mut sums = [_mm512_setzero_si512(); SUMS];
        let whole = factors.k / VECTOR * VECTOR;
        for at in (0..whole).step_by(VECTOR) {
            add::<R, C>(&mut sums, &left, at, |j| _mm512_loadu_si512(right[j].add(at).cast()));
        }
        if whole < factors.k {
            let there = there(factors.k - whole);
            add::<R, C>(&mut sums, &left, whole, |j| {
                _mm512_maskz_loadu_epi8(there, right[j].add(whole).cast())
            });
        }
        let count = C.min(columns.len());
        levels.write::<R, C>(r, totals(sums), (first, columns.start, count), factors, y);
    }
}

/// Adds the products of 64 numbers of each row and column.
///
/// # Safety
/// The rows have the levels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn add<const R: usize, const C: usize>(
    sums: &mut [__m512i; SUMS],
    left: &[*const i8; R],
    at: usize,
    right: impl Fn(usize) -> __m512i,
) {
    let mut rights = [_mm512_setzero_si512(); C];
    for (j, vector) in rights.iter_mut().enumerate() {
        *vector = right(j);
    }
    for i in 0..R {
        // SAFETY: passed on.
        let levels = unsafe { _mm512_loadu_si512(left[i].add(at).cast()) };
        for j in 0..C {
            sums[i * C + j] = _mm512_dpbusd_epi32(sums[i * C + j], rights[j], levels);
        }
    }
}

/// The sum of each of 16 vectors: halves of two are added into one, four times.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
fn totals(v: [__m512i; SUMS]) -> __m512i {
    let pairs = |a: __m512i, b: __m512i| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let fours = |a: __m512i, b: __m512i| _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    // Each of the four parts of 128 bits of the result has the sums of four vectors over that part.
    let quarter = |i: usize| fours(pairs(v[i], v[i + 1]), pairs(v[i + 2], v[i + 3]));
    let halves = |a: __m512i, b: __m512i| {
        _mm512_add_epi32(
            _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b),
        )
    };
    halves(halves(quarter(0), quarter(4)), halves(quarter(8), quarter(12)))
}

/// Vectors of sums of 64 columns.
const QUARTERS: usize = 4;

/// Codes of a column that an instruction adds up.
const WORD: usize = 4;

/// Columns of the product of some rows and a matrix whose codes of one `k` follow each other.
///
/// # Safety
/// As for [`product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn interleaved(levels: &Levels, rows: usize, columns: Range<usize>, factors: &Factors, y: Rows<f32>) {
    for column in columns.clone().step_by(VECTOR) {
        let some = column..columns.end.min(column + VECTOR);
        let mut r = 0;
        // SAFETY: passed on.
        unsafe {
            while r + 6 <= rows {
                interleaved_tile::<6>(levels, r, some.clone(), factors, y);
                r += 6;
            }
            while r + 2 <= rows {
                interleaved_tile::<2>(levels, r, some.clone(), factors, y);
                r += 2;
            }
            while r < rows {
                interleaved_tile::<1>(levels, r, some.clone(), factors, y);
                r += 1;
            }
        }
    }
}

/// `R` rows from `r` on and at most 64 columns.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn interleaved_tile<const R: usize>(
    levels: &Levels,
    r: usize,
    columns: Range<usize>,
    factors: &Factors,
    y: Rows<f32>,
) {
    let there = there(columns.len());
    let mut sums = [[_mm512_setzero_si512(); QUARTERS]; R];
    for k in (0..factors.k).step_by(WORD) {
        // SAFETY: passed on; the mask leaves out columns that are not there, and levels beyond the last one are zeros.
        unsafe {
            let row = |i: usize| {
                let from = factors
                    .weight
                    .ptr
                    .wrapping_add((k + i) * factors.weight.col + columns.start);
                let mask = if k + i < factors.k { there } else { 0 };
                _mm512_maskz_loadu_epi8(mask, from.cast())
            };
            let rights = words([row(0), row(1), row(2), row(3)]);
            for i in 0..R {
                let word = levels.rows.add((r + i) * levels.row + k).cast::<i32>().read_unaligned();
                let levels = _mm512_set1_epi32(word);
                for q in 0..QUARTERS {
                    sums[i][q] = _mm512_dpbusd_epi32(sums[i][q], rights[q], levels);
                }
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (q, quarter) in in_order(sums).into_iter().enumerate() {
            let column = columns.start + q * SUMS;
            let count = columns.end.saturating_sub(column).min(SUMS);
            // SAFETY: passed on.
            unsafe { levels.write::<1, SUMS>(r + i, quarter, (column, column, count), factors, y) };
        }
    }
}

/// Four rows of 64 codes as words of a code of each row. The words of vector `q` are those of the columns `4 q` to
/// `4 q + 3` of each 16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
fn words([a, b, c, d]: [__m512i; WORD]) -> [__m512i; QUARTERS] {
    let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab, cd),
        _mm512_unpackhi_epi16(ab, cd),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

/// The sums of 64 columns, which lie as [`words`] says, in the order of the columns: the transpose of 4 by 4 parts of
/// 128 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
fn in_order([a, b, c, d]: [__m512i; QUARTERS]) -> [__m512i; QUARTERS] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let (ab, ab_odd) = (_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b));
    let (cd, cd_odd) = (_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d));
    [
        _mm512_shuffle_i32x4::<EVEN>(ab, cd),
        _mm512_shuffle_i32x4::<EVEN>(ab_odd, cd_odd),
        _mm512_shuffle_i32x4::<ODD>(ab, cd),
        _mm512_shuffle_i32x4::<ODD>(ab_odd, cd_odd),
    ]
}
