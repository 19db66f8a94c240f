//! Numbers rounded to the levels of few bits.

use std::ops::Range;

use lessen_graph::{numel, ops};

use crate::kernels::kernel::{Kernel, Types, WholeKernel};
use crate::kernels::zeros::zeros;
use crate::simd::{Level, dispatch};

/// Elements of a task.
const TASK: usize = 1 << 14;

/// Scales and zeros of elements, and the codes.
#[derive(Clone, Copy)]
struct Operands {
    /// A scale for each index of the axis, or one.
    scale: *const f32,
    /// Zeros likewise; null without them.
    zero: *const f32,
    low: f32,
    high: f32,
}

dispatch! {
    /// Elements of a range, of which `inner` that follow each other have the same index of an axis of `extent` indices.
    ///
    /// # Safety
    /// `x` and `y` have the elements, and the operands a number for each index; nobody else accesses the elements of
    /// `y`.
    unsafe fn rounded(
        range: Range<usize>, extent: usize, inner: usize, operands: Operands, x: *const f32, y: *mut f32,
    ) = rounded_body;
}

#[inline(always)]
unsafe fn rounded_body<L: Level>(
    range: Range<usize>,
    extent: usize,
    inner: usize,
    operands: Operands,
    x: *const f32,
    y: *mut f32,
) {
    let level = |x: f32, scale: f32, zero: f32| {
        let code = ((x / scale).round_ties_even() + zero).clamp(operands.low, operands.high);
        (code - zero) * scale
    };
    // SAFETY: passed on.
    unsafe {
        let number = |all: *const f32, index: usize| {
            if all.is_null() {
                0.0
            } else {
                (*all.add(index)).round_ties_even()
            }
        };
        let mut at = range.start;
        while at < range.end {
            if inner == 1 {
                // Each element has an index of its own, up to the end of the axis.
                let first = at % extent;
                let count = (extent - first).min(range.end - at);
                for i in 0..count {
                    let (scale, zero) = (*operands.scale.add(first + i), number(operands.zero, first + i));
                    y.add(at + i).write(level(*x.add(at + i), scale, zero));
                }
                at += count;
                continue;
            }
            let index = at / inner % extent;
            let count = (inner - at % inner).min(range.end - at);
            let (scale, zero) = (*operands.scale.add(index), number(operands.zero, index));
            for i in at..at + count {
                y.add(i).write(level(*x.add(i), scale, zero));
            }
            at += count;
        }
    }
}

/// The kernel of [`ops::FakeQuantize`].
pub(crate) fn fake_quantize_kernel(op: &ops::FakeQuantize, types: &Types<'_>) -> Option<Kernel> {
    if types.any_empty() {
        return zeros(types).into();
    }
    let x = &types.inputs[0];
    let count = x.numel();
    let (extent, inner) = match types.inputs[1].rank() {
        0 => (1, count.max(2)),
        _ => (x.shape[op.axis], numel(&x.shape[op.axis + 1..])),
    };
    let (low, high, has_zero) = (op.low as f32, op.high as f32, types.inputs.len() > 2);
    WholeKernel::dense(count.div_ceil(TASK), move |w, task| {
        let operands = Operands {
            scale: w.x(1),
            zero: if has_zero { w.x(2) } else { std::ptr::null() },
            low,
            high,
        };
        let range = task * TASK..count.min((task + 1) * TASK);
        // SAFETY: see `Work`; tasks write disjoint elements.
        unsafe { rounded(range, extent, inner, operands, w.x(0), w.y(0)) };
    })
    .into()
}

/// The kernel of [`ops::StopGradient`].
pub(crate) fn stop_gradient_kernel(_: &ops::StopGradient, types: &Types<'_>) -> Option<Kernel> {
    crate::kernels::movement::join::identity_kernel(&ops::Identity, types)
}
