//! Sums of gradients of finished groups of micro-batches, which are held while later groups are computed. A held sum
//! has a slot: the number of sums that are held below it.

use lessen_graph::{Phase, Tensor};

use super::rule::UpdateRule;
use crate::context::Cx;
use crate::names::held_sum_of;
use crate::params::ParamSpec;

/// Moves the sums of gradients to a slot, and sets them to zero.
pub fn hold(cx: Cx, params: &[ParamSpec], rule: &UpdateRule, slot: usize) {
    each(cx, params, rule, slot, |sum, held| {
        cx.trace().assign(held, sum);
        cx.trace().assign(sum, sum.full_like(0.0));
    });
}

/// Adds the sums in a slot to the sums of gradients: the earlier groups are the left term.
pub fn add_held(cx: Cx, params: &[ParamSpec], rule: &UpdateRule, slot: usize) {
    each(cx, params, rule, slot, |sum, held| cx.trace().assign(sum, held + sum));
}

/// Does something with the sum and the held sum of each parameter that is trained.
fn each(cx: Cx, params: &[ParamSpec], rule: &UpdateRule, slot: usize, then: impl Fn(Tensor, Tensor)) {
    cx.trace().in_phase(Phase::Update, || {
        for (param, _) in rule.trained(params.to_vec()) {
            let sum = rule.gradient_state(&param);
            let held = cx.state(&held_sum_of(&sum.name, slot), &sum.ty());
            then(cx.state(&sum.name, &sum.ty()), held);
        }
    });
}
