//! All-reduce: the sum of what all ranks have, on each of them.

use lessen_base::Result;
use lessen_base::tree::{Accumulator, Tree};

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ranks::Ranks;
use crate::tensor::Tensor;
use crate::types::Type;

/// The sum over all leaves, on every rank. Inputs: the sums of the rank's subtrees, from left to right, of one type.
#[derive(Clone, PartialEq, Debug)]
pub struct AllReduce {
    /// The number of this rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of leaves.
    pub leaves: usize,
}

named!("all_reduce": AllReduce { rank, ranks, leaves });

impl AllReduce {
    /// The all-reduce of a rank.
    pub fn new(ranks: Ranks) -> AllReduce {
        AllReduce {
            rank: ranks.rank,
            ranks: ranks.count,
            leaves: ranks.leaves,
        }
    }

    fn of(&self) -> Ranks {
        Ranks {
            rank: self.rank,
            count: self.ranks,
            leaves: self.leaves,
        }
    }
}

impl Op for AllReduce {
    named!();

    facts! {
        never_in_place;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(vec![self.of().type_of_sums(inputs)?])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        (self.ranks == 1).then(|| vec![inputs[0]])
    }

    fn ranks(&self) -> Option<Ranks> {
        Some(self.of())
    }

    fn eval_ranks(&self, inputs: &[Vec<&Array>], outputs: &[Vec<Type>]) -> Vec<Vec<Array>> {
        let sum = self.of().sum(inputs);
        let own = outputs.iter().map(|own| vec![Array::new(own[0].clone(), sum.clone())]);
        own.collect()
    }

    fn of_leaves(&self, inputs: &[Vec<Tensor>], ranks: Ranks) -> Vec<Vec<Tensor>> {
        let own = inputs.iter().map(|own| own[0]).collect();
        let sum = all_reduce(&sums_of_subtrees(own, ranks), ranks);
        vec![vec![sum]; inputs.len()]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let sum = cx.cotangents[0].map(|dy| all_reduce(&[dy], self.of().with_leaf_each()));
        cx.wanted.iter().map(|wanted| sum.filter(|_| *wanted)).collect()
    }
}

/// The sums over the subtrees of a rank, from left to right, of tensors of its leaves.
///
/// # Panics
/// If they have several types.
#[track_caller]
pub fn sums_of_subtrees(own: Vec<Tensor>, ranks: Ranks) -> Vec<Tensor> {
    let mut sums = Accumulator::new(Tree::new(ranks.leaves));
    for (leaf, value) in ranks.own_leaves().zip(own) {
        sums.push(leaf..leaf + 1, value, |left, right| *left = *left + right);
    }
    sums.into_sums().into_iter().map(|(_, sum)| sum).collect()
}

/// The sum over all leaves on every rank: `sums` are those of this rank's subtrees, from left to right.
///
/// # Panics
/// If there are other than as many sums as subtrees, or sums of several types.
#[track_caller]
pub fn all_reduce(sums: &[Tensor], ranks: Ranks) -> Tensor {
    let Some(first) = sums.first() else {
        crate::mistakes::fail_in_thread("an all-reduce of no sums has no type; give it at least one");
    };
    first.trace().apply1(AllReduce::new(ranks), sums)
}
