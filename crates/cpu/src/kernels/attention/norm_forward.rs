//! NormSoftmax and LogitNorm attention: a softmax of scores that are divided by a temperature of their row.
//!
//! The temperature follows from all scores of a row, so that the scores of a block of queries are kept between the pass
//! that collects their statistics and the pass that makes weights of them, and no product is computed twice. They take
//! memory in proportion to the number of keys.

use std::ops::Range;

use lessen_graph::ops::temperature::Temperature;

use super::super::rows::Rows;
use super::dropout::kept;
use super::head::Head;
use super::lanes::{from_rows, load, store, to_lanes, to_rows};
use super::product::{Panel, wide};
use super::query_block::{QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, has_hidden, scores};
use super::sequences::GROUP;
use super::statistics::Statistics;
use super::tile::{Tile, Tiles, packed_scratch};
use crate::math::{exp_below_zero, log};
use crate::simd::Level;

/// Number of `f32` that [`norm_forward`] needs as scratch for some blocks of queries.
pub(super) fn norm_scratch(blocks: usize, lanes: usize, keys: usize, d: usize, dv: usize) -> usize {
    blocks * block_scratch(lanes, keys, d, dv) + TILE * lanes + packed_scratch(d.max(dv))
}

fn block_scratch(lanes: usize, keys: usize, d: usize, dv: usize) -> usize {
    (d + wide(d).max(wide(dv)) + keys) * lanes
}

/// How a head is normalized.
#[derive(Clone, Copy)]
pub(super) struct Norm {
    pub(super) temperature: Temperature,
    /// The learned weight, or 1.
    pub(super) weight: f32,
}

dispatch_lanes! {
    /// Computes rows `queries` of `o`, and for each the logarithm of the sum of the powers of its exponents in `lse`;
    /// -inf where no key is visible. The queries are some blocks, of half the lanes where `wide` is false.
    ///
    /// # Safety
    /// The operands of the head exist, `o` and `lse` have a row for each query, `scratch` has [`norm_scratch`]
    /// elements; the written memory overlaps nothing.
    pub(super) unsafe fn norm_forward(
        wide; head: &Head, norm: Norm, queries: Range<usize>, o: Rows<f32>, lse: *mut f32, scratch: *mut f32,
    ) = norm_lanes;
}

/// A block of queries with its memory.
struct Strip<const W: usize> {
    block: QueryBlock,
    /// In lanes, `d` rows.
    queries: *mut f32,
    /// Wide rows of `dv` elements.
    values: Panel,
    /// The scores of all keys, a row for each.
    scores: *mut f32,
    statistics: Statistics<W>,
    bias: BlockBias<W>,
}

#[inline(always)]
unsafe fn norm_lanes<L: Level, const W: usize>(
    head: &Head,
    norm: Norm,
    queries: Range<usize>,
    o: Rows<f32>,
    lse: *mut f32,
    scratch: *mut f32,
) {
    let size = block_scratch(W, head.keys, head.d, head.dv);
    let blocks = queries.len().div_ceil(W);
    let mut strips: [Strip<W>; 2 * GROUP] = std::array::from_fn(|b| {
        let first = queries.start + b * W;
        let at = scratch.wrapping_add(b * size);
        let scores = at.wrapping_add(head.d * W);
        let n = W.min(queries.end.saturating_sub(first));
        let block = QueryBlock { first, n };
        Strip {
            block,
            bias: match n {
                0 => BlockBias::None,
                _ => BlockBias::new(head, block),
            },
            queries: at,
            scores,
            values: Panel {
                ptr: scores.wrapping_add(head.keys * W),
                row: wide(head.dv),
            },
            statistics: Statistics::new(norm.weight),
        }
    });
    let strips = &mut strips[..blocks];
    let weights = scratch.wrapping_add(blocks * size);
    let packed = weights.wrapping_add(TILE * W);
    let end = head.visible(queries.end - 1);
    // SAFETY: the scratch has room for the blocks, a tile of weights and one of vectors; the rest is passed on.
    unsafe {
        for strip in strips.iter() {
            let rows = Panel {
                row: wide(head.d),
                ..strip.values
            };
            to_rows::<W>(strip.block, head.d, &[head.scale; W], head.q, rows);
            to_lanes::<W>(head.d, rows, strip.queries);
            strip.values.ptr.write_bytes(0, strip.values.row * W);
        }
        let (mut tiles, mut row) = (Tiles::new(head, end), 0);
        while let Some(tile) = tiles.next() {
            let keys = tile.pack(head.k, head.d, packed);
            for (b, strip) in strips.iter_mut().enumerate() {
                tiles.prefetch((b, blocks), &[(head.k, head.d)]);
                if tile.first() < head.visible_to(strip.block) {
                    let to = strip.scores.add(row * W);
                    scores::<L, W>(head, strip.block, &strip.bias, &tile, keys, strip.queries, to);
                    let hidden = has_hidden::<W>(head, strip.block, &tile);
                    strip.statistics.add::<L>(tile.n, hidden, to);
                }
            }
            row += tile.n;
        }
        let mut totals = [[0.0; W]; 2 * GROUP];
        let normalizers = std::array::from_fn::<_, { 2 * GROUP }, _>(|b| {
            let strip = strips.get(b.min(blocks - 1)).expect("there is a block");
            strip.statistics.normalizer(&norm.temperature, norm.weight)
        });
        let (mut tiles, mut row) = (Tiles::new(head, end), 0);
        while let Some(tile) = tiles.next() {
            let values = tile.pack(head.v, head.dv, packed);
            for (b, strip) in strips.iter().enumerate() {
                tiles.prefetch((b, blocks), &[(head.v, head.dv)]);
                if tile.first() < head.visible_to(strip.block) {
                    let from = strip.scores.add(row * W);
                    let (factor, extreme) = (&normalizers[b].factor, &normalizers[b].extreme);
                    let hidden = has_hidden::<W>(head, strip.block, &tile);
                    weigh::<L, W>(&tile, factor, extreme, from, hidden, weights, &mut totals[b]);
                    if let Some(kept) = kept(head, strip.block, &tile) {
                        kept.apply::<W>(&tile, weights);
                    }
                    tile.add_weighted::<W>(head, strip.block, values, weights, strip.values);
                }
            }
            row += tile.n;
        }
        for (b, strip) in strips.iter().enumerate() {
            let (block, total, normalizer) = (strip.block, &totals[b], &normalizers[b]);
            let (mut lses, mut factors) = ([0.0; W], [0.0; W]);
            for i in 0..W {
                lses[i] = normalizer.largest_exponent(i) + log::<L>(total[i]);
                factors[i] = if total[i] == 0.0 { 0.0 } else { 1.0 / total[i] };
            }
            lse.add(block.first).copy_from_nonoverlapping(lses.as_ptr(), block.n);
            from_rows::<W>(block, head.dv, &factors, strip.values, o);
        }
    }
}

/// The powers of a tile's exponents less the largest of the row; their sum is added to `total`.
#[inline(always)]
unsafe fn weigh<L: Level, const W: usize>(
    tile: &Tile,
    factor: &[f32; W],
    extreme: &[f32; W],
    from: *const f32,
    hidden: bool,
    to: *mut f32,
    total: &mut [f32; W],
) {
    let mut powers = [0.0; W];
    for r in 0..tile.n {
        // SAFETY: the rows exist.
        unsafe {
            let mut s = load::<W>(from.add(r * W));
            for i in 0..W {
                // The product with a factor that is not positive would not be -inf.
                let seen = !hidden | (s[i] != f32::NEG_INFINITY);
                let power = exp_below_zero::<L>(factor[i] * (s[i] - extreme[i]));
                s[i] = if seen { power } else { 0.0 };
                powers[i] += s[i];
            }
            store(to.add(r * W), s);
        }
    }
    for i in 0..W {
        total[i] += powers[i];
    }
}
