//! ReLU attention, in which most weights of a trained model are zeros (the idea of FLARE): a tile is left out where its
//! bound shows only zeros; the product with values is left out where all weights of a tile come out zero; and where few
//! weights do not come out zero, values are added up for these weights alone.

use std::ops::Range;

use super::super::rows::Rows;
use super::bound::largest_norm;
use super::dropout::kept;
use super::forward::{Sums, finish};
use super::head::Head;
use super::lanes::{load, store, to_lanes, to_rows};
use super::product::{Panel, wide};
use super::query_block::{BLOCK, TILE, dispatch_lanes};
use super::scores::{BlockBias, scores};
use super::sequences::GROUP;
use super::sparse::{NonZeros, axpy};
use super::tile::{Tile, Tiles, Vectors, packed_scratch};
use super::tile_counts::Found;
use super::weights::weights_of;
use crate::simd::Level;
use crate::tile_counts::TileCounts;

dispatch_lanes! {
    /// Computes rows `queries` of `o`, which are one group of blocks, of half the lanes where `wide` is false.
    ///
    /// # Safety
    /// The operands of the head exist, `o` has a row for each query, `scratch` has
    /// [`forward_scratch`](super::forward::forward_scratch) elements for all blocks; the written memory overlaps
    /// nothing.
    pub(super) unsafe fn relu_forward(
        wide; head: &Head, queries: Range<usize>, o: Rows<f32>, scratch: *mut f32, counts: &mut TileCounts,
    ) = relu_lanes;
}

#[inline(always)]
unsafe fn relu_lanes<L: Level, const W: usize>(
    head: &Head,
    queries: Range<usize>,
    o: Rows<f32>,
    scratch: *mut f32,
    counts: &mut TileCounts,
) {
    let blocks = queries.len().div_ceil(W);
    let sums = |b: usize| Sums::at::<W>(head, &queries, b, scratch);
    let weights = Sums::end::<W>(head, blocks, scratch);
    // SAFETY: the scratch has room for the blocks and a tile; the rest is passed on.
    unsafe {
        let biases: [BlockBias<W>; GROUP] = std::array::from_fn(|b| {
            if b < blocks {
                BlockBias::new(head, sums(b).block)
            } else {
                BlockBias::None
            }
        });
        let mut norms = [0.0; GROUP];
        for b in 0..blocks {
            let sums = sums(b);
            // The queries pass through the memory of the values.
            let rows = Panel {
                row: wide(head.d),
                ..sums.values
            };
            to_rows::<W>(sums.block, head.d, &[head.scale; W], head.q, rows);
            if !head.key_norms.is_null() {
                norms[b] = largest_norm::<L>(sums.block.n, head.d, rows);
            }
            to_lanes::<W>(head.d, rows, sums.queries);
            sums.values.ptr.write_bytes(0, sums.values.row * W);
        }
        let keys = weights.wrapping_add(TILE * BLOCK);
        let values = keys.wrapping_add(packed_scratch(head.d));
        let mut tiles = Tiles::new(head, head.visible(queries.end - 1));
        while let Some(tile) = tiles.next() {
            let mut keys = Vectors::new(head.k, head.d, keys);
            let mut values = Vectors::new(head.v, head.dv, values);
            for b in 0..blocks {
                let sums = sums(b);
                if tile.first() >= head.visible_to(sums.block) {
                    continue;
                }
                let found = if biases[b].hides(head, sums.block, &tile, norms[b]) {
                    Found::Skipped
                } else {
                    add_tile::<L, W>(head, &biases[b], &tile, [&mut keys, &mut values], &sums, weights)
                };
                counts.add_tile(head, sums.block, &tile, found);
                tiles.prefetch((b, blocks), &[(head.k, head.d)]);
            }
        }
        for b in 0..blocks {
            finish::<L, W>(head, &sums(b), o, std::ptr::null_mut());
        }
    }
}

/// Adds a tile of keys to the sums of a block.
#[inline(always)]
unsafe fn add_tile<L: Level, const W: usize>(
    head: &Head,
    bias: &BlockBias<W>,
    tile: &Tile,
    [keys, values]: [&mut Vectors; 2],
    sums: &Sums,
    weights: *mut f32,
) -> Found {
    let block = sums.block;
    // SAFETY: the rows of lanes exist.
    unsafe {
        scores::<L, W>(head, block, bias, tile, keys.packed(tile), sums.queries, weights);
        let nonzeros = NonZeros::of::<L, W>(tile.n, weights);
        let few = nonzeros.are_few::<W>();
        let found = Found::NonZeros { n: nonzeros.n, few };
        if nonzeros.n == 0 {
            return found;
        }
        let kept = kept(head, block, tile);
        if few {
            let mut places = nonzeros.places();
            while let Some((row, lane)) = places.next() {
                let factor = kept.as_ref().map_or(1.0, |kept| kept.factor(row, lane));
                let weight = *weights.add(row * W + lane) * factor;
                let value = head.v.from(tile.key(row));
                axpy::<L>(head.dv, weight, (value.ptr, value.col), sums.values.at(lane).ptr);
            }
            return found;
        }
        for r in 0..tile.n {
            let s = load::<W>(weights.add(r * W));
            store(weights.add(r * W), weights_of::<L, W>(&head.weighting, s, &[0.0; W]));
        }
        if let Some(kept) = kept {
            kept.apply::<W>(tile, weights);
        }
        tile.add_weighted::<W>(head, block, values.packed(tile), weights, sums.values);
        found
    }
}
