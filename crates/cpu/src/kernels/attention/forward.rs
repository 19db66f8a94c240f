//! Attention with tiles over queries and keys, for weights that need no statistic of a row beforehand.
//!
//! For a softmax, the largest score of a query and the sum of its powers are kept while tiles come, and the sums so far
//! are scaled down when the largest score grows (FlashAttention, Dao et al. 2022).

use std::ops::Range;

use lessen_graph::ops::Weighting;

use super::super::rows::Rows;
use super::dropout::kept;
use super::head::Head;
use super::lanes::{from_rows, load, repeated, scale_rows, store, to_lanes, to_rows};
use super::product::{Panel, wide};
use super::query_block::{BLOCK, QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, scores};
use super::sequences::GROUP;
use super::tile::{Packed, Tile, Tiles, packed_scratch};
use super::weights::{counts, weights_of};
use crate::math::{exp_below_zero, log};
use crate::simd::{self, LANES, Level, chunks, larger};

/// Number of `f32` that [`forward`] needs as scratch for this many blocks of queries.
pub(super) fn forward_scratch(blocks: usize, d: usize, dv: usize) -> usize {
    blocks * block_scratch::<BLOCK>(d, dv) + TILE * BLOCK + packed_scratch(d) + packed_scratch(dv)
}

fn block_scratch<const W: usize>(d: usize, dv: usize) -> usize {
    (d + wide(d).max(wide(dv)) + 2) * W
}

dispatch_lanes! {
    /// Computes rows `queries` of `o`, and for a softmax the logarithm of the sum of the powers of each row's scores in
    /// `lse`; -inf where no key is visible. The queries are one group of blocks, of half the lanes where `wide` is
    /// false.
    ///
    /// # Safety
    /// The operands of the head exist, `o` and `lse` have a row for each query, `scratch` has [`forward_scratch`]
    /// elements for all blocks; the written memory overlaps nothing.
    pub(super) unsafe fn forward(
        wide; head: &Head, queries: Range<usize>, o: Rows<f32>, lse: *mut f32, scratch: *mut f32,
    ) = forward_lanes;
}

/// Sums of a block of queries while tiles come.
pub(super) struct Sums {
    pub(super) block: QueryBlock,
    /// In lanes, `d` rows.
    pub(super) queries: *mut f32,
    /// Wide rows of `dv` elements.
    pub(super) values: Panel,
    /// The largest score of each query so far; another shift of scores where the weights are no softmax.
    largest: *mut f32,
    /// The sum of the powers of the scores less the largest.
    total: *mut f32,
}

impl Sums {
    /// The sums of block `b` of some queries; `scratch` holds the sums of all blocks.
    #[inline(always)]
    pub(super) fn at<const W: usize>(head: &Head, queries: &Range<usize>, b: usize, scratch: *mut f32) -> Sums {
        let first = queries.start + b * W;
        let at = scratch.wrapping_add(b * block_scratch::<W>(head.d, head.dv));
        Sums {
            block: QueryBlock {
                first,
                n: W.min(queries.end - first),
            },
            queries: at,
            values: Panel {
                ptr: at.wrapping_add((head.d + 2) * W),
                row: wide(head.dv),
            },
            largest: at.wrapping_add(head.d * W),
            total: at.wrapping_add((head.d + 1) * W),
        }
    }

    /// The scratch after the sums of some blocks.
    #[inline(always)]
    pub(super) fn end<const W: usize>(head: &Head, blocks: usize, scratch: *mut f32) -> *mut f32 {
        scratch.wrapping_add(blocks * block_scratch::<W>(head.d, head.dv))
    }
}

#[inline(always)]
unsafe fn forward_lanes<L: Level, const W: usize>(
    head: &Head,
    queries: Range<usize>,
    o: Rows<f32>,
    lse: *mut f32,
    scratch: *mut f32,
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
        for b in 0..blocks {
            let sums = sums(b);
            // The queries pass through the memory of the values.
            let rows = Panel {
                row: wide(head.d),
                ..sums.values
            };
            to_rows::<W>(sums.block, head.d, &[head.scale; W], head.q, rows);
            to_lanes::<W>(head.d, rows, sums.queries);
            sums.values.ptr.write_bytes(0, sums.values.row * W);
            store(sums.largest, first_shift::<W>(head, sums.block));
            store(sums.total, [0.0; W]);
        }
        let keys = weights.wrapping_add(TILE * BLOCK);
        let values = keys.wrapping_add(packed_scratch(head.d));
        let mut tiles = Tiles::new(head, head.visible(queries.end - 1));
        while let Some(tile) = tiles.next() {
            // One block alone reads the rows too seldom for copies to pay.
            let packed = [(head.k, head.d, keys), (head.v, head.dv, values)].map(|(x, c, to)| {
                let in_place = if blocks == 1 { tile.in_place(x, c) } else { None };
                in_place.unwrap_or_else(|| tile.pack(x, c, to))
            });
            for b in 0..blocks {
                let sums = sums(b);
                if tile.first() < head.visible_to(sums.block) {
                    add_tile::<L, W>(head, &biases[b], &tile, packed, &sums, weights);
                }
                tiles.prefetch((b, blocks), &[(head.k, head.d), (head.v, head.dv)]);
            }
        }
        for b in 0..blocks {
            finish::<L, W>(head, &sums(b), o, lse);
        }
    }
}

/// The shift of a block's scores to begin with; see [`weights_of`].
#[inline(always)]
fn first_shift<const W: usize>(head: &Head, block: QueryBlock) -> [f32; W] {
    let mut shift = [0.0; W];
    match head.weighting {
        Weighting::Softmax | Weighting::Norm(_) => shift = [f32::NEG_INFINITY; W],
        Weighting::Sigmoid(by) => counts::<W>(head, block, by, |i, by| shift[i] = by.ln()),
        Weighting::Relu(_) => {}
    }
    shift
}

/// Writes the results of a block.
#[inline(always)]
pub(super) unsafe fn finish<L: Level, const W: usize>(head: &Head, sums: &Sums, o: Rows<f32>, lse: *mut f32) {
    let block = sums.block;
    let mut factors = [1.0; W];
    // SAFETY: the rows of lanes and the rows of the results exist.
    unsafe {
        match head.weighting {
            Weighting::Softmax | Weighting::Norm(_) => {
                let (total, largest) = (load::<W>(sums.total), load::<W>(sums.largest));
                let mut lses = [0.0; W];
                for i in 0..W {
                    lses[i] = largest[i] + log::<L>(total[i]);
                    factors[i] = if total[i] == 0.0 { 0.0 } else { 1.0 / total[i] };
                }
                lse.add(block.first).copy_from_nonoverlapping(lses.as_ptr(), block.n);
            }
            Weighting::Relu(by) => counts::<W>(head, block, by, |i, by| factors[i] = 1.0 / by),
            Weighting::Sigmoid(_) => {}
        }
        from_rows::<W>(block, head.dv, &factors, sums.values, o);
    }
}

/// Adds a tile of keys to the sums of a block.
#[inline(always)]
unsafe fn add_tile<L: Level, const W: usize>(
    head: &Head,
    bias: &BlockBias<W>,
    tile: &Tile,
    [keys, values]: [Packed; 2],
    sums: &Sums,
    weights: *mut f32,
) {
    // SAFETY: the rows of lanes exist.
    unsafe {
        scores::<L, W>(head, sums.block, bias, tile, keys, sums.queries, weights);
        let shift = if head.weighting.is_softmax() {
            grow::<L, W>(tile, sums, weights)
        } else {
            load::<W>(sums.largest)
        };
        let shift = repeated(&shift);
        let mut powers = [0.0; W];
        chunks!(tile.n * W, |j, len| {
            let s = simd::load(weights.add(j), 1, len, f32::NEG_INFINITY);
            let p = weights_of::<L, LANES>(&head.weighting, s, &shift);
            for rows in p.chunks_exact(W) {
                for i in 0..W {
                    powers[i] += rows[i];
                }
            }
            simd::store(weights.add(j), 1, len, &p);
        });
        let mut total = load::<W>(sums.total);
        for i in 0..W {
            total[i] += powers[i];
        }
        store(sums.total, total);
        if let Some(kept) = kept(head, sums.block, tile) {
            kept.apply::<W>(tile, weights);
        }
        tile.add_weighted::<W>(head, sums.block, values, weights, sums.values);
    }
}

/// Scales the sums of a block down where a tile has larger scores; returns the largest scores so far.
#[inline(always)]
unsafe fn grow<L: Level, const W: usize>(tile: &Tile, sums: &Sums, scores: *const f32) -> [f32; W] {
    // SAFETY: the rows of lanes exist.
    unsafe {
        let before = load::<W>(sums.largest);
        let mut all = repeated(&before);
        chunks!(tile.n * W, |j, len| {
            let s = simd::load(scores.add(j), 1, len, f32::NEG_INFINITY);
            for i in 0..LANES {
                all[i] = larger(s[i], all[i]);
            }
        });
        let mut largest = before;
        for rows in all.chunks_exact(W) {
            for i in 0..W {
                largest[i] = larger(rows[i], largest[i]);
            }
        }
        store(sums.largest, largest);
        let (mut shift, mut down, mut grown) = ([0.0; W], [0.0; W], 0);
        for i in 0..W {
            // Where nothing is visible yet, all scores are -inf, and so must be their distance from the shift.
            shift[i] = if largest[i] == f32::NEG_INFINITY {
                0.0
            } else {
                largest[i]
            };
            down[i] = exp_below_zero::<L>(before[i] - shift[i]);
            grown |= u32::from(before[i] != largest[i]);
        }
        if grown != 0 {
            let mut total = load::<W>(sums.total);
            for i in 0..W {
                total[i] *= down[i];
            }
            store(sums.total, total);
            scale_rows::<W>(&down, sums.values);
        }
        shift
    }
}
