//! Copies of heads of keys and values, in rows that follow each other: in an operand the other heads lie between the
//! rows of a head, which is slower where a head is read often.

use lessen_graph::ops::attention::AttentionSizes;

use super::super::kernel::{Round, TaskFn, Work};
use super::super::rows::Rows;
use super::heads::head_of;
use super::lanes::copy_row;
use super::product::{Panel, wide};

/// Keys whose rows one task copies.
const ROWS: usize = 256;

/// Copies of all heads of keys and values of all sequences, in shared scratch.
#[derive(Clone)]
pub(super) struct Copies {
    sizes: AttentionSizes,
    /// The first element.
    first: usize,
}

impl Copies {
    /// The copies from this element of shared scratch on; none where rows follow each other already.
    pub(super) fn new(sizes: &AttentionSizes, first: usize) -> Option<Copies> {
        let sizes = *sizes;
        (sizes.kv_heads > 1).then_some(Copies { sizes, first })
    }

    /// Elements of shared scratch.
    pub(super) fn scratch(&self) -> usize {
        let AttentionSizes {
            batch, kv_heads, keys, ..
        } = self.sizes;
        batch * kv_heads * keys * (wide(self.sizes.head) + wide(self.sizes.value))
    }

    /// The copies of the keys and of the values of one head.
    pub(super) fn of(&self, w: &Work<'_>, (b, kv): (usize, usize)) -> [Rows<f32>; 2] {
        let AttentionSizes {
            batch,
            kv_heads,
            keys,
            head,
            value,
            ..
        } = self.sizes;
        let at = w.shared.cast::<f32>().wrapping_add(self.first);
        let before = (b * kv_heads + kv) * keys;
        let values = batch * kv_heads * keys * wide(head);
        [
            Rows::dense(at.wrapping_add(before * wide(head)), wide(head)),
            Rows::dense(at.wrapping_add(values + before * wide(value)), wide(value)),
        ]
    }

    /// The round that makes them of operands with these strides.
    pub(super) fn round(&self, strides: &[Vec<usize>]) -> Round {
        let (this, strides) = (self.clone(), strides.to_vec());
        let AttentionSizes {
            batch, kv_heads, keys, ..
        } = self.sizes;
        let chunks = keys.div_ceil(ROWS);
        let run: TaskFn = Box::new(move |w, task| {
            let (pair, first) = (task / chunks, task % chunks * ROWS);
            let (at, n) = ((pair / kv_heads, pair % kv_heads), ROWS.min(keys - first));
            let columns = [this.sizes.head, this.sizes.value];
            for (which, to) in this.of(w, at).into_iter().enumerate() {
                let from = head_of(w.dense_along(1 + which), &strides[1 + which], at).from(first);
                // SAFETY: see `Work`; each task writes rows of its own.
                unsafe { copy_rows(n, columns[which], from, to.from(first)) };
            }
        });
        Round {
            tasks: batch * kv_heads * chunks,
            run,
        }
    }
}

/// Copies `n` rows of `c` elements each, and writes zeros after them up to a multiple of
/// [`PANEL`](super::product::PANEL).
///
/// # Safety
/// The rows exist, their elements lie side by side, and `to` overlaps nothing.
pub(super) unsafe fn copy_rows(n: usize, c: usize, from: Rows<f32>, to: Rows<f32>) {
    for r in 0..n {
        let row = wide(c);
        // SAFETY: passed on.
        unsafe { copy_row(c, 1.0, from.from(r), Panel { ptr: to.at(r), row }) };
    }
}
