//! Stochastic gradient descent.

use lessen_graph::ops;

use crate::kernels::kernel::{RowKernel, Types};
use crate::simd::{LANES, Level, chunks, dispatch, fma, load, store};

/// The constants of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub struct SgdConstants {
    /// Decay of the velocity.
    pub momentum: f64,
    /// Whether the step looks ahead along the velocity. Nesterov 1983.
    pub nesterov: bool,
    /// Added to the gradient, times the parameter.
    pub weight_decay: f64,
}

dispatch! {
    /// One step of stochastic gradient descent: `d = g + wd p`, `v2 = momentum v + d`, `p2 = p - lr (nesterov
    /// ? d + momentum v2 : v2)`. Without momentum, `v2` may be null: then no velocity is kept.
    ///
    /// # Safety
    /// All pointers have `n` elements. Each of the new arrays may lie exactly where `p`, `g` or `v` lie, and overlaps
    /// nothing otherwise; `v` is not read if `v2` is null.
    pub unsafe fn sgd(
        n: usize, p: *const f32, g: *const f32, v: *const f32, p2: *mut f32, v2: *mut f32, lr: f32,
        constants: SgdConstants,
    ) = sgd_body;
}

#[inline(always)]
unsafe fn sgd_body<L: Level>(
    n: usize,
    p: *const f32,
    g: *const f32,
    v: *const f32,
    p2: *mut f32,
    v2: *mut f32,
    lr: f32,
    constants: SgdConstants,
) {
    let (momentum, decay) = (constants.momentum as f32, constants.weight_decay as f32);
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len lie within all arrays; they are read before any of them is written.
        unsafe {
            let mut ps = load(p.add(j), 1, len, 0.0);
            let mut ds = load(g.add(j), 1, len, 0.0);
            for i in 0..LANES {
                ds[i] = fma::<L>(decay, ps[i], ds[i]);
            }
            if !v2.is_null() {
                let mut vs = load(v.add(j), 1, len, 0.0);
                for i in 0..LANES {
                    vs[i] = fma::<L>(momentum, vs[i], ds[i]);
                    ds[i] = if constants.nesterov {
                        fma::<L>(momentum, vs[i], ds[i])
                    } else {
                        vs[i]
                    };
                }
                store(v2.add(j), 1, len, &vs);
            }
            for i in 0..LANES {
                ps[i] = fma::<L>(-lr, ds[i], ps[i]);
            }
            store(p2.add(j), 1, len, &ps);
        }
    });
}

/// The kernel of [`ops::Sgd`]. All operands but the scalar lie densely, so that a run is one stretch.
pub(in crate::kernels) fn sgd_kernel(op: &ops::Sgd, _: &Types<'_>) -> RowKernel {
    let constants = SgdConstants {
        momentum: op.momentum,
        nesterov: op.nesterov,
        weight_decay: op.weight_decay,
    };
    // SAFETY: see `Run`.
    RowKernel::elementwise(move |r| unsafe {
        let [p, g, buffer] = [0, 1, 2].map(|i| r.whole(i));
        sgd(
            r.n * r.c(),
            p,
            g,
            buffer,
            r.column(0),
            r.column(1),
            r.scalar(3),
            constants,
        );
    })
    .dense([0, 1, 2])
}
