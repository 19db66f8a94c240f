//! The derivative of ReLU attention: of the tiles that the forward pass leaves out, nothing is computed here either,
//! and where few weights of a tile are not zero, nothing but their own shares.

use super::backward::{Gradients, Operands, add_to_keys, operands_scratch, weigh};
use super::bound::largest_norm;
use super::dropout::kept;
use super::fire_rows::FireSums;
use super::head::Head;
use super::lanes::from_rows;
use super::query_block::{QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, has_hidden, hide, scores};
use super::sequences::BACKWARD_GROUP;
use super::sparse::{NonZeros, axpy, dot};
use super::tile::{Tile, Tiles, Vectors, packed_scratch};
use crate::simd::Level;

dispatch_lanes! {
    /// Writes the derivatives of blocks of queries, and adds the shares of the queries to the derivatives of keys and
    /// values. The blocks have half the lanes where `wide` is false; there are at most [`BACKWARD_GROUP`] blocks.
    ///
    /// # Safety
    /// The operands of the head and of the gradients exist, `scratch` has
    /// [`backward_scratch`](super::backward::backward_scratch) elements; the written memory overlaps nothing.
    pub(super) unsafe fn relu_backward(
        wide; head: &Head, g: &Gradients, blocks: &[QueryBlock], scratch: *mut f32,
    ) = relu_lanes;
}

#[inline(always)]
unsafe fn relu_lanes<L: Level, const W: usize>(head: &Head, g: &Gradients, blocks: &[QueryBlock], scratch: *mut f32) {
    let size = operands_scratch(W, head.d, head.dv);
    let operands = |b: usize| Operands::at::<W>(head, blocks[b], scratch.wrapping_add(b * size));
    let weights = scratch.wrapping_add(blocks.len() * size);
    let cotangents = weights.wrapping_add(TILE * W);
    let keys = weights.wrapping_add(2 * TILE * W);
    let values = keys.wrapping_add(packed_scratch(head.d));
    let fire = |b: usize| g.fire.map(|sums| sums.of_block(b));
    let end = blocks.iter().map(|&block| head.visible_to(block)).max().unwrap_or(0);
    // SAFETY: the scratch has room for the blocks and two tiles; the rest is passed on.
    unsafe {
        let mut biases: [BlockBias<W>; BACKWARD_GROUP] = std::array::from_fn(|b| match blocks.get(b) {
            Some(&block) => BlockBias::new(head, block),
            None => BlockBias::None,
        });
        let mut norms = [0.0; BACKWARD_GROUP];
        for b in 0..blocks.len() {
            let operands = operands(b);
            operands.fill::<L, W>(head, g, weights);
            biases[b].begin(fire(b).as_ref());
            if !head.key_norms.is_null() {
                norms[b] = largest_norm::<L>(blocks[b].n, head.d, operands.query_rows);
            }
        }
        let mut tiles = Tiles::new(head, end);
        while let Some(tile) = tiles.next() {
            let mut keys = Vectors::new(head.k, head.d, keys);
            let mut values = Vectors::new(head.v, head.dv, values);
            for b in 0..blocks.len() {
                let sees = tile.first() < head.visible_to(blocks[b]);
                if sees && !biases[b].hides(head, blocks[b], &tile, norms[b]) {
                    let bias = (&mut biases[b], fire(b));
                    let vectors = [&mut keys, &mut values];
                    add_tile::<L, W>(head, g, bias, &tile, vectors, &operands(b), [weights, cotangents]);
                    tiles.prefetch((b, blocks.len()), &[(head.k, head.d)]);
                }
            }
        }
        for b in 0..blocks.len() {
            let operands = operands(b);
            biases[b].finish(blocks[b], fire(b).as_ref());
            from_rows::<W>(blocks[b], head.d, &[head.scale; W], operands.dq, g.dq);
        }
    }
}

/// Adds the share of a block of queries and a tile of keys to the gradients.
#[inline(always)]
unsafe fn add_tile<L: Level, const W: usize>(
    head: &Head,
    g: &Gradients,
    (bias, fire): (&mut BlockBias<W>, Option<FireSums>),
    tile: &Tile,
    [keys, values]: [&mut Vectors; 2],
    operands: &Operands,
    [weights, cotangents]: [*mut f32; 2],
) {
    let block = operands.block;
    // SAFETY: the rows of lanes exist.
    unsafe {
        scores::<L, W>(head, block, bias, tile, keys.packed(tile), operands.queries, weights);
        let nonzeros = NonZeros::of::<L, W>(tile.n, weights);
        if nonzeros.n == 0 {
            return;
        }
        let kept = kept(head, block, tile);
        if nonzeros.are_few::<W>() {
            let mut places = nonzeros.places();
            while let Some((row, lane)) = places.next() {
                let key = tile.key(row);
                let (k, v) = (head.k.from(key), head.v.from(key));
                let (query, d_o) = (operands.query_rows.at(lane).ptr, operands.d_o_rows.at(lane).ptr);
                let factor = kept.as_ref().map_or(1.0, |kept| kept.factor(row, lane));
                let weight = *weights.add(row * W + lane) * factor;
                let d = factor * dot::<L>(head.dv, (v.ptr, v.col), d_o);
                axpy::<L>(head.dv, weight, (d_o, 1), g.dv.at(key).ptr);
                axpy::<L>(head.d, d, (k.ptr, k.col), operands.dq.at(lane).ptr);
                axpy::<L>(head.d, d, (query, 1), g.dk.at(key).ptr);
                bias.collect_one(tile, (row, lane), d, fire.as_ref());
            }
            return;
        }
        let (keys, values) = (keys.packed(tile), values.packed(tile));
        tile.times_lanes::<W>(block.n, values, operands.d_o, cotangents);
        weigh::<L, W>(head, tile, operands, kept.as_ref(), weights, cotangents);
        if has_hidden::<W>(head, block, tile) {
            // Products with hidden keys may be NaN.
            hide::<W>(head, block, tile, cotangents, 0.0);
        }
        bias.collect::<L>(head, block, tile, cotangents, fire.as_ref());
        tile.add_weighted::<W>(head, block, keys, cotangents, operands.dq);
        add_to_keys::<W>(tile, block.n, weights, operands.d_o_rows, head.dv, g.dv);
        add_to_keys::<W>(tile, block.n, cotangents, operands.query_rows, head.d, g.dk);
    }
}
