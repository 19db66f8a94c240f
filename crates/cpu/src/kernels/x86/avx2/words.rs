//! Products of `f32` by vectors of AVX2, on the panels of the products by AVX-512 and with the same bits: register
//! tiles of 6 rows times 16 columns are 12 registers of 8 numbers.

use std::arch::x86_64::*;

use crate::kernels::x86::words::lines::Lines;
use crate::kernels::x86::words::terms::{Columns, Place, Runs};
use crate::kernels::x86::words::tiles::{in_tiles, unrolled};
use crate::kernels::x86::words::{VECTOR, WORD};

/// The registers of a row of a tile.
pub(crate) const REGISTERS: usize = 2;

/// Numbers of a register.
const NUMBERS: usize = VECTOR / REGISTERS;

/// The most rows of a register tile.
pub(crate) const ROWS: usize = 6;

/// 16 numbers of a row.
pub(crate) type Row = [__m256; REGISTERS];

/// Runs a block for each register of a row, with its number as a constant.
macro_rules! both {
    ($i:ident, $body:block) => {
        unrolled!(@ $i, REGISTERS, $body, 0, 1)
    };
}
pub(crate) use both;

/// Which of 8 numbers there are, where some of 16 are.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mask(there: u16, register: usize) -> __m256i {
    let bits = i32::from(there) >> (register * NUMBERS);
    let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), bit), bit)
}

/// Reads some of 16 numbers; the others are zeros.
///
/// # Safety
/// They are readable.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn read(from: *const f32, there: u16) -> Row {
    let mut row = [_mm256_setzero_ps(); REGISTERS];
    both!(J, {
        // SAFETY: passed on.
        row[J] = unsafe {
            let at = from.wrapping_add(J * NUMBERS);
            if there == !0 {
                _mm256_loadu_ps(at)
            } else {
                _mm256_maskload_ps(at, mask(there, J))
            }
        };
    });
    row
}

/// Writes some of 16 numbers.
///
/// # Safety
/// They are writable.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn write(to: *mut f32, there: u16, row: &Row) {
    both!(J, {
        // SAFETY: passed on.
        unsafe {
            let at = to.wrapping_add(J * NUMBERS);
            if there == !0 {
                _mm256_storeu_ps(at, row[J]);
            } else {
                _mm256_maskstore_ps(at, mask(there, J), row[J]);
            }
        }
    });
}

/// Adds the product of a number and a row to each row of a tile.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn add<const R: usize>(sums: &mut [Row; R], left: impl Fn(usize) -> *const u8, right: Row) {
    unrolled!(I < R, {
        // SAFETY: passed on.
        let number = _mm256_set1_ps(unsafe { left(I).cast::<f32>().read_unaligned() });
        both!(J, {
            sums[I][J] = _mm256_fmadd_ps(number, right[J], sums[I][J]);
        });
    });
}

/// The sums that a tile begins with.
///
/// # Safety
/// The elements are readable where the product is added to them, and the bias where there is one.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn begun<const R: usize>(to: &Place, accumulate: bool) -> [Row; R] {
    let mut sums = [[_mm256_setzero_ps(); REGISTERS]; R];
    // SAFETY: passed on.
    unsafe {
        if accumulate {
            unrolled!(I < R, {
                sums[I] = read(to.row(I), to.last);
            });
        } else if !to.bias.is_null() {
            sums = [read(to.bias.wrapping_add(to.column), to.last); R];
        }
    }
    sums
}

/// Writes the sums of a tile.
///
/// # Safety
/// The elements are writable.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn written<const R: usize>(to: &Place, sums: &[Row; R]) {
    unrolled!(I < R, {
        // SAFETY: passed on.
        unsafe { write(to.row(I), to.last, &sums[I]) };
    });
}

/// Defines the products of rows and of columns of a type of words, of at most `$most` rows at a time: `$add` adds the
/// products of a word and a row of words to each row of a tile.
macro_rules! narrow_products {
    ($rows:ident, $columns:ident, $features:literal, $most:expr, $add:ident) => {
        /// The product of `rows` rows and `width` columns, as by AVX-512.
        ///
        /// # Safety
        /// The CPU has the instructions, the words are readable, and nobody else accesses the elements of the product.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $rows(rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
            const R: usize = $most;

            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize>(terms: Runs, to: Place, accumulate: bool) {
                const { assert!(R <= $most) };
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
                            $add(&mut sums, |i| left[i].wrapping_add(word * WORD), right);
                        }
                    }
                    written(&to, &sums);
                }
            }

            for column in (0..width).step_by(VECTOR) {
                let terms = Runs {
                    panel: terms.panel.wrapping_add(column * WORD),
                    ..terms
                };
                let to = to.vector(column, width);
                // SAFETY: passed on.
                unsafe {
                    in_tiles!(R, rows, |R, row| tile::<R>(
                        terms.from(row),
                        to.from(row),
                        accumulate
                    ))
                };
            }
        }

        /// The product of columns, as by AVX-512.
        ///
        /// # Safety
        /// As for the product of rows.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $columns(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool) {
            const R: usize = $most;

            #[target_feature(enable = $features)]
            unsafe fn tile<const R: usize>(terms: Columns, to: Place, accumulate: bool) {
                const { assert!(R <= $most) };
                // SAFETY: passed on.
                unsafe {
                    let mut sums = begun::<R>(&to, accumulate);
                    let mut right = terms.right;
                    for word in 0..terms.words {
                        let left = (*terms.pointers.add(word)).add(terms.offset);
                        let row = read(right.cast(), to.last);
                        right = right.add(terms.right_row);
                        $add(&mut sums, |i| left.wrapping_add(i * WORD), row);
                    }
                    written(&to, &sums);
                }
            }

            for column in (0..width).step_by(VECTOR) {
                let terms = Columns {
                    right: terms.right.wrapping_add(column * WORD),
                    ..terms
                };
                let to = to.vector(column, width);
                // SAFETY: passed on.
                unsafe {
                    in_tiles!(R, rows, |R, row| tile::<R>(
                        terms.from(row),
                        to.from(row),
                        accumulate
                    ))
                };
            }
        }
    };
}
pub(crate) use narrow_products;

narrow_products!(rows_of_f32, columns_of_f32, "avx2,fma", ROWS, add);

/// Packs up to 16 lines of `f32`: a row of 16 words for each `k`, the rows `row` bytes apart. The words of lines beyond
/// the last one are zeros.
///
/// # Safety
/// The CPU has AVX2 and FMA, the lines are readable and the rows writable.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn words_of_f32(from: Lines<f32>, to: *mut u8, row: usize) {
    for k in 0..from.depth {
        let at = from.ptr.wrapping_add(k * from.k);
        // SAFETY: only numbers of the lines are read.
        unsafe {
            let to = to.add(k * row).cast::<f32>();
            if from.line == 1 && from.lines == VECTOR {
                to.copy_from_nonoverlapping(at, VECTOR);
                continue;
            }
            for i in 0..VECTOR {
                let number = if i < from.lines { *at.add(i * from.line) } else { 0.0 };
                to.add(i).write(number);
            }
        }
    }
}
