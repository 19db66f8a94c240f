//! The rounds of the derivative of NormSoftmax or LogitNorm attention whose temperatures come from moments of keys.

use lessen_graph::ops::attention::AttentionSizes;

use super::super::kernel::{Round, TaskFn, Work};
use super::heads::Heads;
use super::moments::RowMemory;
use super::parts::Parts;
use super::row_moments::{derive_keys, row_numbers};

/// Keys from which on temperatures come from moments of keys, and three times as many where queries see half of them:
/// the moments cost as much as a hundred or two further keys, and the scores of fewer keys fit the cache.
pub(super) const MOMENTS: usize = 1024;

/// Keys up to which a row's scores are kept nevertheless: the temperature of a few keys may be small, and its
/// derivative large.
pub(super) const FEW: usize = 256;

/// Moments of keys in the scratch that all workers share.
#[derive(Clone, Copy)]
pub(super) struct KeyMoments {
    /// The element where the numbers of rows begin.
    pub(super) first: usize,
}

impl KeyMoments {
    /// The numbers of the rows of a head.
    pub(super) fn rows(&self, all: &Heads, w: &Work<'_>, (b, h): (usize, usize)) -> RowMemory {
        let AttentionSizes {
            heads, queries, head, ..
        } = all.sizes;
        let before = (b * heads + h) * RowMemory::scratch(queries, head);
        let first = w.shared.cast::<f32>().wrapping_add(self.first + before);
        RowMemory::new(first, queries, head)
    }

    /// The round that computes temperatures from moments of keys, before the blocks of queries, and the round that adds
    /// the shares of the temperatures to the derivatives of keys, after the blocks of queries.
    pub(super) fn rounds(self, all: &Heads, parts: &Parts, strides: &[Vec<usize>]) -> [Round; 2] {
        [false, true].map(|after| {
            let (all, parts, strides) = (all.clone(), parts.clone(), strides.to_vec());
            let tasks = parts.pairs;
            let AttentionSizes {
                heads,
                kv_heads,
                queries,
                ..
            } = all.sizes;
            let run: TaskFn = Box::new(move |w, pair| {
                let (b, kv) = (pair / kv_heads, pair % kv_heads);
                let scratch = w.scratch.cast();
                for h in kv * (heads / kv_heads)..(kv + 1) * (heads / kv_heads) {
                    let head = all.head(w, &strides, (b, h), &(0..queries));
                    let rows = self.rows(&all, w, (b, h));
                    let Some(norm) = all.norm(w, h) else {
                        continue;
                    };
                    // SAFETY: see `Work`; a task has heads of its own, and its worker has the scratch.
                    unsafe {
                        if after {
                            let dk = parts.output(w, 0, pair);
                            derive_keys(&head, norm.temperature.centered, queries, rows, dk, scratch);
                        } else {
                            row_numbers(&head, norm, queries, rows, scratch);
                        }
                    }
                }
            });
            Round { tasks, run }
        })
    }
}
