//! The group of a step that a function computes.

use lessen_graph::{DType, Ranks, Tensor};

use super::Cx;
use crate::names::SHARE;

impl Cx {
    /// Makes the function compute one group of a step, a rank among the others.
    pub fn with_ranks(self, ranks: Ranks) -> Cx {
        self.but(|inner| inner.ranks = ranks)
    }

    /// The group of a step's micro-batches that this function computes, as a rank with one leaf among the groups, for
    /// [operations of several ranks](lessen_graph::ops::collective); alone in all functions but steps that are cut into
    /// groups. Where a function has such operations, all groups of a process run side by side.
    pub fn ranks(self) -> Ranks {
        self.inner().ranks
    }

    /// Whether the group that this function computes has a micro-batch in the step, `bool[]`: one with a share in the
    /// loss. Where the data ends within a step, zeros take the place of those that are missing.
    #[track_caller]
    pub fn has_batch(self) -> Tensor {
        let share = self.reserved_input(SHARE, DType::F32, &[]);
        share.ne(share.scalar_like(0.0))
    }
}
