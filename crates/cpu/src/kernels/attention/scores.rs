//! Scores of a tile of keys and a block of queries: one row for each key, one lane for each query.

use super::head::{Bias, Block, Head};
use super::lanes::{load, store};
use super::tile::{Packed, Tile};
use crate::simd::{Level, fma};

/// Computes the scores of a tile with the packed `keys`; `queries` are in lanes and scaled. The scores of keys that a query does not see, and of
/// lanes behind the block, are -inf.
///
/// # Safety
/// `queries` has `d` rows and `scores` as many as the tile, of `W` lanes.
#[inline(always)]
pub(super) unsafe fn scores<L: Level, const W: usize>(
    head: &Head,
    block: Block,
    tile: &Tile,
    keys: Packed,
    queries: *mut f32,
    scores: *mut f32,
) {
    // SAFETY: passed on.
    unsafe {
        tile.times_lanes::<W>(keys, queries, scores);
        match head.bias {
            Bias::None => {}
            Bias::Alibi { slope } => add_alibi::<L, W>(head, block, tile, slope, scores),
        }
        if has_hidden::<W>(head, block, tile) {
            hide::<W>(head, block, tile, scores, f32::NEG_INFINITY);
        }
    }
}

/// Whether some lane does not see some key of the tile.
#[inline(always)]
pub(super) fn has_hidden<const W: usize>(head: &Head, block: Block, tile: &Tile) -> bool {
    block.n < W || head.lanes_that_see(block, tile.last()).0 > 0
}

/// Writes `value` where a lane does not see a key.
#[inline(always)]
pub(super) unsafe fn hide<const W: usize>(head: &Head, block: Block, tile: &Tile, rows: *mut f32, value: f32) {
    for r in 0..tile.n {
        let (from, end) = head.lanes_that_see(block, tile.key(r));
        let (from, n) = (from as u32, (end - from) as u32);
        // SAFETY: the row exists.
        unsafe {
            let mut x = load::<W>(rows.add(r * W));
            for i in 0..W {
                x[i] = if (i as u32).wrapping_sub(from) < n { x[i] } else { value };
            }
            store(rows.add(r * W), x);
        }
    }
}

#[inline(always)]
unsafe fn add_alibi<L: Level, const W: usize>(head: &Head, block: Block, tile: &Tile, slope: f32, rows: *mut f32) {
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
