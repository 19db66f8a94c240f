//! Operations that do not run row by row: each is cut into tasks by its own shape.

use lessen_graph::ops::{
    Attention, AttentionBackward, Concat, Identity, MatMul, Pad, RandomBits, Reduce, ReduceKind, ScatterAdd,
    UpdateSlice,
};
use lessen_graph::{DType, Layout, Op, Type, numel};

use crate::faults::Faults;
use crate::kernels::copy::CopyPlan;
use crate::kernels::{Rows, gather, gemm, random, reduce};
use crate::{attention_kernels, fallback};

/// The memory of one task.
pub(crate) struct Work<'a> {
    /// First element of each input, its view's offset included.
    pub(crate) inputs: &'a [*mut u8],
    /// First element of each output.
    pub(crate) outputs: &'a [*mut u8],
    /// The thread's scratch.
    pub(crate) scratch: *mut u8,
    pub(crate) faults: &'a Faults,
}

impl Work<'_> {
    pub(crate) fn x(&self, i: usize) -> *const f32 {
        self.inputs[i].cast()
    }

    pub(crate) fn y(&self, i: usize) -> *mut f32 {
        self.outputs[i].cast()
    }
}

/// What a task does, given its number.
pub(crate) type TaskFn = Box<dyn Fn(&Work<'_>, usize) + Send + Sync>;

/// A kernel and the number of its tasks.
pub(crate) struct Single {
    pub(crate) tasks: usize,
    pub(crate) run: TaskFn,
}

/// Scratch bytes of one thread for an operation.
pub(crate) fn scratch_bytes(op: &dyn Op, inputs: &[Type]) -> usize {
    attention_kernels::scratch_bytes(op, inputs)
}

/// The kernel of an operation; the reference evaluation where there is no other.
///
/// Soundness of the kernels' `unsafe` calls: the plan gives every operand the elements of its type at the strides
/// given here, outputs overlap no input but where [`Op::in_place`] allows it, and tasks write disjoint parts.
pub(crate) fn single_kernel(
    op: std::sync::Arc<dyn Op>,
    inputs: &[Type],
    strides: &[Vec<usize>],
    outputs: &[Type],
) -> Single {
    let found = find(op.as_ref(), inputs, strides, outputs);
    found.unwrap_or_else(|| fallback::reference(op, inputs, strides, outputs))
}

/// Whether an operation on dense inputs of these types has a kernel.
pub(crate) fn has_single_kernel(op: &dyn Op, inputs: &[Type], outputs: &[Type]) -> bool {
    let strides: Vec<Vec<usize>> = inputs.iter().map(|ty| Layout::dense(&ty.shape).strides).collect();
    find(op, inputs, &strides, outputs).is_some()
}

fn find(any: &dyn Op, inputs: &[Type], strides: &[Vec<usize>], outputs: &[Type]) -> Option<Single> {
    let f32s = inputs
        .iter()
        .chain(outputs)
        .filter(|t| t.dtype.is_float())
        .all(|t| t.dtype == DType::F32);
    let lies_dense = |(ty, strides): (&Type, &Vec<usize>)| {
        Layout {
            offset: 0,
            strides: strides.clone(),
        }
        .is_dense(&ty.shape)
    };
    let dense = inputs.iter().zip(strides).all(lies_dense);
    if let (Some(op), true) = (any.downcast_ref::<MatMul>(), f32s) {
        Some(matmul(op, inputs, strides))
    } else if let (Some(op), true) = (any.downcast_ref::<Attention>(), f32s) {
        Some(attention_kernels::forward(op, inputs, strides))
    } else if let (Some(op), true) = (any.downcast_ref::<AttentionBackward>(), f32s) {
        Some(attention_kernels::backward(op, inputs, strides))
    } else if let (Some(op), true) = (any.downcast_ref::<ScatterAdd>(), f32s) {
        Some(scatter_add(op, inputs, outputs))
    } else if let (Some(op), true) = (any.downcast_ref::<Reduce>(), f32s) {
        sum_of_middle(op, &inputs[0])
    } else if let Some(op) = any.downcast_ref::<RandomBits>() {
        Some(random_bits(op, outputs))
    } else if any.is::<Identity>() {
        strided_copy(&inputs[0], &strides[0])
    } else if let (Some(op), true) = (any.downcast_ref::<Concat>(), dense) {
        Some(concat(op.axis, inputs, outputs))
    } else if let (Some(op), true) = (any.downcast_ref::<Pad>(), dense) {
        Some(pad(op, inputs, outputs))
    } else {
        any.downcast_ref::<UpdateSlice>()
            .map(|op| update_slice(op.axis, inputs))
    }
}

/// The extents of the tiles that a product's result is cut into: about 192 by 384, smaller where there would be fewer
/// tasks than a few threads need.
fn tiles(m: usize, n: usize, batch: usize) -> (usize, usize) {
    let (mut tm, mut tn) = (192.min(m).max(1), 384.min(n).max(1));
    while batch * m.div_ceil(tm) * n.div_ceil(tn) < 8 && tm.max(tn) > 64 {
        if tm >= tn {
            tm = tm.div_ceil(2)
        } else {
            tn = tn.div_ceil(2)
        }
    }
    let even = |size: usize, tile: usize| size.div_ceil(size.div_ceil(tile)).div_ceil(16) * 16;
    (even(m, tm), even(n, tn))
}

/// Products of stacks of matrices, and of transposed ones, over any strides.
fn matmul(op: &MatMul, inputs: &[Type], strides: &[Vec<usize>]) -> Single {
    let (a, b) = (&inputs[0], &inputs[1]);
    let (m, k, n) = op.sizes(a, b);
    let lead: Vec<usize> = a.shape[..a.rank() - 2].to_vec();
    let batch = numel(&lead);
    let matrix = |strides: &[usize], transposed: bool| {
        let (row, col) = (
            strides[strides.len() - 2] as isize,
            strides[strides.len() - 1] as isize,
        );
        if transposed { (col, row) } else { (row, col) }
    };
    let (a_row, a_col) = matrix(&strides[0], op.transpose_a);
    let (b_row, b_col) = matrix(&strides[1], op.transpose_b);
    let a_lead = strides[0][..lead.len()].to_vec();
    let b_lead = if b.rank() == 2 {
        vec![0; lead.len()]
    } else {
        strides[1][..lead.len()].to_vec()
    };
    if batch * m * n == 0 {
        return Single {
            tasks: 0,
            run: Box::new(|_, _| {}),
        };
    }
    let (tm, tn) = tiles(m, n, batch);
    let (rows, cols) = (m.div_ceil(tm), n.div_ceil(tn));
    let run: TaskFn = Box::new(move |w, task| {
        let (tile, mut rest) = (task % (rows * cols), task / (rows * cols));
        let (i, j) = (tile / cols * tm, tile % cols * tn);
        let (mut a_at, mut b_at, at) = (0, 0, rest * m * n);
        for axis in (0..lead.len()).rev() {
            a_at += rest % lead[axis] * a_lead[axis];
            b_at += rest % lead[axis] * b_lead[axis];
            rest /= lead[axis];
        }
        // SAFETY: see `single_kernel`; the tile lies within the result, tiles do not overlap.
        unsafe {
            gemm::gemm(
                tm.min(m - i),
                k,
                tn.min(n - j),
                (w.x(0).add(a_at).offset(i as isize * a_row), a_row, a_col),
                (w.x(1).add(b_at).offset(j as isize * b_col), b_row, b_col),
                (w.y(0).add(at + i * n + j), n as isize, 1),
                false,
            );
        }
    });
    Single {
        tasks: batch * rows * cols,
        run,
    }
}

/// Each task adds up some of the columns of all rows.
fn scatter_add(op: &ScatterAdd, inputs: &[Type], outputs: &[Type]) -> Single {
    let rows = op.rows;
    let ids = inputs[0].numel();
    let columns = outputs[0].numel() / rows.max(1);
    let width = (columns.div_ceil(4)).max(64);
    let run: TaskFn = Box::new(move |w, task| {
        let range = task * width..columns.min((task + 1) * width);
        // SAFETY: see `single_kernel`; tasks write disjoint columns, and every index is checked to be a row.
        unsafe {
            let indices = std::slice::from_raw_parts(w.inputs[0].cast::<i32>(), ids);
            for row in 0..rows {
                w.y(0)
                    .add(row * columns + range.start)
                    .write_bytes(0, range.len());
            }
            if w.faults.check(indices, rows) {
                let updates = Rows::dense(w.inputs[1].cast(), columns);
                gather::scatter_add(ids, columns, indices.as_ptr(), updates, w.y(0), range);
            }
        }
    });
    Single {
        tasks: columns.div_ceil(width),
        run,
    }
}

/// A sum over adjacent axes between others, as in pooling over time: one task for each outer index.
fn sum_of_middle(op: &Reduce, input: &Type) -> Option<Single> {
    let (&first, &last) = (op.axes.first()?, op.axes.last()?);
    if op.kind != ReduceKind::Sum || last - first + 1 != op.axes.len() {
        return None;
    }
    let outer = numel(&input.shape[..first]);
    let n = numel(&input.shape[first..=last]);
    let c = numel(&input.shape[last + 1..]);
    let run: TaskFn = Box::new(move |w, task| {
        // SAFETY: see `single_kernel`; each task sums one block of `n` rows into a row of its own.
        unsafe {
            let y = w.y(0).add(task * c);
            y.write_bytes(0, c);
            reduce::sum_cols(n, c, Rows::dense(w.x(0).add(task * n * c).cast_mut(), c), y);
        }
    });
    Some(Single { tasks: outer, run })
}

fn random_bits(op: &RandomBits, outputs: &[Type]) -> Single {
    const CHUNK: usize = 1 << 14;
    let (stream, n) = (op.stream, outputs[0].numel());
    let run: TaskFn = Box::new(move |w, task| {
        let first = task * CHUNK;
        // SAFETY: see `single_kernel`; tasks write disjoint chunks.
        unsafe {
            let key: [u32; 2] = *w.inputs[0].cast();
            let out = w.outputs[0].cast::<u32>().add(first);
            random::random_bits(key, stream, first as u64, CHUNK.min(n - first), out);
        }
    });
    Single {
        tasks: n.div_ceil(CHUNK),
        run,
    }
}

/// A dense copy of a strided array, a range of its rows for each task.
fn strided_copy(ty: &Type, strides: &[usize]) -> Option<Single> {
    let plan = CopyPlan::new(&ty.shape, strides, &Layout::dense(&ty.shape).strides)?;
    let bytes = ty.dtype.bytes();
    let rows = plan.rows();
    let chunk = ((1 << 14) / plan.columns().max(1)).max(1);
    let run: TaskFn = Box::new(move |w, task| {
        let range = task * chunk..rows.min((task + 1) * chunk);
        // SAFETY: see `single_kernel`; tasks write disjoint rows.
        unsafe {
            if !std::ptr::eq(w.inputs[0], w.outputs[0]) {
                plan.copy(bytes, w.inputs[0], w.outputs[0], range);
            }
        }
    });
    Some(Single {
        tasks: rows.div_ceil(chunk),
        run,
    })
}

/// Bytes of one outer index: the extents from `axis` on.
fn chunk_bytes(ty: &Type, axis: usize) -> usize {
    numel(&ty.shape[axis..]) * ty.dtype.bytes()
}

fn concat(axis: usize, inputs: &[Type], outputs: &[Type]) -> Single {
    let outer = numel(&outputs[0].shape[..axis]);
    let chunks: Vec<usize> = inputs.iter().map(|t| chunk_bytes(t, axis)).collect();
    let total = chunk_bytes(&outputs[0], axis);
    let run: TaskFn = Box::new(move |w, task| {
        let mut at = task * total;
        for (&from, &bytes) in w.inputs.iter().zip(&chunks) {
            // SAFETY: see `single_kernel`; the chunks of one outer index fill its part of the output.
            unsafe {
                w.outputs[0]
                    .add(at)
                    .copy_from_nonoverlapping(from.add(task * bytes), bytes)
            };
            at += bytes;
        }
    });
    Single { tasks: outer, run }
}

fn pad(op: &Pad, inputs: &[Type], outputs: &[Type]) -> Single {
    let outer = numel(&outputs[0].shape[..op.axis]);
    let (from, to) = (
        chunk_bytes(&inputs[0], op.axis),
        chunk_bytes(&outputs[0], op.axis),
    );
    let before = op.before * chunk_bytes(&outputs[0], op.axis + 1);
    let fill = fallback::encode(op.value, outputs[0].dtype);
    let run: TaskFn = Box::new(move |w, task| {
        // SAFETY: see `single_kernel`; the input's chunk lies within the output's.
        unsafe {
            let out = std::slice::from_raw_parts_mut(w.outputs[0].add(task * to), to);
            if fill.iter().all(|&b| b == 0) {
                out.fill(0);
            } else {
                out.chunks_exact_mut(fill.len())
                    .for_each(|e| e.copy_from_slice(&fill));
            }
            out.as_mut_ptr()
                .add(before)
                .copy_from_nonoverlapping(w.inputs[0].add(task * from), from);
        }
    });
    Single { tasks: outer, run }
}

/// The base is copied unless the output lies where it lies; then the update is written over it.
fn update_slice(axis: usize, inputs: &[Type]) -> Single {
    let outer = numel(&inputs[0].shape[..axis]);
    let (base, update) = (chunk_bytes(&inputs[0], axis), chunk_bytes(&inputs[1], axis));
    let step = chunk_bytes(&inputs[0], axis + 1);
    let room = inputs[0].shape[axis] - inputs[1].shape[axis];
    let run: TaskFn = Box::new(move |w, task| {
        // SAFETY: see `single_kernel`; the position is clamped so that the update lies within the base's chunk.
        unsafe {
            let position = (*w.inputs[2].cast::<i32>()).max(0) as usize;
            let position = position.min(room);
            let out = w.outputs[0].add(task * base);
            let from = w.inputs[0].add(task * base);
            if !std::ptr::eq(out, from) {
                out.copy_from_nonoverlapping(from, base);
            }
            out.add(position * step)
                .copy_from_nonoverlapping(w.inputs[1].add(task * update), update);
        }
    });
    Single { tasks: outer, run }
}
