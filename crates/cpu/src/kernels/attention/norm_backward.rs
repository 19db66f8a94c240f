//! The derivative of NormSoftmax and LogitNorm attention.
//!
//! The temperature of a row follows from all its scores, and its derivative from the derivatives of all exponents. So
//! the scores and the derivatives of a block of queries are kept for all keys between three passes: of the statistics,
//! of the exponents and of the scores. No product is computed twice.

use super::backward::{Gradients, Operands, add_to_keys, operands_scratch};
use super::dropout::{Kept, kept};
use super::head::Head;
use super::lanes::{from_rows, load, part_of, store};
use super::norm_forward::Norm;
use super::query_block::{BLOCK, QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, has_hidden, hide, scores};
use super::statistics::{Normalizer, Statistics};
use super::tile::{Tile, Tiles, packed_scratch};
use crate::math::exp_below_zero;
use crate::simd::{Level, fma};

/// Number of `f32` that [`norm_backward`] needs as scratch for this many keys that the mask shows.
pub(super) fn norm_backward_scratch(keys: usize, d: usize, dv: usize) -> usize {
    operands_scratch(BLOCK, d, dv) + (2 * keys + 2 * TILE) * BLOCK + packed_scratch(d.max(dv))
}

/// How a head is normalized whose rows of scores are kept.
#[derive(Clone, Copy)]
pub(super) struct KeptRows {
    pub(super) norm: Norm,
    /// Keys that the mask shows to a block at most.
    pub(super) keys: usize,
}

dispatch_lanes! {
    /// Writes the derivatives of one block of queries, and adds its shares to the derivatives of keys, values and the
    /// learned weight. The block has half the lanes where `wide` is false.
    ///
    /// # Safety
    /// The operands of the head and of the gradients exist, `scratch` has [`norm_backward_scratch`] elements; the
    /// written memory overlaps nothing.
    pub(super) unsafe fn norm_backward(
        wide; head: &Head, kept: KeptRows, g: &Gradients, block: QueryBlock, dweight: &mut f64, scratch: *mut f32,
    ) = norm_lanes;
}

/// Sums over the keys of a row: of the derivatives `d` of exponents and of the normalized scores `x`, `sum d`, `sum d
/// x`, `sum x` and `sum x^2`.
struct RowSums<const W: usize> {
    d: [f32; W],
    dx: [f32; W],
    x: [f32; W],
    xx: [f32; W],
}

#[inline(always)]
unsafe fn norm_lanes<L: Level, const W: usize>(
    head: &Head,
    KeptRows { norm, keys }: KeptRows,
    g: &Gradients,
    block: QueryBlock,
    dweight: &mut f64,
    scratch: *mut f32,
) {
    let operands = Operands::at::<W>(head, block, scratch);
    let all_scores = scratch.wrapping_add(operands_scratch(W, head.d, head.dv));
    let all_cotangents = all_scores.wrapping_add(keys * W);
    let weights = all_cotangents.wrapping_add(keys * W);
    let packed = weights.wrapping_add(2 * TILE * W);
    let end = head.visible_to(block);
    // SAFETY: the scratch has room for the operands, scores and derivatives of all keys, two tiles of lanes and one of
    // vectors; the rest is passed on.
    unsafe {
        operands.fill::<L, W>(head, g, weights);
        let mut bias = BlockBias::<W>::new(head, block);
        bias.begin(g.fire.as_ref());
        let mut statistics = Statistics::<W>::new(norm.weight);
        let (mut tiles, mut row) = (Tiles::new(head, end), 0);
        while let Some(tile) = tiles.next() {
            let keys = tile.pack(head.k, head.d, packed);
            let to = all_scores.add(row * W);
            scores::<L, W>(head, block, &bias, &tile, keys, operands.queries, to);
            statistics.add::<L>(tile.n, has_hidden::<W>(head, block, &tile), to);
            row += tile.n;
        }
        let normalizer = statistics.normalizer(&norm.temperature, norm.weight);
        let mut sums = RowSums {
            d: [0.0; W],
            dx: [0.0; W],
            x: [0.0; W],
            xx: [0.0; W],
        };
        let (mut tiles, mut row) = (Tiles::new(head, end), 0);
        while let Some(tile) = tiles.next() {
            let values = tile.pack(head.v, head.dv, packed);
            let rows = [all_scores, all_cotangents].map(|x| x.add(row * W));
            tile.times_lanes::<W>(block.n, values, operands.d_o, rows[1]);
            let kept = kept(head, block, &tile);
            if has_hidden::<W>(head, block, &tile) {
                // Products with hidden keys may be NaN.
                hide::<W>(head, block, &tile, rows[1], 0.0);
                weigh::<L, W, true>(&tile, &operands, &normalizer, kept.as_ref(), rows, weights, &mut sums);
            } else {
                weigh::<L, W, false>(&tile, &operands, &normalizer, kept.as_ref(), rows, weights, &mut sums);
            }
            add_to_keys::<W>(&tile, block.n, weights, operands.d_o_rows, head.dv, g.dv);
            row += tile.n;
        }
        let (mut tiles, mut row) = (Tiles::new(head, end), 0);
        while let Some(tile) = tiles.next() {
            let keys = tile.pack(head.k, head.d, packed);
            let rows = [all_scores, all_cotangents].map(|x| x.add(row * W));
            normalize::<L, W>(&tile, &normalizer, &sums, rows);
            if has_hidden::<W>(head, block, &tile) {
                hide::<W>(head, block, &tile, rows[1], 0.0);
            }
            bias.collect::<L>(head, block, &tile, rows[1], g.fire.as_ref());
            tile.add_weighted::<W>(head, block, keys, rows[1], operands.dq);
            add_to_keys::<W>(&tile, block.n, rows[1], operands.query_rows, head.d, g.dk);
            row += tile.n;
        }
        from_rows::<W>(block, head.d, &[head.scale; W], operands.dq, g.dq);
        bias.finish(block, g.fire.as_ref());
        for i in 0..block.n {
            *dweight += f64::from(sums.dx[i]);
        }
    }
}

/// Number of lanes whose constants and sums of a row fit registers.
const PART: usize = 32;

/// Turns the derivatives of a tile's weights into the derivatives of its exponents, and makes the weights with dropout.
#[inline(always)]
unsafe fn weigh<L: Level, const W: usize, const HIDDEN: bool>(
    tile: &Tile,
    operands: &Operands,
    normalizer: &Normalizer<W>,
    kept: Option<&Kept>,
    rows: [*mut f32; 2],
    weights: *mut f32,
    sums: &mut RowSums<W>,
) {
    // SAFETY: the rows of lanes exist.
    let (mut shift, delta) = unsafe { (load::<W>(operands.shift), load::<W>(operands.delta)) };
    for i in 0..W {
        // Exponents as the forward pass rounds them: relative to the largest.
        shift[i] -= normalizer.largest_exponent(i);
    }
    for first in (0..W).step_by(PART) {
        let part = Part {
            first,
            normalizer: normalizer.part(first),
            shift: part_of(&shift, first),
            delta: part_of(&delta, first),
        };
        // SAFETY: as above.
        let of_part = unsafe { part.weigh::<L, W, HIDDEN>(tile, kept, rows, weights) };
        for i in 0..PART {
            sums.d[first + i] += of_part.d[i];
            sums.dx[first + i] += of_part.dx[i];
            sums.x[first + i] += of_part.x[i];
            sums.xx[first + i] += of_part.xx[i];
        }
    }
}

/// Some lanes of a block of queries.
struct Part {
    first: usize,
    normalizer: Normalizer<PART>,
    shift: [f32; PART],
    delta: [f32; PART],
}

impl Part {
    #[inline(always)]
    unsafe fn weigh<L: Level, const W: usize, const HIDDEN: bool>(
        &self,
        tile: &Tile,
        kept: Option<&Kept>,
        [scores, cotangents]: [*mut f32; 2],
        weights: *mut f32,
    ) -> RowSums<PART> {
        let Part {
            first,
            normalizer,
            shift,
            delta,
        } = self;
        let mut sums = RowSums {
            d: [0.0; PART],
            dx: [0.0; PART],
            x: [0.0; PART],
            xx: [0.0; PART],
        };
        for r in 0..tile.n {
            let at = r * W + first;
            let factors: Option<[f32; PART]> = kept.map(|kept| part_of(&kept.factors::<W>(r), *first));
            // SAFETY: the lanes exist.
            unsafe {
                let s = load::<PART>(scores.add(at));
                let mut d = load::<PART>(cotangents.add(at));
                let mut p = [0.0; PART];
                if let Some(factors) = factors {
                    for i in 0..PART {
                        d[i] *= factors[i];
                    }
                }
                for i in 0..PART {
                    let seen = !HIDDEN | (s[i] != f32::NEG_INFINITY);
                    let x = if seen { normalizer.normalized::<L>(i, s[i]) } else { 0.0 };
                    let power = exp_below_zero::<L>(normalizer.factor[i] * (s[i] - normalizer.extreme[i]) - shift[i]);
                    p[i] = if seen { power } else { 0.0 };
                    d[i] = p[i] * (d[i] - delta[i]);
                    sums.d[i] += d[i];
                    sums.dx[i] = fma::<L>(d[i], x, sums.dx[i]);
                    sums.x[i] += x;
                    sums.xx[i] = fma::<L>(x, x, sums.xx[i]);
                }
                store(cotangents.add(at), d);
                if let Some(factors) = factors {
                    for i in 0..PART {
                        p[i] *= factors[i];
                    }
                }
                store(weights.add(at), p);
            }
        }
        sums
    }
}

/// Turns the derivatives of a tile's exponents into the derivatives of its scores.
#[inline(always)]
unsafe fn normalize<L: Level, const W: usize>(
    tile: &Tile,
    normalizer: &Normalizer<W>,
    sums: &RowSums<W>,
    [scores, cotangents]: [*mut f32; 2],
) {
    let Normalizer {
        factor, free, share, ..
    } = normalizer;
    let (mut mean, mut along) = ([0.0; W], [0.0; W]);
    for i in 0..W {
        // Where the temperature follows from the scores, the derivative has no share along them; and where they are
        // centered, its mean is zero. The mean comes last, since that of the scores is rounded.
        let squares = if sums.xx[i] == 0.0 { 1.0 } else { sums.xx[i] };
        along[i] = free[i] * sums.dx[i] / squares;
        mean[i] = (sums.d[i] - along[i] * sums.x[i]) * share[i];
    }
    for r in 0..tile.n {
        // SAFETY: the rows of lanes exist.
        unsafe {
            let s = load::<W>(scores.add(r * W));
            let mut d = load::<W>(cotangents.add(r * W));
            for i in 0..W {
                let across = fma::<L>(-along[i], normalizer.normalized::<L>(i, s[i]), d[i] - mean[i]);
                d[i] = factor[i] * across;
            }
            store(cotangents.add(r * W), d);
        }
    }
}
