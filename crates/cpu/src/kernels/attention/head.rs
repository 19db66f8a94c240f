//! One head of attention: a sequence of queries, one of keys and values, and the rules between them.

use std::ops::Range;

use lessen_graph::ops::Weighting;

use super::super::rows::Rows;
use super::fire::FireHead;
use super::query_block::QueryBlock;

/// One head.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Number of keys.
    pub(super) keys: usize,
    /// Size of a query and of a key.
    pub(super) d: usize,
    /// Size of a value.
    pub(super) dv: usize,
    pub(super) q: Rows<f32>,
    pub(super) k: Rows<f32>,
    pub(super) v: Rows<f32>,
    /// Factor of products of queries and keys.
    pub(super) scale: f32,
    /// How scores become weights.
    pub(super) weighting: Weighting,
    /// Bias of scores by position.
    pub(super) bias: Bias,
    /// Whether a query sees no later key.
    pub(super) causal: bool,
    /// The position of query 0 among the keys.
    pub(super) first: i64,
    /// For each key its norm, where tiles may be skipped; null otherwise.
    pub(super) key_norms: *const f32,
    /// For each key, whether it is visible (not 0); null if all are.
    pub(super) mask: *const u8,
    /// Dropout of the weights.
    pub(super) dropout: Option<WeightDropout>,
}

/// Bias of scores by position.
#[derive(Clone, Copy)]
pub(super) enum Bias {
    /// Nothing.
    None,
    /// `-slope |p - j|`
    Alibi { slope: f32 },
    /// Tables of FIRE.
    Fire(FireHead),
}

/// Dropout of a head's weights: that of query `i` and key `j` has the index `first + i row + j`; see
/// [`dropout`](crate::kernels::elementwise::random::dropout).
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightDropout {
    /// Probability of zero.
    pub(super) p: f64,
    /// The stream of random bits.
    pub(super) stream: u32,
    /// Their key.
    pub(super) key: [u32; 2],
    /// Index of the head's first weight.
    pub(super) first: u64,
    /// Indices from one query to the next.
    pub(super) row: u64,
}

impl Head {
    /// The keys that queries up to `i` see, but for the mask: the first this many.
    pub(super) fn visible(&self, i: usize) -> usize {
        if self.causal {
            (i as i64 + 1 + self.first).clamp(0, self.keys as i64) as usize
        } else {
            self.keys
        }
    }

    /// The keys that some query of a block sees, but for the mask.
    pub(super) fn visible_to(&self, block: QueryBlock) -> usize {
        self.visible(block.first + block.n - 1)
    }

    /// Number of the keys in `keys` that the mask shows.
    pub(super) fn shown(&self, keys: Range<usize>) -> usize {
        if self.mask.is_null() {
            return keys.len();
        }
        // SAFETY: the mask has a byte for each key.
        keys.filter(|&key| unsafe { *self.mask.add(key) } != 0).count()
    }

    /// The lanes of a block that see key `j`, but for the mask.
    pub(super) fn lanes_that_see(&self, block: QueryBlock, key: usize) -> (usize, usize) {
        let hidden = key as i64 - self.first - block.first as i64;
        let from = if self.causal {
            hidden.clamp(0, block.n as i64)
        } else {
            0
        };
        (from as usize, block.n)
    }
}
