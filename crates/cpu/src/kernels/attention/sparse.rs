//! Weights of a tile that are mostly zeros: which ones are not, and sums over those alone.

use super::head::{BLOCK, TILE};
use super::lanes::load;
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
    pub(super) unsafe fn of<const W: usize>(rows: usize, scores: *const f32) -> NonZeros {
        let mut words = [0; TILE];
        let mut n = 0;
        for r in 0..rows {
            // SAFETY: the row exists.
            let s = unsafe { load::<W>(scores.add(r * W)) };
            let mut bits = [0u8; BLOCK];
            for i in 0..W {
                bits[i] = u8::from(!(s[i] <= 0.0));
            }
            words[r] = word(&bits);
            n += words[r].count_ones() as usize;
        }
        NonZeros { words, rows, n }
    }

    /// Whether they are few.
    pub(super) fn are_few<const W: usize>(&self) -> bool {
        self.n * SPARSE <= self.rows * W
    }

    /// Calls `run` with the row and the lane of each.
    #[inline(always)]
    pub(super) fn for_each(&self, mut run: impl FnMut(usize, usize)) {
        for r in 0..self.rows {
            let mut word = self.words[r];
            while word != 0 {
                run(r, word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}

/// The bits of bytes that are 0 or 1: of eight at a time, a product moves each to a place of its own in the highest byte.
#[inline(always)]
fn word(bytes: &[u8; BLOCK]) -> u64 {
    let mut word = 0;
    for (i, eight) in bytes.chunks_exact(8).enumerate() {
        let eight = u64::from_le_bytes([
            eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7],
        ]);
        word |= (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    word
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

#[cfg(test)]
mod tests {
    use super::{BLOCK, word};

    #[test]
    fn bits_are_in_their_places() {
        for i in 0..BLOCK {
            let mut bytes = [0; BLOCK];
            bytes[i] = 1;
            assert_eq!(word(&bytes), 1 << i);
        }
        assert_eq!(word(&[1; BLOCK]), u64::MAX);
    }
}
