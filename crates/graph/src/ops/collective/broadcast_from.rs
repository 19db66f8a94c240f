//! Broadcast between ranks: the value of one rank on each of them.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Op, Vjp};
use crate::ops::collective::all_reduce::all_reduce;
use crate::ranks::Ranks;
use crate::tensor::Tensor;
use crate::types::Type;

/// The input of the rank `root` on every rank; the inputs of others are left out.
#[derive(Clone, PartialEq, Debug)]
pub struct BroadcastFrom {
    /// The number of this rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The rank whose input is given to all.
    pub root: usize,
}

named!("broadcast_from": BroadcastFrom { rank, ranks, root });

impl BroadcastFrom {
    fn of(&self) -> Ranks {
        Ranks {
            rank: self.rank,
            count: self.ranks,
            leaves: self.ranks,
        }
    }
}

impl Op for BroadcastFrom {
    named!();

    facts! {
        never_in_place;
        no_flops;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        self.of().check()?;
        if self.root >= self.ranks || inputs.len() != 1 {
            return Err(Error::user(format!(
                "needs one input, and a root among {} ranks, which {} is not",
                self.ranks, self.root
            )));
        }
        Ok(inputs.to_vec())
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        (self.ranks == 1).then(|| vec![inputs[0]])
    }

    fn ranks(&self) -> Option<Ranks> {
        Some(self.of())
    }

    fn eval_ranks(&self, inputs: &[Vec<&Array>], outputs: &[Vec<Type>]) -> Vec<Vec<Array>> {
        vec![vec![inputs[self.root][0].clone()]; outputs.len()]
    }

    fn of_leaves(&self, inputs: &[Vec<Tensor>], ranks: Ranks) -> Vec<Vec<Tensor>> {
        let parts = (0..ranks.count).map(|rank| ranks.of_rank(rank).own_leaves());
        let root = parts.take_while(|own| own.end <= self.root).count();
        let place = self.root.saturating_sub(ranks.own_leaves().start);
        let own = inputs.get(place).unwrap_or(&inputs[0]);
        vec![vec![broadcast_from(own[0], root, ranks)]; inputs.len()]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let Some(dy) = cx.cotangents[0].filter(|_| cx.wanted[0]) else {
            return vec![None];
        };
        // Every rank takes part in the sum, of which those beside the root have nothing.
        let share = if self.rank == self.root { 1.0 } else { 0.0 };
        vec![Some(all_reduce(&[dy], self.of()) * share)]
    }
}

/// The value of the rank `root` on every rank.
///
/// # Panics
/// If there is no such rank.
#[track_caller]
pub fn broadcast_from(x: Tensor, root: usize, ranks: Ranks) -> Tensor {
    let op = BroadcastFrom {
        rank: ranks.rank,
        ranks: ranks.count,
        root,
    };
    x.trace().apply1(op, &[x])
}
