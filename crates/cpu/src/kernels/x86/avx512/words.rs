//! Products of words by AVX-512, of `bf16` by AVX-512 BF16 and of codes by AVX-512 VNNI: register tiles of 6 rows times
//! 64 columns are 24 registers.

use std::arch::x86_64::*;

use crate::kernels::x86::words::terms::{Columns, Place, Runs};
use crate::kernels::x86::words::tiles::{in_tiles, unrolled};
use crate::kernels::x86::words::{VECTOR, WORD};

/// Defines the product of `rows` rows and `width` columns of some terms, in register tiles; `$tiles` has the most rows
/// of a tile of 4, 3, 2 and 1 vectors. The body adds the terms of a tile of `R` rows and `V` vectors to its sums.
macro_rules! product {
    (
        $name:ident, $features:literal, $tiles:expr,
        |$terms:ident: $Terms:ty, $to:ident, $sums:ident: [$R:ident, $V:ident]| $body:block
    ) => {
        /// The product of `rows` rows and `width` columns.
        ///
        /// # Safety
        /// The CPU has the instructions, the words are readable, and nobody else accesses the elements of the product.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(rows: usize, width: usize, terms: $Terms, to: Place, accumulate: bool) {
            const MOST: [usize; 4] = $tiles;

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tiles<const R: usize, const V: usize>(rows: usize, terms: $Terms, to: Place, accumulate: bool) {
                // SAFETY: passed on.
                unsafe {
                    in_tiles!(R, rows, |R, row| tile::<R, V>(
                        terms.from(row),
                        to.from(row),
                        accumulate
                    ))
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn tile<const $R: usize, const $V: usize>($terms: $Terms, $to: Place, accumulate: bool) {
                // SAFETY: passed on.
                unsafe {
                    let mut $sums = [[_mm512_setzero_ps(); $V]; $R];
                    if accumulate {
                        $to.load(&mut $sums);
                    } else if !$to.bias.is_null() {
                        let row: [__m512; $V] = read($to.bias.add($to.column).cast(), $to.last);
                        unrolled!(I < $R, {
                            unrolled!(J < $V, {
                                $sums[I][J] = row[J];
                            });
                        });
                    }
                    $body
                    $to.store(&$sums);
                }
            }

            // SAFETY: passed on.
            unsafe {
                match width / VECTOR {
                    4 => tiles::<{ MOST[0] }, 4>(rows, terms, to, accumulate),
                    3 => tiles::<{ MOST[1] }, 3>(rows, terms, to, accumulate),
                    2 => tiles::<{ MOST[2] }, 2>(rows, terms, to, accumulate),
                    _ => tiles::<{ MOST[3] }, 1>(rows, terms, to, accumulate),
                }
            }
        }
    };
}

/// Words of a panel that are asked for before they are read: a panel of many words does not stay in the first cache.
const AHEAD: usize = 6;

/// The most rows of tiles of 4, 3, 2 and 1 vectors in products of rows and in products of columns.
const TILES: [[usize; 4]; 2] = [[6, 8, 8, 8], [6, 8, 12, 16]];

/// Defines the products of rows and of columns for a type of words: `add` adds the product of two words to a sum.
macro_rules! products {
    ($rows:ident, $columns:ident, $features:literal, $tiles:expr, |$sum:ident, $left:ident, $right:ident| $add:expr) => {
        product!($rows, $features, $tiles[0], |terms: Runs, to, sums: [R, V]| {
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
                    let right: [__m512; V] = read(panel, !0);
                    unrolled!(J < V, {
                        let ahead = AHEAD * terms.panel_row + J * (VECTOR * WORD);
                        _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add(ahead).cast());
                    });
                    panel = panel.add(terms.panel_row);
                    unrolled!(I < R, {
                        let $left = _mm512_set1_ps(left[I].add(word * WORD).cast::<f32>().read_unaligned());
                        unrolled!(J < V, {
                            let ($sum, $right) = (sums[I][J], right[J]);
                            sums[I][J] = $add;
                        });
                    });
                }
            }
        });

        product!($columns, $features, $tiles[1], |terms: Columns, to, sums: [R, V]| {
            let mut right = terms.right;
            for word in 0..terms.words {
                let left = (*terms.pointers.add(word)).add(terms.offset);
                let rights: [__m512; V] = read(right, to.last);
                right = right.add(terms.right_row);
                unrolled!(I < R, {
                    let $left = _mm512_set1_ps(left.add(I * WORD).cast::<f32>().read_unaligned());
                    unrolled!(J < V, {
                        let ($sum, $right) = (sums[I][J], rights[J]);
                        sums[I][J] = $add;
                    });
                });
            }
        });
    };
}

/// Reads `V` vectors, of the last one only some elements.
///
/// # Safety
/// These are readable.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn read<const V: usize>(from: *const u8, last: __mmask16) -> [__m512; V] {
    let mut all = [_mm512_setzero_ps(); V];
    unrolled!(J < V, {
        let mask = if J + 1 == V { last } else { !0 };
        // SAFETY: passed on.
        all[J] = unsafe { _mm512_maskz_loadu_ps(mask, from.add(J * (VECTOR * WORD)).cast()) };
    });
    all
}

impl Place {
    /// Reads the elements of `R` rows and `V` vectors.
    ///
    /// # Safety
    /// They are readable, except elements of the last vector that are not stored.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load<const R: usize, const V: usize>(&self, sums: &mut [[__m512; V]; R]) {
        unrolled!(I < R, {
            // SAFETY: passed on.
            let row: [__m512; V] = unsafe { read(self.row(I).cast(), self.last) };
            unrolled!(J < V, {
                sums[I][J] = row[J];
            });
        });
    }

    /// Writes the elements.
    ///
    /// # Safety
    /// They are writable, except elements of the last vector that are not stored.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store<const R: usize, const V: usize>(&self, sums: &[[__m512; V]; R]) {
        unrolled!(I < R, {
            // SAFETY: passed on.
            let row = unsafe { self.row(I) };
            unrolled!(J < V, {
                // SAFETY: passed on.
                unsafe {
                    let (at, sum) = (row.add(J * VECTOR), sums[I][J]);
                    if J + 1 < V || self.last == !0 {
                        _mm512_storeu_ps(at, sum);
                    } else {
                        _mm512_mask_storeu_ps(at, self.last, sum);
                    }
                }
            });
        });
    }
}

products!(rows_of_f32, columns_of_f32, "avx512f", TILES, |sum, left, right| {
    _mm512_fmadd_ps(left, right, sum)
});

products!(
    rows_of_bf16,
    columns_of_bf16,
    "avx512f,avx512bf16",
    TILES,
    |sum, left, right| _mm512_dpbf16_ps(sum, pairs(left), pairs(right))
);

products!(
    rows_of_codes,
    columns_of_codes,
    "avx512f,avx512vnni",
    TILES,
    |sum, left, right| {
        let [sum, left, right] = [sum, left, right].map(|x| _mm512_castps_si512(x));
        _mm512_castsi512_ps(_mm512_dpbusd_epi32(sum, left, right))
    }
);

// Without VNNI, a word of codes is two pairs of 16 bits, of its even and of its odd bytes.
products!(
    rows_by_pairs,
    columns_by_pairs,
    "avx512f,avx512bw",
    [[4, 6, 8, 8]; 2],
    |sum, left, right| {
        let [sum, left, right] = [sum, left, right].map(|x| _mm512_castps_si512(x));
        let even = _mm512_and_si512(left, _mm512_set1_epi16(0x00ff));
        let odd = _mm512_srli_epi16::<8>(left);
        let of_even = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(right));
        let of_odd = _mm512_srai_epi16::<8>(right);
        let both = _mm512_add_epi32(_mm512_madd_epi16(even, of_even), _mm512_madd_epi16(odd, of_odd));
        _mm512_castsi512_ps(_mm512_add_epi32(sum, both))
    }
);

/// 16 words as pairs of `bf16`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs(words: __m512) -> __m512bh {
    // SAFETY: both types are 512 bits without invalid values.
    unsafe { std::mem::transmute(words) }
}
