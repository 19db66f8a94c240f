//! The phases of the derivative of NormSoftmax or LogitNorm attention whose temperatures come from moments of keys.

use lessen_graph::ops::attention::AttentionSizes;

use super::super::kernel::{Phase, TaskFn, Work};
use super::backward_entry::Backward;
use super::moments::RowMemory;
use super::row_moments::{derive_keys, row_numbers};

/// Keys from which on temperatures come from moments of keys, and three times as many where queries see half of them:
/// the moments cost as much as a hundred or two further keys, and the scores of fewer keys fit the cache.
pub(super) const MOMENTS: usize = 1024;

/// Keys up to which a row's scores are kept nevertheless: the temperature of a few of them may be small, and its
/// derivative large.
pub(super) const FEW: usize = 256;

impl Backward {
    /// The numbers of the rows of a head, if the temperatures come from moments of keys.
    pub(super) fn rows(&self, w: &Work<'_>, (b, h): (usize, usize)) -> Option<RowMemory> {
        let AttentionSizes {
            heads, queries, head, ..
        } = self.all.sizes;
        let before = (b * heads + h) * RowMemory::scratch(queries, head);
        let at = |first| w.shared.cast::<f32>().wrapping_add(first + before);
        self.moments.map(|first| RowMemory::new(at(first), queries, head))
    }

    /// The phases that compute temperatures from moments of keys, before the blocks of queries, and what these give to
    /// keys, after them; if there are such.
    pub(super) fn moments_phases(&self, strides: &[Vec<usize>]) -> [Option<Phase>; 2] {
        if self.moments.is_none() {
            return [None, None];
        }
        [false, true].map(|after| {
            let (this, strides) = (self.clone(), strides.to_vec());
            let AttentionSizes {
                heads,
                kv_heads,
                queries,
                ..
            } = this.all.sizes;
            let run: TaskFn = Box::new(move |w, pair| {
                let (b, kv) = (pair / kv_heads, pair % kv_heads);
                let scratch = w.scratch.cast();
                for h in kv * (heads / kv_heads)..(kv + 1) * (heads / kv_heads) {
                    let head = this.all.head(w, &strides, (b, h), &(0..queries));
                    let (Some(rows), Some(norm)) = (this.rows(w, (b, h)), this.all.norm(w, h)) else {
                        continue;
                    };
                    // SAFETY: see `Work`; a task has heads of its own, and its worker has the scratch.
                    unsafe {
                        if after {
                            let dk = this.parts.output(w, 0, pair);
                            derive_keys(&head, norm.temperature.centered, queries, rows, dk, scratch);
                        } else {
                            row_numbers(&head, norm, queries, rows, scratch);
                        }
                    }
                }
            });
            let tasks = self.parts.pairs;
            Some(Phase { tasks, run })
        })
    }
}
