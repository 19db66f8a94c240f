//! Numbers of factors.

use super::lines::Lines;
use super::terms::{Columns, Place, Runs};
use super::{PANEL, VECTOR, WORD, is_worth};
use crate::kernels::codes::sums::Code;
use crate::kernels::elementwise::cast::Bf16;
use crate::kernels::x86::amx;
use crate::kernels::x86::amx::code_tiles::{self, Held};
use crate::kernels::x86::avx2::{self, code_words};
use crate::kernels::x86::avx512::{self, pack};
use crate::kernels::x86::byte_products::CodeProducts;
use crate::simd::Feature;
use crate::tiles::is_one_tile;

/// A number; one, two or four numbers are a word.
pub(crate) trait Word: Copy + 'static {
    /// Numbers of a word.
    const NUMBERS: usize;

    /// The instructions that words are multiplied by.
    const FEATURE: Feature;

    /// Whether products are computed here, not by tiles.
    fn is_used() -> bool {
        Self::FEATURE.is_used() && !Feature::Amx.is_used()
    }

    /// Whether factors that may change are packed here, at each run.
    fn packs_factors() -> bool {
        Self::is_used()
    }

    /// Whether products of `rows` rows with a factor that never changes are computed here, so that it is packed once.
    fn is_packed(rows: usize) -> bool {
        let _ = rows;
        Self::is_used()
    }

    /// Bytes of a panel that stay in a cache while the rows of a tile are multiplied with it.
    const CACHED: usize = super::CACHED;

    /// The fewest tasks of a product of two matrices that are worth packing both.
    const FEWEST_TASKS: usize = 1;

    /// Whether a product of factors that may change is large enough to pack them.
    fn is_worth(rows: usize, k: usize, columns: usize) -> bool {
        is_worth(rows, k, columns)
    }

    /// Whether a product of rows with a matrix that may change is worth packing the matrix.
    fn is_worth_rows(rows: usize, k: usize, columns: usize) -> bool {
        Self::is_worth(rows, k, columns)
    }

    /// What a thread holds while it computes products of rows.
    type Held;

    /// What is held for products of `rows` rows whose runs have `words` words.
    ///
    /// # Safety
    /// [`Word::is_used`].
    unsafe fn hold(rows: usize, words: usize) -> Self::Held;

    /// The product of rows and a panel.
    ///
    /// # Safety
    /// [`Word::is_used`]; the rest as for [`avx512::words`].
    unsafe fn rows(held: &Self::Held, rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool);

    /// The product of columns.
    ///
    /// # Safety
    /// As above.
    unsafe fn columns(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool);

    /// Packs the first 16, 32 or 64 lines, and returns how many.
    ///
    /// # Safety
    /// [`Word::is_used`]; the lines are readable and the rows writable.
    unsafe fn pack_first(lines: Lines<Self>, to: *mut u8, row: usize) -> usize;

    /// Packs lines up to `width`, a multiple of 16: a row of words for each word along `k`, rows `row` bytes apart.
    /// Words of absent lines and numbers are zeros.
    ///
    /// # Safety
    /// [`Word::is_used`]; the lines are readable and the rows writable.
    unsafe fn pack(lines: Lines<Self>, width: usize, to: *mut u8, row: usize) {
        let mut line = 0;
        while line < width {
            let to = to.wrapping_add(line * WORD);
            // SAFETY: passed on.
            line += unsafe { Self::pack_first(lines.from(line), to, row) };
        }
    }
}

/// Whether kernels use AVX-512.
fn is_wide() -> bool {
    Feature::Avx512.is_used()
}

/// The least elements of a matrix of `f32` that is worth packing before tiles of rows: `faer` is as fast for smaller
/// ones, which stay in the cache as they are.
const LEAST_MATRIX: usize = 1 << 15;

/// The fewest rows whose products tiles compute faster, although they split both factors for each of them.
const ROWS_OF_TILES: usize = 512;

impl Word for f32 {
    const NUMBERS: usize = 1;
    const FEATURE: Feature = Feature::Avx2;
    /// A panel of a long `k` stays in the second-level cache: sums are read and written less often.
    const CACHED: usize = 256 << 10;
    /// `faer` cuts a product smaller.
    const FEWEST_TASKS: usize = 8;
    type Held = ();

    /// Products by AVX2 are left to `faer`.
    fn packs_factors() -> bool {
        Self::is_used() && is_wide()
    }

    /// Products that tiles of AMX do not compute are left to `faer`, so that plans hold no more memory for them.
    fn is_worth(rows: usize, k: usize, columns: usize) -> bool {
        amx::is_worth(rows, k, columns)
    }

    /// A matrix that each task would pack for itself is left to `faer`, too.
    fn is_worth_rows(rows: usize, k: usize, columns: usize) -> bool {
        Self::is_worth(rows, k, columns) && !is_one_tile(rows) && k * columns >= LEAST_MATRIX
    }

    fn is_packed(rows: usize) -> bool {
        Self::is_used() || (Self::FEATURE.is_used() && rows < ROWS_OF_TILES)
    }

    unsafe fn hold(_: usize, _: usize) {}

    unsafe fn rows(_: &(), rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
        // SAFETY: passed on; the CPU has the instructions.
        unsafe {
            if is_wide() {
                avx512::words::rows_of_f32(rows, width, terms, to, accumulate);
            } else {
                avx2::words::rows_of_f32(rows, width, terms, to, accumulate);
            }
        }
    }

    unsafe fn columns(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool) {
        // SAFETY: as above.
        unsafe {
            if is_wide() {
                avx512::words::columns_of_f32(rows, width, terms, to, accumulate);
            } else {
                avx2::words::columns_of_f32(rows, width, terms, to, accumulate);
            }
        }
    }

    unsafe fn pack_first(lines: Lines<f32>, to: *mut u8, row: usize) -> usize {
        // SAFETY: as above.
        unsafe {
            if is_wide() && lines.line == 1 && lines.lines >= PANEL {
                pack::panel_of_f32(lines, to, row);
                return PANEL;
            }
            let lines = lines.at_most(VECTOR);
            if is_wide() {
                pack::words_of_f32(lines, to, row);
            } else {
                avx2::words::words_of_f32(lines, to, row);
            }
        }
        VECTOR
    }
}

impl Word for Bf16 {
    const NUMBERS: usize = 2;
    const FEATURE: Feature = Feature::Bf16;
    type Held = ();

    unsafe fn hold(_: usize, _: usize) {}

    unsafe fn rows(_: &(), rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
        // SAFETY: passed on.
        unsafe { avx512::words::rows_of_bf16(rows, width, terms, to, accumulate) }
    }

    unsafe fn columns(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool) {
        // SAFETY: passed on.
        unsafe { avx512::words::columns_of_bf16(rows, width, terms, to, accumulate) }
    }

    unsafe fn pack_first(lines: Lines<Bf16>, to: *mut u8, row: usize) -> usize {
        // SAFETY: passed on.
        unsafe {
            if lines.line == 1 && lines.lines >= 2 * VECTOR {
                pack::lines_of_bf16(lines, to, row);
                return 2 * VECTOR;
            }
            pack::words_of_bf16(lines.at_most(VECTOR), to, row);
        }
        VECTOR
    }
}

/// Four numbers from 0 to 255 of the left factor, and four from -128 to 127 of the packed right factor. Sums of their
/// products are `i32`, in the place of `f32`.
impl Word for Code {
    const NUMBERS: usize = 4;
    const FEATURE: Feature = Feature::Avx2;
    type Held = Option<Held>;

    fn is_used() -> bool {
        Self::FEATURE.is_used()
    }

    unsafe fn hold(rows: usize, words: usize) -> Option<Held> {
        if !Feature::Amx.is_used() {
            return None;
        }
        // SAFETY: the CPU has tiles.
        unsafe { Held::new(rows, words) }
    }

    unsafe fn rows(held: &Option<Held>, rows: usize, width: usize, terms: Runs, to: Place, accumulate: bool) {
        // SAFETY: passed on; the CPU has the instructions.
        unsafe {
            if let Some(held) = held.as_ref().filter(|held| held.fits(rows, &terms)) {
                return code_tiles::rows_of_codes(held, rows, width, terms, to, accumulate);
            }
            match CodeProducts::used() {
                CodeProducts::Wide => avx512::words::rows_of_codes(rows, width, terms, to, accumulate),
                CodeProducts::Evex => code_words::rows_by_evex(rows, width, terms, to, accumulate),
                CodeProducts::Vex => code_words::rows_by_vex(rows, width, terms, to, accumulate),
                CodeProducts::WidePairs => avx512::words::rows_by_pairs(rows, width, terms, to, accumulate),
                _ => code_words::rows_by_pairs(rows, width, terms, to, accumulate),
            }
        }
    }

    unsafe fn columns(rows: usize, width: usize, terms: Columns, to: Place, accumulate: bool) {
        // SAFETY: as above.
        unsafe {
            match CodeProducts::used() {
                CodeProducts::Wide => avx512::words::columns_of_codes(rows, width, terms, to, accumulate),
                CodeProducts::Evex => code_words::columns_by_evex(rows, width, terms, to, accumulate),
                CodeProducts::Vex => code_words::columns_by_vex(rows, width, terms, to, accumulate),
                CodeProducts::WidePairs => avx512::words::columns_by_pairs(rows, width, terms, to, accumulate),
                _ => code_words::columns_by_pairs(rows, width, terms, to, accumulate),
            }
        }
    }

    unsafe fn pack_first(lines: Lines<Code>, to: *mut u8, row: usize) -> usize {
        let lines = lines.at_most(VECTOR);
        // SAFETY: as above.
        unsafe {
            if is_wide() {
                pack::words_of_codes(lines, to, row);
            } else {
                code_words::words_of_codes(lines, to, row);
            }
        }
        VECTOR
    }
}
