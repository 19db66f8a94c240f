//! Dropout of the weights of a tile.

use super::head::{Head, WeightDropout};
use super::lanes::{load, store};
use super::query_block::{QueryBlock, TILE};
use super::tile::Tile;
use crate::kernels::elementwise::random::{random_halves, threshold_and_scale};

/// Which weights of a tile dropout keeps: a word for each key, a bit for each query.
pub(super) struct Kept {
    words: [u64; TILE],
    scale: f32,
}

/// Which weights of a tile dropout keeps, if there is dropout.
#[inline(always)]
pub(super) fn kept(head: &Head, block: QueryBlock, tile: &Tile) -> Option<Kept> {
    let dropout = head.dropout?;
    Some(kept_by(dropout, block, tile))
}

#[inline(always)]
fn kept_by(dropout: WeightDropout, block: QueryBlock, tile: &Tile) -> Kept {
    let (threshold, scale) = threshold_and_scale(dropout.p);
    let mut words = [0u64; TILE];
    for i in 0..block.n {
        let row = dropout.first.wrapping_add((block.first + i) as u64 * dropout.row);
        let mut halves = [0u16; TILE];
        for run in tile.runs() {
            let first = row.wrapping_add(run.key as u64);
            // SAFETY: a run lies within the tile.
            unsafe {
                random_halves(
                    dropout.key,
                    dropout.stream,
                    first,
                    run.n,
                    halves[run.row..].as_mut_ptr(),
                )
            };
        }
        let mut word = 0;
        for r in 0..TILE {
            word |= u64::from(halves[r] >= threshold) << r;
        }
        words[i] = word;
    }
    transpose(&mut words);
    Kept { words, scale }
}

/// Exchanges bit `j` of word `i` with bit `i` of word `j`, for all of them: blocks of half the size at a time.
#[inline(always)]
pub(crate) fn transpose(words: &mut [u64; 64]) {
    let mut half = 32;
    let mut mask = u64::MAX >> 32;
    while half > 0 {
        let mut i = 0;
        while i < 64 {
            for j in i..i + half {
                let exchanged = ((words[j] >> half) ^ words[j + half]) & mask;
                words[j] ^= exchanged << half;
                words[j + half] ^= exchanged;
            }
            i += 2 * half;
        }
        half /= 2;
        mask ^= mask << half;
    }
}

impl Kept {
    /// Multiplies weights by their factors.
    ///
    /// # Safety
    /// There are as many rows of `W` lanes as the tile has.
    #[inline(always)]
    pub(super) unsafe fn apply<const W: usize>(&self, tile: &Tile, rows: *mut f32) {
        for r in 0..tile.n {
            // SAFETY: the row exists.
            unsafe {
                let mut x = load::<W>(rows.add(r * W));
                let factors = self.factors::<W>(r);
                for i in 0..W {
                    x[i] *= factors[i];
                }
                store(rows.add(r * W), x);
            }
        }
    }

    /// Factor of one weight.
    #[inline(always)]
    pub(super) fn factor(&self, row: usize, lane: usize) -> f32 {
        if (self.words[row] >> lane) & 1 == 1 {
            self.scale
        } else {
            0.0
        }
    }

    /// Factors of the weights of a key.
    #[inline(always)]
    pub(super) fn factors<const W: usize>(&self, row: usize) -> [f32; W] {
        let (low, high) = (self.words[row] as u32, (self.words[row] >> 32) as u32);
        let mut factors = [0.0; W];
        for i in 0..W {
            let word = if i < 32 { low } else { high };
            factors[i] = if (word >> (i % 32)) & 1 == 1 { self.scale } else { 0.0 };
        }
        factors
    }
}
