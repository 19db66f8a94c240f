//! The derivative of NormSoftmax and LogitNorm attention where the temperatures are known: the derivative of a softmax,
//! and the share of the temperatures, which is along the scores of each row. For keys, that share comes later, since it
//! needs the sums over whole rows that are made here.

use super::backward::{Gradients, Operands, add_to_keys, operands_scratch};
use super::dropout::{Kept, kept};
use super::head::Head;
use super::lanes::{from_rows, load, part_of, store};
use super::moments::{RowMemory, RowNumber, add_row};
use super::query_block::{BLOCK, QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, has_hidden, hide, scores};
use super::sequences::BACKWARD_GROUP;
use super::tile::{Tile, Tiles, packed_scratch};
use crate::math::exp_below_zero;
use crate::simd::{Level, fma};

/// Number of `f32` that [`moments_backward`] needs as scratch.
pub(super) fn moments_backward_scratch(d: usize, dv: usize) -> usize {
    BACKWARD_GROUP * operands_scratch(BLOCK, d, dv) + 2 * TILE * BLOCK + packed_scratch(d) + packed_scratch(dv)
}

dispatch_lanes! {
    /// Writes the derivatives of blocks of queries and the derivative of each row along its scores, and adds the shares
    /// of a softmax to the derivatives of keys, values and the learned weight. The blocks have half the lanes where
    /// `wide` is false; there are at most [`BACKWARD_GROUP`] blocks.
    ///
    /// # Safety
    /// The operands of the head and of the gradients and the other numbers of the rows exist, `scratch` has
    /// [`moments_backward_scratch`] elements; the written memory overlaps nothing.
    pub(super) unsafe fn moments_backward(
        wide; head: &Head, rows: RowMemory, g: &Gradients, blocks: &[QueryBlock], dweight: &mut f64, scratch: *mut f32,
    ) = moments_lanes;
}

/// Number of lanes whose constants and sums of a row fit registers.
const PART: usize = 32;

/// Numbers of some rows.
struct Numbers<const N: usize> {
    center: [f32; N],
    factor: [f32; N],
    inverse: [f32; N],
    /// The logarithm of the sum of the powers of the exponents.
    shift: [f32; N],
    /// The product of the rows of `o` and `do`.
    delta: [f32; N],
}

#[inline(always)]
unsafe fn moments_lanes<L: Level, const W: usize>(
    head: &Head,
    rows: RowMemory,
    g: &Gradients,
    blocks: &[QueryBlock],
    dweight: &mut f64,
    scratch: *mut f32,
) {
    let size = operands_scratch(W, head.d, head.dv);
    let operands = |b: usize| Operands::at::<W>(head, blocks[b], scratch.wrapping_add(b * size));
    let weights = scratch.wrapping_add(blocks.len() * size);
    let (cotangents, keys) = (weights.wrapping_add(TILE * W), weights.wrapping_add(2 * TILE * W));
    let values = keys.wrapping_add(packed_scratch(head.d));
    let end = blocks.iter().map(|&block| head.visible_to(block)).max().unwrap_or(0);
    let mut sums = [[0.0; W]; BACKWARD_GROUP];
    // SAFETY: the scratch has room for the blocks, two tiles of lanes and two of vectors; the rest is passed on.
    unsafe {
        for b in 0..blocks.len() {
            operands(b).fill::<L, W>(head, g, weights);
        }
        let mut tiles = Tiles::new(head, end);
        while let Some(tile) = tiles.next() {
            let packed = [tile.pack(head.k, head.d, keys), tile.pack(head.v, head.dv, values)];
            for (b, &block) in blocks.iter().enumerate() {
                if tile.first() >= head.visible_to(block) {
                    continue;
                }
                let of_block = operands(b);
                scores::<L, W>(
                    head,
                    block,
                    &BlockBias::None,
                    &tile,
                    packed[0],
                    of_block.queries,
                    weights,
                );
                tile.times_lanes::<W>(block.n, packed[1], of_block.d_o, cotangents);
                let kept = kept(head, block, &tile);
                let numbers = Numbers {
                    center: rows.load(RowNumber::Center, block),
                    factor: rows.load(RowNumber::Factor, block),
                    inverse: rows.load(RowNumber::Inverse, block),
                    shift: load::<W>(of_block.shift),
                    delta: load::<W>(of_block.delta),
                };
                if has_hidden::<W>(head, block, &tile) {
                    // Products with hidden keys may be NaN.
                    hide::<W>(head, block, &tile, cotangents, 0.0);
                    weigh::<L, W, true>(&tile, &numbers, kept.as_ref(), [weights, cotangents], &mut sums[b]);
                } else {
                    weigh::<L, W, false>(&tile, &numbers, kept.as_ref(), [weights, cotangents], &mut sums[b]);
                }
                tile.add_weighted::<W>(head, block, packed[0], cotangents, of_block.dq);
                add_to_keys::<W>(&tile, block.n, weights, of_block.d_o_rows, head.dv, g.dv);
                add_to_keys::<W>(&tile, block.n, cotangents, of_block.query_rows, head.d, g.dk);
                tiles.prefetch((b, blocks.len()), &[(head.k, head.d), (head.v, head.dv)]);
            }
        }
        for (b, &block) in blocks.iter().enumerate() {
            let dq = operands(b).dq;
            let mut along = rows.load::<W>(RowNumber::Share, block);
            let (factor, inverse) = (
                rows.load::<W>(RowNumber::Factor, block),
                rows.load::<W>(RowNumber::Inverse, block),
            );
            for i in 0..W {
                along[i] *= sums[b][i] * factor[i] * inverse[i];
            }
            rows.store(RowNumber::Along, block, &along);
            let sums_of_keys = rows.rows(block);
            for i in 0..block.n {
                *dweight += f64::from(sums[b][i]);
                add_row(dq.row, -along[i], sums_of_keys.at(i).ptr, dq.at(i).ptr);
            }
            from_rows::<W>(block, head.d, &[head.scale; W], dq, g.dq);
        }
    }
}

/// Turns scores into weights with dropout, and derivatives of weights into derivatives of scores at a fixed
/// temperature. Adds the products of derivatives of exponents and normalized scores to `sums`.
#[inline(always)]
unsafe fn weigh<L: Level, const W: usize, const HIDDEN: bool>(
    tile: &Tile,
    numbers: &Numbers<W>,
    kept: Option<&Kept>,
    rows: [*mut f32; 2],
    sums: &mut [f32; W],
) {
    for first in (0..W).step_by(PART) {
        let part = Numbers::<PART> {
            center: part_of(&numbers.center, first),
            factor: part_of(&numbers.factor, first),
            inverse: part_of(&numbers.inverse, first),
            shift: part_of(&numbers.shift, first),
            delta: part_of(&numbers.delta, first),
        };
        // SAFETY: the rows of lanes exist.
        let of_part = unsafe { part.weigh::<L, W, HIDDEN>(tile, first, kept, rows) };
        for i in 0..PART {
            sums[first + i] += of_part[i];
        }
    }
}

impl Numbers<PART> {
    #[inline(always)]
    unsafe fn weigh<L: Level, const W: usize, const HIDDEN: bool>(
        &self,
        tile: &Tile,
        first: usize,
        kept: Option<&Kept>,
        [weights, cotangents]: [*mut f32; 2],
    ) -> [f32; PART] {
        let mut sums = [0.0; PART];
        for r in 0..tile.n {
            let at = r * W + first;
            let factors: Option<[f32; PART]> = kept.map(|kept| part_of(&kept.factors::<W>(r), first));
            // SAFETY: the lanes exist.
            unsafe {
                let mut p = load::<PART>(weights.add(at));
                let mut d = load::<PART>(cotangents.add(at));
                if let Some(factors) = factors {
                    for i in 0..PART {
                        d[i] *= factors[i];
                    }
                }
                for i in 0..PART {
                    let seen = !HIDDEN | (p[i] != f32::NEG_INFINITY);
                    let apart = if seen { p[i] - self.center[i] } else { 0.0 };
                    let power = exp_below_zero::<L>(fma::<L>(self.factor[i], apart, -self.shift[i]));
                    p[i] = if seen { power } else { 0.0 };
                    let derivative = p[i] * (d[i] - self.delta[i]);
                    sums[i] = fma::<L>(derivative, apart * self.inverse[i], sums[i]);
                    d[i] = derivative * self.factor[i];
                }
                if let Some(factors) = factors {
                    for i in 0..PART {
                        p[i] *= factors[i];
                    }
                }
                store(weights.add(at), p);
                store(cotangents.add(at), d);
            }
        }
        sums
    }
}
