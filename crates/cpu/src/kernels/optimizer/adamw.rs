//! AdamW of dense gradients, and of gradients in rows.

use std::ops::Range;

use lessen_graph::ops;

use super::means::Means;
use crate::index_errors::IndexErrors;
use crate::kernels::kernel::{Kernel, RowKernel, Types, WholeKernel};
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store};

/// The constants of AdamW.
#[derive(Clone, Copy, Debug)]
pub struct AdamWConstants {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of the latter.
    pub eps: f64,
    /// Decay of parameters per step and unit of learning rate.
    pub weight_decay: f64,
}

/// The numbers of one step of AdamW.
#[derive(Clone, Copy)]
pub(super) struct AdamWStep {
    means: Means,
    decay: f32,
}

impl AdamWConstants {
    pub(super) fn at(&self, lr: f32, t: f32) -> AdamWStep {
        AdamWStep {
            means: Means::at([self.beta1, self.beta2], self.eps, lr, t),
            decay: (1.0 - f64::from(lr) * self.weight_decay) as f32,
        }
    }
}

impl AdamWStep {
    /// The new parameter and moments of an element.
    #[inline(always)]
    pub(super) fn element<L: Level>(self, g: f32, p: f32, m: f32, v: f32) -> (f32, f32, f32) {
        let (step, [m, v]) = self.means.step::<L>(g, [m, v]);
        (fma::<L>(p, self.decay, -step), m, v)
    }
}

/// Parameters and means, old and new.
#[derive(Clone, Copy)]
pub struct AdamWArrays {
    /// Parameters, means, and means of squares.
    pub old: [*const f32; 3],
    /// Their new values.
    pub new: [*mut f32; 3],
}

impl AdamWArrays {
    fn from(self, first: usize) -> AdamWArrays {
        AdamWArrays {
            old: self.old.map(|x| x.wrapping_add(first)),
            new: self.new.map(|x| x.wrapping_add(first)),
        }
    }
}

/// A gradient in `n` rows: row `i` of `g` belongs to the table's row `ids[i]`, if no earlier one does. All other rows
/// have the gradient 0.
#[derive(Clone, Copy)]
pub struct GradientRows {
    /// Number of rows.
    pub n: usize,
    /// Which they are.
    pub ids: *const i32,
    /// The rows.
    pub g: *const f32,
}

dispatch! {
    /// One AdamW step (Loshchilov and Hutter 2017) of `n` parameters `p` with gradient `g`, means `m` and
    /// `v`, learning rate `lr`, step number `t` from 1, and new values in `p2`, `m2`, `v2`: `m2 = b1 m + (1 -
    /// b1) g`, `v2 = b2 v + (1 - b2) g^2`, `p2 = p (1 - lr wd) - lr / (1 - b1^t) m2 / (sqrt(v2) / sqrt(1 -
    /// b2^t) + eps)`.
    ///
    /// # Safety
    /// All pointers have `n` elements. Each of the new arrays may lie exactly where the old arrays or `g`
    /// lie, and overlaps nothing otherwise.
    pub unsafe fn adamw(
        n: usize, g: *const f32, arrays: AdamWArrays, lr: f32, t: f32, constants: AdamWConstants,
    ) = adamw_body;

    /// [`adamw`] of rows `rows` of a table, of `c` elements each, with the gradient in rows. The bits equal the bits of
    /// [`adamw`].
    ///
    /// # Safety
    /// The rows of the gradient and their ids exist. The arrays begin at row `rows.start`; the rest as for [`adamw`],
    /// but that nothing overlaps `g`.
    pub unsafe fn adamw_rows(
        rows: Range<usize>, c: usize, gradient: GradientRows, arrays: AdamWArrays, lr: f32, t: f32,
        constants: AdamWConstants,
    ) = adamw_rows_body;
}

#[inline(always)]
unsafe fn adamw_body<L: Level>(
    n: usize,
    g: *const f32,
    arrays: AdamWArrays,
    lr: f32,
    t: f32,
    constants: AdamWConstants,
) {
    // SAFETY: passed on.
    unsafe { adamw_run::<L, true>(n, g, arrays, constants.at(lr, t)) };
}

/// One step of `n` parameters, whose gradient is 0 unless `GRADIENT` is set.
#[inline(always)]
unsafe fn adamw_run<L: Level, const GRADIENT: bool>(n: usize, g: *const f32, arrays: AdamWArrays, step: AdamWStep) {
    let AdamWArrays {
        old: [p, m, v],
        new: [p2, m2, v2],
    } = arrays;
    let in_place = std::ptr::eq(m2, m) && std::ptr::eq(v2, v);
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len lie within all arrays; they are read before any of them is written.
        unsafe {
            let mut ps = load(p.add(j), 1, len, 0.0);
            let mut ms = load(m.add(j), 1, len, 0.0);
            let mut vs = load(v.add(j), 1, len, 0.0);
            if !GRADIENT && in_place && are_zeros(&ms, &vs) {
                // The means stay 0, and so do the numbers that they add.
                for i in 0..LANES {
                    ps[i] *= step.decay;
                }
                store(p2.add(j), 1, len, &ps);
            } else {
                let gs = if GRADIENT {
                    load(g.add(j), 1, len, 0.0)
                } else {
                    [0.0; LANES]
                };
                for i in 0..LANES {
                    (ps[i], ms[i], vs[i]) = step.element::<L>(gs[i], ps[i], ms[i], vs[i]);
                }
                store(p2.add(j), 1, len, &ps);
                store(m2.add(j), 1, len, &ms);
                store(v2.add(j), 1, len, &vs);
            }
        }
    });
}

/// Whether all elements are 0, not -0.
#[inline(always)]
fn are_zeros(a: &[f32; LANES], b: &[f32; LANES]) -> bool {
    let mut bits = 0;
    for i in 0..LANES {
        bits |= a[i].to_bits() | b[i].to_bits();
    }
    bits == 0
}

#[inline(always)]
unsafe fn adamw_rows_body<L: Level>(
    rows: Range<usize>,
    c: usize,
    gradient: GradientRows,
    arrays: AdamWArrays,
    lr: f32,
    t: f32,
    constants: AdamWConstants,
) {
    let (step, GradientRows { n, ids, g }) = (constants.at(lr, t), gradient);
    // SAFETY: the ids are initialized and nobody writes to them.
    let ids = unsafe { std::slice::from_raw_parts(ids, n) };
    for first in rows.clone().step_by(LANES) {
        let count = LANES.min(rows.end - first);
        let at = positions(ids, first, count);
        let mut r = 0;
        while r < count {
            let arrays = arrays.from((first + r - rows.start) * c);
            // SAFETY: the rows lie within the arrays, and the position within `g`.
            unsafe {
                r += match at[r] {
                    Some(position) => {
                        adamw_run::<L, true>(c, g.add(position as usize * c), arrays, step);
                        1
                    }
                    None => {
                        let run = at[r..count].iter().take_while(|at| at.is_none()).count();
                        adamw_run::<L, false>(run * c, std::ptr::null(), arrays, step);
                        run
                    }
                };
            }
        }
    }
}

/// For each of some rows the first position of its number among the ids.
#[inline(always)]
fn positions(ids: &[i32], first: usize, count: usize) -> [Option<u32>; LANES] {
    let mut at = [None; LANES];
    let row = |id: i32| (id as u32).wrapping_sub(first as u32) as usize;
    for (chunk, part) in ids.chunks(LANES).enumerate() {
        // Most rows of a large table are in no batch.
        if part.iter().fold(false, |any, &id| any | (row(id) < count)) {
            for (i, &id) in part.iter().enumerate().filter(|(_, id)| row(**id) < count) {
                at[row(id)].get_or_insert((chunk * LANES + i) as u32);
            }
        }
    }
    at
}

impl From<&ops::AdamW> for AdamWConstants {
    fn from(op: &ops::AdamW) -> AdamWConstants {
        AdamWConstants {
            beta1: op.beta1,
            beta2: op.beta2,
            eps: op.eps,
            weight_decay: op.weight_decay,
        }
    }
}

/// The kernel of [`ops::AdamW`]. All operands but the scalars lie densely, so that a run is one stretch.
pub(in crate::kernels) fn adamw_kernel(op: &ops::AdamW, _: &Types<'_>) -> RowKernel {
    let constants = AdamWConstants::from(op);
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        let arrays = AdamWArrays {
            old: [0, 2, 3].map(|i| r.whole(i)),
            new: [0, 1, 2].map(|i| r.column(i)),
        };
        adamw(r.n * r.c(), r.whole(1), arrays, r.scalar(4), r.scalar(5), constants);
    })
    .dense([0, 1, 2, 3])
}

/// The kernel of [`ops::AdamWRows`], likewise.
pub(in crate::kernels) fn adamw_rows_kernel(op: &ops::AdamWRows, types: &Types<'_>) -> Option<Kernel> {
    let (constants, ids) = (AdamWConstants::from(&op.rule), types.inputs[1].numel());
    let table = types.inputs[0].shape[0];
    // SAFETY: `at` has the ids and `g` a row for each; the rest is passed on.
    let run = move |rows: Range<usize>,
                    c: usize,
                    (at, g): (*const i32, *const f32),
                    arrays,
                    lr,
                    t,
                    errors: &IndexErrors| unsafe {
        if rows.start == 0 {
            errors.check(std::slice::from_raw_parts(at, ids), table);
        }
        adamw_rows(rows, c, GradientRows { n: ids, ids: at, g }, arrays, lr, t, constants);
    };
    if types.any_empty() {
        let c = types.inputs[0].numel() / table.max(1);
        // SAFETY: see `Work`.
        return WholeKernel::dense(1, move |w, _| unsafe {
            let arrays = AdamWArrays {
                old: [0, 3, 4].map(|i| w.x(i)),
                new: [0, 1, 2].map(|i| w.y(i)),
            };
            run(
                0..table,
                c,
                (w.dense(1), w.x(2)),
                arrays,
                *w.x(5),
                *w.x(6),
                w.index_errors,
            );
        })
        .into();
    }
    RowKernel::rows(move |r| {
        let (c, first) = (r.c(), r.first / r.c());
        let arrays = AdamWArrays {
            old: [0, 3, 4].map(|i| r.whole(i)),
            new: [0, 1, 2].map(|i| r.column(i)),
        };
        let gradient = (r.inputs[1].dense::<i32>().cast_const(), r.whole(2));
        run(
            first..first + r.n,
            c,
            gradient,
            arrays,
            r.scalar(5),
            r.scalar(6),
            r.index_errors,
        );
    })
    .dense([0, 3, 4])
    .into()
}
