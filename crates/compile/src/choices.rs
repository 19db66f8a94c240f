//! Nested sets of values to recompute, for graphs of many values that cannot be cut into blocks.

use crate::passes::remat::Forward;
use crate::passes::{Packed, Recompute, remat};

/// Forward values that backward could recompute.
pub(crate) struct Choices {
    /// Values that need no matrix product.
    free: Vec<Recompute>,
    /// Values that need matrix products, the cheapest per byte first.
    priced: Vec<Recompute>,
}

impl Choices {
    /// The choices of a graph, of which backward keeps some values as bits; none for a graph without backward phase.
    pub fn of(forward: &Forward<'_>, bits: &[Packed]) -> Choices {
        if !remat::trains(forward.graph) {
            return Choices {
                free: Vec::new(),
                priced: Vec::new(),
            };
        }
        Choices {
            free: remat::free(forward),
            priced: remat::priced(forward, bits),
        }
    }

    /// Sets of values, no more than about `most` of them: all free values and the first priced ones, and no value at
    /// all, since the operands of a recomputation may take more memory than it frees.
    pub fn sets(&self, most: usize) -> Vec<Vec<Recompute>> {
        let (all, step) = (self.priced.len(), self.priced.len().div_ceil(most).max(1));
        let counts = (0..all).step_by(step).chain([all]);
        let mut sets: Vec<Vec<Recompute>> = vec![Vec::new()];
        sets.extend(counts.map(|count| [&self.free, &self.priced[..count]].concat()));
        sets.dedup_by_key(|set| set.len());
        sets
    }
}
