//! Numbers of factors: of one part, `bf16`, or of three, `f32`.

use super::TILE_BYTES;
use super::arrange::arrange;
use super::source::{Order, Source};
use super::split::{self, split};
use super::tiles::Tiles;
use crate::kernels::elementwise::cast::Bf16;

/// A number that tiles hold in one part or several.
pub(crate) trait Number: Copy + 'static {
    /// Parts of a number.
    const PARTS: usize;

    /// Bytes of the tiles of one strip at one step of `k`: one for each part.
    const STRIP_BYTES: usize = Self::PARTS * TILE_BYTES;

    /// Bytes of the tiles of one panel at one step of `k`: two for each part.
    const PANEL_BYTES: usize = 2 * Self::PARTS * TILE_BYTES;

    /// Makes one tile for each part of a source, `apart` bytes from each other, and returns whether tiles can hold all
    /// its numbers.
    ///
    /// # Safety
    /// Kernels use [`Amx`](crate::simd::Feature::Amx), the source's elements are readable, and the tiles writable.
    unsafe fn pack(source: Source<Self>, order: Order, to: *mut u8, apart: usize) -> bool;

    /// `c = a b` or `c += a b` for two strips and a panel over `steps` steps of `k`. The rows of `c` lie `row` elements
    /// apart.
    ///
    /// # Safety
    /// `a` points to the steps of two strips, `b` to the steps of a panel, and `c` to 32 rows of 32 elements that
    /// nobody else accesses.
    unsafe fn two_strips(
        tiles: &Tiles,
        steps: usize,
        a: [*const u8; 2],
        b: *const u8,
        c: (*mut f32, usize),
        accumulate: bool,
    );

    /// The same for one strip, to the same bits.
    ///
    /// # Safety
    /// As above, for 16 rows.
    unsafe fn one_strip(
        tiles: &Tiles,
        steps: usize,
        a: *const u8,
        b: *const u8,
        c: (*mut f32, usize),
        accumulate: bool,
    );
}

/// Calls the tile products of a number.
macro_rules! tile_products {
    ($two:ident, $one:ident) => {
        unsafe fn two_strips(
            tiles: &Tiles,
            steps: usize,
            a: [*const u8; 2],
            b: *const u8,
            c: (*mut f32, usize),
            accumulate: bool,
        ) {
            // SAFETY: passed on.
            unsafe { tiles.$two(steps, a, b, c, accumulate) }
        }

        unsafe fn one_strip(
            tiles: &Tiles,
            steps: usize,
            a: *const u8,
            b: *const u8,
            c: (*mut f32, usize),
            accumulate: bool,
        ) {
            // SAFETY: passed on.
            unsafe { tiles.$one(steps, a, b, c, accumulate) }
        }
    };
}

impl Number for f32 {
    const PARTS: usize = split::PARTS;

    unsafe fn pack(source: Source<f32>, order: Order, to: *mut u8, apart: usize) -> bool {
        // SAFETY: passed on.
        unsafe { split(source, order, to, apart) }
    }

    tile_products!(two_strips, one_strip);
}

impl Number for Bf16 {
    const PARTS: usize = 1;

    unsafe fn pack(source: Source<Bf16>, order: Order, to: *mut u8, _: usize) -> bool {
        // SAFETY: passed on.
        unsafe { arrange(source, order, to) };
        true
    }

    tile_products!(two_strips_of_bf16, one_strip_of_bf16);
}
