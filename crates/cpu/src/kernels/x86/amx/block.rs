//! Packing of strips and panels, and products of several strips and panels.

use std::ops::Range;

use super::corner::Corner;
use super::number::Number;
use super::source::{Order, Source};
use super::tiles::Tiles;
use super::{PANEL, STEP, STRIP, TILE_BYTES};

/// A factor of a product: lines are the rows of a left factor and the columns of a right factor.
#[derive(Clone, Copy)]
pub(crate) struct Factor<N> {
    pub(crate) ptr: *const N,
    /// Elements from line to line, and from one `k` to the next.
    pub(crate) line: usize,
    pub(crate) k: usize,
    /// How many lines there are, and how many `k`.
    pub(crate) lines: usize,
    pub(crate) depth: usize,
}

impl<N: Number> Factor<N> {
    /// The same from a line on.
    pub(crate) fn from(self, line: usize) -> Factor<N> {
        Factor {
            ptr: self.ptr.wrapping_add(line * self.line),
            lines: self.lines - line,
            ..self
        }
    }

    /// The part of a tile, which begins at a line and a `k`.
    fn source(&self, line: usize, k: usize) -> Source<N> {
        Source {
            ptr: self.ptr.wrapping_add(line * self.line + k * self.k),
            line: self.line,
            k: self.k,
            lines: self.lines.saturating_sub(line).min(STRIP),
            depth: (self.depth - k).min(STEP),
        }
    }

    /// Packs some steps of a strip, and returns whether tiles can hold all of it.
    ///
    /// # Safety
    /// Kernels use [`Amx`](crate::simd::Feature::Amx), the factor is readable, and `to` has memory for the steps.
    pub(crate) unsafe fn pack_strip(&self, strip: usize, steps: Range<usize>, to: *mut u8) -> bool {
        let mut finite = true;
        for (i, step) in steps.enumerate() {
            let source = self.source(strip * STRIP, step * STEP);
            // SAFETY: passed on.
            finite &= unsafe { N::pack(source, Order::Lines, to.add(i * N::STRIP_BYTES), TILE_BYTES) };
        }
        finite
    }

    /// Packs some steps of a panel, and returns whether tiles can hold all of it.
    ///
    /// # Safety
    /// As for [`Factor::pack_strip`].
    pub(crate) unsafe fn pack_panel(&self, panel: usize, steps: Range<usize>, to: *mut u8) -> bool {
        let mut finite = true;
        for (i, step) in steps.enumerate() {
            for half in 0..2 {
                let source = self.source(panel * PANEL + half * STRIP, step * STEP);
                // SAFETY: passed on.
                finite &= unsafe {
                    let at = to.add(i * N::PANEL_BYTES + half * TILE_BYTES);
                    N::pack(source, Order::Pairs, at, 2 * TILE_BYTES)
                };
            }
        }
        finite
    }
}

const _: () = assert!(PANEL == 2 * STRIP);

/// Packed strips or panels; each begins `apart` bytes after the strip or panel before it.
#[derive(Clone, Copy)]
pub(crate) struct Packed {
    pub(crate) ptr: *const u8,
    pub(crate) apart: usize,
}

impl Packed {
    fn at(&self, i: usize) -> *const u8 {
        self.ptr.wrapping_add(i * self.apart)
    }
}

/// Where a product lies.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) ptr: *mut f32,
    /// Elements from row to row, and from column to column.
    pub(crate) row: usize,
    pub(crate) col: usize,
}

/// `c = a b` or `c += a b` for some rows and columns of `c`, which begin at a strip and a panel.
///
/// # Safety
/// The factors have these steps of all strips and panels of the rows and columns, whose elements of `c` nobody else
/// accesses.
pub(crate) unsafe fn multiply<N: Number>(
    tiles: &Tiles,
    steps: usize,
    (a, rows): (Packed, Range<usize>),
    (b, columns): (Packed, Range<usize>),
    c: Product,
    accumulate: bool,
) {
    for j in columns.clone().step_by(PANEL) {
        for i in rows.clone().step_by(2 * STRIP) {
            let corner = Corner {
                ptr: c.ptr.wrapping_add(i * c.row + j * c.col),
                row: c.row,
                col: c.col,
                rows: (rows.end - i).min(2 * STRIP),
                columns: (columns.end - j).min(PANEL),
            };
            let strips = [a.at(i / STRIP), a.at(i / STRIP + 1)];
            // SAFETY: passed on; where one strip is left, the strip after it is not read.
            unsafe { tiles.block::<N>(steps, strips, b.at(j / PANEL), &corner, accumulate) };
        }
    }
}
