//! Pieces of tensors: reduce-scatter and all-gather, each of which is the derivative of the other.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::collective::all_reduce::{all_reduce, sums_of_subtrees};
use crate::ops::concat::concat;
use crate::ranks::Ranks;
use crate::tensor::Tensor;
use crate::types::{Type, numel};

/// The elements of the sum over all leaves that this rank owns, `[n]`; see [`Ranks::owned`]. Inputs: the sums of the
/// rank's subtrees, from left to right, of one type.
#[derive(Clone, PartialEq, Debug)]
pub struct ReduceScatter {
    /// The number of this rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of leaves.
    pub leaves: usize,
    /// Elements at whose multiples pieces begin.
    pub block: usize,
}

named!("reduce_scatter": ReduceScatter { rank, ranks, leaves, block });

impl ReduceScatter {
    fn of(&self) -> Ranks {
        Ranks {
            rank: self.rank,
            count: self.ranks,
            leaves: self.leaves,
        }
    }
}

impl Op for ReduceScatter {
    named!();

    facts! {
        never_in_place;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let ty = self.of().type_of_sums(inputs)?;
        let owned = self.of().owned(ty.numel(), self.block);
        Ok(vec![Type::new(ty.dtype, &[owned.len()])])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        (self.ranks == 1).then(|| vec![inputs[0].reshape(&[inputs[0].ty().numel()])])
    }

    fn ranks(&self) -> Option<Ranks> {
        Some(self.of())
    }

    fn eval_ranks(&self, inputs: &[Vec<&Array>], outputs: &[Vec<Type>]) -> Vec<Vec<Array>> {
        let sum = self.of().sum(inputs);
        let owned = |rank| self.of().of_rank(rank).owned(sum.len(), self.block);
        let own = outputs.iter().enumerate();
        own.map(|(rank, own)| vec![Array::new(own[0].clone(), sum[owned(rank)].to_vec())])
            .collect()
    }

    fn of_leaves(&self, inputs: &[Vec<Tensor>], ranks: Ranks) -> Vec<Vec<Tensor>> {
        let count = inputs[0][0].ty().numel();
        let own = inputs.iter().map(|own| own[0]).collect();
        let piece = reduce_scatter(&sums_of_subtrees(own, ranks), ranks, self.block);
        let start = ranks.owned(count, self.block).start;
        let of_leaf = |leaf| {
            let own = ranks.of_leaf(leaf).owned(count, self.block);
            vec![piece.slice(0, own.start - start, own.len())]
        };
        ranks.own_leaves().map(of_leaf).collect()
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let shape = cx.inputs[0].shape();
        let whole = cx.cotangents[0].map(|dy| all_gather(dy, &shape, self.of(), self.block));
        cx.wanted.iter().map(|wanted| whole.filter(|_| *wanted)).collect()
    }
}

/// The elements of the sum over all leaves that this rank owns, `[n]`: `sums` are those of this rank's subtrees, from
/// left to right. Pieces begin at multiples of `block` elements.
///
/// # Panics
/// If there are other than as many sums as subtrees, or sums of several types.
#[track_caller]
pub fn reduce_scatter(sums: &[Tensor], ranks: Ranks, block: usize) -> Tensor {
    let Some(first) = sums.first() else {
        crate::mistakes::fail_in_thread("a reduce-scatter of no sums has no type; give it at least one");
    };
    let op = ReduceScatter {
        rank: ranks.rank,
        ranks: ranks.count,
        leaves: ranks.leaves,
        block,
    };
    first.trace().apply1(op, sums)
}

/// A tensor of which each rank owns elements; see [`Ranks::owned`]. Input: those of this rank, `[n]`.
#[derive(Clone, PartialEq, Debug)]
pub struct AllGather {
    /// The number of this rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of leaves, by which the tensor is cut into pieces.
    pub leaves: usize,
    /// Elements at whose multiples pieces begin.
    pub block: usize,
    /// The shape of the whole tensor.
    pub shape: Vec<usize>,
    /// How often the piece has been gathered before, so that a later turn is no common subexpression of the first.
    pub turn: usize,
}

named!("all_gather": AllGather { rank, ranks, leaves, block, shape, turn });

impl AllGather {
    fn of(&self) -> Ranks {
        Ranks {
            rank: self.rank,
            count: self.ranks,
            leaves: self.leaves,
        }
    }
}

impl Op for AllGather {
    named!();

    facts! {
        never_in_place;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        let ranks = self.of();
        ranks.check()?;
        let [piece] = inputs else {
            return Err(Error::user("needs the piece of this rank alone"));
        };
        let whole = Type::sized(piece.dtype, &self.shape)?;
        let owned = ranks.owned(whole.numel(), self.block).len();
        if *piece.shape != [owned] {
            return Err(Error::user(format!(
                "rank {} of {} has {owned} elements of {whole}, not {piece}",
                self.rank, self.ranks
            )));
        }
        Ok(vec![whole])
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        (self.ranks == 1).then(|| vec![inputs[0].reshape(&self.shape)])
    }

    fn ranks(&self) -> Option<Ranks> {
        Some(self.of())
    }

    fn eval_ranks(&self, inputs: &[Vec<&Array>], outputs: &[Vec<Type>]) -> Vec<Vec<Array>> {
        let whole: Vec<f64> = inputs.iter().flat_map(|own| own[0].data.iter().copied()).collect();
        let own = outputs
            .iter()
            .map(|own| vec![Array::new(own[0].clone(), whole.clone())]);
        own.collect()
    }

    fn of_leaves(&self, inputs: &[Vec<Tensor>], ranks: Ranks) -> Vec<Vec<Tensor>> {
        let own: Vec<Tensor> = inputs.iter().map(|own| own[0]).collect();
        let piece = concat(&own, 0);
        let op = AllGather {
            rank: ranks.rank,
            ranks: ranks.count,
            leaves: ranks.leaves,
            ..self.clone()
        };
        vec![vec![piece.trace().apply1(op, &[piece])]; inputs.len()]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let Some(dy) = cx.cotangents[0].filter(|_| cx.wanted[0]) else {
            return vec![None];
        };
        let ranks = self.of();
        let owned = ranks.owned(numel(&self.shape), self.block);
        // Every rank gives one cotangent, and owns what it has given a piece of.
        if ranks.leaves == ranks.count {
            return vec![Some(reduce_scatter(&[dy], ranks, self.block))];
        }
        let sum = all_reduce(&[dy], ranks.with_leaf_each());
        vec![Some(sum.reshape(&[numel(&self.shape)]).slice(
            0,
            owned.start,
            owned.len(),
        ))]
    }
}

/// The tensor of this shape of which each rank owns elements; `piece` has those of this rank, `[n]`.
///
/// # Panics
/// If the piece has another number of elements than [`Ranks::owned`] says.
#[track_caller]
pub fn all_gather(piece: Tensor, shape: &[usize], ranks: Ranks, block: usize) -> Tensor {
    let op = AllGather {
        rank: ranks.rank,
        ranks: ranks.count,
        leaves: ranks.leaves,
        block,
        shape: shape.to_vec(),
        turn: 0,
    };
    piece.trace().apply1(op, &[piece])
}
