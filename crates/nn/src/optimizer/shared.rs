//! Updates that several ranks share (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
//! Parameter Models", stage 1): the sum of a large parameter's gradients is scattered, each rank updates its piece of
//! the parameter and holds the optimizer's states of that piece alone, and the pieces are gathered. Small parameters,
//! and those whose update is not elementwise, are updated by every rank.

use std::collections::BTreeSet;
use std::ops::Range;

use lessen_base::tree::{Tree, part};
use lessen_graph::ops::block_codes::BLOCK;
use lessen_graph::ops::clip::root_of_squares;
use lessen_graph::{DType, Ranks, Tensor, Type, all_gather, all_reduce, concat, numel, reduce_scatter};

use super::centring::less_means;
use super::config::OptimizerConfig;
use super::rule::UpdateRule;
use crate::context::Cx;
use crate::names::{held_sum_of, waiting_sum_of};
use crate::params::{ParamSpec, StateSpec};

/// The least elements of a piece. A piece has as many codes as blocks where the whole parameter has.
const LEAST: usize = 4096;

/// Elements of small parameters whose gradients share a message: 1 MiB of them.
const TOGETHER: usize = 1 << 18;

/// A parameter of an update.
pub(super) struct Target {
    pub param: ParamSpec,
    /// A factor of its learning rate.
    pub factor: f64,
    /// The elements that this rank updates; none for the whole.
    pub piece: Option<Range<usize>>,
}

/// A state of an optimizer of which each rank has a piece.
#[derive(Clone, PartialEq, Debug)]
pub struct StateInPieces {
    /// Its name on the device.
    pub name: String,
    /// The type of the whole state.
    pub whole: Type,
    /// Elements at whose multiples pieces begin; see [`Ranks::owned`].
    pub block: usize,
}

impl UpdateRule {
    /// The ranks that share the update, where this one is not alone.
    fn others(&self) -> Option<Ranks> {
        self.ranks.filter(|ranks| ranks.count > 1)
    }

    /// Whether several ranks share the update.
    pub fn is_shared(&self) -> bool {
        self.others().is_some()
    }

    /// Whether a parameter is cut into a piece for each leaf, which does not depend on the number of ranks.
    fn is_cut(&self, param: &ParamSpec) -> bool {
        let least = LEAST.max(self.block_of(param));
        let is_large = |ranks: Ranks| numel(&param.shape) / ranks.leaves >= least;
        // Means along the last axis are those of rows, which pieces have as wholes.
        let has_rows = |axes: &BTreeSet<usize>| axes.iter().all(|axis| axis + 1 == param.shape.len());
        let is_elementwise = !matches!(self.group_of(&param.name).1, OptimizerConfig::Adafactor { .. })
            && self.algorithm_of(&param.name).is_none()
            && self.centred.get(&param.name).is_none_or(has_rows);
        self.ranks.is_some_and(is_large) && is_elementwise
    }

    /// The elements at whose multiples the pieces of a parameter begin: blocks of codes, and whole rows where these are
    /// recentred.
    pub fn block_of(&self, param: &ParamSpec) -> usize {
        let row = self.centred.get(&param.name).and(param.shape.last());
        row.map_or(BLOCK, |row| least_common_multiple(BLOCK, (*row).max(1)))
    }

    /// The elements of a parameter that this rank updates; none where each rank updates the whole.
    pub fn piece_of(&self, param: &ParamSpec) -> Option<Range<usize>> {
        let ranks = self.others().filter(|_| self.is_cut(param))?;
        Some(ranks.owned(numel(&param.shape), self.block_of(param)))
    }

    /// The states of which this rank has a piece, with their whole types.
    pub fn states_in_pieces(&self, params: &[ParamSpec]) -> Vec<StateInPieces> {
        let cut = params
            .iter()
            .filter(|param| self.trains(param) && self.piece_of(param).is_some());
        let states = cut.flat_map(|param| {
            let block = self.block_of(param);
            let states = self.group_of(&param.name).1.states(&param.shape).into_iter();
            states.map(move |(what, whole)| StateInPieces {
                name: self.state_of(what, &param.name),
                // A scale is of a block of codes.
                block: if whole.numel() == numel(&param.shape) {
                    block
                } else {
                    block / BLOCK
                },
                whole,
            })
        });
        states.collect()
    }
}

/// The least number that both divide.
fn least_common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}

impl Target {
    /// A gradient or a new value of this target less its means along the axes of the parameter.
    pub fn less_means(&self, x: Tensor, axes: &BTreeSet<usize>) -> Tensor {
        let row = self.param.shape.last().copied().unwrap_or(1);
        match &self.piece {
            None => less_means(x, axes),
            Some(piece) => {
                let rows = x.reshape(&[piece.len() / row, row]);
                less_means(rows, &BTreeSet::from([1])).reshape(&[piece.len()])
            }
        }
    }

    /// The whole parameter.
    pub fn whole(&self, cx: Cx) -> Tensor {
        cx.trace().tensor(self.param.value)
    }

    /// What is updated: the parameter, or a piece of it as a parameter.
    pub fn updated(&self, cx: Cx) -> ParamSpec {
        let Some(piece) = &self.piece else {
            return self.param.clone();
        };
        let flat = self.whole(cx).reshape(&[numel(&self.param.shape)]);
        ParamSpec {
            value: flat.slice(0, piece.start, piece.len()).id(),
            shape: vec![piece.len()],
            ..self.param.clone()
        }
    }

    /// The whole parameter from what was updated.
    pub fn gathered(&self, new: Tensor, rule: &UpdateRule) -> Tensor {
        match rule.others().filter(|_| self.piece.is_some()) {
            Some(ranks) => all_gather(new, &self.param.shape, ranks, rule.block_of(&self.param)),
            None => new,
        }
    }
}

/// The sums of a parameter's gradients over the subtrees of this rank: those that are held, and `last`.
pub(super) fn sums(cx: Cx, target: &Target, last: Tensor, rule: &UpdateRule) -> Vec<Tensor> {
    let held = rule.others().map_or(0, |ranks| ranks.subtrees().len() - 1);
    let state = rule.gradient_state(&target.param);
    let held = (0..held).map(|slot| cx.state(&held_sum_of(&state.name, slot), &state.ty()));
    held.chain([last]).collect()
}

/// The gradients of an update, from the sums of all ranks: of pieces where a target has one. Those of small parameters
/// share messages.
pub(super) fn gradients(targets: &[Target], sums: &[Vec<Tensor>], rule: &UpdateRule) -> Vec<Tensor> {
    let Some(ranks) = rule.others() else {
        return sums.iter().flatten().copied().collect();
    };
    let mut found = Vec::with_capacity(targets.len());
    let (mut together, mut elements) = (Vec::new(), 0);
    for (place, (target, sums)) in targets.iter().zip(sums).enumerate() {
        if target.piece.is_some() {
            found.push((place, reduce_scatter(sums, ranks, rule.block_of(&target.param))));
            continue;
        }
        elements += numel(&target.param.shape);
        together.push((place, sums.as_slice()));
        if elements >= TOGETHER {
            found.extend(reduced(std::mem::take(&mut together), ranks));
            elements = 0;
        }
    }
    found.extend(reduced(together, ranks));
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, gradient)| gradient).collect()
}

/// The sums over all ranks of gradients that share a message.
fn reduced(gradients: Vec<(usize, &[Tensor])>, ranks: Ranks) -> Vec<(usize, Tensor)> {
    if let [(place, sums)] = gradients.as_slice() {
        return vec![(*place, all_reduce(sums, ranks))];
    }
    let Some((_, first)) = gradients.first() else {
        return Vec::new();
    };
    let flat = |tensor: &Tensor| tensor.reshape(&[tensor.ty().numel()]);
    let joined = |at: usize| {
        let parts: Vec<Tensor> = gradients.iter().map(|(_, sums)| flat(&sums[at])).collect();
        concat(&parts, 0)
    };
    let joined: Vec<Tensor> = (0..first.len()).map(joined).collect();
    let sum = all_reduce(&joined, ranks);
    let mut start = 0;
    let part = |(place, sums): &(usize, &[Tensor])| {
        let (from, count) = (start, sums[0].ty().numel());
        start += count;
        (*place, sum.slice(0, from, count).reshape(&sums[0].shape()))
    };
    gradients.iter().map(part).collect()
}

/// The state with a sum of gradients that waits for its update: of the piece where the target has one.
pub(super) fn waiting(target: &Target, rule: &UpdateRule) -> StateSpec {
    let sum = rule.gradient_state(&target.param);
    StateSpec {
        name: waiting_sum_of(&sum.name),
        shape: target.piece.as_ref().map_or(sum.shape, |piece| vec![piece.len()]),
        dtype: sum.dtype,
    }
}

/// Whether something holds on all ranks.
pub(super) fn on_all(own: Tensor, rule: &UpdateRule) -> Tensor {
    let Some(ranks) = rule.others() else {
        return own;
    };
    let holds = all_reduce(&[own.cast(DType::F32)], ranks.with_leaf_each());
    holds.ge(holds.scalar_like(ranks.count as f64))
}

/// The norm of all gradients. Parameters that are cut add a number for each piece, and the pieces are added by the tree
/// of the leaves, so that no bit depends on the number of ranks.
pub(super) fn norm(targets: &[Target], gradients: &[Tensor], rule: &UpdateRule) -> Tensor {
    let squares = |tensor: Tensor| (tensor * tensor).sum();
    let is_cut = |target: &Target| rule.is_cut(&target.param);
    let both = targets.iter().zip(gradients);
    let (cut, whole): (Vec<_>, Vec<_>) = both.partition(|(target, _)| is_cut(target));
    let whole = whole.into_iter().map(|(_, gradient)| squares(*gradient));
    let whole = whole.reduce(|sum, more| sum + more);
    let ranks = rule.ranks.filter(|_| !cut.is_empty());
    let pieces = ranks.map(|ranks| {
        let own = part(ranks.leaves, ranks.count, ranks.rank).map(|leaf| {
            let of_leaf = cut.iter().map(|(target, gradient)| {
                let count = numel(&target.param.shape);
                let block = rule.block_of(&target.param);
                let start = ranks.owned(count, block).start;
                let piece = ranks.of_leaf(leaf).owned(count, block);
                let flat = gradient.reshape(&[gradient.ty().numel()]);
                squares(flat.slice(0, piece.start - start, piece.len()))
            });
            of_leaf.reduce(|sum, more| sum + more)
        });
        let own: Vec<Tensor> = own.flatten().map(|sum| sum.reshape(&[1])).collect();
        let own = concat(&own, 0);
        let all = rule
            .others()
            .map_or(own, |ranks| all_gather(own, &[ranks.leaves], ranks, 1));
        let leaves = (0..ranks.leaves).map(|leaf| all.slice(0, leaf, 1).reshape(&[]));
        Tree::new(ranks.leaves).sum(leaves, |left, right| *left = *left + right)
    });
    let both = [whole, pieces.flatten()].into_iter().flatten();
    match both.reduce(|sum, more| sum + more) {
        Some(squares) => root_of_squares(squares),
        None => lessen_graph::global_norm(gradients),
    }
}
