//! A rank among those that compute together, and what it has of a tensor.

use std::ops::Range;

use lessen_base::tree::{Accumulator, Tree, part};
use lessen_base::{Error, Result};

use crate::array::Array;
use crate::types::Type;

/// A rank among those that compute together, and the leaves of the tree by which they add.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ranks {
    /// The number of this rank, `0..count`.
    pub rank: usize,
    /// The number of ranks.
    pub count: usize,
    /// The number of leaves, at least as many as ranks.
    pub leaves: usize,
}

impl Ranks {
    /// A rank without others.
    pub const ALONE: Ranks = Ranks {
        rank: 0,
        count: 1,
        leaves: 1,
    };

    /// These ranks, each with one leaf.
    pub fn with_leaf_each(self) -> Ranks {
        Ranks {
            leaves: self.count,
            ..self
        }
    }

    /// Ranks of one leaf each, of which this is number `leaf`.
    pub fn of_leaf(self, leaf: usize) -> Ranks {
        Ranks {
            rank: leaf,
            count: self.leaves,
            ..self
        }
    }

    /// The same ranks as seen by another one.
    pub fn of_rank(self, rank: usize) -> Ranks {
        Ranks { rank, ..self }
    }

    /// The leaves of this rank.
    pub fn own_leaves(self) -> Range<usize> {
        part(self.leaves, self.count, self.rank)
    }

    /// The subtrees of the leaves of this rank, from left to right.
    pub fn subtrees(self) -> Vec<Range<usize>> {
        Tree::new(self.leaves).subtrees(self.own_leaves())
    }

    /// The elements of a tensor of `count` elements that this rank owns. A tensor is cut into a piece for each leaf, at
    /// multiples of `block` elements, and a rank owns the pieces of its leaves: the borders of pieces do not depend on
    /// the number of ranks.
    pub fn owned(self, count: usize, block: usize) -> Range<usize> {
        let block = block.max(1);
        let border = |leaf: usize| match leaf {
            0 => 0,
            leaf => part(count.div_ceil(block), self.leaves, leaf - 1)
                .end
                .saturating_mul(block)
                .min(count),
        };
        let own = self.own_leaves();
        border(own.start)..border(own.end)
    }

    /// Checks that there is such a rank.
    pub(crate) fn check(self) -> Result<()> {
        if self.rank < self.count && self.count <= self.leaves {
            return Ok(());
        }
        Err(Error::user(format!(
            "there is no rank {} of {} with a part of {} leaves",
            self.rank, self.count, self.leaves
        )))
    }

    /// The type of the sums that this rank gives, one for each of its subtrees.
    pub(crate) fn type_of_sums(self, inputs: &[Type]) -> Result<Type> {
        self.check()?;
        let wanted = self.subtrees().len();
        match inputs {
            [first, ..] if inputs.len() == wanted && inputs.iter().all(|ty| ty == first) && first.dtype.is_float() => {
                Ok(first.clone())
            }
            _ => Err(Error::user(format!(
                "rank {} of {} gives {wanted} sums of floats of one type, not {inputs:?}",
                self.rank, self.count
            ))),
        }
    }

    /// The sum over all leaves of what the ranks give, in `f64`.
    pub(crate) fn sum(self, inputs: &[Vec<&Array>]) -> Vec<f64> {
        let mut sums = Accumulator::new(Tree::new(self.leaves));
        for (rank, own) in inputs.iter().enumerate() {
            for (node, array) in self.of_rank(rank).subtrees().into_iter().zip(own) {
                let dtype = array.ty.dtype;
                sums.push(node, array.data.clone(), |left, right| {
                    left.iter_mut().zip(right).for_each(|(x, y)| *x = dtype.round(*x + y));
                });
            }
        }
        sums.into_sums().pop().map(|(_, sum)| sum).unwrap_or_default()
    }
}
