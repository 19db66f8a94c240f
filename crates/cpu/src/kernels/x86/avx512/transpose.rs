//! The transpose of 16 by 16 numbers by AVX-512.

use std::arch::x86_64::*;

/// Rows and columns of a square.
const SIDE: usize = 16;

/// The transpose of 16 by 16 numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(crate) fn transpose(rows: &[__m512i; SIDE]) -> [__m512i; SIDE] {
    let zero = _mm512_setzero_si512();
    let (mut twos, mut fours, mut eights, mut all) = ([zero; 16], [zero; 16], [zero; 16], [zero; 16]);
    for i in (0..16).step_by(2) {
        twos[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        twos[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    // Row `4 i + j` has column `j` of each quarter, for rows `4 i` to `4 i + 3`.
    for i in (0..16).step_by(4) {
        for half in 0..2 {
            fours[i + 2 * half] = _mm512_unpacklo_epi64(twos[i + half], twos[i + 2 + half]);
            fours[i + 2 * half + 1] = _mm512_unpackhi_epi64(twos[i + half], twos[i + 2 + half]);
        }
    }
    for i in 0..4 {
        for j in 0..2 {
            let (x, y) = (fours[8 * j + i], fours[8 * j + 4 + i]);
            // Quarters 0 and 2 of both, then 1 and 3.
            eights[8 * j + i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(x, y);
            eights[8 * j + 4 + i] = _mm512_shuffle_i32x4::<0b11_01_11_01>(x, y);
        }
    }
    for i in 0..4 {
        let (even, odd) = ((eights[i], eights[8 + i]), (eights[4 + i], eights[12 + i]));
        all[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even.0, even.1);
        all[8 + i] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even.0, even.1);
        all[4 + i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd.0, odd.1);
        all[12 + i] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd.0, odd.1);
    }
    all
}
