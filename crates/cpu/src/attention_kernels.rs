//! Attention: one task for each sequence and head, forward and backward, so that no two tasks write the same gradient.

use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::ops::{Attention, AttentionBackward};
use lessen_graph::{Layout, Op, Type};

use crate::kernels::Rows;
use crate::kernels::attention::{self, Head, WeightDropout};
use crate::single_kernels::{Single, TaskFn, Work};

/// What forward and backward share: the operation's fields and the extents.
#[derive(Clone, Copy)]
struct Heads {
    op: Attention,
    sizes: AttentionSizes,
}

impl Heads {
    /// One head's shape; `extra` is the position of the mask among the inputs, if there is one, then the key.
    fn head(&self, w: &Work<'_>, extra: usize, task: usize) -> Head {
        let AttentionSizes {
            heads,
            queries,
            keys,
            head,
            value,
            ..
        } = self.sizes;
        let mask = if self.op.masked {
            w.inputs[extra].wrapping_add(task / heads * keys).cast_const()
        } else {
            std::ptr::null()
        };
        let dropout = (self.op.p > 0.0).then(|| {
            // SAFETY: the key is an input of two numbers, behind the mask.
            let key: [u32; 2] = unsafe { *w.inputs[extra + usize::from(self.op.masked)].cast() };
            let first = task as u64 * queries as u64 * keys as u64;
            WeightDropout {
                p: self.op.p,
                stream: self.op.stream,
                key,
                first,
            }
        });
        let (scale, causal) = (self.op.scale as f32, self.op.causal);
        Head {
            tq: queries,
            tk: keys,
            d: head,
            dv: value,
            scale,
            causal,
            mask,
            dropout,
        }
    }

    /// A head of a tensor `[B, T, H, D]` with these strides.
    fn operand(&self, ptr: *mut u8, strides: &[usize], task: usize) -> Rows<f32> {
        let (b, h) = (task / self.sizes.heads, task % self.sizes.heads);
        let ptr = ptr.cast::<f32>().wrapping_add(b * strides[0] + h * strides[2]);
        Rows {
            ptr,
            row: strides[1],
            col: strides[3],
        }
    }

    fn tasks(&self) -> usize {
        self.sizes.batch * self.sizes.heads
    }
}

fn heads(op: Attention, inputs: &[Type]) -> Heads {
    Heads {
        op,
        sizes: AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]),
    }
}

/// Scratch bytes of one thread.
pub(crate) fn scratch_bytes(op: &dyn Op, inputs: &[Type]) -> usize {
    let any = op;
    let head = || {
        let AttentionSizes {
            queries: tq,
            keys: tk,
            head: d,
            value: dv,
            ..
        } = AttentionSizes::of(&inputs[0], &inputs[1], &inputs[2]);
        Head {
            tq,
            tk,
            d,
            dv,
            scale: 1.0,
            causal: false,
            mask: std::ptr::null(),
            dropout: None,
        }
    };
    let elements = if any.is::<Attention>() {
        head().forward_scratch()
    } else if any.is::<AttentionBackward>() {
        head().backward_scratch()
    } else {
        0
    };
    elements * size_of::<f32>()
}

/// The kernel of the forward operation.
pub(crate) fn forward(op: &Attention, inputs: &[Type], strides: &[Vec<usize>]) -> Single {
    let all = heads(*op, inputs);
    let strides: Vec<Vec<usize>> = strides[..3].to_vec();
    let AttentionSizes {
        batch,
        heads,
        queries,
        value,
        ..
    } = all.sizes;
    let out = Layout::dense(&[batch, queries, heads, value]).strides;
    let run: TaskFn = Box::new(move |w, task| {
        let head = all.head(w, 3, task);
        let [q, k, v] = [0, 1, 2].map(|i| all.operand(w.inputs[i], &strides[i], task));
        let o = all.operand(w.outputs[0], &out, task);
        // SAFETY: see `single_kernel`; each task writes the rows of its own head, and has scratch for one.
        unsafe {
            let lse = w.y(1).add(task * queries);
            attention::forward(&head, q, k, v, o, lse, 0..queries, w.scratch.cast());
        }
    });
    Single {
        tasks: all.tasks(),
        run,
    }
}

/// The kernel of the backward operation.
pub(crate) fn backward(op: &AttentionBackward, inputs: &[Type], strides: &[Vec<usize>]) -> Single {
    let all = heads(op.forward(), inputs);
    let strides: Vec<Vec<usize>> = strides[..6].to_vec();
    let dense: Vec<Vec<usize>> = inputs[..3]
        .iter()
        .map(|t| Layout::dense(&t.shape).strides)
        .collect();
    let queries = all.sizes.queries;
    let run: TaskFn = Box::new(move |w, task| {
        let head = all.head(w, 6, task);
        let [q, k, v, o, d_o] = [0, 1, 2, 3, 5].map(|i| all.operand(w.inputs[i], &strides[i], task));
        let [dq, dk, dv] = [0, 1, 2].map(|i| all.operand(w.outputs[i], &dense[i], task));
        // SAFETY: see `single_kernel`; each task writes the gradients of its own head, and has scratch for one.
        unsafe {
            let lse = w.x(4).add(task * queries);
            attention::backward(&head, q, k, v, o, lse, d_o, dq, dk, dv, w.scratch.cast());
        }
    });
    Single {
        tasks: all.tasks(),
        run,
    }
}
