//! Moments of keys: the deviation of a query's scores follows from the covariance of the keys that it sees, `sum_j (q
//! k_j - mean)^2 = q M q` with `M = sum_j (k_j - m)(k_j - m)^T`, and no score is computed for it. A causal query sees a
//! prefix of the keys, so the moments grow from one block of queries to the next.

use super::head::Head;
use super::lanes::{load, store};
use super::product::{Left, PANEL, Panel, product, wide};
use super::query_block::{QueryBlock, TILE};
use super::tile::Packed;
use crate::simd::{LANES, Level, fma, sum};

/// Count, mean and sum of centered products of the keys so far; the moments of a tile are added as Chan, Golub and
/// LeVeque (1979) do.
pub(super) struct KeyMoments {
    d: usize,
    centered: bool,
    pub(super) n: f32,
    /// The mean, in a wide row; zeros where deviations are from zero.
    pub(super) mean: Panel,
    /// `M`, `d` wide rows.
    products: Panel,
    /// Centered rows of a tile, and one more.
    rows: Panel,
}

/// Statistics of the scores of some queries, from the moments.
pub(super) struct ScoreMoments<const W: usize> {
    /// The mean score, or zero.
    pub(super) mean: [f32; W],
    /// The sum of squared deviations.
    pub(super) squares: [f32; W],
    /// The sum of squared deviations if the coordinates of keys were independent of each other: where it is far larger,
    /// `squares` is a small difference of large terms.
    pub(super) independent: [f32; W],
}

impl KeyMoments {
    /// Number of `f32` that the moments take.
    pub(super) fn scratch(d: usize) -> usize {
        (d + 1 + TILE + 1) * wide(d)
    }

    /// The moments of no key.
    ///
    /// # Safety
    /// The scratch has [`KeyMoments::scratch`] elements.
    pub(super) unsafe fn new(d: usize, centered: bool, scratch: *mut f32) -> KeyMoments {
        let row = wide(d);
        // SAFETY: the caller's scratch has the rows.
        unsafe { scratch.write_bytes(0, KeyMoments::scratch(d)) };
        let at = |first: usize| Panel {
            ptr: scratch.wrapping_add(first * row),
            row,
        };
        KeyMoments {
            d,
            centered,
            n: 0.0,
            mean: at(0),
            products: at(1),
            rows: at(1 + d),
        }
    }

    /// Adds the keys of a tile.
    ///
    /// # Safety
    /// The keys have `n` rows, at most [`TILE`].
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, n: usize, keys: Packed) {
        let (d, row) = (self.d, wide(self.d));
        let (before, more) = (self.n, n as f32);
        self.n += more;
        let (rows, count) = if self.centered {
            let spread = (before * more / self.n).sqrt();
            let (of_tile, inverse, share) = (self.rows.at(n).ptr, 1.0 / more, more / self.n);
            // SAFETY: all rows have this many elements.
            unsafe {
                of_tile.write_bytes(0, row);
                for r in 0..n {
                    add_row(row, inverse, keys.panel.at(r).ptr, of_tile);
                }
                for r in 0..n {
                    let to = self.rows.at(r).ptr;
                    to.copy_from_nonoverlapping(keys.panel.at(r).ptr, row);
                    add_row(row, -1.0, of_tile, to);
                }
                add_row(row, -1.0, self.mean.ptr, of_tile);
                add_row(row, share, of_tile, self.mean.ptr);
                add_row(row, spread - 1.0, of_tile, of_tile);
            }
            (self.rows, n + 1)
        } else {
            (keys.panel, n)
        };
        let columns = Left::Columns {
            ptr: rows.ptr,
            column: rows.row,
        };
        // SAFETY: the operands have these rows.
        unsafe { product(d, count, row, columns, rows, self.products, true) };
    }

    /// The statistics of the scores of a block's queries, which are in rows; writes `M q` of each to `along`.
    ///
    /// # Safety
    /// The rows exist.
    #[inline(always)]
    pub(super) unsafe fn of_queries<L: Level, const W: usize>(
        &self,
        block: QueryBlock,
        queries: Panel,
        along: Panel,
    ) -> ScoreMoments<W> {
        let mut out = ScoreMoments {
            mean: [0.0; W],
            squares: [0.0; W],
            independent: [0.0; W],
        };
        let rows = Left::Rows {
            ptr: queries.ptr,
            row: queries.row,
        };
        // SAFETY: the operands have these rows.
        unsafe {
            product(block.n, self.d, wide(self.d), rows, self.products, along, false);
            let diagonal = self.rows;
            for j in 0..self.d {
                *diagonal.ptr.add(j) = *self.products.at(j).ptr.add(j);
            }
            for i in 0..block.n {
                let (q, z) = (queries.at(i).ptr, along.at(i).ptr);
                out.mean[i] = dot::<L>(self.mean.row, q, self.mean.ptr);
                out.squares[i] = dot::<L>(self.mean.row, q, z);
                for j in (0..self.mean.row).step_by(PANEL) {
                    let (q, own) = (load::<PANEL>(q.add(j)), load::<PANEL>(diagonal.ptr.add(j)));
                    let mut squares = [0.0; LANES];
                    for l in 0..PANEL {
                        squares[l] = q[l] * q[l] * own[l];
                    }
                    out.independent[i] += sum(squares);
                }
            }
        }
        out
    }
}

/// The product of two rows of `c` elements, a multiple of [`PANEL`].
///
/// # Safety
/// The rows exist.
#[inline(always)]
pub(super) unsafe fn dot<L: Level>(c: usize, x: *const f32, y: *const f32) -> f32 {
    let mut sums = [0.0; LANES];
    for j in (0..c).step_by(PANEL) {
        // SAFETY: passed on.
        let (x, y) = unsafe { (load::<PANEL>(x.add(j)), load::<PANEL>(y.add(j))) };
        for i in 0..PANEL {
            sums[i] = fma::<L>(x[i], y[i], sums[i]);
        }
    }
    sum(sums)
}

/// Adds `factor` times a row of `c` elements, a multiple of [`PANEL`], to another, or to itself.
///
/// # Safety
/// The rows exist.
#[inline(always)]
pub(super) unsafe fn add_row(c: usize, factor: f32, x: *const f32, to: *mut f32) {
    for j in (0..c).step_by(PANEL) {
        // SAFETY: passed on.
        unsafe {
            let (x, mut sum) = (load::<PANEL>(x.add(j)), load::<PANEL>(to.add(j)));
            for i in 0..PANEL {
                sum[i] += factor * x[i];
            }
            store(to.add(j), sum);
        }
    }
}

/// Numbers of rows, in arrays over the queries of a head, and a wide row for each query: the sum `sum_j (s_j - c) k_j`.
#[derive(Clone, Copy)]
pub(super) struct RowMemory {
    ptr: *mut f32,
    queries: usize,
    row: usize,
}

/// A number of a row.
#[derive(Clone, Copy)]
pub(super) enum RowNumber {
    /// `c`, which is subtracted from scores: the mean, or zero.
    Center,
    /// Factor of the difference in the exponent: the learned weight divided by the temperature.
    Factor,
    /// One divided by the temperature.
    Inverse,
    /// Factor from the sum of their products to the derivative along the scores; zero if the temperature is fixed.
    Share,
    /// The derivative along the scores: that of score `j` is less by this times `s_j - c`.
    Along,
}

const NUMBERS: usize = 5;

impl RowMemory {
    /// Number of `f32` for a head.
    pub(super) fn scratch(queries: usize, d: usize) -> usize {
        queries * (NUMBERS + wide(d))
    }

    /// The memory of a head; it has [`RowMemory::scratch`] elements.
    pub(super) fn new(ptr: *mut f32, queries: usize, d: usize) -> RowMemory {
        RowMemory {
            ptr,
            queries,
            row: wide(d),
        }
    }

    fn number(&self, which: RowNumber, block: QueryBlock) -> *mut f32 {
        self.ptr.wrapping_add(which as usize * self.queries + block.first)
    }

    /// The numbers of a block, and zeros.
    ///
    /// # Safety
    /// The memory exists.
    #[inline(always)]
    pub(super) unsafe fn load<const W: usize>(&self, which: RowNumber, block: QueryBlock) -> [f32; W] {
        let mut lanes = [0.0; W];
        // SAFETY: passed on.
        unsafe {
            lanes
                .as_mut_ptr()
                .copy_from_nonoverlapping(self.number(which, block), block.n)
        };
        lanes
    }

    /// Stores the numbers of a block.
    ///
    /// # Safety
    /// The memory exists.
    #[inline(always)]
    pub(super) unsafe fn store<const W: usize>(&self, which: RowNumber, block: QueryBlock, lanes: &[f32; W]) {
        // SAFETY: passed on.
        unsafe {
            self.number(which, block)
                .copy_from_nonoverlapping(lanes.as_ptr(), block.n)
        };
    }

    /// The wide rows of a block.
    pub(super) fn rows(&self, block: QueryBlock) -> Panel {
        Panel {
            ptr: self.ptr.wrapping_add(NUMBERS * self.queries + block.first * self.row),
            row: self.row,
        }
    }
}

impl Head {
    /// The keys that every query of a block sees, but for the mask: the first this many.
    pub(super) fn seen_by_all(&self, block: QueryBlock) -> usize {
        self.visible(block.first)
    }
}
