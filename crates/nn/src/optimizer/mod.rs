//! Parameter updates as part of the graph: optimizers, clipping to a global norm, gradient accumulation.
//!
//! A training step is one graph, made with [`update`]. With gradient accumulation it is two: [`accumulate`] makes the
//! graph that runs for every micro-batch, [`apply`] the graph that runs after the last micro-batch. All states start at
//! zero.

mod adafactor;
mod algorithms;
mod centring;
mod check;
mod config;
mod rule;

pub use centring::{less_means, mean_along};
pub use config::{AdamSettings, OptimizerConfig};
pub use rule::{Centred, Joined, ParamGroup, UpdateRule};

use lessen_graph::ops::clip::{clip_coefficient, global_norm};
use lessen_graph::{DType, Phase, Tensor};

use self::algorithms::update_one;
use crate::context::Cx;
use crate::names::{SHARE, average_of, gradient_sum_of, steps_input};
use crate::params::{ParamSpec, StateSpec};

/// The states and outputs that an update adds to the graph.
#[derive(Clone, Debug)]
pub struct Update {
    /// States of the optimizer, initially zero.
    pub states: Vec<StateSpec>,
    /// The global norm of the gradients before clipping, `f32[]`; `None` without clipping.
    pub gradient_norm: Option<Tensor>,
}

/// Adds a whole training step: gradients of the loss with respect to the parameters of the context that are trained,
/// clipping to a global norm, and the update.
///
/// Declares the learning rates [`lr_input`](crate::names::lr_input), and for optimizers that count steps and for
/// averages the step numbers [`steps_input`].
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn update(cx: Cx, loss: Tensor, rule: &UpdateRule) -> Update {
    let params = trained(cx, rule);
    let gradients = loss.grad(&tensors(cx, &params));
    update_with(cx, &params, gradients, rule)
}

/// Adds the gradients of one micro-batch to the states [`gradient_sum_of`] the parameters, which it returns.
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
    let states: Vec<StateSpec> = params.iter().map(|(param, _)| gradient_state(param)).collect();
    cx.trace().in_phase(Phase::Update, || {
        for (state, gradient) in states.iter().zip(gradients) {
            let sum = state.declare(cx.trace());
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
    let declare = |(param, _): &(ParamSpec, f64)| gradient_state(param).declare(cx.trace());
    let gradients: Vec<Tensor> = trained.iter().map(declare).collect();
    cx.trace().in_phase(Phase::Update, || {
        for gradient in &gradients {
            cx.trace().assign(*gradient, gradient.full_like(0.0));
        }
    });
    update_with(cx, &trained, gradients, rule)
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

/// The state that sums a parameter's gradients.
fn gradient_state(param: &ParamSpec) -> StateSpec {
    StateSpec {
        name: gradient_sum_of(&param.name),
        dtype: DType::F32,
        shape: param.shape.clone(),
    }
}

fn update_with(cx: Cx, params: &[(ParamSpec, f64)], mut gradients: Vec<Tensor>, rule: &UpdateRule) -> Update {
    let trace = cx.trace();
    trace.in_phase(Phase::Update, || {
        let axes = |param: &ParamSpec| rule.centred.get(&param.name);
        for ((param, _), gradient) in params.iter().zip(&mut gradients) {
            *gradient = axes(param).map_or(*gradient, |axes| less_means(*gradient, axes));
        }
        let gradient_norm = rule.clip_norm.map(|most| {
            let norm = global_norm(&gradients);
            let factor = clip_coefficient(norm, most);
            gradients.iter_mut().for_each(|gradient| *gradient = *gradient * factor);
            norm
        });
        let mut states = Vec::new();
        for ((param, factor), gradient) in params.iter().zip(gradients) {
            let p = trace.tensor(param.value);
            let new = update_one(cx, (param, *factor), gradient, rule, &mut states);
            let new = axes(param).map_or(new, |axes| less_means(new, axes));
            trace.assign(p, new);
            if let Some(decay) = rule.ema {
                average(cx, param, new, decay, rule, &mut states);
            }
        }
        Update { states, gradient_norm }
    })
}

/// The data input with the number of the step since a parameter joined.
fn steps_since(cx: Cx, param: &ParamSpec, rule: &UpdateRule) -> Tensor {
    let joined = rule.joined.get(&param.name).copied().unwrap_or(0);
    cx.reserved_input(&steps_input(joined), DType::F32, &[])
}

/// Moves the average of a parameter towards its new value.
fn average(cx: Cx, param: &ParamSpec, new: Tensor, decay: f64, rule: &UpdateRule, states: &mut Vec<StateSpec>) {
    let spec = StateSpec {
        name: average_of(&param.name),
        dtype: DType::F32,
        shape: param.shape.clone(),
    };
    let (mean, t) = (spec.declare(cx.trace()), steps_since(cx, param, rule));
    let part = (1.0 - decay) / (1.0 - t.scalar_like(decay).pow(t));
    cx.trace().assign(mean, mean + (new - mean) * part);
    states.push(spec);
}
