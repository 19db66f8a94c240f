//! Scaled dot-product attention (Vaswani et al. 2017) of one head of one example, and its derivative. Scores
//! exist for one block of queries at a time, and the backward pass computes them again, as in FlashAttention
//! (Dao et al. 2022).
//!
//! With queries `Q` of `tq x d`, keys `K` of `tk x d` and values `V` of `tk x dv`: `S = scale Q K^T`, `P =
//! softmax(S)` over the visible keys, `O = dropout(P) V`. Key `j` is visible to query `i` if the mask says so
//! and, when causal, `j <= i + tk - tq`. A query that sees no key gives zeros, and its gradients are zeros.

use std::ops::Range;

pub use super::attention_backward::backward;
use super::gemm::gemm_scaled;
use super::random::{random_halves, threshold_and_scale};
use super::rows::Rows;
use crate::math::{exp, log};
use crate::simd::{LANES, Level, chunks, dispatch, fold, larger, load, store, sum};

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
/// [`dropout`](super::random::dropout).
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

    /// Number of `f32` that [`forward`] needs as scratch.
    pub fn forward_scratch(&self) -> usize {
        // Scores, a row of half-words.
        BLOCK.min(self.tq) * self.row() + self.row() / 2
    }

    /// Number of `f32` that [`backward`] needs as scratch.
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

dispatch! {
    /// Computes rows `queries` of `o` (`tq x dv`), and for each the logarithm of the sum of `e^S` in `lse`
    /// (`tq` elements; -inf where no key is visible). Threads take ranges of queries of their own; cut them
    /// at multiples of [`BLOCK`], so that the result does not depend on the ranges.
    ///
    /// # Safety
    /// The operands cover the shapes of the head, `mask` `tk` bytes if it is not null, `scratch`
    /// [`Head::forward_scratch`] elements; what is written overlaps nothing.
    pub unsafe fn forward(
        head: &Head, q: Rows<f32>, k: Rows<f32>, v: Rows<f32>, o: Rows<f32>, lse: *mut f32,
        queries: Range<usize>, scratch: *mut f32,
    ) = forward_body;
}

/// A matrix for [`gemm_scaled`] from row `r` on, and its transpose.
pub(super) fn matrix(x: Rows<f32>, r: usize) -> (*const f32, isize, isize) {
    (x.at(r), x.row as isize, x.col as isize)
}
pub(super) fn transposed(x: Rows<f32>, r: usize) -> (*const f32, isize, isize) {
    (x.at(r), x.col as isize, x.row as isize)
}
pub(super) fn matrix_mut(x: Rows<f32>, r: usize) -> (*mut f32, isize, isize) {
    (x.at(r), x.row as isize, x.col as isize)
}

#[inline(always)]
unsafe fn forward_body<L: Level>(
    head: &Head,
    q: Rows<f32>,
    k: Rows<f32>,
    v: Rows<f32>,
    o: Rows<f32>,
    lse: *mut f32,
    queries: Range<usize>,
    scratch: *mut f32,
) {
    let mut begin = queries.start;
    while begin < queries.end {
        let end = queries.end.min(begin + BLOCK);
        let keys = head.visible(end - 1);
        let row = keys.next_multiple_of(LANES);
        let scores = Rows::dense(scratch, row);
        // SAFETY: `scratch` has a block of scores and a row of half-words after it; everything else lies
        // within the operands.
        unsafe {
            let halves = scratch.add(BLOCK.min(head.tq) * head.row()).cast::<u16>();
            let product = matrix_mut(scores, 0);
            gemm_scaled(
                head.scale,
                end - begin,
                head.d,
                keys,
                matrix(q, begin),
                transposed(k, 0),
                product,
                false,
            );
            // One lane for each query of the block. Two loops, so that no row waits for its own largest
            // score.
            let (mut totals, mut shifts) = ([1.0; LANES], [0.0; LANES]);
            for i in begin..end {
                shifts[i - begin] = hide_row(head, head.visible(i), row, scores.at(i - begin));
            }
            for i in begin..end {
                random_row(head, i, row, halves);
                totals[i - begin] =
                    weigh_row::<L>(head, shifts[i - begin], row, scores.at(i - begin), halves);
            }
            for i in 0..LANES {
                shifts[i] += log::<L>(totals[i]);
                totals[i] = if totals[i] == 0.0 { 0.0 } else { 1.0 / totals[i] };
            }
            store(lse.add(begin), 1, end - begin, &shifts);
            let weights = matrix(scores, 0);
            gemm_scaled(
                1.0,
                end - begin,
                keys,
                head.dv,
                weights,
                matrix(v, 0),
                matrix_mut(o, begin),
                false,
            );
            for i in begin..end {
                if o.col == 1 {
                    scale_row(head.dv, (o.at(i), 1), totals[i - begin]);
                } else {
                    scale_row(head.dv, (o.at(i), o.col), totals[i - begin]);
                }
            }
        }
        begin = end;
    }
}

/// Makes the half-words that decide on a query's weights, if there is dropout, up to a whole number of
/// chunks.
#[inline(always)]
pub(super) unsafe fn random_row(head: &Head, i: usize, row: usize, halves: *mut u16) {
    if let Some(WeightDropout {
        stream, key, first, ..
    }) = head.dropout
    {
        // SAFETY: `halves` has room for a row.
        unsafe { random_halves(key, stream, first.wrapping_add((i * head.tk) as u64), row, halves) }
    }
}

/// The scores of a chunk from key `j` on, -inf for keys that are not visible.
#[inline(always)]
pub(super) unsafe fn visible_scores(
    head: &Head,
    visible: usize,
    j: usize,
    scores: *const f32,
) -> [f32; LANES] {
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
                s[i] = if (i as u32) < left {
                    s[i]
                } else {
                    f32::NEG_INFINITY
                };
            }
        }
        s
    }
}

/// Makes the scores of keys that are not visible -inf; returns the largest score, or 0 if no key is visible.
#[inline(always)]
unsafe fn hide_row(head: &Head, visible: usize, row: usize, scores: *mut f32) -> f32 {
    let mut largest = [f32::NEG_INFINITY; LANES];
    chunks!(row, |j, _len| {
        // SAFETY: the row has a whole number of chunks.
        unsafe {
            let s = visible_scores(head, visible, j, scores);
            for i in 0..LANES {
                largest[i] = larger(s[i], largest[i]);
            }
            store(scores.add(j), 1, LANES, &s);
        }
    });
    let largest = fold(largest, larger);
    if largest == f32::NEG_INFINITY {
        0.0
    } else {
        largest
    }
}

/// Turns a row of scores into the weights `e^(S - shift)` with dropout; returns their sum without dropout.
#[inline(always)]
unsafe fn weigh_row<L: Level>(
    head: &Head,
    shift: f32,
    row: usize,
    scores: *mut f32,
    halves: *const u16,
) -> f32 {
    let mut sums = [0.0; LANES];
    chunks!(row, |j, _len| {
        // SAFETY: the rows of scores and of half-words have whole numbers of chunks.
        unsafe {
            let mut s = load(scores.add(j) as *const f32, 1, LANES, 0.0);
            for i in 0..LANES {
                s[i] = exp::<L>(s[i] - shift);
                sums[i] += s[i];
            }
            if let Some(WeightDropout { p, .. }) = head.dropout {
                let factors = keep_factors(p, halves.add(j));
                for i in 0..LANES {
                    s[i] *= factors[i];
                }
            }
            store(scores.add(j), 1, LANES, &s);
        }
    });
    sum(sums)
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
