//! Products by vectors of AVX-512 or, of `f32` and of codes, of AVX2, where there are no tiles of AMX: the left factor
//! is read in place.
//!
//! Factors are made of words: a word is one `f32`, or two `bf16`, which AVX-512 BF16 multiplies and adds up in `f32`,
//! or four codes, which AMX, AVX-512 VNNI or AVX2 multiplies and adds up in `i32`. The right factor is packed into
//! panels of 64 columns, the last one as wide as its columns take in vectors of 16: `[panel][word][64]`. An element of
//! a product is one chain over its words, so its bits depend neither on how rows and columns are cut nor on the number
//! of threads.
//! Instructions of `bf16` count numbers below 2^-126, and terms of a product below it, as zeros.

pub(crate) mod extents;
pub(crate) mod fixed;
pub(crate) mod fixed_codes;
pub(crate) mod lines;
mod number;
pub(crate) mod outer;
pub(crate) mod right;
pub(crate) mod rows;
mod split;
pub(crate) mod terms;
pub(crate) mod tiles;
pub(crate) mod whole;

pub(crate) use number::Word;

/// Columns of a vector.
pub(crate) const VECTOR: usize = 16;

/// Columns of a panel but the last.
pub(crate) const PANEL: usize = 4 * VECTOR;

/// Bytes of a panel that stay in the first-level cache while all rows are multiplied with it.
const CACHED: usize = 32 << 10;

/// Bytes of a word.
pub(crate) const WORD: usize = 4;

/// Columns of the first panel of a factor of `columns` columns, up to whole vectors.
fn width(columns: usize) -> usize {
    columns.min(PANEL).next_multiple_of(VECTOR)
}

/// The least rows, columns and `k` of a product of matrices that is worth packing.
const LEAST: (usize, usize, usize) = (16, 8, 16);

/// The least multiplications of a product that is worth packing.
const LEAST_WORK: usize = 1 << 17;

/// The most bytes of packed factors that all tasks share.
const MOST_SHARED: usize = 16 << 20;

/// Whether a product is large enough.
fn is_worth(rows: usize, k: usize, columns: usize) -> bool {
    rows >= LEAST.0 && columns >= LEAST.1 && k >= LEAST.2 && rows * k * columns >= LEAST_WORK
}
