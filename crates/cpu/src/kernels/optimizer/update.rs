//! The loop of updates that depend on one element at a time.

use std::array::from_fn;

use crate::kernels::kernel::{Reads, RowKernel, Run};
use crate::simd::{LANES, Level, chunks, load, store};

/// Operands of an update of `n` elements.
#[derive(Clone, Copy)]
pub struct Operands<const M: usize> {
    /// Number of elements.
    pub n: usize,
    /// Gradients.
    pub g: *const f32,
    /// Parameters.
    pub p: *const f32,
    /// Moments.
    pub moments: [*const f32; M],
    /// New parameters.
    pub new_p: *mut f32,
    /// New moments.
    pub new_moments: [*mut f32; M],
}

/// The update of an element, which has `M` moments.
pub(super) trait Rule<const M: usize>: Copy {
    /// The new parameter and moments.
    fn element<L: Level>(self, g: f32, p: f32, moments: [f32; M]) -> (f32, [f32; M]);
}

/// Updates all elements.
///
/// # Safety
/// All arrays have `n` elements. Each of the new ones may lie exactly where one of the others lies, and overlaps
/// nothing otherwise.
#[inline(always)]
pub(super) unsafe fn update<L: Level, const M: usize>(x: Operands<M>, rule: impl Rule<M>) {
    chunks!(x.n, |j, len| {
        // SAFETY: elements j..j+len lie within all arrays; they are read before any of them is written.
        unsafe {
            let gs = load(x.g.add(j), 1, len, 0.0);
            let mut ps = load(x.p.add(j), 1, len, 0.0);
            let mut moments = [[0.0; LANES]; M];
            for k in 0..M {
                moments[k] = load(x.moments[k].add(j), 1, len, 0.0);
            }
            for i in 0..LANES {
                let mut old = [0.0; M];
                for k in 0..M {
                    old[k] = moments[k][i];
                }
                let (p, new) = rule.element::<L>(gs[i], ps[i], old);
                ps[i] = p;
                for k in 0..M {
                    moments[k][i] = new[k];
                }
            }
            store(x.new_p.add(j), 1, len, &ps);
            for k in 0..M {
                store(x.new_moments[k].add(j), 1, len, &moments[k]);
            }
        }
    });
}

/// The kernel of an operation with the inputs parameter, gradient, moments and scalars, whose outputs are the new
/// parameter and moments. All operands but the scalars lie densely, so that a run is one stretch. `run` is also given
/// the scalars, by their positions.
pub(super) fn kernel<const M: usize>(
    run: impl Fn(Operands<M>, &dyn Fn(usize) -> f32) + Send + Sync + 'static,
) -> RowKernel {
    let elementwise = RowKernel::elementwise(move |r: &Run<'_>| {
        let operands = Operands {
            n: r.n * r.c(),
            p: r.whole(0),
            g: r.whole(1),
            moments: from_fn(|k| r.whole(2 + k)),
            new_p: r.column(0),
            new_moments: from_fn(|k| r.column(1 + k)),
        };
        run(operands, &|i| r.scalar(2 + M + i));
    });
    let dense = |kernel: RowKernel, input| kernel.reading(input, Reads::Dense);
    (0..2 + M).fold(elementwise, dense)
}
