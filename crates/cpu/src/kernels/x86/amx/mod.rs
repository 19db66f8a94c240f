//! Products by tiles of AMX, beside AVX-512, which packs them.
//!
//! In products over packed panels, both factors are split into tiles once, and all blocks of the product read these
//! tiles. Products of codes are in `code_tiles`.
//!
//! A left factor is packed into strips of 16 rows, a right one into panels of 32 columns, either along `k` in steps of
//! 32: `[strip][step][part][16][32]` and `[panel][step][part][2][16][16][2]`. An element of the product is one chain
//! over the steps, so its bits depend neither on how rows and columns are cut nor on the number of threads.
//!
//! Tiles hold `bf16`. Three parts make an `f32`: six products of parts have the error of one product of `f32`, and AMX
//! computes them in less than half the time that AVX-512 takes for the product of `f32`. Numbers that these parts
//! cannot hold are left to `faer`: blocks with an infinity, NaN or a number whose first part is infinite. Numbers below
//! 2^-126, and terms of a product below it, count as zeros.

mod arrange;
mod block;
pub(crate) mod both;
pub(crate) mod code_tiles;
mod corner;
pub(crate) mod number;
pub(crate) mod right;
pub(crate) mod rows;
pub(crate) mod source;
pub(crate) mod split;
pub(crate) mod tiles;
pub(crate) mod whole;

/// Rows of a strip.
const STRIP: usize = 16;

/// Columns of a panel.
const PANEL: usize = 32;

/// Extent in `k` of a tile.
const STEP: usize = 32;

/// Bytes of a tile.
const TILE_BYTES: usize = 1024;

/// The least rows, columns and `k` of a product that is worth packing.
const LEAST: (usize, usize, usize) = (32, 32, 32);

/// The least multiplications of a product that is worth packing, which takes a round of its own.
const LEAST_WORK: usize = 1 << 20;

/// The most bytes of a packed factor that all tasks share.
const MOST_SHARED: usize = 16 << 20;

/// Whether products of this machine are computed here.
fn is_used() -> bool {
    crate::simd::Feature::Amx.is_used()
}

/// Whether a product is large enough.
pub(super) fn is_worth(rows: usize, k: usize, columns: usize) -> bool {
    rows >= LEAST.0 && columns >= LEAST.1 && k >= LEAST.2 && rows * k * columns >= LEAST_WORK
}

/// How many steps one block of `k` has, of at most `most` and about the same number each.
fn steps_of_block(k: usize, most: usize) -> usize {
    let steps = k.div_ceil(STEP);
    steps.div_ceil(steps.div_ceil(most))
}
