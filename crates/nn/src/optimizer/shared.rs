//! Updates that several ranks share (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
//! Parameter Models", stage 1): the sum of a large parameter's gradients is scattered, each rank updates its piece of
//! the parameter and holds the optimizer's states of that piece alone, and the pieces are gathered. Small parameters,
//! and those whose update is not elementwise, are updated by every rank.

use std::ops::Range;

use lessen_base::tree::{Tree, part};
use lessen_graph::ops::block_codes::BLOCK;
use lessen_graph::ops::clip::root_of_squares;
use lessen_graph::{Ranks, Tensor, Type, all_gather, all_reduce, concat, numel, reduce_scatter};

use super::config::OptimizerConfig;
use super::rule::UpdateRule;
use crate::context::Cx;
use crate::names::held_sum_of;
use crate::params::ParamSpec;

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
        let is_large = |ranks: Ranks| numel(&param.shape) / ranks.leaves >= LEAST;
        let is_elementwise = !matches!(self.group_of(&param.name).1, OptimizerConfig::Adafactor { .. })
            && self.algorithm_of(&param.name).is_none()
            && !self.centred.contains_key(&param.name);
        self.ranks.is_some_and(is_large) && is_elementwise
    }

    /// The elements of a parameter that this rank updates; none where each rank updates the whole.
    pub fn piece_of(&self, param: &ParamSpec) -> Option<Range<usize>> {
        let ranks = self.others().filter(|_| self.is_cut(param))?;
        Some(ranks.owned(numel(&param.shape), BLOCK))
    }

    /// The states of which this rank has a piece, with their whole types.
    pub fn states_in_pieces(&self, params: &[ParamSpec]) -> Vec<StateInPieces> {
        let cut = params
            .iter()
            .filter(|param| self.trains(param) && self.piece_of(param).is_some());
        let states = cut.flat_map(|param| {
            let states = self.group_of(&param.name).1.states(&param.shape).into_iter();
            states.map(|(what, whole)| StateInPieces {
                name: self.state_of(what, &param.name),
                // A scale is of a block of codes.
                block: if whole.numel() == numel(&param.shape) { BLOCK } else { 1 },
                whole,
            })
        });
        states.collect()
    }
}

impl Target {
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
            Some(ranks) => all_gather(new, &self.param.shape, ranks, BLOCK),
            None => new,
        }
    }
}

/// The sums of each parameter's gradients over the subtrees of this rank: those that are held, and last the one to
/// which micro-batches add.
pub(super) fn sums(cx: Cx, targets: &[Target], rule: &UpdateRule) -> Vec<Vec<Tensor>> {
    let held = rule.others().map_or(0, |ranks| ranks.subtrees().len() - 1);
    let of_target = |target: &Target| {
        let state = rule.gradient_state(&target.param);
        let held = (0..held).map(|slot| held_sum_of(&state.name, slot));
        let names = held.chain([state.name.clone()]);
        names.map(|name| cx.state(&name, &state.ty())).collect()
    };
    targets.iter().map(of_target).collect()
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
            found.push((place, reduce_scatter(sums, ranks, BLOCK)));
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
                let start = ranks.owned(count, BLOCK).start;
                let piece = ranks.of_leaf(leaf).owned(count, BLOCK);
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
