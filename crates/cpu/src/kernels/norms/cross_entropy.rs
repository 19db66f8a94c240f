//! Cross entropy of logits and class labels, with an ignored label and label smoothing (Szegedy et al. 2016),
//! and its derivative.

use lessen_graph::ops;

use super::softmax::{row_shift, row_sum_exp};
use crate::kernels::kernel::{RowKernel, Run, Types};
use crate::kernels::rows::Rows;
use crate::kernels::sums::pairwise::sums_of_row;
use crate::math::{exp, log};
use crate::simd::{LANES, Level, chunks, dispatch, load, store, sum};

dispatch! {
    /// For each of `n` rows of `c` logits `z`: `lse = ln(sum(e^z))` and `loss = (1 - s)(lse - z[label]) + s
    /// (lse - mean(z))` with the smoothing `s`; the loss is 0 where the label is `ignore`, and NaN where it
    /// is neither that nor in `0..c`.
    ///
    /// # Safety
    /// `logits` covers `n` rows of `c` elements, and `labels`, `loss` and `lse` `n` elements each; the written memory
    /// overlaps nothing.
    pub unsafe fn cross_entropy(
        n: usize, c: usize, logits: Rows<f32>, labels: *const i32, ignore: i32, smoothing: f32,
        loss: *mut f32, lse: *mut f32,
    ) = cross_entropy_body;

    /// The derivative of [`cross_entropy`]'s losses: `dz = dloss (e^(z - lse) - t)` with the targets `t = (1
    /// - s) [j = label] + s / c`; 0 where the label is `ignore`, NaN where it is no class. `dloss` has one
    /// column.
    ///
    /// # Safety
    /// `logits` and `dlogits` cover `n` rows of `c` elements, `dloss` `n` rows of one, and `lse` and `labels`
    /// `n` elements. `dlogits` may lie exactly where `logits` lies; otherwise it overlaps nothing.
    pub unsafe fn cross_entropy_backward(
        n: usize, c: usize, logits: Rows<f32>, lse: *const f32, labels: *const i32, dloss: Rows<f32>,
        ignore: i32, smoothing: f32, dlogits: Rows<f32>,
    ) = cross_entropy_backward_body;
}

#[inline(always)]
unsafe fn cross_entropy_body<L: Level>(
    n: usize,
    c: usize,
    logits: Rows<f32>,
    labels: *const i32,
    ignore: i32,
    smoothing: f32,
    loss: *mut f32,
    lse: *mut f32,
) {
    for r in 0..n {
        // SAFETY: row `r` lies within the operands, and an element of it is read only if the label is below
        // `c`.
        unsafe {
            let z = (logits.at(r) as *const f32, logits.col);
            let (largest, total) = if logits.col == 1 {
                let largest = row_shift(c, (z.0, 1));
                (largest, log::<L>(row_sum_exp::<L>(c, (z.0, 1), largest)))
            } else {
                let largest = row_shift(c, z);
                (largest, log::<L>(row_sum_exp::<L>(c, z, largest)))
            };
            *lse.add(r) = largest + total;
            let label = *labels.add(r);
            // The largest logit is taken off before `total` is added, so that a large one costs no digits.
            *loss.add(r) = if label == ignore {
                0.0
            } else if label < 0 || label as usize >= c {
                f32::NAN
            } else {
                let hard = total - (*z.0.add(label as usize * z.1) - largest);
                if smoothing == 0.0 {
                    hard
                } else {
                    (1.0 - smoothing) * hard + smoothing * (total - row_mean(c, z, largest))
                }
            };
        }
    }
}

/// The mean of `z - shift` along a row.
#[inline(always)]
unsafe fn row_mean(c: usize, (z, col): (*const f32, usize), shift: f32) -> f32 {
    let [sums] = sums_of_row!(c, |j, len, sums: 1| {
        // SAFETY: elements j..j+len lie within the row.
        let zs = unsafe { load(z.add(j * col), col, len, shift) };
        for i in 0..LANES {
            sums[0][i] += zs[i] - shift;
        }
    });
    sum(sums) / c as f32
}

#[inline(always)]
unsafe fn cross_entropy_backward_body<L: Level>(
    n: usize,
    c: usize,
    logits: Rows<f32>,
    lse: *const f32,
    labels: *const i32,
    dloss: Rows<f32>,
    ignore: i32,
    smoothing: f32,
    dlogits: Rows<f32>,
) {
    let rest = smoothing / c as f32;
    for r in 0..n {
        // SAFETY: row `r` lies within the operands, and an element of it is touched only if the label is
        // below `c`.
        unsafe {
            let (label, z, dz) = (*labels.add(r), logits.at(r), dlogits.at(r));
            if label == ignore {
                fill_row(c, (dz, dlogits.col), 0.0);
                continue;
            }
            // Read before it may be overwritten.
            let target = usize::try_from(label).ok().filter(|&class| class < c);
            let target = target.map(|class| (class, *z.add(class * logits.col)));
            let scale = if target.is_some() { *dloss.at(r) } else { f32::NAN };
            let lse = *lse.add(r);
            if logits.col == 1 && dlogits.col == 1 {
                row_backward::<L>(c, (z, 1), lse, rest, scale, (dz, 1));
            } else {
                row_backward::<L>(c, (z, logits.col), lse, rest, scale, (dz, dlogits.col));
            }
            if let Some((class, z)) = target {
                let p = exp::<L>(z - lse);
                *dz.add(class * dlogits.col) = scale * (p - ((1.0 - smoothing) + rest));
            }
        }
    }
}

#[inline(always)]
unsafe fn fill_row(c: usize, (y, col): (*mut f32, usize), value: f32) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the row.
        unsafe { store(y.add(j * col), col, len, &[value; LANES]) }
    });
}

/// `dz = scale (e^(z - lse) - rest)` along a row.
#[inline(always)]
unsafe fn row_backward<L: Level>(
    c: usize,
    (z, z_col): (*const f32, usize),
    lse: f32,
    rest: f32,
    scale: f32,
    (dz, dz_col): (*mut f32, usize),
) {
    chunks!(c, |j, len| {
        // SAFETY: elements j..j+len lie within the rows; the chunk is read before any of it is written.
        unsafe {
            let mut zs = load(z.add(j * z_col), z_col, len, 0.0);
            for i in 0..LANES {
                zs[i] = scale * (exp::<L>(zs[i] - lse) - rest);
            }
            store(dz.add(j * dz_col), dz_col, len, &zs);
        }
    });
}

/// The number that the loops take for the ignored label, and whether a row can have that label. Labels are `i32`: an
/// ignored label beyond that range is the label of no row.
fn ignored(label: i64) -> (i32, bool) {
    i32::try_from(label).map_or((i32::MIN, false), |label| (label, true))
}

/// The labels of a run. Each must be a class below `limit` or the ignored label; the first other label is noted.
fn labels<'a>(r: &'a Run<'_>, input: usize, ignore: i64, limit: usize) -> &'a [i32] {
    let labels = r.indices(input);
    let (ignore, exists) = ignored(ignore);
    for &label in labels {
        if label as u32 as usize >= limit && !(exists && label == ignore) {
            r.index_errors.note(label, limit);
        }
    }
    labels
}

/// The kernel of [`ops::CrossEntropy`].
pub(crate) fn cross_entropy_kernel(op: &ops::CrossEntropy, types: &Types<'_>) -> RowKernel {
    let (ignore, smoothing, c) = (op.ignore, op.smoothing as f32, types.inputs[0].last());
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        let labels = labels(r, 1, ignore, c).as_ptr();
        let ignore = ignored(ignore).0;
        cross_entropy(r.n, c, r.x(0), labels, ignore, smoothing, r.column(0), r.column(1));
    })
    .dense([1])
}

/// The kernel of [`ops::CrossEntropyBackward`].
pub(crate) fn cross_entropy_backward_kernel(op: &ops::CrossEntropyBackward, types: &Types<'_>) -> RowKernel {
    let (ignore, smoothing, c) = (op.ignore, op.smoothing as f32, types.inputs[0].last());
    // SAFETY: see `Run`.
    RowKernel::rows(move |r| unsafe {
        let (lse, labels) = (r.whole(1), labels(r, 2, ignore, c).as_ptr());
        let ignore = ignored(ignore).0;
        cross_entropy_backward(r.n, c, r.x(0), lse, labels, r.x(3), ignore, smoothing, r.y(0));
    })
    .dense([1, 2])
}
