//! Parameter updates as part of the graph: optimizers, clipping to a global norm, gradient accumulation.
//!
//! A training step is one graph, made with [`update`]. With gradient accumulation it is two: [`accumulate`] makes the
//! graph that runs for every micro-batch, [`apply`] the graph that runs after the last micro-batch. Between groups of
//! micro-batches, whose sums are added by a tree, [`hold`] and [`add_held`] run. All states start at zero.

mod adafactor;
mod algorithm;
mod algorithms;
mod centring;
mod changed;
mod check;
mod config;
mod held;
mod rule;

pub use algorithm::{Algorithm, ParamUpdate, UpdateAlgorithm};
pub use centring::{less_means, mean_along};
pub use config::{AdamSettings, OptimizerConfig};
pub use held::{add_held, hold};
pub use rule::{Centred, Joined, ParamGroup, UpdateRule};

use lessen_graph::ops::clip::{clip_coefficient, global_norm};
use lessen_graph::{DType, Phase, Tensor};

use self::algorithms::update_one;
use self::changed::{Changed, steps_since};
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
    update_with(cx, (&params, gradients), Some(loss), rule)
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
    let states: Vec<StateSpec> = params.iter().map(|(param, _)| rule.gradient_state(param)).collect();
    cx.trace().in_phase(Phase::Update, || {
        for (state, gradient) in states.iter().zip(gradients) {
            let sum = cx.state(&state.name, &state.ty());
            cx.trace().assign(sum, sum + gradient);
        }
    });
    states
}

/// Adds the update from the gradients that [`accumulate`] has summed, and resets them to zero.
///
/// `params` are the parameters of the accumulating graph; this graph declares the trained ones again. Data inputs and
/// states are the same as in [`update`].
pub fn apply(cx: Cx, params: &[ParamSpec], rule: &UpdateRule) -> Update {
    let mut trained = rule.trained(params.to_vec());
    for (param, _) in &mut trained {
        param.value = cx.param(&param.name, &param.shape, param.init).id();
    }
    let declare = |(param, _): &(ParamSpec, f64)| {
        let state = rule.gradient_state(param);
        cx.state(&state.name, &state.ty())
    };
    let gradients: Vec<Tensor> = trained.iter().map(declare).collect();
    cx.trace().in_phase(Phase::Update, || {
        for gradient in &gradients {
            cx.trace().assign(*gradient, gradient.full_like(0.0));
        }
    });
    update_with(cx, (&trained, gradients), None, rule)
}

/// The norm of the gradients that [`accumulate`] has summed, and whether it is finite, where the rule needs them: what
/// [`apply`] computes of them before the update.
pub fn closing(cx: Cx, params: &[ParamSpec], rule: &UpdateRule) -> Update {
    let trained = rule.trained(params.to_vec());
    let states = Vec::new();
    let (mut gradient_norm, mut finite) = (None, None);
    if rule.clip_norm.is_some() || rule.skips_non_finite {
        cx.trace().in_phase(Phase::Update, || {
            let gradient = |(param, _): &(ParamSpec, f64)| {
                let state = rule.gradient_state(param);
                let sum = cx.state(&state.name, &state.ty());
                rule.centred.get(&param.name).map_or(sum, |axes| less_means(sum, axes))
            };
            let norm = global_norm(&trained.iter().map(gradient).collect::<Vec<_>>());
            gradient_norm = rule.clip_norm.map(|_| norm);
            finite = rule.skips_non_finite.then(|| is_finite(norm));
        });
    }
    Update {
        states,
        gradient_norm,
        finite,
    }
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

#[track_caller]
fn update_with(
    cx: Cx,
    (params, mut gradients): (&[(ParamSpec, f64)], Vec<Tensor>),
    loss: Option<Tensor>,
    rule: &UpdateRule,
) -> Update {
    let trace = cx.trace();
    trace.in_phase(Phase::Update, || {
        let axes = |param: &ParamSpec| rule.centred.get(&param.name);
        for ((param, _), gradient) in params.iter().zip(&mut gradients) {
            *gradient = axes(param).map_or(*gradient, |axes| less_means(*gradient, axes));
        }
        let norm = (rule.clip_norm.is_some() || rule.skips_non_finite).then(|| global_norm(&gradients));
        let finite = norm.filter(|_| rule.skips_non_finite).map(|norm| {
            let finite = is_finite(norm);
            loss.map_or(finite, |loss| finite.and(is_finite(loss.reshape(&[]))))
        });
        let gradient_norm = rule.clip_norm.zip(norm).map(|(most, norm)| {
            let factor = clip_coefficient(norm, most);
            gradients.iter_mut().for_each(|gradient| *gradient = *gradient * factor);
            norm
        });
        let mut changed = Changed::default();
        for ((param, factor), gradient) in params.iter().zip(gradients) {
            let p = trace.tensor(param.value);
            let new = update_one(cx, (param, *factor), gradient, rule, &mut changed);
            let new = axes(param).map_or(new, |axes| less_means(new, axes));
            changed.values.push((p, new));
            if let Some(decay) = rule.ema {
                average(cx, param, new, decay, rule, &mut changed);
            }
        }
        for (old, new) in changed.values {
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
