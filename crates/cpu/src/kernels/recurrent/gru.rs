//! Gated recurrent units, and their derivative.

use lessen_graph::ops::{Gru, GruBackward, RecurrentSizes};

use super::super::kernel::{Kernel, Types, WholeKernel, Work};
use super::super::rows::Rows;
use super::{Block, SEQUENCES};
use crate::math::{sigmoid, tanh};
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

dispatch! {
    /// One step of one sequence of `n` units: gates from sums and products, and the new state.
    ///
    /// # Safety
    /// `sums`, `products` and `gates` have `3 n` elements, the others `n`. `gates` may be `sums`; otherwise what is
    /// written overlaps nothing.
    unsafe fn forward_step(
        n: usize, order: [usize; 3], sums: *const f32, products: *const f32, bias: *const f32, before: *const f32, gates: *mut f32,
        m: *mut f32, h: *mut f32,
    ) = forward_step_body;

    /// The derivative of a step: `later` holds the cotangent of the state from later steps, then what of it passes the
    /// step. Cotangents of the products go to `dproducts`.
    ///
    /// # Safety
    /// As for `forward_step`; `dsums` may be `gates`, and `dm` may be `m`.
    unsafe fn backward_step(
        n: usize, order: [usize; 3], gates: *const f32, m: *const f32, before: *const f32, dh: *const f32, later: *mut f32,
        dsums: *mut f32, dm: *mut f32, dproducts: *mut f32,
    ) = backward_step_body;
}

#[inline(always)]
unsafe fn forward_step_body<L: Level>(
    n: usize,
    order: [usize; 3],
    sums: *const f32,
    products: *const f32,
    bias: *const f32,
    before: *const f32,
    gates: *mut f32,
    m: *mut f32,
    h: *mut f32,
) {
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len of each gate lie within the rows; the chunk is read before any of it is written.
        unsafe {
            let part = |from: *const f32, gate: usize| load(from.add(gate * n + j), 1, len, 0.0);
            let [mut reset, mut update, mut candidate] = order.map(|place| part(sums, place));
            let [of_reset, of_update, mut product] = order.map(|place| part(products, place));
            let (bias, mut state) = (load(bias.add(j), 1, len, 0.0), load(before.add(j), 1, len, 0.0));
            for i in 0..LANES {
                reset[i] = sigmoid::<L>(reset[i] + of_reset[i]);
                update[i] = sigmoid::<L>(update[i] + of_update[i]);
                product[i] += bias[i];
                candidate[i] = tanh::<L>(candidate[i] + reset[i] * product[i]);
                state[i] = (1.0 - update[i]) * candidate[i] + update[i] * state[i];
            }
            for (place, gate) in order.iter().zip([&reset, &update, &candidate]) {
                store(gates.add(place * n + j), 1, len, gate);
            }
            store(m.add(j), 1, len, &product);
            store(h.add(j), 1, len, &state);
        }
    });
}

#[inline(always)]
unsafe fn backward_step_body<L: Level>(
    n: usize,
    order: [usize; 3],
    gates: *const f32,
    m: *const f32,
    before: *const f32,
    dh: *const f32,
    later: *mut f32,
    dsums: *mut f32,
    dm: *mut f32,
    dproducts: *mut f32,
) {
    chunks!(n, |j, len| {
        // SAFETY: as in `forward_step_body`.
        unsafe {
            let part = |gate: usize| load(gates.add(gate * n + j), 1, len, 0.0);
            let [mut reset, mut update, mut candidate] = order.map(part);
            let (mut product, before) = (load(m.add(j), 1, len, 0.0), load(before.add(j), 1, len, 0.0));
            let (dh, mut passes) = (load(dh.add(j), 1, len, 0.0), load(later.add(j), 1, len, 0.0));
            for i in 0..LANES {
                let (r, z, n) = (reset[i], update[i], candidate[i]);
                let dh = dh[i] + passes[i];
                let dn = dh * (1.0 - z) * (1.0 - n * n);
                reset[i] = dn * product[i] * r * (1.0 - r);
                update[i] = dh * (before[i] - n) * z * (1.0 - z);
                candidate[i] = dn;
                product[i] = dn * r;
                passes[i] = dh * z;
            }
            for (to, third) in [(dsums, &candidate), (dproducts, &product)] {
                for (place, gate) in order.iter().zip([&reset, &update, third]) {
                    store(to.add(place * n + j), 1, len, gate);
                }
            }
            store(dm.add(j), 1, len, &product);
            store(later.add(j), 1, len, &passes);
        }
    });
}

/// The kernel of [`Gru`].
pub(crate) fn gru_kernel(op: &Gru, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, Gru { reverse, order }) = (RecurrentSizes::of(&types.outputs[0]), *op);
    let tasks = sizes.batch.div_ceil(SEQUENCES);
    let run = move |w: &Work<'_>, task: usize| {
        let block = Block::of(task, sizes, reverse);
        // SAFETY: see `Work`; the scratch has the sums of a block.
        unsafe { forward(block, order, w) }
    };
    WholeKernel::dense(tasks, run)
        .with_scratch(SEQUENCES * 3 * sizes.hidden * size_of::<f32>())
        .into()
}

/// Takes a block through all steps.
///
/// # Safety
/// As for [`Work`], and the worker's scratch has the sums of a block.
unsafe fn forward(block: Block, order: [usize; 3], w: &Work<'_>) {
    let (n, products) = (block.hidden, w.scratch.cast::<f32>());
    let [sums, weight, bias, h0] = [0, 1, 2, 3].map(|i| w.x(i).cast_mut());
    let (h, gates, m) = (w.y(0), w.y(1), w.y(2));
    for (step, before) in block.steps() {
        let states = block.begin(h, h0, before);
        let (sums, gates) = (block.at(sums, step, 3 * n), block.at(gates, step, 3 * n));
        let (to_h, to_m) = (block.at(h, step, n), block.at(m, step, n));
        // SAFETY: rows of the block; a step writes rows of its own.
        unsafe {
            block.product(states, weight, 3 * n, products);
            for r in 0..block.count {
                let (products, state) = (products.add(r * 3 * n), states.at(r));
                forward_step(
                    n,
                    order,
                    sums.at(r),
                    products,
                    bias,
                    state,
                    gates.at(r),
                    to_m.at(r),
                    to_h.at(r),
                );
            }
        }
    }
}

/// The kernel of [`GruBackward`].
pub(crate) fn gru_backward_kernel(op: &GruBackward, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, GruBackward { reverse, order }) = (RecurrentSizes::of(&types.inputs[2]), *op);
    let tasks = sizes.batch.div_ceil(SEQUENCES);
    let run = move |w: &Work<'_>, task: usize| {
        let block = Block::of(task, sizes, reverse);
        // SAFETY: see `Work`; the scratch has the sums and the states of a block.
        unsafe { backward(block, order, w) }
    };
    WholeKernel::dense(tasks, run)
        .with_scratch(SEQUENCES * 4 * sizes.hidden * size_of::<f32>())
        .into()
}

/// Takes a block back through all steps. The cotangent of the first state holds that of the step at hand meanwhile.
///
/// # Safety
/// As for [`Work`], and the worker's scratch has the sums and the states of a block.
unsafe fn backward(block: Block, order: [usize; 3], w: &Work<'_>) {
    let n = block.hidden;
    let [weight, h0, h, gates, m, dh] = [0, 1, 2, 3, 4, 5].map(|i| w.x(i).cast_mut());
    let (dsums, dm, later) = (w.y(0), w.y(1), block.state(w.y(2), n));
    let dproducts = Rows::dense(w.scratch.cast::<f32>(), 3 * n);
    let earlier = Rows::dense(dproducts.at(block.count), n);
    // SAFETY: rows of the block; a step writes rows of its own.
    unsafe {
        for r in 0..block.count {
            std::slice::from_raw_parts_mut(later.at(r), n).fill(0.0);
        }
        for (step, before) in block.steps().rev() {
            let states = block.begin(h, h0, before);
            let (gates, dsums) = (block.at(gates, step, 3 * n), block.at(dsums, step, 3 * n));
            let [m, dm, dh] = [m, dm, dh].map(|all| block.at(all, step, n));
            for r in 0..block.count {
                let (later, to) = (later.at(r), dproducts.at(r));
                backward_step(
                    n,
                    order,
                    gates.at(r),
                    m.at(r),
                    states.at(r),
                    dh.at(r),
                    later,
                    dsums.at(r),
                    dm.at(r),
                    to,
                );
            }
            block.product_back(dproducts, weight, 3 * n, earlier.ptr);
            for r in 0..block.count {
                let later = std::slice::from_raw_parts_mut(later.at(r), n);
                let earlier = std::slice::from_raw_parts(earlier.at(r), n);
                later.iter_mut().zip(earlier).for_each(|(later, x)| *later += x);
            }
        }
    }
}
