//! Attention of one query of each sequence, as of a text that is continued token by token. Tiles of queries would be
//! empty but for one lane. Time goes to reading keys and values, each of them once.

use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::ops::{self, AttentionBias, Weighting};

use super::super::rows::Rows;
use super::head::{Bias, Head};
use crate::kernels::norms::softmax::row_shift;
use crate::kernels::products::few_rows::few_rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::math::{exp_below_zero, log};
use crate::simd::{Baseline, LANES, Level, chunks, dispatch, fma, load, store, sum};

/// Whether [`one_query`] computes this attention. Keys and values that a mask hides may be anything, so they must not
/// be read.
pub(super) fn is_one_query(op: &ops::Attention, sizes: &AttentionSizes) -> bool {
    let plain = !op.masked && !op.segmented && op.p == 0.0 && op.bias != AttentionBias::Fire;
    plain && op.weighting == Weighting::Softmax && sizes.queries == 1
}

/// Computes the row `o` of the head's only query, and the logarithm of the sum of the powers of its scores in `lse`.
///
/// # Safety
/// The operands of the head exist, `o` and `lse` have a row, `scores` has an element for each key; the written memory
/// overlaps nothing.
pub(super) unsafe fn one_query(head: &Head, o: Rows<f32>, lse: *mut f32, scores: *mut f32) {
    let visible = head.visible(0);
    let slope = match head.bias {
        Bias::Alibi { slope } => slope,
        Bias::None | Bias::Fire(_) => 0.0,
    };
    // SAFETY: the caller's operands cover the keys that are visible; rows of heads are dense.
    unsafe {
        let row = Rows::dense(scores, visible);
        few_rows(1, head.d, 0..visible, head.q, head.k.exchanged(), row);
        let (shift, total) = weigh(visible, scores, head.scale, slope, head.first as f32);
        few_rows(1, visible, 0..head.dv, row, head.v, o);
        let factor = if total == 0.0 { 0.0 } else { 1.0 / total };
        for j in 0..head.dv {
            *o.element(0, j) *= factor;
        }
        *lse = shift + log::<Baseline>(total);
    }
}

dispatch! {
    /// Makes products of a query and `n` keys the powers of their scores, divided by that of the largest score. A score
    /// is `scale` times the product, less `slope` times the distance of the key from `position`. Returns the largest
    /// score and the sum of the powers.
    ///
    /// # Safety
    /// There are `n` products.
    unsafe fn weigh(n: usize, products: *mut f32, scale: f32, slope: f32, position: f32) -> (f32, f32) = weigh_body;
}

#[inline(always)]
unsafe fn weigh_body<L: Level>(n: usize, products: *mut f32, scale: f32, slope: f32, position: f32) -> (f32, f32) {
    // SAFETY: elements j..j+len lie within the products; a chunk is read before it is written.
    unsafe {
        chunks!(n, |j, len| {
            let mut x = load(products.add(j), 1, len, 0.0);
            for i in 0..LANES {
                let distance = (position - (j + i) as f32).abs();
                x[i] = fma::<L>(-slope, distance, x[i] * scale);
            }
            store(products.add(j), 1, len, &x);
        });
        let largest = row_shift(n, (products, 1));
        let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
        let [sums] = sums_of_row!(n, |j, len, sums: 1| {
            let mut x = load(products.add(j), 1, len, f32::NEG_INFINITY);
            for i in 0..LANES {
                x[i] = exp_below_zero::<L>(x[i] - shift);
                sums[0][i] += x[i];
            }
            store(products.add(j), 1, len, &x);
        });
        (largest, sum(sums))
    }
}
