//! Products of codes of 8 and of 4 bits by vectors of 256 bits, with the bits of the plain loops. Without VNNI, pairs
//! of products are added up in 16 bits: products of a level and a code of 4 bits are below 2^11, so no sum of two is
//! out of range.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::kernels::codes::nibbles::{BLOCK, LANES, Levels, Nibbles, total};
use crate::kernels::rows::Rows;
use crate::kernels::x86::byte_products::{Dot, Evex, Vex};

/// Rows of a register tile.
const TILE: usize = 4;

/// Bytes of half a block, and lanes of it.
const HALF: usize = BLOCK / 2;
const HALF_LANES: usize = LANES / 2;

/// Bytes ahead of those that are read whose cache line is asked for: columns lie one after the other.
const AHEAD: usize = 1 << 10;

/// The instructions without VNNI.
#[derive(Clone, Copy)]
struct Pairs;

/// Sums of two products of these levels and codes fit 16 bits.
impl Dot for Pairs {
    #[inline(always)]
    unsafe fn dot(sums: __m256i, codes: __m256i, levels: __m256i) -> __m256i {
        // SAFETY: passed on.
        unsafe {
            let pairs = _mm256_maddubs_epi16(codes, levels);
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }
}

/// Defines the product by some instructions.
macro_rules! product {
    ($name:ident, $dot:ident, $features:literal) => {
        /// Columns of the product of some rows whose levels are there.
        ///
        /// # Safety
        /// The CPU has the instructions. The factors cover these elements, and rows of `y` are runs of elements; `y`
        /// overlaps nothing.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(
            rows: usize,
            columns: Range<usize>,
            factors: &Nibbles,
            levels: Levels,
            y: Rows<f32>,
        ) {
            // SAFETY: passed on.
            unsafe { product::<$dot>(rows, columns, factors, levels, y) }
        }
    };
}
product!(by_pairs, Pairs, "avx2,fma");
product!(by_vex, Vex, "avx2,fma,avxvnni");
product!(by_evex, Evex, "avx2,fma,avx512vnni,avx512vl");

#[inline(always)]
unsafe fn product<D: Dot>(rows: usize, columns: Range<usize>, factors: &Nibbles, levels: Levels, y: Rows<f32>) {
    for j in columns {
        let mut r = 0;
        // SAFETY: passed on.
        unsafe {
            while r + TILE <= rows {
                tile::<TILE, D>(r, j, factors, levels, y);
                r += TILE;
            }
            while r < rows {
                tile::<1, D>(r, j, factors, levels, y);
                r += 1;
            }
        }
    }
}

/// `R` rows from `r` on and one column.
///
/// # Safety
/// As for the product.
#[inline(always)]
unsafe fn tile<const R: usize, D: Dot>(r: usize, j: usize, factors: &Nibbles, levels: Levels, y: Rows<f32>) {
    let last = factors.k.div_ceil(factors.group) - 1;
    // The group of the next half block, and the elements of it that are left: groups are multiples of half blocks.
    let (mut group, mut left) = (0, factors.group);
    // SAFETY: passed on.
    unsafe {
        let low = _mm256_set1_epi8(0x0f);
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        let (bytes, scales) = factors.column(j);
        for block in 0..levels.blocks {
            _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(block * HALF + AHEAD).cast());
            let packed = _mm256_loadu_si256(bytes.add(block * HALF).cast());
            let codes = [
                _mm256_and_si256(packed, low),
                _mm256_and_si256(_mm256_srli_epi16::<4>(packed), low),
            ];
            for half in 0..2 {
                let scale = _mm256_set1_ps(*scales.add(group.min(last)));
                left -= HALF;
                if left == 0 {
                    (group, left) = (group + 1, factors.group);
                }
                for i in 0..R {
                    let at = (r + i) * levels.blocks + block;
                    let begin = levels.begin.add(at * LANES + half * HALF_LANES);
                    let row = levels.levels.add(at * BLOCK + half * HALF);
                    let begin = _mm256_loadu_si256(begin.cast());
                    let part = D::dot(begin, codes[half], _mm256_loadu_si256(row.cast()));
                    sums[i][half] = _mm256_add_ps(sums[i][half], _mm256_mul_ps(_mm256_cvtepi32_ps(part), scale));
                }
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            let mut lanes = [0f32; LANES];
            for (half, sum) in sum.into_iter().enumerate() {
                _mm256_storeu_ps(lanes.as_mut_ptr().add(half * HALF_LANES), sum);
            }
            *y.at(r + i).add(j) = total(lanes) * *factors.scale.at(r + i);
        }
    }
}
