//! Products of codes by vectors of 256 bits, on the panels of the products by AVX-512 VNNI and with the same sums.
//!
//! VNNI multiplies words of four codes. Without it, AVX2 multiplies pairs of 16 bits. A word is two such pairs, of its
//! even and of its odd bytes, so that no sum of products is out of range: the instruction of AVX2 that multiplies bytes
//! would cut sums beyond 16 bits.

use std::arch::x86_64::*;

use super::words::{self, REGISTERS, Row, begun, both, narrow_products, read, written};
use crate::kernels::codes::sums::Code;
use crate::kernels::x86::words::lines::Lines;
use crate::kernels::x86::words::terms::{Columns, Place, Runs};
use crate::kernels::x86::words::tiles::{in_tiles, unrolled};
use crate::kernels::x86::words::{VECTOR, WORD};

/// The most rows of a register tile without VNNI: 8 registers of sums, 4 of the right factor and 2 of the left one.
const ROWS: usize = 4;

/// Adds the products of a word and a row of words to each row of a tile, as pairs.
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

narrow_products!(rows_by_pairs, columns_by_pairs, "avx2,fma", ROWS, add);

/// Defines the products by an encoding of VNNI.
macro_rules! vnni_products {
    ($rows:ident, $columns:ident, $features:literal, $add:ident, $dot:ident) => {
        /// Adds the products of a word and a row of words to each row of a tile.
        ///
        /// # Safety
        /// The words are readable.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $add<const R: usize>(sums: &mut [Row; R], left: impl Fn(usize) -> *const u8, right: Row) {
            unrolled!(I < R, {
                // SAFETY: passed on.
                let word = _mm256_set1_epi32(unsafe { left(I).cast::<i32>().read_unaligned() });
                both!(J, {
                    let [sum, right] = [sums[I][J], right[J]].map(|x| _mm256_castps_si256(x));
                    sums[I][J] = _mm256_castsi256_ps($dot(sum, word, right));
                });
            });
        }
        narrow_products!($rows, $columns, $features, words::ROWS, $add);
    };
}

vnni_products!(
    rows_by_vex,
    columns_by_vex,
    "avx2,fma,avxvnni",
    add_vex,
    _mm256_dpbusd_avx_epi32
);
vnni_products!(
    rows_by_evex,
    columns_by_evex,
    "avx2,fma,avx512vnni,avx512vl",
    add_evex,
    _mm256_dpbusd_epi32
);

/// Writes a row of 16 words for each four `k`, `row` bytes apart: codes less 128. Absent numbers are zeros.
///
/// # Safety
/// The lines are readable and the rows writable.
pub(crate) unsafe fn words_of_codes(from: Lines<Code>, to: *mut u8, row: usize) {
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
