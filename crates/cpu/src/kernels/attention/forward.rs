//! The forward loop of attention for one head.

use std::ops::Range;

use super::super::gemm::gemm_scaled;
use super::super::rows::Rows;
use super::head::{
    BLOCK, Head, WeightDropout, keep_factors, matrix, matrix_mut, random_row, scale_row, transposed, visible_scores,
    without_masked,
};
use crate::math::{exp, log};
use crate::simd::{LANES, Level, chunks, dispatch, fold, larger, load, store, sum};

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
                totals[i - begin] = weigh_row::<L>(head, shifts[i - begin], row, scores.at(i - begin), halves);
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
                without_masked(1.0, (keys, scores.at(i - begin)), v, head.dv, (o.at(i), o.col));
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
    if largest == f32::NEG_INFINITY { 0.0 } else { largest }
}

/// Turns a row of scores into the weights `e^(S - shift)` with dropout; returns their sum without dropout.
#[inline(always)]
unsafe fn weigh_row<L: Level>(head: &Head, shift: f32, row: usize, scores: *mut f32, halves: *const u16) -> f32 {
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
