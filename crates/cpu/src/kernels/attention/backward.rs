//! The derivative of attention with tiles over queries and keys: the weights of a tile are made again, and its five
//! products are added to the gradients of the block's queries and of the tile's keys and values.

use super::super::rows::Rows;
use super::dropout::{Kept, kept};
use super::fire_rows::FireSums;
use super::head::Head;
use super::lanes::{from_rows, load, store, to_lanes, to_rows};
use super::product::{Left, PANEL, Panel, product, wide};
use super::query_block::{BLOCK, QueryBlock, TILE, dispatch_lanes};
use super::scores::{BlockBias, has_hidden, hide, scores};
use super::sequences::BACKWARD_GROUP;
use super::tile::{Packed, Tile, Tiles, packed_scratch};
use super::weights::{counts, weights_of};
use crate::simd::{Level, fma};
use lessen_graph::ops::Weighting;

/// Operands of the derivative for one head of queries, besides the operands in [`Head`].
#[derive(Clone, Copy)]
pub(super) struct Gradients {
    /// Results of the forward pass, where the weights are a softmax.
    pub(super) o: Rows<f32>,
    pub(super) lse: *const f32,
    pub(super) d_o: Rows<f32>,
    pub(super) dq: Rows<f32>,
    /// To be added to: rows of `d` elements and zeros up to a multiple of [`PANEL`](super::product::PANEL).
    pub(super) dk: Panel,
    /// To be added to: rows of `dv` elements and zeros up to a multiple of [`PANEL`](super::product::PANEL).
    pub(super) dv: Panel,
    /// Sums for the derivatives of FIRE's parameters.
    pub(super) fire: Option<FireSums>,
}

/// Number of `f32` that [`backward`] needs as scratch.
pub(super) fn backward_scratch(d: usize, dv: usize) -> usize {
    BACKWARD_GROUP * operands_scratch(BLOCK, d, dv) + 2 * TILE * BLOCK + packed_scratch(d) + packed_scratch(dv)
}

/// Number of `f32` of [`Operands`].
pub(super) fn operands_scratch(lanes: usize, d: usize, dv: usize) -> usize {
    (d + dv + 2 * wide(d) + wide(dv) + 2) * lanes
}

dispatch_lanes! {
    /// Writes the derivatives of blocks of queries, and adds the shares of the queries to the derivatives of keys and
    /// values. The blocks have half the lanes where `wide` is false; there are at most [`BACKWARD_GROUP`] blocks.
    ///
    /// # Safety
    /// The operands of the head and of the gradients exist, `scratch` has [`backward_scratch`] elements; the written
    /// memory overlaps nothing.
    pub(super) unsafe fn backward(
        wide; head: &Head, g: &Gradients, blocks: &[QueryBlock], scratch: *mut f32,
    ) = backward_lanes;
}

/// A block of queries with its operands.
pub(super) struct Operands {
    pub(super) block: QueryBlock,
    /// In lanes, `d` rows, scaled.
    pub(super) queries: *mut f32,
    /// The scaled queries, in rows of `d` elements and zeros.
    pub(super) query_rows: Panel,
    /// The cotangent of the results in lanes, `dv` rows.
    pub(super) d_o: *mut f32,
    /// The cotangent of the results, in rows of `dv` elements and zeros.
    pub(super) d_o_rows: Panel,
    /// The derivative of the scaled queries, in rows of `d` elements and zeros.
    pub(super) dq: Panel,
    /// See [`weights_of`].
    pub(super) shift: *mut f32,
    /// The product of the query's rows of `o` and `do`, where the weights are a softmax.
    pub(super) delta: *mut f32,
}

impl Operands {
    #[inline(always)]
    pub(super) fn at<const W: usize>(head: &Head, block: QueryBlock, scratch: *mut f32) -> Operands {
        let (d, dv) = (head.d, head.dv);
        let mut next = scratch;
        let mut take = |rows: usize| {
            let at = next;
            next = next.wrapping_add(rows * W);
            at
        };
        let (wide_d, wide_dv) = (wide(d), wide(dv));
        Operands {
            block,
            queries: take(d),
            query_rows: Panel {
                ptr: take(wide_d),
                row: wide_d,
            },
            d_o: take(dv),
            d_o_rows: Panel {
                ptr: take(wide_dv),
                row: wide_dv,
            },
            dq: Panel {
                ptr: take(wide_d),
                row: wide_d,
            },
            shift: take(1),
            delta: take(1),
        }
    }

    /// Copies the block's operands into the lanes and rows; `spare` is memory of a tile.
    #[inline(always)]
    pub(super) unsafe fn fill<L: Level, const W: usize>(&self, head: &Head, g: &Gradients, spare: *mut f32) {
        let block = self.block;
        // SAFETY: the operands exist.
        unsafe {
            let mut shift = [0.0; W];
            let mut factors = [1.0; W];
            match head.weighting {
                Weighting::Softmax | Weighting::Norm(_) => {
                    for i in 0..block.n {
                        let lse = *g.lse.add(block.first + i);
                        // Where nothing is visible, all scores are -inf, and so must be their distance from the shift.
                        shift[i] = if lse == f32::NEG_INFINITY { 0.0 } else { lse };
                    }
                }
                Weighting::Relu(by) => counts::<W>(head, block, by, |i, by| factors[i] = 1.0 / by),
                Weighting::Sigmoid(by) => counts::<W>(head, block, by, |i, by| shift[i] = by.ln()),
            }
            store(self.shift, shift);
            to_rows::<W>(block, head.d, &[head.scale; W], head.q, self.query_rows);
            to_lanes::<W>(head.d, self.query_rows, self.queries);
            to_rows::<W>(block, head.dv, &factors, g.d_o, self.d_o_rows);
            to_lanes::<W>(head.dv, self.d_o_rows, self.d_o);
            self.dq.ptr.write_bytes(0, self.dq.row * W);
            let mut delta = [0.0; W];
            if head.weighting.is_softmax() {
                // Sums in the order of the products of values and cotangents, so that a query of one key has a
                // derivative of exactly zero.
                let mut first = 0;
                while first < head.dv {
                    let c = (head.dv - first).min(PANEL);
                    let rows = Panel { ptr: spare, row: PANEL };
                    let lanes = spare.wrapping_add(W * PANEL);
                    let o = Rows {
                        ptr: g.o.element(0, first),
                        ..g.o
                    };
                    to_rows::<W>(block, c, &[1.0; W], o, rows);
                    to_lanes::<W>(c, rows, lanes);
                    for j in 0..c {
                        let (o, d_o) = (load::<W>(lanes.add(j * W)), load::<W>(self.d_o.add((first + j) * W)));
                        for i in 0..W {
                            delta[i] = fma::<L>(o[i], d_o[i], delta[i]);
                        }
                    }
                    first += c;
                }
            }
            store(self.delta, delta);
        }
    }
}

#[inline(always)]
unsafe fn backward_lanes<L: Level, const W: usize>(
    head: &Head,
    g: &Gradients,
    blocks: &[QueryBlock],
    scratch: *mut f32,
) {
    let size = operands_scratch(W, head.d, head.dv);
    let operands = |b: usize| Operands::at::<W>(head, blocks[b], scratch.wrapping_add(b * size));
    let weights = scratch.wrapping_add(blocks.len() * size);
    let (cotangents, keys) = (weights.wrapping_add(TILE * W), weights.wrapping_add(2 * TILE * W));
    let values = keys.wrapping_add(packed_scratch(head.d));
    let fire = |b: usize| g.fire.map(|sums| sums.of_block(b));
    let end = blocks.iter().map(|&block| head.visible_to(block)).max().unwrap_or(0);
    // SAFETY: the scratch has room for the blocks and two tiles; the rest is passed on.
    unsafe {
        let mut biases: [BlockBias<W>; BACKWARD_GROUP] = std::array::from_fn(|b| match blocks.get(b) {
            Some(&block) => BlockBias::new(head, block),
            None => BlockBias::None,
        });
        for b in 0..blocks.len() {
            operands(b).fill::<L, W>(head, g, weights);
            biases[b].begin(fire(b).as_ref());
        }
        let mut tiles = Tiles::new(head, end);
        while let Some(tile) = tiles.next() {
            let packed = [tile.pack(head.k, head.d, keys), tile.pack(head.v, head.dv, values)];
            for b in 0..blocks.len() {
                if tile.first() < head.visible_to(blocks[b]) {
                    add_tile::<L, W>(
                        head,
                        g,
                        (&mut biases[b], fire(b)),
                        &tile,
                        packed,
                        &operands(b),
                        [weights, cotangents],
                    );
                }
                tiles.prefetch((b, blocks.len()), &[(head.k, head.d), (head.v, head.dv)]);
            }
        }
        for b in 0..blocks.len() {
            let operands = operands(b);
            biases[b].finish(operands.block, fire(b).as_ref());
            from_rows::<W>(operands.block, head.d, &[head.scale; W], operands.dq, g.dq);
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
    [keys, values]: [Packed; 2],
    operands: &Operands,
    [weights, cotangents]: [*mut f32; 2],
) {
    let block = operands.block;
    // SAFETY: the rows of lanes exist.
    unsafe {
        scores::<L, W>(head, block, bias, tile, keys, operands.queries, weights);
        tile.times_lanes::<W>(block.n, values, operands.d_o, cotangents);
        let kept = kept(head, block, tile);
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

/// Adds `sum_i w[r][i] y[i]` to the row of each key: shares of the gradients of keys and values.
#[inline(always)]
pub(super) unsafe fn add_to_keys<const W: usize>(tile: &Tile, n: usize, w: *mut f32, y: Panel, c: usize, to: Panel) {
    for run in tile.runs() {
        let w = Left::Rows {
            ptr: w.wrapping_add(run.row * W),
            row: W,
        };
        // SAFETY: the rows exist.
        unsafe { product(run.n, n, wide(c), w, y, to.at(run.key), true) };
    }
}

/// Turns scores into weights with dropout, and the derivatives of weights with dropout into the derivatives of the
/// scores.
#[inline(always)]
pub(super) unsafe fn weigh<L: Level, const W: usize>(
    head: &Head,
    tile: &Tile,
    operands: &Operands,
    kept: Option<&Kept>,
    weights: *mut f32,
    cotangents: *mut f32,
) {
    // SAFETY: the rows of lanes exist.
    let (shift, delta) = unsafe { (load::<W>(operands.shift), load::<W>(operands.delta)) };
    for r in 0..tile.n {
        let factors = kept.map(|kept| kept.factors::<W>(r));
        // SAFETY: as above.
        unsafe {
            let mut p = load::<W>(weights.add(r * W));
            let mut d = load::<W>(cotangents.add(r * W));
            if let Some(factors) = factors {
                for i in 0..W {
                    d[i] *= factors[i];
                }
            }
            match head.weighting {
                Weighting::Softmax | Weighting::Norm(_) => {
                    p = weights_of::<L, W>(&head.weighting, p, &shift);
                    for i in 0..W {
                        d[i] = p[i] * (d[i] - delta[i]);
                    }
                }
                Weighting::Relu(_) => {
                    for i in 0..W {
                        d[i] = if p[i] <= 0.0 { 0.0 } else { d[i] };
                    }
                    p = weights_of::<L, W>(&head.weighting, p, &shift);
                }
                Weighting::Sigmoid(_) => {
                    p = weights_of::<L, W>(&head.weighting, p, &shift);
                    for i in 0..W {
                        d[i] *= p[i] * (1.0 - p[i]);
                    }
                }
            }
            if let Some(factors) = factors {
                for i in 0..W {
                    p[i] *= factors[i];
                }
            }
            store(weights.add(r * W), p);
            store(cotangents.add(r * W), d);
        }
    }
}
