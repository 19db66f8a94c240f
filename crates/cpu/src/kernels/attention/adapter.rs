//! The table entries of attention: one task for each sequence and head, so that no two tasks write the same gradient.

use lessen_graph::ops::attention::AttentionSizes;
use lessen_graph::{Layout, ops};

use super::super::kernel::{Kernel, Phase, Reads, Types, WholeKernel, Work};
use super::super::rows::Rows;
use super::backward::backward;
use super::forward::forward;
use super::head::{BLOCK, Head, WeightDropout};

/// What forward and backward share: the operation's fields and the extents.
#[derive(Clone, Copy)]
struct Heads {
    op: ops::Attention,
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
            let key = w.key(extra + usize::from(self.op.masked));
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

fn heads(op: ops::Attention, types: &Types<'_>) -> Heads {
    let [q, k, v] = [0, 1, 2].map(|i| &types.inputs[i]);
    Heads {
        op,
        sizes: AttentionSizes::of(q, k, v),
    }
}

impl Heads {
    /// The extents alone, to ask for scratch.
    fn shape(&self) -> Head {
        Head {
            tq: self.sizes.queries,
            tk: self.sizes.keys,
            d: self.sizes.head,
            dv: self.sizes.value,
            scale: 1.0,
            causal: false,
            mask: std::ptr::null(),
            dropout: None,
        }
    }

    /// Queries of one task: all of a head's, or some blocks of them where there are few heads.
    fn queries_of_task(&self) -> usize {
        let parts = 16usize.div_ceil(self.tasks().max(1));
        let queries = self.sizes.queries.div_ceil(parts);
        queries.next_multiple_of(BLOCK).max(BLOCK)
    }
}

/// Whether the loops compute this attention: softmax without biases, segments, offset and shared heads of keys.
fn is_plain(op: &ops::Attention, types: &Types<'_>) -> bool {
    let plain = (op.weighting, op.bias) == (ops::Weighting::Softmax, ops::AttentionBias::None);
    plain && !op.segmented && !op.placed && types.inputs[0].shape[2] == types.inputs[1].shape[2]
}

/// The kernel of [`ops::Attention`].
pub(in super::super) fn attention_kernel(op: &ops::Attention, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() || !is_plain(op, types) {
        return None;
    }
    let all = heads(*op, types);
    let AttentionSizes {
        batch,
        heads,
        queries,
        value,
        ..
    } = all.sizes;
    let out = Layout::dense(&[batch, queries, heads, value]).strides;
    let part = all.queries_of_task();
    let parts = queries.div_ceil(part);
    let kernel = WholeKernel::phases(move |strides| {
        let (strides, out) = (strides[..3].to_vec(), out.clone());
        vec![Phase {
            tasks: all.tasks() * parts,
            run: Box::new(move |w, task| {
                let (task, first) = (task / parts, task % parts * part);
                let head = all.head(w, 3, task);
                let [q, k, v] = [0, 1, 2].map(|i| all.operand(w.inputs[i], &strides[i], task));
                let o = all.operand(w.outputs[0], &out, task);
                let range = first..queries.min(first + part);
                // SAFETY: see `Work`; each task writes rows of its own, and its worker has scratch for one head.
                unsafe {
                    let lse = w.y(1).add(task * queries);
                    forward(&head, q, k, v, o, lse, range, w.scratch.cast());
                }
            }),
        }]
    });
    let scratch = all.shape().forward_scratch() * size_of::<f32>();
    reading_heads(kernel.with_scratch(scratch)).into()
}

/// The kernel of [`ops::AttentionBackward`].
pub(in super::super) fn attention_backward_kernel(op: &ops::AttentionBackward, types: &Types<'_>) -> Option<Kernel> {
    if !types.floats_are_f32() || !is_plain(&op.forward(), types) {
        return None;
    }
    let all = heads(op.forward(), types);
    let dense: Vec<Vec<usize>> = types.inputs[..3]
        .iter()
        .map(|t| Layout::dense(&t.shape).strides)
        .collect();
    let queries = all.sizes.queries;
    let kernel = WholeKernel::phases(move |strides| {
        let (strides, dense) = (strides[..6].to_vec(), dense.clone());
        vec![Phase {
            tasks: all.tasks(),
            run: Box::new(move |w, task| {
                let head = all.head(w, 6, task);
                let [q, k, v, o, d_o] = [0, 1, 2, 3, 5].map(|i| all.operand(w.inputs[i], &strides[i], task));
                let [dq, dk, dv] = [0, 1, 2].map(|i| all.operand(w.outputs[i], &dense[i], task));
                // SAFETY: see `Work`; each task writes its own head's gradients, and its worker has scratch for one.
                unsafe {
                    let lse = w.x(4).add(task * queries);
                    backward(&head, q, k, v, o, lse, d_o, dq, dk, dv, w.scratch.cast());
                }
            }),
        }]
    });
    let scratch = all.shape().backward_scratch() * size_of::<f32>();
    reading_heads(kernel.with_scratch(scratch)).into()
}

/// Queries, keys and values are read in any layout in which a head's rows are dense.
fn reading_heads(kernel: WholeKernel) -> WholeKernel {
    (0..3).fold(kernel, |kernel, input| kernel.reading(input, Reads::DenseLastAxis))
}
