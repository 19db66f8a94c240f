//! The derivative of one group of a step.

use lessen_graph::{DType, Tensor};

use super::rule::UpdateRule;
use super::{filled_in, tensors, trained};
use crate::context::Cx;
use crate::names::SHARE;

/// What a group of a step gives to the update.
#[derive(Clone, Debug)]
pub struct GroupResults {
    /// Its part of the loss, a scalar.
    pub loss: Tensor,
    /// The gradients of this part by the parameters that are trained, the last one first.
    pub gradients: Vec<Tensor>,
}

/// Adds the derivative of a group's micro-batch. Declares its share in the loss, [`SHARE`], `f32[]`. Where the rule
/// fills in, a group of the share 0 gives zeros.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn group(cx: Cx, loss: Tensor, rule: &UpdateRule) -> GroupResults {
    let mut params = trained(cx, rule);
    params.reverse();
    let share = cx.reserved_input(SHARE, DType::F32, &[]).cast(loss.dtype());
    let loss = (loss * share).reshape(&[]);
    let mut all = vec![loss];
    all.extend(loss.grad(&tensors(cx, &params)));
    let mut all = filled_in(share, all, rule).into_iter();
    GroupResults {
        loss: all.next().unwrap_or(loss),
        gradients: all.collect(),
    }
}
