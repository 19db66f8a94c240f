//! Tiles whose weights are mostly zeros: places of the others, and sums over these alone.

use super::lanes::load;
use super::query_block::TILE;
use crate::simd::{self, LANES, Level, chunks, fma, sum};

/// A product is formed from the weights that are not zero where at most one in this many is not.
const SPARSE: usize = 8;

/// The weights of a tile that are not zero: a word for each key, a bit for each query.
pub(super) struct NonZeros {
    words: [u64; TILE],
    /// Number of rows.
    rows: usize,
    /// Number of weights that are not zero.
    pub(super) n: usize,
}

impl NonZeros {
    /// Finds the scores that are not below or equal to zero in `rows` rows of `W` lanes; NaN is one.
    ///
    /// # Safety
    /// The rows exist.
    #[inline(always)]
    pub(super) unsafe fn of<L: Level, const W: usize>(rows: usize, scores: *const f32) -> NonZeros {
        let mut words = [0; TILE];
        let mut n = 0;
        for r in 0..rows {
            // SAFETY: the row exists, and the caller runs on the level's CPU.
            words[r] = unsafe { L::not_below_zero(&load::<W>(scores.add(r * W))) };
            n += words[r].count_ones() as usize;
        }
        NonZeros { words, rows, n }
    }

    /// Whether they are few.
    pub(super) fn are_few<const W: usize>(&self) -> bool {
        self.n * SPARSE <= self.rows * W
    }

    /// The row and the lane of each, in order.
    pub(super) fn places(&self) -> Places<'_> {
        Places {
            words: &self.words[..self.rows],
            row: 0,
            word: self.words[0],
        }
    }
}

/// The places of weights that are not zero.
pub(super) struct Places<'a> {
    words: &'a [u64],
    row: usize,
    /// The rest of the row.
    word: u64,
}

impl Places<'_> {
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(usize, usize)> {
        while self.word == 0 {
            self.row += 1;
            self.word = *self.words.get(self.row)?;
        }
        let lane = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some((self.row, lane))
    }
}

/// `y += a x`
///
/// # Safety
/// Both have `c` elements, and do not overlap.
#[inline(always)]
pub(super) unsafe fn axpy<L: Level>(c: usize, a: f32, (x, col): (*const f32, usize), y: *mut f32) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len exist.
        unsafe {
            let x = match col {
                1 => simd::load(x.add(j), 1, len, 0.0),
                col => simd::load(x.add(j * col), col, len, 0.0),
            };
            let mut all = simd::load(y.add(j) as *const f32, 1, len, 0.0);
            for i in 0..LANES {
                all[i] = fma::<L>(a, x[i], all[i]);
            }
            simd::store(y.add(j), 1, len, &all);
        }
    });
}

/// The product of two rows.
///
/// # Safety
/// Both have `c` elements.
#[inline(always)]
pub(super) unsafe fn dot<L: Level>(c: usize, (x, col): (*const f32, usize), y: *const f32) -> f32 {
    let mut sums = [0.0; LANES];
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len exist.
        unsafe {
            let x = match col {
                1 => simd::load(x.add(j), 1, len, 0.0),
                col => simd::load(x.add(j * col), col, len, 0.0),
            };
            let y = simd::load(y.add(j), 1, len, 0.0);
            for i in 0..LANES {
                sums[i] = fma::<L>(x[i], y[i], sums[i]);
            }
        }
    });
    sum(sums)
}
