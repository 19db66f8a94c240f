//! Scores of a tile of keys and a block of queries: one row for each key, one lane for each query.

use super::fire::FireHead;
use super::fire_rows::{FireBlock, FireSums};
use super::head::{Bias, Head};
use super::lanes::{load, store};
use super::query_block::QueryBlock;
use super::tile::{Packed, Tile};
use crate::simd::{self, LANES, Level, chunks, fma};

/// Bias of the scores of a block of queries by position.
#[derive(Clone, Copy)]
pub(super) enum BlockBias<const W: usize> {
    None,
    Alibi { slope: f32 },
    Fire(FireHead, FireBlock<W>),
}

impl<const W: usize> BlockBias<W> {
    pub(super) fn new(head: &Head, block: QueryBlock) -> BlockBias<W> {
        match &head.bias {
            Bias::None => BlockBias::None,
            Bias::Alibi { slope } => BlockBias::Alibi { slope: *slope },
            Bias::Fire(fire) => BlockBias::Fire(*fire, FireBlock::new(head, fire, block)),
        }
    }
}

impl<const W: usize> BlockBias<W> {
    /// Resets the sums of the block before, sums of FIRE included.
    ///
    /// # Safety
    /// The memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn begin(&self, sums: Option<&FireSums>) {
        if let (BlockBias::Fire(fire, rows), Some(sums)) = (self, sums) {
            // SAFETY: passed on.
            unsafe { rows.begin(fire, sums) };
        }
    }

    /// Adds the derivatives of a tile's scores to the sums; the derivatives are zeros in lanes that do not see a key.
    ///
    /// # Safety
    /// There are as many rows of `W` lanes as the tile has; the memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn collect<L: Level>(
        &mut self,
        head: &Head,
        block: QueryBlock,
        tile: &Tile,
        rows: *const f32,
        sums: Option<&FireSums>,
    ) {
        if let (BlockBias::Fire(fire, of_block), Some(sums)) = (self, sums) {
            // SAFETY: passed on.
            unsafe { of_block.collect::<L>(head, fire, block, tile, rows, sums) };
        }
    }

    /// [`BlockBias::collect`] for one lane of one row.
    ///
    /// # Safety
    /// The memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn collect_one(&mut self, tile: &Tile, at: (usize, usize), d: f32, sums: Option<&FireSums>) {
        if let (BlockBias::Fire(fire, of_block), Some(sums)) = (self, sums) {
            // SAFETY: passed on.
            unsafe { of_block.collect_one(fire, tile, at, d, sums) };
        }
    }

    /// Adds the sums of a block to the totals.
    ///
    /// # Safety
    /// The memory of the sums exists.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, block: QueryBlock, sums: Option<&FireSums>) {
        if let (BlockBias::Fire(fire, rows), Some(sums)) = (self, sums) {
            // SAFETY: passed on.
            unsafe { rows.finish(fire, block, sums) };
        }
    }
}

/// Computes the scores of a tile with the packed `keys`; `queries` are in lanes and scaled. The scores of keys that a
/// query does not see, and of lanes after the block, are -inf.
///
/// # Safety
/// `queries` has `d` rows and `scores` as many as the tile, of `W` lanes.
#[inline(always)]
pub(super) unsafe fn scores<L: Level, const W: usize>(
    head: &Head,
    block: QueryBlock,
    bias: &BlockBias<W>,
    tile: &Tile,
    keys: Packed,
    queries: *mut f32,
    scores: *mut f32,
) {
    // SAFETY: passed on.
    unsafe {
        tile.times_lanes::<W>(block.n, keys, queries, scores);
        match bias {
            BlockBias::None => {}
            BlockBias::Alibi { slope } => add_alibi::<L, W>(head, block, tile, *slope, scores),
            BlockBias::Fire(fire, rows) => rows.add::<L>(head, fire, block, tile, scores),
        }
        if has_hidden::<W>(head, block, tile) {
            hide::<W>(head, block, tile, scores, f32::NEG_INFINITY);
        }
    }
}

/// Whether some lane does not see some key of the tile.
#[inline(always)]
pub(super) fn has_hidden<const W: usize>(head: &Head, block: QueryBlock, tile: &Tile) -> bool {
    block.n < W || head.lanes_that_see(block, tile.last()).0 > 0
}

/// Writes `value` where a lane does not see a key.
#[inline(always)]
pub(super) unsafe fn hide<const W: usize>(head: &Head, block: QueryBlock, tile: &Tile, rows: *mut f32, value: f32) {
    chunks!(tile.n * W, |j, len| {
        // The first lane that sees the key of each row, and how many do.
        let (mut from, mut seeing) = ([0; LANES], [0; LANES]);
        for row in 0..len / W {
            let (first, end) = head.lanes_that_see(block, tile.key(j / W + row));
            from[row * W..][..W].fill(first as u32);
            seeing[row * W..][..W].fill((end - first) as u32);
        }
        // SAFETY: the rows exist.
        unsafe {
            let mut x = simd::load(rows.add(j), 1, len, value);
            for i in 0..LANES {
                let lane = (i % W) as u32;
                x[i] = if lane.wrapping_sub(from[i]) < seeing[i] {
                    x[i]
                } else {
                    value
                };
            }
            simd::store(rows.add(j), 1, len, &x);
        }
    });
}

#[inline(always)]
unsafe fn add_alibi<L: Level, const W: usize>(head: &Head, block: QueryBlock, tile: &Tile, slope: f32, rows: *mut f32) {
    for r in 0..tile.n {
        let distance = (head.first + block.first as i64 - tile.key(r) as i64) as f32;
        // SAFETY: the row exists.
        unsafe {
            let mut x = load::<W>(rows.add(r * W));
            for i in 0..W {
                x[i] = fma::<L>(-slope, (distance + i as f32).abs(), x[i]);
            }
            store(rows.add(r * W), x);
        }
    }
}
