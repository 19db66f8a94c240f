//! What one head of attention is, and what its forward and backward loops share.

use super::super::random::{random_halves, threshold_and_scale};
use super::super::rows::Rows;
use crate::simd::{LANES, chunks, load, store};

/// Queries in a block: one in each lane.
pub const BLOCK: usize = LANES;

/// One head: sizes and rules.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Number of queries.
    pub tq: usize,
    /// Number of keys.
    pub tk: usize,
    /// Size of a query and of a key.
    pub d: usize,
    /// Size of a value.
    pub dv: usize,
    /// What products of queries and keys are multiplied by.
    pub scale: f32,
    /// Whether a query sees no later keys.
    pub causal: bool,
    /// For each key, whether it is visible (not 0); null if all are.
    pub mask: *const u8,
    /// Dropout of the weights.
    pub dropout: Option<WeightDropout>,
}

/// Dropout of a head's weights: that of query `i` and key `j` has the index `first + i tk + j`; see
/// [`dropout`](crate::kernels::random::dropout).
#[derive(Clone, Copy, Debug)]
pub struct WeightDropout {
    /// Probability of zero.
    pub p: f64,
    /// The stream of random bits.
    pub stream: u32,
    /// Their key.
    pub key: [u32; 2],
    /// Index of the head's first weight.
    pub first: u64,
}

impl Head {
    /// Elements of a row of scores in memory: a whole number of chunks.
    pub(super) fn row(&self) -> usize {
        self.tk.next_multiple_of(LANES)
    }

    /// Number of `f32` that [`forward`](super::forward) needs as scratch.
    pub fn forward_scratch(&self) -> usize {
        // Scores, a row of half-words.
        BLOCK.min(self.tq) * self.row() + self.row() / 2
    }

    /// Number of `f32` that [`backward`](super::backward) needs as scratch.
    pub fn backward_scratch(&self) -> usize {
        // Scores, their derivatives, a row of half-words.
        2 * BLOCK.min(self.tq) * self.row() + self.row() / 2
    }

    /// The keys that query `i` sees, but for the mask: the first this many.
    pub(super) fn visible(&self, i: usize) -> usize {
        if self.causal {
            (i + 1 + self.tk).saturating_sub(self.tq).min(self.tk)
        } else {
            self.tk
        }
    }
}

/// A matrix for a product from row `r` on, and its transpose.
pub(super) fn matrix(x: Rows<f32>, r: usize) -> (*const f32, isize, isize) {
    (x.at(r), x.row as isize, x.col as isize)
}
pub(super) fn transposed(x: Rows<f32>, r: usize) -> (*const f32, isize, isize) {
    (x.at(r), x.col as isize, x.row as isize)
}
pub(super) fn matrix_mut(x: Rows<f32>, r: usize) -> (*mut f32, isize, isize) {
    (x.at(r), x.row as isize, x.col as isize)
}

/// Makes the half-words that decide on a query's weights, if there is dropout, up to a whole number of
/// chunks.
#[inline(always)]
pub(super) unsafe fn random_row(head: &Head, i: usize, row: usize, halves: *mut u16) {
    if let Some(WeightDropout { stream, key, first, .. }) = head.dropout {
        // SAFETY: `halves` has room for a row.
        unsafe { random_halves(key, stream, first.wrapping_add((i * head.tk) as u64), row, halves) }
    }
}

/// The scores of a chunk from key `j` on, -inf for keys that are not visible.
#[inline(always)]
pub(super) unsafe fn visible_scores(head: &Head, visible: usize, j: usize, scores: *const f32) -> [f32; LANES] {
    // SAFETY: the row has a whole number of chunks, and the mask `tk` bytes.
    unsafe {
        let mut s = load(scores.add(j), 1, LANES, 0.0);
        if !head.mask.is_null() {
            let mask = load(head.mask.add(j), 1, LANES.min(head.tk - j), 0);
            for i in 0..LANES {
                s[i] = if mask[i] == 0 { f32::NEG_INFINITY } else { s[i] };
            }
        }
        if j + LANES > visible {
            let left = visible.saturating_sub(j) as u32;
            for i in 0..LANES {
                s[i] = if (i as u32) < left { s[i] } else { f32::NEG_INFINITY };
            }
        }
        s
    }
}

/// What dropout multiplies a chunk of weights by.
#[inline(always)]
pub(super) unsafe fn keep_factors(p: f64, halves: *const u16) -> [f32; LANES] {
    let (threshold, scale) = threshold_and_scale(p);
    // SAFETY: the row of half-words has a whole number of chunks.
    let halves = unsafe { load(halves, 1, LANES, 0) };
    let mut factors = [0.0; LANES];
    for i in 0..LANES {
        factors[i] = if halves[i] >= threshold { scale } else { 0.0 };
    }
    factors
}

#[inline(always)]
pub(super) unsafe fn scale_row(c: usize, (y, col): (*mut f32, usize), a: f32) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row. A product of zero weights is zero whatever the values
        // are.
        unsafe {
            let mut ys = load(y.add(j * col) as *const f32, col, len, 0.0);
            for i in 0..LANES {
                ys[i] = if a == 0.0 { 0.0 } else { ys[i] * a };
            }
            store(y.add(j * col), col, len, &ys);
        }
    });
}

/// Makes a row of a product `y = scale w X` that is NaN anew, as the sum over the rows of `X` whose weight is not zero:
/// what is behind a masked key may be anything, and 0 times NaN would be NaN.
///
/// # Safety
/// `w` has `n` elements, `x` covers `n` rows of `c` elements, and `y` has `c` elements that lie `col` apart.
#[inline(always)]
pub(super) unsafe fn without_masked(
    scale: f32,
    (n, w): (usize, *const f32),
    x: Rows<f32>,
    c: usize,
    (y, col): (*mut f32, usize),
) {
    // SAFETY: the elements lie within the row.
    if !(0..c).any(|j| unsafe { (*y.add(j * col)).is_nan() }) {
        return;
    }
    for j in 0..c {
        let mut sum = 0.0;
        for key in 0..n {
            // SAFETY: the weight and the row exist.
            unsafe {
                let weight = *w.add(key);
                if weight != 0.0 {
                    sum += weight * *x.element(key, j);
                }
            }
        }
        // SAFETY: the element lies within the row.
        unsafe { *y.add(j * col) = scale * sum };
    }
}
