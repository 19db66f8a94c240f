//! Operations that only move elements: copies of strided arrays, concatenation, padding, updates of ranges.

use lessen_graph::{Layout, Type, numel, ops};

use super::copy::CopyPlan;
use crate::kernels::elementwise::operators::copy;
use crate::kernels::kernel::{Kernel, MAX_OPERANDS, Reads, Round, RowKernel, Run, Types, WholeKernel};
use crate::kernels::reference::encode;
use crate::kernels::rows::Element;

/// Bytes of one outer index: the extents from `axis` on.
fn chunk_bytes(ty: &Type, axis: usize) -> usize {
    numel(&ty.shape[axis..]) * ty.dtype.bytes()
}

/// Outer indices of one task, so that a task moves about 64 KiB.
fn outer_chunk(bytes: usize) -> usize {
    ((1 << 16) / bytes.max(1)).max(1)
}

/// The kernel of [`ops::Identity`]: a dense copy of a strided array, a range of its rows for each task.
pub(crate) fn identity_kernel(_: &ops::Identity, types: &Types<'_>) -> Option<Kernel> {
    let ty = types.inputs[0].clone();
    WholeKernel::rounds(move |strides| {
        let plan = CopyPlan::new(&ty.shape, &strides[0], &Layout::dense(&ty.shape).strides);
        let (rows, bytes) = (plan.rows(), ty.dtype.bytes());
        let chunk = ((1 << 14) / plan.columns().max(1)).max(1);
        vec![Round {
            tasks: rows.div_ceil(chunk),
            run: Box::new(move |w, task| {
                let range = task * chunk..rows.min((task + 1) * chunk);
                // SAFETY: see `Work`; tasks write disjoint rows.
                unsafe {
                    let from = w.strided::<u8>(0);
                    if !std::ptr::eq(from, w.outputs[0]) {
                        plan.copy(bytes, from, w.outputs[0], range);
                    }
                }
            }),
        }]
    })
    .reading(0, Reads::Any)
    .into()
}

/// The kernel of [`ops::Concat`]: row by row along the last axis, else by outer indices.
pub(crate) fn concat_kernel(op: &ops::Concat, types: &Types<'_>) -> Option<Kernel> {
    let few = types.inputs.len() < MAX_OPERANDS && !types.any_empty();
    let (axis, output) = (op.axis, &types.outputs[0]);
    if axis + 1 == output.rank() && few {
        let size = output.dtype.bytes();
        // The unsigned integer of the same size stands for any dtype.
        let run = match size {
            8 => concat_rows::<u64>,
            4 => concat_rows::<u32>,
            2 => concat_rows::<u16>,
            _ => concat_rows::<u8>,
        };
        return RowKernel::rows(run).into();
    }
    let outer = numel(&output.shape[..axis]);
    let chunks: Vec<usize> = types.inputs.iter().map(|ty| chunk_bytes(ty, axis)).collect();
    let total = chunk_bytes(output, axis);
    let chunk = outer_chunk(total);
    WholeKernel::dense(outer.div_ceil(chunk), move |w, task| {
        for i in task * chunk..outer.min((task + 1) * chunk) {
            let mut at = i * total;
            for (input, &bytes) in chunks.iter().enumerate() {
                // SAFETY: see `Work`; the chunks of one outer index fill its part of the output.
                unsafe {
                    let to = w.outputs[0].add(at);
                    to.copy_from_nonoverlapping(w.dense::<u8>(input).add(i * bytes), bytes);
                }
                at += bytes;
            }
        }
    })
    .into()
}

fn concat_rows<T: Element>(r: &Run<'_>) {
    let mut to = r.outputs[0].rows();
    for &from in r.inputs {
        // SAFETY: see `Run`; the inputs' columns fill the columns of the output.
        unsafe { copy::<T>(r.n, from.columns(), from.rows(), to) };
        to.ptr = to.element(0, from.columns());
    }
}

/// The kernel of [`ops::Pad`].
pub(crate) fn pad_kernel(op: &ops::Pad, types: &Types<'_>) -> Option<Kernel> {
    let (input, output) = (&types.inputs[0], &types.outputs[0]);
    // The written elements lie in the output whatever the fields say.
    let end = op.before.checked_add(input.shape[op.axis])?;
    if end > output.shape[op.axis] {
        return None;
    }
    let outer = numel(&output.shape[..op.axis]);
    let (from, to) = (chunk_bytes(input, op.axis), chunk_bytes(output, op.axis));
    let before = op.before * chunk_bytes(output, op.axis + 1);
    let fill = encode(op.value, output.dtype);
    let chunk = outer_chunk(to);
    let is_fourth = (before, from, to, fill.len()) == (0, 3, 4, 1);
    WholeKernel::dense(outer.div_ceil(chunk), move |w, task| {
        let range = task * chunk..outer.min((task + 1) * chunk);
        if is_fourth {
            // SAFETY: see `Work`; the range has three bytes of the input and four of the output each.
            return unsafe { with_fourth(range, w.dense(0), fill[0], w.outputs[0]) };
        }
        for i in range {
            // SAFETY: see `Work`; the input's chunk lies within the output's.
            unsafe {
                let out = w.outputs[0].add(i * to);
                filled(std::slice::from_raw_parts_mut(out, before), &fill);
                out.add(before)
                    .copy_from_nonoverlapping(w.dense::<u8>(0).add(i * from), from);
                let rest = to - before - from;
                filled(std::slice::from_raw_parts_mut(out.add(before + from), rest), &fill);
            }
        }
    })
    .into()
}

/// Fills bytes with an element.
fn filled(bytes: &mut [u8], element: &[u8]) {
    if element.iter().all(|&b| b == element[0]) {
        bytes.fill(element[0]);
    } else {
        bytes
            .chunks_exact_mut(element.len())
            .for_each(|e| e.copy_from_slice(element));
    }
}

/// Writes some groups of three bytes with a fourth byte each.
///
/// # Safety
/// The groups are readable, and there is room for four bytes for each, which nobody else accesses.
unsafe fn with_fourth(groups: std::ops::Range<usize>, from: *const u8, fourth: u8, to: *mut u8) {
    for i in groups {
        // SAFETY: passed on.
        unsafe {
            let group = from.add(3 * i);
            let bytes = [*group, *group.add(1), *group.add(2), fourth];
            to.add(4 * i).cast::<[u8; 4]>().write(bytes);
        }
    }
}

/// The kernel of [`ops::UpdateSlice`]. The base is copied unless the output lies where it lies; then the update is
/// written over it.
pub(crate) fn update_slice_kernel(op: &ops::UpdateSlice, types: &Types<'_>) -> Option<Kernel> {
    let (axis, base_ty, update_ty) = (op.axis, &types.inputs[0], &types.inputs[1]);
    let outer = numel(&base_ty.shape[..axis]);
    let (base, update) = (chunk_bytes(base_ty, axis), chunk_bytes(update_ty, axis));
    let step = chunk_bytes(base_ty, axis + 1);
    let room = base_ty.shape[axis].checked_sub(update_ty.shape[axis])?;
    let indices = types.inputs[2].numel();
    WholeKernel::dense(outer, move |w, task| {
        // SAFETY: see `Work`; there is one index or one for each row, and the position is clamped so that the update
        // lies within the base's chunk.
        unsafe {
            let index = w.dense::<i32>(2).add(task * indices / outer);
            let position = (*index).max(0) as usize;
            let position = position.min(room);
            let out = w.outputs[0].add(task * base);
            let from = w.dense::<u8>(0).add(task * base);
            if !std::ptr::eq(out, from) {
                out.copy_from_nonoverlapping(from, base);
            }
            out.add(position * step)
                .copy_from_nonoverlapping(w.dense::<u8>(1).add(task * update), update);
        }
    })
    .into()
}
