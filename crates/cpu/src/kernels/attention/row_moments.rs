//! The temperature of each row of NormSoftmax or LogitNorm attention from moments of the keys, and its share of the
//! derivatives of keys: both linear in the number of tokens.
//!
//! A block of queries sees a prefix of the keys as a whole, and less than a tile of further keys. The moments of the
//! prefix are known; the scores of the further keys are computed.

use std::ops::Range;

use super::super::rows::Rows;
use super::head::Head;
use super::lanes::{load, store, to_lanes, to_rows};
use super::moments::{KeyMoments, RowMemory, RowNumber, add_row, dot};
use super::norm_forward::Norm;
use super::product::{Left, Panel, product, wide};
use super::query_block::{BLOCK, QueryBlock, TILE};
use super::scores::{BlockBias, hide, scores};
use super::statistics::{Normalizer, Statistics};
use super::tile::{Tile, Tiles, packed_scratch};
use crate::simd::{Level, dispatch};

/// Lanes of all blocks here; lanes after the last query are zeros.
const W: usize = BLOCK;

/// A sum of squares that is smaller than this share of the sum that independent coordinates would give has lost digits:
/// the scores of such rows are computed.
const TRUSTED: f32 = 1.0 / 16.0;

/// The scores of a row are computed, too, where the mean score makes an exponent of more than this: exponents are
/// relative to the mean score, and it must be the mean score of the forward pass to the last digit.
const FARTHEST: f32 = 64.0;

/// Number of `f32` that [`row_numbers`] and [`derive_keys`] need as scratch.
pub(super) fn moments_scratch(d: usize) -> usize {
    let row = wide(d);
    KeyMoments::scratch(d) + packed_scratch(d) + 2 * W * row + W * d + TILE * W + 2 * TILE * row
}

/// Hands out parts of scratch.
struct Scratch(*mut f32);

impl Scratch {
    fn take(&mut self, n: usize) -> *mut f32 {
        let at = self.0;
        self.0 = at.wrapping_add(n);
        at
    }

    fn panel(&mut self, rows: usize, d: usize) -> Panel {
        let row = wide(d);
        Panel {
            ptr: self.take(rows * row),
            row,
        }
    }
}

fn blocks(queries: usize) -> impl DoubleEndedIterator<Item = QueryBlock> {
    (0..queries.div_ceil(W)).map(move |b| QueryBlock {
        first: b * W,
        n: W.min(queries - b * W),
    })
}

/// The queries of a block, scaled, in rows and lanes, and memory for the scores of a tile.
struct Queries<'a> {
    head: &'a Head,
    block: QueryBlock,
    rows: Panel,
    lanes: *mut f32,
    scores: *mut f32,
    packed: *mut f32,
}

impl Queries<'_> {
    #[inline(always)]
    unsafe fn fill(&mut self, block: QueryBlock) {
        self.block = block;
        // SAFETY: the operands exist.
        unsafe {
            to_rows::<W>(block, self.head.d, &[self.head.scale; W], self.head.q, self.rows);
            to_lanes::<W>(self.head.d, self.rows, self.lanes);
        }
    }

    /// The scores of a tile; -inf where a query does not see a key.
    #[inline(always)]
    unsafe fn scores<L: Level>(&self, tile: &Tile) {
        // SAFETY: the operands exist.
        unsafe {
            let keys = tile.pack(self.head.k, self.head.d, self.packed);
            scores::<L, W>(
                self.head,
                self.block,
                &BlockBias::None,
                tile,
                keys,
                self.lanes,
                self.scores,
            );
        }
    }

    /// Adds the scores of some keys to the statistics, and returns the normalizer.
    #[inline(always)]
    unsafe fn normalizer<L: Level>(
        &self,
        mut statistics: Statistics<W>,
        keys: Range<usize>,
        norm: Norm,
    ) -> Normalizer<W> {
        // SAFETY: the operands exist.
        unsafe {
            let mut tiles = Tiles::between(self.head, keys.start, keys.end);
            while let Some(tile) = tiles.next() {
                self.scores::<L>(&tile);
                statistics.add::<L>(tile.n, true, self.scores);
            }
        }
        statistics.normalizer(&norm.temperature, norm.weight)
    }

    /// `factor (s - center)` for the scores of a tile; zero where a query does not see a key.
    #[inline(always)]
    unsafe fn apart<L: Level>(&self, tile: &Tile, factor: &[f32; W], center: &[f32; W]) {
        // SAFETY: the operands exist.
        unsafe {
            self.scores::<L>(tile);
            for r in 0..tile.n {
                let mut s = load::<W>(self.scores.add(r * W));
                for i in 0..W {
                    s[i] = factor[i] * (s[i] - center[i]);
                }
                store(self.scores.add(r * W), s);
            }
            hide::<W>(self.head, self.block, tile, self.scores, 0.0);
        }
    }
}

dispatch! {
    /// Writes the numbers of all rows of a head of `queries` queries, but for the derivative along the scores.
    ///
    /// # Safety
    /// The operands of the head and the memory of the rows exist; the scratch has [`moments_scratch`] elements.
    pub(super) unsafe fn row_numbers(
        head: &Head, norm: Norm, queries: usize, to: RowMemory, scratch: *mut f32,
    ) = row_numbers_body;
}

#[inline(always)]
unsafe fn row_numbers_body<L: Level>(head: &Head, norm: Norm, queries: usize, to: RowMemory, scratch: *mut f32) {
    let d = head.d;
    let mut free = Scratch(scratch);
    let mut known = 0;
    // SAFETY: the scratch has room for all; the rest is passed on.
    unsafe {
        let mut moments = KeyMoments::new(d, norm.temperature.centered, free.take(KeyMoments::scratch(d)));
        let mut of_block = Queries {
            head,
            block: QueryBlock { first: 0, n: 0 },
            rows: free.panel(W, d),
            lanes: free.take(W * d),
            scores: free.take(TILE * W),
            packed: free.take(packed_scratch(d)),
        };
        for block in blocks(queries) {
            let (all, end) = (head.seen_by_all(block), head.visible_to(block));
            let mut tiles = Tiles::between(head, known, all);
            while let Some(tile) = tiles.next() {
                moments.add(tile.n, tile.pack(head.k, d, of_block.packed));
            }
            known = all;
            of_block.fill(block);
            let along = to.rows(block);
            let found = moments.of_queries::<L, W>(block, of_block.rows, along);
            let mut trusted = (0..block.n).all(|i| found.squares[i] >= TRUSTED * found.independent[i]);
            let mut normalizer = None;
            if trusted {
                let of_moments = Statistics::of_moments(norm.weight, moments.n, &found);
                let found = of_block.normalizer::<L>(of_moments, all..end, norm);
                trusted = (0..block.n).all(|i| (found.factor[i] * found.center[i]).abs() <= FARTHEST);
                normalizer = Some(found).filter(|_| trusted);
            }
            let normalizer =
                normalizer.unwrap_or_else(|| of_block.normalizer::<L>(Statistics::new(norm.weight), 0..end, norm));
            let (from, center) = (if trusted { all } else { 0 }, normalizer.center);
            for i in 0..block.n {
                let by = if trusted {
                    (found.mean[i] - center[i]) * moments.n
                } else {
                    0.0
                };
                let to = along.at(i).ptr;
                if !trusted {
                    to.write_bytes(0, along.row);
                }
                add_row(along.row, by, moments.mean.ptr, to);
            }
            let mut tiles = Tiles::between(head, from, end);
            while let Some(tile) = tiles.next() {
                of_block.apart::<L>(&tile, &[1.0; W], &center);
                let keys = tile.pack(head.k, d, of_block.packed);
                tile.add_weighted::<W>(head, block, keys, of_block.scores, along);
            }
            let mut share = normalizer.free;
            for i in 0..W {
                share[i] /= normalizer.squares[i];
            }
            to.store(RowNumber::Center, block, &center);
            to.store(RowNumber::Factor, block, &normalizer.factor);
            to.store(RowNumber::Inverse, block, &normalizer.inverse);
            to.store(RowNumber::Share, block, &share);
        }
    }
}

dispatch! {
    /// Subtracts the share of the derivatives along the scores, `sum_i along_i (s_ij - c_i) q_i`, from the derivatives
    /// `dk` of keys.
    ///
    /// Moments are kept of the queries that see a tile of keys as a whole: the sum over them is `G k_j - h` with `G =
    /// sum_i along_i q_i q_i^T` and `h = sum_i along_i c_i q_i`, both with keys less their mean. Queries come from the
    /// last to the first.
    ///
    /// # Safety
    /// The operands of the head and the numbers of all rows exist, `dk` has a row for each key, the scratch has
    /// [`moments_scratch`] elements.
    pub(super) unsafe fn derive_keys(
        head: &Head, centered: bool, queries: usize, rows: RowMemory, dk: Rows<f32>, scratch: *mut f32,
    ) = derive_keys_body;
}

#[inline(always)]
unsafe fn derive_keys_body<L: Level>(
    head: &Head,
    centered: bool,
    queries: usize,
    rows: RowMemory,
    dk: Rows<f32>,
    scratch: *mut f32,
) {
    let (d, row) = (head.d, wide(head.d));
    let mut free = Scratch(scratch);
    let (products, sums, mean) = (free.panel(d, d), free.panel(1, d), free.panel(1, d));
    let weighted = free.panel(W, d);
    let mut of_block = Queries {
        head,
        block: QueryBlock { first: 0, n: 0 },
        rows: free.panel(W, d),
        lanes: free.take(W * d),
        scores: free.take(TILE * W),
        packed: free.take(packed_scratch(d)),
    };
    let (apart, shares) = (free.panel(TILE, d), free.panel(TILE, d));
    // SAFETY: the scratch has room for all; the rest is passed on.
    unsafe {
        products.ptr.write_bytes(0, d * row);
        sums.ptr.write_bytes(0, row);
        mean.ptr.write_bytes(0, row);
        if centered {
            mean_of_keys(head, of_block.packed, mean);
        }
        for block in blocks(queries).rev() {
            let (all, end) = (head.seen_by_all(block), head.visible_to(block));
            let along = rows.load::<W>(RowNumber::Along, block);
            let center = rows.load::<W>(RowNumber::Center, block);
            of_block.fill(block);
            let mut tiles = Tiles::between(head, all, end);
            while let Some(tile) = tiles.next() {
                of_block.apart::<L>(&tile, &along, &center);
                let left = Left::Rows {
                    ptr: of_block.scores,
                    row: W,
                };
                product(tile.n, block.n, row, left, of_block.rows, shares, false);
                subtract(&tile, d, shares, dk);
            }
            for i in 0..block.n {
                let (q, to) = (of_block.rows.at(i).ptr, weighted.at(i).ptr);
                to.write_bytes(0, row);
                add_row(row, along[i], q, to);
                add_row(row, center[i] - dot::<L>(row, q, mean.ptr), to, sums.ptr);
            }
            let columns = Left::Columns {
                ptr: weighted.ptr,
                column: row,
            };
            product(d, block.n, row, columns, of_block.rows, products, true);
            let before = match block.first {
                0 => 0,
                first => head.visible(first - W),
            };
            let mut tiles = Tiles::between(head, before, all);
            while let Some(tile) = tiles.next() {
                let keys = tile.pack(head.k, d, of_block.packed);
                for r in 0..tile.n {
                    let (key, share) = (apart.at(r).ptr, shares.at(r).ptr);
                    key.copy_from_nonoverlapping(keys.panel.at(r).ptr, row);
                    add_row(row, -1.0, mean.ptr, key);
                    share.write_bytes(0, row);
                    add_row(row, -1.0, sums.ptr, share);
                }
                let left = Left::Rows { ptr: apart.ptr, row };
                product(tile.n, d, row, left, products, shares, true);
                subtract(&tile, d, shares, dk);
            }
        }
    }
}

/// The mean of the keys that the mask shows.
#[inline(always)]
unsafe fn mean_of_keys(head: &Head, packed: *mut f32, to: Panel) {
    let mut n = 0;
    let mut tiles = Tiles::new(head, head.keys);
    // SAFETY: the operands exist, and the row is wide.
    unsafe {
        while let Some(tile) = tiles.next() {
            let keys = tile.pack(head.k, head.d, packed);
            for r in 0..tile.n {
                add_row(to.row, 1.0, keys.panel.at(r).ptr, to.ptr);
            }
            n += tile.n;
        }
        for j in 0..to.row {
            *to.ptr.add(j) /= n.max(1) as f32;
        }
    }
}

/// Subtracts rows from the rows of a tile's keys.
#[inline(always)]
unsafe fn subtract(tile: &Tile, d: usize, from: Panel, to: Rows<f32>) {
    for r in 0..tile.n {
        let (from, to) = (from.at(r).ptr, to.at(tile.key(r)));
        for j in 0..d {
            // SAFETY: the rows exist.
            unsafe { *to.add(j) -= *from.add(j) };
        }
    }
}
