//! Nested sets of recomputed values, for graphs of many values that cannot be cut into blocks.

use crate::passes::remat::Forward;
use crate::passes::{Packed, Recompute, remat};

/// Forward values that backward could recompute.
pub(crate) struct NestedSets {
    /// Values that are recomputed without a matrix product.
    free: Vec<Recompute>,
    /// Values that are recomputed with matrix products or long chains, the cheapest per byte first.
    priced: Vec<Recompute>,
}

impl NestedSets {
    /// The candidates of a graph; none for a graph without backward phase. `bits` are values that backward reads as
    /// bits.
    pub fn of(forward: &Forward<'_>, bits: &[Packed]) -> NestedSets {
        if !remat::trains(forward.graph) {
            return NestedSets {
                free: Vec::new(),
                priced: Vec::new(),
            };
        }
        NestedSets {
            free: remat::free(forward),
            priced: remat::priced(forward, bits),
        }
    }

    /// About `most` sets: all free values with the first priced ones, and the empty set, since the operands of a
    /// recomputation may take more memory than it frees.
    pub fn sets(&self, most: usize) -> Vec<Vec<Recompute>> {
        let (all, step) = (self.priced.len(), self.priced.len().div_ceil(most).max(1));
        let counts = (0..all).step_by(step).chain([all]);
        let mut sets: Vec<Vec<Recompute>> = vec![Vec::new()];
        sets.extend(counts.map(|count| [&self.free, &self.priced[..count]].concat()));
        sets.dedup_by_key(|set| set.len());
        sets
    }
}
