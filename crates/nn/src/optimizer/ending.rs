//! The end of a step of several micro-batches: sums of gradients, and the update by them, or its delay to the next
//! step.

use lessen_graph::{DType, Phase, Tensor, sums_of_subtrees};

use super::group::{GroupResults, group};
use super::rule::UpdateRule;
use super::shared::{self, Target};
use super::{Update, is_finite, trained, update_with};
use crate::context::Cx;
use crate::names::{LOSS_BEFORE, held_sum_of};
use crate::params::ParamSpec;

/// How the micro-batches of a process end in a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Whether micro-batches before the last one add their gradients to sums.
    pub sums: bool,
    /// The slots whose sums are added to those of the last group, in order.
    pub added: Vec<usize>,
    /// Whether the update waits for the next step.
    pub waits: bool,
}

/// Adds the derivative of the last micro-batch of a process in a step, the sum of the gradients over all ranks, and the
/// update of this rank's pieces, so that a gradient is there from its computation to its sum alone (Jiang et al. 2021
/// merge gradient and update; here the sum over ranks is between them). Where the update waits, the sums do.
///
/// Declares the share of the micro-batch in the loss, [`SHARE`](crate::names::SHARE), and for a rule that skips updates
/// the sum of the losses before it, [`LOSS_BEFORE`], both `f32[]`.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn conclude(cx: Cx, loss: Tensor, rule: &UpdateRule, ending: &Ending) -> Update {
    let own = group(cx, loss, rule);
    let targets = last_first(cx, rule);
    cx.trace().in_phase(Phase::Update, || {
        let sums = targets.iter().zip(own.gradients).map(|(target, gradient)| {
            let sum = rule.gradient_state(&target.param);
            let own = match ending.sums {
                true => added_up(cx, target, rule) + gradient,
                // A sum begins with zero, which makes -0 to 0.
                false => gradient + 0.0,
            };
            let held = ending.added.iter().map(|slot| held_sum_of(&sum.name, *slot));
            let own = held.fold(own, |own, held| cx.state(&held, &sum.ty()) + own);
            shared::sums(cx, target, own, rule)
        });
        let sums = sums.collect();
        let finite = rule.skips_non_finite.then(|| {
            let before = cx.reserved_input(LOSS_BEFORE, DType::F32, &[]);
            is_finite(before).and(is_finite(own.loss))
        });
        ended(cx, (targets, sums), finite, rule, ending.waits)
    })
}

/// Adds the sum of the gradients of all groups of a process, which run side by side, over all ranks, and the update of
/// this rank's pieces, or where it waits the states with the sums. Groups are given in the order of the leaves.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn conclude_groups(cx: Cx, groups: &[GroupResults], rule: &UpdateRule, waits: bool) -> Update {
    let targets = last_first(cx, rule);
    cx.trace().in_phase(Phase::Update, || {
        let sums = (0..targets.len()).map(|target| {
            let own: Vec<Tensor> = groups.iter().map(|group| group.gradients[target]).collect();
            match rule.ranks {
                Some(ranks) => sums_of_subtrees(own, ranks),
                None => own,
            }
        });
        let sums = sums.collect();
        let finite = groups.iter().filter(|_| rule.skips_non_finite);
        let finite = finite.map(|group| is_finite(group.loss)).reduce(Tensor::and);
        ended(cx, (targets, sums), finite, rule, waits)
    })
}

/// The parameters that are trained, with the pieces of them that this rank updates, the last ones first: ranks add up
/// gradients in the order in which they are there.
#[track_caller]
fn last_first(cx: Cx, rule: &UpdateRule) -> Vec<Target> {
    let params = trained(cx, rule).into_iter().rev();
    let targets = params.map(|(param, factor)| Target {
        piece: rule.piece_of(&param),
        param,
        factor,
    });
    targets.collect()
}

/// Adds the update from the gradients that [`accumulate`](super::accumulate) has summed, and resets them to zero. Where
/// the rule has ranks, it is the update of [`conclude`] for a process whose micro-batches have ended before; without
/// any, its sums are zeros.
///
/// `params` are the parameters of the accumulating graph; this graph declares the trained ones again. Data inputs and
/// states are the same as in [`update`](super::update).
pub fn apply(cx: Cx, params: &[ParamSpec], rule: &UpdateRule, ending: &Ending) -> Update {
    let mut targets = targets(cx, params, rule);
    if rule.ranks.is_some() {
        targets.reverse();
    }
    cx.trace().in_phase(Phase::Update, || {
        let sums = targets.iter().map(|target| {
            let own = match ending.sums {
                true => added_up(cx, target, rule),
                // Constants of one shape would be one sum.
                false => target.whole(cx) * 0.0,
            };
            shared::sums(cx, target, own, rule)
        });
        let sums = sums.collect();
        let is_told = rule.skips_non_finite && rule.ranks.is_some();
        let finite = is_told.then(|| is_finite(cx.reserved_input(LOSS_BEFORE, DType::F32, &[])));
        ended(cx, (targets, sums), finite, rule, ending.waits)
    })
}

/// The update of a step before, by the sums that wait since its end.
pub fn update_waiting(cx: Cx, params: &[ParamSpec], rule: &UpdateRule) -> Update {
    let targets = targets(cx, params, rule);
    let waiting = targets.iter().map(|target| shared::waiting(target, rule));
    let gradients = waiting.map(|state| cx.state(&state.name, &state.ty())).collect();
    update_with(cx, (targets, gradients), None, rule)
}

/// What is told of accumulated gradients before their update, which waits for the next step: their norm, and whether
/// that is finite, where the rule needs them.
pub fn closing(cx: Cx, params: &[ParamSpec], rule: &UpdateRule) -> Update {
    let targets = targets(cx, params, rule);
    let sums = targets.iter().map(|target| rule.gradient_state(&target.param));
    let sums = sums.map(|sum| cx.state(&sum.name, &sum.ty())).collect();
    cx.trace().in_phase(Phase::Update, || told(&targets, sums, None, rule))
}

/// The parameters that are trained, declared again, with the pieces of them that this rank updates.
fn targets(cx: Cx, params: &[ParamSpec], rule: &UpdateRule) -> Vec<Target> {
    let declared = rule.trained(params.to_vec()).into_iter().map(|(param, factor)| Target {
        piece: rule.piece_of(&param),
        param: ParamSpec {
            value: cx.param(&param.name, &param.shape, param.init).id(),
            ..param
        },
        factor,
    });
    declared.collect()
}

/// The sum of a parameter's gradients over micro-batches, which is reset to zero.
fn added_up(cx: Cx, target: &Target, rule: &UpdateRule) -> Tensor {
    let state = rule.gradient_state(&target.param);
    let sum = cx.state(&state.name, &state.ty());
    cx.trace().assign(sum, sum.full_like(0.0));
    sum
}

/// The update by the sums of all ranks, or the states in which these wait.
fn ended(
    cx: Cx,
    (targets, sums): (Vec<Target>, Vec<Vec<Tensor>>),
    finite: Option<Tensor>,
    rule: &UpdateRule,
    waits: bool,
) -> Update {
    let gradients = shared::gradients(&targets, &sums, rule);
    let finite = finite.map(|own| shared::on_all(own, rule));
    if !waits {
        return update_with(cx, (targets, gradients), finite, rule);
    }
    for (target, gradient) in targets.iter().zip(&gradients) {
        let state = shared::waiting(target, rule);
        cx.trace().assign(cx.state(&state.name, &state.ty()), *gradient);
    }
    told(&targets, gradients, finite, rule)
}

/// The norm of gradients, and whether that is finite and `finite` holds, where the rule needs them.
fn told(targets: &[Target], gradients: Vec<Tensor>, finite: Option<Tensor>, rule: &UpdateRule) -> Update {
    let centred = |(target, sum): (&Target, Tensor)| {
        let axes = rule.centred.get(&target.param.name);
        axes.map_or(sum, |axes| target.less_means(sum, axes))
    };
    let needs_norm = rule.clip_norm.is_some() || rule.skips_non_finite;
    let norm = needs_norm.then(|| {
        let gradients: Vec<Tensor> = targets.iter().zip(gradients).map(centred).collect();
        shared::norm(targets, &gradients, rule)
    });
    let is_whole = |norm: Tensor| finite.map_or(is_finite(norm), |finite| is_finite(norm).and(finite));
    Update {
        states: Vec::new(),
        gradient_norm: norm.filter(|_| rule.clip_norm.is_some()),
        finite: norm.filter(|_| rule.skips_non_finite).map(is_whole),
    }
}
