//! Long short-term memory, and its derivative.

use lessen_graph::ops::{Lstm, LstmBackward, RecurrentSizes};

use super::super::kernel::{Kernel, Types, WholeKernel, Work};
use super::{Block, SEQUENCES};
use crate::math::{sigmoid, tanh};
use crate::simd::{LANES, Level, chunks, dispatch, load, store};

dispatch! {
    /// One step of one sequence of `n` units: gates from sums and products, and the new cell and state.
    ///
    /// # Safety
    /// `sums`, `products` and `gates` have `4 n` elements, the others `n`. `gates` may be `sums`; otherwise what is
    /// written overlaps nothing.
    unsafe fn forward_step(
        n: usize, order: [usize; 4], sums: *const f32, products: *const f32, before: *const f32, gates: *mut f32, c: *mut f32,
        h: *mut f32,
    ) = forward_step_body;

    /// The derivative of a step: `later_c` holds the cotangent of the cell from later steps, then that for the step
    /// before. `later_h` holds that of the state.
    ///
    /// # Safety
    /// As for `forward_step`; `dsums` may be `gates`.
    unsafe fn backward_step(
        n: usize, order: [usize; 4], gates: *const f32, c: *const f32, before: *const f32, dh: *const f32, dc: *const f32,
        later_h: *const f32, later_c: *mut f32, dsums: *mut f32,
    ) = backward_step_body;
}

#[inline(always)]
unsafe fn forward_step_body<L: Level>(
    n: usize,
    order: [usize; 4],
    sums: *const f32,
    products: *const f32,
    before: *const f32,
    gates: *mut f32,
    c: *mut f32,
    h: *mut f32,
) {
    chunks!(n, |j, len| {
        // SAFETY: elements j..j+len of each gate lie within the rows; the chunk is read before any of it is written.
        unsafe {
            let part = |gate: usize| {
                let mut x = load(sums.add(gate * n + j), 1, len, 0.0);
                let products = load(products.add(gate * n + j), 1, len, 0.0);
                for i in 0..LANES {
                    x[i] += products[i];
                }
                x
            };
            let [mut i_gate, mut f_gate, mut g_gate, mut o_gate] = order.map(part);
            let mut cell = load(before.add(j), 1, len, 0.0);
            let mut state = [0.0; LANES];
            for i in 0..LANES {
                i_gate[i] = sigmoid::<L>(i_gate[i]);
                f_gate[i] = sigmoid::<L>(f_gate[i]);
                g_gate[i] = tanh::<L>(g_gate[i]);
                o_gate[i] = sigmoid::<L>(o_gate[i]);
                cell[i] = f_gate[i] * cell[i] + i_gate[i] * g_gate[i];
                state[i] = o_gate[i] * tanh::<L>(cell[i]);
            }
            for (place, gate) in order.iter().zip([&i_gate, &f_gate, &g_gate, &o_gate]) {
                store(gates.add(place * n + j), 1, len, gate);
            }
            store(c.add(j), 1, len, &cell);
            store(h.add(j), 1, len, &state);
        }
    });
}

#[inline(always)]
unsafe fn backward_step_body<L: Level>(
    n: usize,
    order: [usize; 4],
    gates: *const f32,
    c: *const f32,
    before: *const f32,
    dh: *const f32,
    dc: *const f32,
    later_h: *const f32,
    later_c: *mut f32,
    dsums: *mut f32,
) {
    chunks!(n, |j, len| {
        // SAFETY: as in `forward_step_body`.
        unsafe {
            let part = |gate: usize| load(gates.add(gate * n + j), 1, len, 0.0);
            let [mut i_gate, mut f_gate, mut g_gate, mut o_gate] = order.map(part);
            let (cell, before) = (load(c.add(j), 1, len, 0.0), load(before.add(j), 1, len, 0.0));
            let (dh, later_state) = (load(dh.add(j), 1, len, 0.0), load(later_h.add(j), 1, len, 0.0));
            let (dc, mut later_cell) = (load(dc.add(j), 1, len, 0.0), load(later_c.add(j), 1, len, 0.0));
            for i in 0..LANES {
                let (input, forget, candidate, output) = (i_gate[i], f_gate[i], g_gate[i], o_gate[i]);
                let t = tanh::<L>(cell[i]);
                let dh = dh[i] + later_state[i];
                let dc = dc[i] + later_cell[i] + dh * output * (1.0 - t * t);
                i_gate[i] = dc * candidate * input * (1.0 - input);
                f_gate[i] = dc * before[i] * forget * (1.0 - forget);
                g_gate[i] = dc * input * (1.0 - candidate * candidate);
                o_gate[i] = dh * t * output * (1.0 - output);
                later_cell[i] = dc * forget;
            }
            for (place, gate) in order.iter().zip([&i_gate, &f_gate, &g_gate, &o_gate]) {
                store(dsums.add(place * n + j), 1, len, gate);
            }
            store(later_c.add(j), 1, len, &later_cell);
        }
    });
}

/// The kernel of [`Lstm`].
pub(crate) fn lstm_kernel(op: &Lstm, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, Lstm { reverse, order }) = (RecurrentSizes::of(&types.outputs[0]), *op);
    let tasks = sizes.batch.div_ceil(SEQUENCES);
    let run = move |w: &Work<'_>, task: usize| {
        let block = Block::of(task, sizes, reverse);
        // SAFETY: see `Work`; the scratch has the sums of a block.
        unsafe { forward(block, order, w) }
    };
    WholeKernel::dense(tasks, run)
        .with_scratch(SEQUENCES * 4 * sizes.hidden * size_of::<f32>())
        .into()
}

/// Takes a block through all steps.
///
/// # Safety
/// As for [`Work`], and the worker's scratch has the sums of a block.
unsafe fn forward(block: Block, order: [usize; 4], w: &Work<'_>) {
    let (n, products) = (block.hidden, w.scratch.cast::<f32>());
    let [sums, weight, h0, c0] = [0, 1, 2, 3].map(|i| w.x(i).cast_mut());
    let (h, c, gates) = (w.y(0), w.y(1), w.y(2));
    for (step, before) in block.steps() {
        let cells = block.begin(c, c0, before);
        let (sums, gates) = (block.at(sums, step, 4 * n), block.at(gates, step, 4 * n));
        let (to_c, to_h) = (block.at(c, step, n), block.at(h, step, n));
        // SAFETY: rows of the block; a step writes rows of its own.
        unsafe {
            block.product(block.begin(h, h0, before), weight, 4 * n, products);
            for r in 0..block.count {
                let products = products.add(r * 4 * n);
                forward_step(
                    n,
                    order,
                    sums.at(r),
                    products,
                    cells.at(r),
                    gates.at(r),
                    to_c.at(r),
                    to_h.at(r),
                );
            }
        }
    }
}

/// The kernel of [`LstmBackward`].
pub(crate) fn lstm_backward_kernel(op: &LstmBackward, types: &Types<'_>) -> Option<Kernel> {
    let (sizes, LstmBackward { reverse, order }) = (RecurrentSizes::of(&types.inputs[2]), *op);
    let tasks = sizes.batch.div_ceil(SEQUENCES);
    let run = move |w: &Work<'_>, task: usize| {
        let block = Block::of(task, sizes, reverse);
        // SAFETY: see `Work`.
        unsafe { backward(block, order, w) }
    };
    WholeKernel::dense(tasks, run).into()
}

/// Takes a block back through all steps. The cotangents of the first states hold those of the step at hand meanwhile.
///
/// # Safety
/// As for [`Work`].
unsafe fn backward(block: Block, order: [usize; 4], w: &Work<'_>) {
    let n = block.hidden;
    let [weight, c0, c, gates, dh, dc] = [0, 1, 2, 3, 4, 5].map(|i| w.x(i).cast_mut());
    let (dsums, later_h, later_c) = (w.y(0), block.state(w.y(1), n), block.state(w.y(2), n));
    // SAFETY: rows of the block; a step writes rows of its own.
    unsafe {
        for r in 0..block.count {
            std::slice::from_raw_parts_mut(later_h.at(r), n).fill(0.0);
            std::slice::from_raw_parts_mut(later_c.at(r), n).fill(0.0);
        }
        for (step, before) in block.steps().rev() {
            let cells_before = block.begin(c, c0, before);
            let (gates, dsums) = (block.at(gates, step, 4 * n), block.at(dsums, step, 4 * n));
            let [cells, dh, dc] = [c, dh, dc].map(|all| block.at(all, step, n));
            for r in 0..block.count {
                let (cell, before) = (cells.at(r), cells_before.at(r));
                let (later_h, later_c) = (later_h.at(r), later_c.at(r));
                backward_step(
                    n,
                    order,
                    gates.at(r),
                    cell,
                    before,
                    dh.at(r),
                    dc.at(r),
                    later_h,
                    later_c,
                    dsums.at(r),
                );
            }
            block.product_back(dsums, weight, 4 * n, later_h.ptr);
        }
    }
}
