//! Bounds of the scores of a tile, which tell before any is computed that ReLU makes zeros of them all: the product of
//! the largest norms of queries and keys, and the largest bias.

use std::ops::Range;

use super::super::rows::Rows;
use super::fire::FireHead;
use super::fire_rows::FireBlock;
use super::head::Head;
use super::product::Panel;
use super::query_block::QueryBlock;
use super::scores::BlockBias;
use super::sparse::dot;
use super::tile::Tile;
use crate::simd::{self, LANES, Level, chunks, dispatch, fma, larger, sum};

/// Rounding error of a score relative to its terms, at most.
const ROUNDING: f32 = 1e-4;

/// The largest norm of the rows of a panel; NaN if one of them is.
///
/// # Safety
/// The rows exist.
#[inline(always)]
pub(super) unsafe fn largest_norm<L: Level>(rows: usize, c: usize, panel: Panel) -> f32 {
    let mut largest: f32 = 0.0;
    for i in 0..rows {
        let row = panel.at(i).ptr;
        // SAFETY: passed on.
        let square = unsafe { dot::<L>(c, (row, 1), row) };
        largest = if square <= largest { largest } else { square };
    }
    largest.sqrt()
}

dispatch! {
    /// Writes the norms of some rows of `c` elements.
    ///
    /// # Safety
    /// The rows exist, and `norms` has an element for each.
    pub(super) unsafe fn row_norms(rows: Range<usize>, c: usize, x: Rows<f32>, norms: *mut f32) = row_norms_body;
}

#[inline(always)]
unsafe fn row_norms_body<L: Level>(rows: Range<usize>, c: usize, x: Rows<f32>, norms: *mut f32) {
    for r in rows {
        let row = x.from(r);
        let mut sums = [0.0; LANES];
        chunks!(c, |j, len| {
            // SAFETY: the row exists.
            unsafe {
                let x = simd::load(row.element(0, j) as *const f32, row.col, len, 0.0);
                for i in 0..LANES {
                    sums[i] = fma::<L>(x[i], x[i], sums[i]);
                }
            }
        });
        // SAFETY: the element exists.
        unsafe { *norms.add(r) = sum(sums).sqrt() };
    }
}

impl<const W: usize> BlockBias<W> {
    /// Whether no score of a tile is above zero, since the largest bias outweighs the norms of all vectors.
    #[inline(always)]
    pub(super) fn hides(&self, head: &Head, block: QueryBlock, tile: &Tile, query_norm: f32) -> bool {
        if head.key_norms.is_null() {
            return false;
        }
        let mut key_norm = 0.0;
        for r in 0..tile.n {
            // SAFETY: there is a norm for each key.
            let norm = unsafe { *head.key_norms.add(tile.key(r)) };
            key_norm = if norm <= key_norm { key_norm } else { norm };
        }
        let product = query_norm * key_norm;
        let bias = self.largest(head, block, tile);
        product + ROUNDING * (product + bias.abs()) + bias < 0.0
    }

    /// A bound of the biases of a tile.
    #[inline(always)]
    fn largest(&self, head: &Head, block: QueryBlock, tile: &Tile) -> f32 {
        let position = head.first + block.first as i64;
        let last = position + block.n as i64 - 1;
        let (mut from, to) = (position - tile.last() as i64, last - tile.first() as i64);
        if head.causal {
            from = from.max(0);
        }
        let nearest = if from <= 0 && to >= 0 {
            0
        } else {
            from.abs().min(to.abs())
        };
        match self {
            BlockBias::None => 0.0,
            BlockBias::Alibi { slope } => -slope * nearest as f32,
            BlockBias::Fire(fire, rows) => rows.largest(fire, (from, to), nearest),
        }
    }
}

impl<const W: usize> FireBlock<W> {
    /// A bound of the biases at the offsets from `from` to `to`; the least magnitude of an offset is `nearest`.
    fn largest(&self, fire: &FireHead, (from, to): (i64, i64), nearest: i64) -> f32 {
        if self.uniform() {
            return fire.largest_bias(from, to);
        }
        let farthest = from.abs().max(to.abs());
        let [near, far] = [nearest, farthest].map(|x| fire.parameters.psi(x as f64) as f32);
        let (least, most) = self.inverse_range();
        let (from, to) = (near * least, far * most);
        let pieces = &fire.pieces;
        let mut piece = pieces.find(from, 0);
        let mut largest = pieces.value(from, piece);
        while piece < pieces.kinks && pieces.kink(piece) < to {
            piece += 1;
            largest = larger(pieces.left(piece).1, largest);
        }
        larger(pieces.value(to, piece), largest)
    }
}
