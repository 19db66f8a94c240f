//! Parameter updates as part of the graph: optimizers, clipping to a global norm, gradient accumulation.
//!
//! A training step is one graph, made with [`update`]. With gradient accumulation it is two: [`accumulate`] makes the
//! graph that runs for every micro-batch, [`apply`] the graph that runs after the last micro-batch. Between groups of
//! micro-batches, whose sums are added by a tree, [`hold`] and [`add_held`] run; the last micro-batch of a process ends
//! in the sum over all ranks and the update, made with [`conclude`]. Groups that run side by side are differentiated
//! one by one, with [`group`], and end together, with [`conclude_groups`]. All states start at zero.

mod adafactor;
mod algorithm;
mod algorithms;
mod centring;
mod changed;
mod check;
mod config;
mod ending;
mod group;
mod held;
mod rule;
mod shared;

pub use algorithm::{Algorithm, ParamUpdate, UpdateAlgorithm};
pub use centring::{less_means, mean_along};
pub use config::{AdamSettings, OptimizerConfig};
pub use ending::{Ending, apply, closing, conclude, conclude_groups, update_waiting};
pub use group::{GroupResults, group};
pub use held::{add_held, hold};
pub use rule::{Centred, Joined, ParamGroup, UpdateRule};
pub use shared::StateInPieces;

use std::collections::HashSet;

use lessen_graph::ops::clip::clip_coefficient;
use lessen_graph::{DType, Phase, Tensor};

use self::algorithms::update_one;
use self::changed::{Changed, steps_since};
use self::shared::Target;
use crate::context::Cx;
use crate::names::{SHARE, average_of};
use crate::params::{ParamSpec, StateSpec};

/// The states and outputs that an update adds to the graph.
#[derive(Clone, Debug)]
pub struct Update {
    /// States of the optimizer, initially zero.
    pub states: Vec<StateSpec>,
    /// The global norm of the gradients before clipping, `f32[]`; `None` without clipping.
    pub gradient_norm: Option<Tensor>,
    /// Whether the loss, where the update has it, and the norm of the gradients are finite, `bool[]`; `None` unless the
    /// rule skips updates that are not.
    pub finite: Option<Tensor>,
}

/// Adds a whole training step: gradients of the loss with respect to the parameters of the context that are trained,
/// clipping to a global norm, and the update.
///
/// Declares the learning rates [`lr_input`](crate::names::lr_input), and for optimizers that count steps and for
/// averages the step numbers [`steps_input`](crate::names::steps_input).
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn update(cx: Cx, loss: Tensor, rule: &UpdateRule) -> Update {
    let params = trained(cx, rule);
    let gradients = loss.grad(&tensors(cx, &params));
    let targets = params.into_iter().map(|(param, factor)| Target {
        param,
        factor,
        piece: None,
    });
    let (targets, finite) = (
        targets.collect(),
        rule.skips_non_finite.then(|| is_finite(loss.reshape(&[]))),
    );
    update_with(cx, (targets, gradients), finite, rule)
}

/// Adds the gradients of one micro-batch to the states [`gradient_sum_of`](crate::names::gradient_sum_of) the
/// parameters, which it returns.
///
/// Declares the data input [`SHARE`] (`f32[]`), the weight of this micro-batch in the mean loss: its number of labels
/// over the number of labels of the whole batch, which is `1 / n` for `n` equal micro-batches. If the shares sum to 1,
/// the states end as the gradient of the mean over all labels.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn accumulate(cx: Cx, loss: Tensor, rule: &UpdateRule) -> Vec<StateSpec> {
    let params = trained(cx, rule);
    let share = cx.reserved_input(SHARE, DType::F32, &[]).cast(loss.dtype());
    let gradients = (loss * share).grad(&tensors(cx, &params));
    let gradients = filled_in(share, gradients, rule);
    let states: Vec<StateSpec> = params.iter().map(|(param, _)| rule.gradient_state(param)).collect();
    cx.trace().in_phase(Phase::Update, || {
        for (state, gradient) in states.iter().zip(gradients) {
            let sum = cx.state(&state.name, &state.ty());
            cx.trace().assign(sum, sum + gradient);
        }
    });
    states
}

/// The parameters that are trained, each with a factor of its learning rate.
#[track_caller]
fn trained(cx: Cx, rule: &UpdateRule) -> Vec<(ParamSpec, f64)> {
    let params = rule.trained(cx.params());
    if params.is_empty() {
        cx.trace().fail(NOTHING_TRAINED);
    }
    params
}

/// The sentence about a model without a parameter that is trained.
const NOTHING_TRAINED: &str =
    "no parameter of the model is trained; declare one with `Cx::param`, or freeze fewer of them";

fn tensors(cx: Cx, params: &[(ParamSpec, f64)]) -> Vec<Tensor> {
    params.iter().map(|(param, _)| cx.trace().tensor(param.value)).collect()
}

/// Gradients of a micro-batch with this share, which are zeros where it stands for none.
fn filled_in(share: Tensor, gradients: Vec<Tensor>, rule: &UpdateRule) -> Vec<Tensor> {
    if !rule.fills_in {
        return gradients;
    }
    share.trace().in_phase(Phase::Update, || {
        let is_there = share.ne(share.scalar_like(0.0));
        let own = |gradient: Tensor| is_there.select(gradient, gradient.full_like(0.0));
        gradients.into_iter().map(own).collect()
    })
}

/// Whether a scalar is neither infinite nor no number.
fn is_finite(x: Tensor) -> Tensor {
    let most = if x.dtype() == DType::F64 {
        f64::MAX
    } else {
        f32::MAX.into()
    };
    let x = if x.dtype() == DType::BF16 {
        x.cast(DType::F32)
    } else {
        x
    };
    x.abs().le(x.scalar_like(most))
}

/// `new` where a truth value holds, or if there is none; else `old`.
pub fn kept_unless(finite: Option<Tensor>, old: Tensor, new: Tensor) -> Tensor {
    finite.map_or(new, |finite| finite.select(new, old))
}

/// The update by these gradients; with `finite`, where that holds and the norm of the gradients is finite.
#[track_caller]
fn update_with(
    cx: Cx,
    (targets, mut gradients): (Vec<Target>, Vec<Tensor>),
    finite: Option<Tensor>,
    rule: &UpdateRule,
) -> Update {
    let trace = cx.trace();
    trace.in_phase(Phase::Update, || {
        let axes = |target: &Target| rule.centred.get(&target.param.name);
        for (target, gradient) in targets.iter().zip(&mut gradients) {
            *gradient = axes(target).map_or(*gradient, |axes| target.less_means(*gradient, axes));
        }
        let needs_norm = rule.clip_norm.is_some() || rule.skips_non_finite;
        let norm = needs_norm.then(|| shared::norm(&targets, &gradients, rule));
        let finite = norm.filter(|_| rule.skips_non_finite).map(|norm| {
            let of_norm = is_finite(norm);
            finite.map_or(of_norm, |finite| of_norm.and(finite))
        });
        let gradient_norm = rule.clip_norm.zip(norm).map(|(most, norm)| {
            let factor = clip_coefficient(norm, most);
            gradients.iter_mut().for_each(|gradient| *gradient = *gradient * factor);
            norm
        });
        let mut changed = Changed::default();
        // Pieces are chosen before they are gathered.
        let mut gathered = HashSet::new();
        for (target, gradient) in targets.iter().zip(gradients) {
            let new = update_one(cx, target, gradient, rule, &mut changed);
            let new = axes(target).map_or(new, |axes| target.less_means(new, axes));
            let new = match target.piece {
                Some(_) => {
                    let old = trace.tensor(target.updated(cx).value);
                    let new = target.gathered(kept_unless(finite, old, new), rule);
                    gathered.insert(target.param.value);
                    new
                }
                None => new,
            };
            changed.values.push((target.whole(cx), new));
            if let Some(decay) = rule.ema {
                average(cx, &target.param, new, decay, rule, &mut changed);
            }
        }
        for (old, new) in changed.values {
            let finite = finite.filter(|_| !gathered.contains(&old.id()));
            trace.assign(old, kept_unless(finite, old, new));
        }
        let states = changed.states;
        Update {
            states,
            gradient_norm,
            finite,
        }
    })
}

/// Moves the average of a parameter towards its new value.
fn average(cx: Cx, param: &ParamSpec, new: Tensor, decay: f64, rule: &UpdateRule, changed: &mut Changed) {
    let spec = StateSpec {
        name: average_of(&param.name),
        dtype: DType::F32,
        shape: param.shape.clone(),
    };
    let (mean, t) = (
        cx.state(&spec.name, &spec.ty()),
        steps_since(cx, rule.joined_after(&param.name)),
    );
    let part = (1.0 - decay) / (1.0 - t.scalar_like(decay).pow(t));
    changed.values.push((mean, mean + (new - mean) * part));
    changed.states.push(spec);
}
