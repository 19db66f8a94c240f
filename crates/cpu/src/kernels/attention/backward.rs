//! The backward loop of attention for one head.

use super::super::gemm::gemm_scaled;
use super::super::rows::Rows;
use super::head::{
    BLOCK, Head, WeightDropout, keep_factors, matrix, matrix_mut, random_row, scale_row, transposed, visible_scores,
    without_masked,
};
use crate::math::exp;
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store, sum};

dispatch! {
    /// The derivative of [`forward`](super::forward) from its inputs and results: `dq`, `dk` and
    /// `dv` from `d_o`.
    ///
    /// # Safety
    /// As for [`forward`](super::forward), with [`Head::backward_scratch`] elements of scratch.
    pub unsafe fn backward(
        head: &Head, q: Rows<f32>, k: Rows<f32>, v: Rows<f32>, o: Rows<f32>, lse: *const f32, d_o: Rows<f32>,
        dq: Rows<f32>, dk: Rows<f32>, dv: Rows<f32>, scratch: *mut f32,
    ) = backward_body;
}

#[inline(always)]
unsafe fn backward_body<L: Level>(
    head: &Head,
    q: Rows<f32>,
    k: Rows<f32>,
    v: Rows<f32>,
    o: Rows<f32>,
    lse: *const f32,
    d_o: Rows<f32>,
    dq: Rows<f32>,
    dk: Rows<f32>,
    dv: Rows<f32>,
    scratch: *mut f32,
) {
    let Head {
        tq,
        tk,
        d,
        dv: size,
        scale,
        ..
    } = *head;
    // The last block of queries sees all keys, so that it comes first and writes what the others add to.
    let blocks = tq.div_ceil(BLOCK);
    for block in (0..blocks).rev() {
        let (begin, end) = (block * BLOCK, tq.min((block + 1) * BLOCK));
        let (n, keys, add) = (end - begin, head.visible(end - 1), block + 1 < blocks);
        let row = keys.next_multiple_of(LANES);
        // SAFETY: `scratch` has two blocks of scores and a row of half-words; everything else lies within the
        // operands.
        unsafe {
            let scores = Rows::dense(scratch, row);
            let d_scores = Rows::dense(scratch.add(BLOCK.min(tq) * head.row()), row);
            let halves = d_scores.ptr.add(BLOCK.min(tq) * head.row()).cast::<u16>();
            gemm_scaled(
                scale,
                n,
                d,
                keys,
                matrix(q, begin),
                transposed(k, 0),
                matrix_mut(scores, 0),
                false,
            );
            gemm_scaled(
                1.0,
                n,
                size,
                keys,
                matrix(d_o, begin),
                transposed(v, 0),
                matrix_mut(d_scores, 0),
                false,
            );
            // One lane for each query of the block. Two loops, so that no row waits for its own product.
            let mut deltas = [0.0; LANES];
            for i in begin..end {
                deltas[i - begin] = if o.col == 1 && d_o.col == 1 {
                    dot::<L>(size, (o.at(i), 1), (d_o.at(i), 1))
                } else {
                    dot::<L>(size, (o.at(i), o.col), (d_o.at(i), d_o.col))
                };
            }
            for i in begin..end {
                random_row(head, i, row, halves);
                let query = Query {
                    visible: head.visible(i),
                    lse: *lse.add(i),
                    delta: deltas[i - begin],
                };
                weigh_row_backward::<L>(head, query, row, scores.at(i - begin), d_scores.at(i - begin), halves);
            }
            gemm_scaled(
                1.0,
                keys,
                n,
                size,
                transposed(scores, 0),
                matrix(d_o, begin),
                matrix_mut(dv, 0),
                add,
            );
            gemm_scaled(
                scale,
                n,
                keys,
                d,
                matrix(d_scores, 0),
                matrix(k, 0),
                matrix_mut(dq, begin),
                false,
            );
            for i in begin..end {
                without_masked(scale, (keys, d_scores.at(i - begin)), k, d, (dq.at(i), dq.col));
            }
            gemm_scaled(
                scale,
                keys,
                n,
                d,
                transposed(d_scores, 0),
                matrix(q, begin),
                matrix_mut(dk, 0),
                add,
            );
        }
    }
    if tq == 0 {
        for j in 0..tk {
            // SAFETY: row `j` lies within the operands.
            unsafe {
                scale_row(d, (dk.at(j), dk.col), 0.0);
                scale_row(size, (dv.at(j), dv.col), 0.0);
            }
        }
    }
}

/// What the derivative of a row of weights needs: `delta` is the product of the query's rows of `O` and `dO`.
#[derive(Clone, Copy)]
struct Query {
    visible: usize,
    lse: f32,
    delta: f32,
}

/// Turns a row of scores `S` into weights with dropout, and a row of `dO V^T` into `dS = P (dP - delta)`.
#[inline(always)]
unsafe fn weigh_row_backward<L: Level>(
    head: &Head,
    query: Query,
    row: usize,
    scores: *mut f32,
    d_scores: *mut f32,
    halves: *const u16,
) {
    let Query { visible, lse, delta } = query;
    // Where nothing is visible, all scores are -inf, and so must be their distance from `lse`.
    let lse = if lse == f32::NEG_INFINITY { 0.0 } else { lse };
    chunks!(row, |j, _len| {
        // SAFETY: rows of scores and of half-words have whole numbers of chunks.
        unsafe {
            let mut s = visible_scores(head, visible, j, scores);
            let mut ds = load(d_scores.add(j) as *const f32, 1, LANES, 0.0);
            for i in 0..LANES {
                s[i] = exp::<L>(s[i] - lse);
            }
            let weights = s;
            if let Some(WeightDropout { p, .. }) = head.dropout {
                let factors = keep_factors(p, halves.add(j));
                for i in 0..LANES {
                    ds[i] = s[i] * fma::<L>(ds[i], factors[i], -delta);
                    s[i] *= factors[i];
                }
            } else {
                for i in 0..LANES {
                    ds[i] = s[i] * (ds[i] - delta);
                }
            }
            // A key of no weight has no influence, whatever its value is.
            for i in 0..LANES {
                ds[i] = if (weights[i] == 0.0) & ds[i].is_nan() {
                    0.0
                } else {
                    ds[i]
                };
            }
            store(scores.add(j), 1, LANES, &s);
            store(d_scores.add(j), 1, LANES, &ds);
        }
    });
}

#[inline(always)]
unsafe fn dot<L: Level>(c: usize, (a, a_col): (*const f32, usize), (b, b_col): (*const f32, usize)) -> f32 {
    let mut sums = [0.0; LANES];
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within both rows.
        unsafe {
            let (x, y) = (
                load(a.add(j * a_col), a_col, len, 0.0),
                load(b.add(j * b_col), b_col, len, 0.0),
            );
            for i in 0..LANES {
                sums[i] = fma::<L>(x[i], y[i], sums[i]);
            }
        }
    });
    sum(sums)
}
