//! Products of codes of 8 and of 4 bits by AVX-512 VNNI, with the bits of the plain loops.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernels::codes::nibbles::{BLOCK, LANES, Levels, Nibbles, total};
use crate::kernels::rows::Rows;

/// Rows of a register tile.
const TILE: usize = 4;

/// Bytes ahead of those that are read whose cache line is asked for: columns lie one after the other.
const AHEAD: usize = 1 << 10;

/// Columns of the product of some rows whose levels are there.
///
/// # Safety
/// The CPU has the instructions. The factors cover these elements, and rows of `y` are runs of elements; `y` overlaps
/// nothing.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
pub(crate) unsafe fn product(rows: usize, columns: Range<usize>, factors: &Nibbles, levels: Levels, y: Rows<f32>) {
    let is_power = factors.group.is_power_of_two();
    for j in columns {
        let mut r = 0;
        // SAFETY: passed on.
        unsafe {
            while r + TILE <= rows {
                if is_power {
                    tile::<TILE, true>(r, j, factors, levels, y);
                } else {
                    tile::<TILE, false>(r, j, factors, levels, y);
                }
                r += TILE;
            }
            while r < rows {
                if is_power {
                    tile::<1, true>(r, j, factors, levels, y);
                } else {
                    tile::<1, false>(r, j, factors, levels, y);
                }
                r += 1;
            }
        }
    }
}

/// `R` rows from `r` on and one column. `IS_POWER` says that the elements of a group are a power of two.
///
/// # Safety
/// As for [`product`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")]
unsafe fn tile<const R: usize, const IS_POWER: bool>(
    r: usize,
    j: usize,
    factors: &Nibbles,
    levels: Levels,
    y: Rows<f32>,
) {
    const HALF: usize = BLOCK / 2;
    let shift = factors.group.trailing_zeros();
    let last = factors.k.div_ceil(factors.group) - 1;
    let low = _mm256_set1_epi8(0x0f);
    let mut sums = [_mm512_setzero_ps(); R];
    // SAFETY: passed on.
    unsafe {
        let (bytes, scales) = factors.column(j);
        for block in 0..levels.blocks {
            _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(block * HALF + AHEAD).cast());
            let packed = _mm256_loadu_si256(bytes.add(block * HALF).cast());
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(packed), low);
            let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_and_si256(packed, low)), high);
            let [first, second] = if IS_POWER {
                let [first, second] = [block * BLOCK, block * BLOCK + HALF].map(|element| element >> shift);
                [*scales.add(first), *scales.add(second.min(last))]
            } else {
                let group = |element: usize| *scales.add((element / factors.group).min(last));
                [block * BLOCK, block * BLOCK + HALF].map(group)
            };
            let scale = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(first), _mm512_set1_ps(second));
            for i in 0..R {
                let at = (r + i) * levels.blocks + block;
                let begin = _mm512_loadu_si512(levels.begin.add(at * LANES).cast());
                let row = _mm512_loadu_si512(levels.levels.add(at * BLOCK).cast());
                let part = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(begin, codes, row));
                sums[i] = _mm512_add_ps(sums[i], _mm512_mul_ps(part, scale));
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            let mut lanes = [0f32; LANES];
            _mm512_storeu_ps(lanes.as_mut_ptr(), sum);
            *y.at(r + i).add(j) = total(lanes) * *factors.scale.at(r + i);
        }
    }
}
