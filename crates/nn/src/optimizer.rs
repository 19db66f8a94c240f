//! Parameter updates as part of the graph: AdamW and SGD, clipping to a global norm, gradient accumulation.
//!
//! A training step is one graph, made with [`update`]. With gradient accumulation it is two: [`accumulate`] makes the
//! graph that runs for every micro-batch, [`apply`] the one that runs after the last. All states start at zero.

use std::collections::BTreeMap;

use lessen_graph::ops::clip::{clip_coefficient, global_norm};
use lessen_graph::ops::{AdamW, Sgd};
use lessen_graph::{DType, Phase, Tensor};

use crate::context::{Context, ParamSpec, StateSpec};

/// An optimizer and its settings. Weight decay applies to parameters of rank 2 or more, so not to biases and norms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OptimizerConfig {
    /// AdamW (Loshchilov and Hutter 2019), with the states `optimizer.m.PARAMETER` and
    /// `optimizer.v.PARAMETER`.
    AdamW {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        eps: f64,
        /// Decay of the parameter per unit of learning rate.
        weight_decay: f64,
    },
    /// Stochastic gradient descent, with the state `optimizer.momentum.PARAMETER` unless the momentum is 0.
    Sgd {
        /// Decay of the momentum buffer.
        momentum: f64,
        /// Whether Nesterov's look-ahead is used.
        nesterov: bool,
        /// Multiple of the parameter that is added to its gradient (L2 penalty).
        weight_decay: f64,
    },
}

impl OptimizerConfig {
    /// AdamW with PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8.
    pub fn adamw(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::AdamW {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay,
        }
    }
}

/// After how many steps parameters joined the training, for those that were not there from the first step on: AdamW
/// corrects the bias of their moments by the steps since then.
pub type Joined = BTreeMap<String, u64>;

/// The name of the data input (`f32[]`) with the number of the step, for parameters that joined after `joined` steps:
/// the step number less `joined`.
pub fn steps_input(joined: u64) -> String {
    match joined {
        0 => "t".to_string(),
        after => format!("t.{after}"),
    }
}

/// The states and outputs that an update adds to the graph.
#[derive(Clone, Debug)]
pub struct Update<'g> {
    /// States of the optimizer, initially zero.
    pub states: Vec<StateSpec>,
    /// The global norm of the gradients before clipping, `f32[]`; `None` without clipping.
    pub gradient_norm: Option<Tensor<'g>>,
}

/// Adds a whole training step: gradients of the loss with respect to all parameters of the context, clipping to the
/// global norm `clip_norm`, and the update.
///
/// Declares the data inputs `lr` (`f32[]`, the learning rate) and, for AdamW, `t` (`f32[]`, the step number from 1) and
/// those of [`steps_input`] for parameters that joined later.
pub fn update<'g>(
    cx: &Context<'g>,
    loss: Tensor<'g>,
    config: &OptimizerConfig,
    clip_norm: Option<f64>,
    joined: &Joined,
) -> Update<'g> {
    let params = cx.params();
    let gradients = loss.grad(&tensors(cx, &params));
    update_with(cx, &params, gradients, config, clip_norm, joined)
}

/// Adds the gradients of one micro-batch to the states `gradient.PARAMETER`, which it returns.
///
/// Declares the data input `share` (`f32[]`), the weight of this micro-batch in the mean loss: its number of labels
/// over that of the whole batch, which is `1 / n` for `n` equal micro-batches. If the shares sum to 1, the states end
/// as the gradient of the mean over all labels.
pub fn accumulate<'g>(cx: &Context<'g>, loss: Tensor<'g>) -> Vec<StateSpec> {
    let params = cx.params();
    let share = cx.input("share", DType::F32, &[]);
    let gradients = (loss * share).grad(&tensors(cx, &params));
    let states: Vec<StateSpec> = params.iter().map(gradient_state).collect();
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
/// `params` are the parameters of the accumulating graph; this graph declares them again. Data inputs and states are
/// those of [`update`].
pub fn apply<'g>(
    cx: &Context<'g>,
    params: &[ParamSpec],
    config: &OptimizerConfig,
    clip_norm: Option<f64>,
    joined: &Joined,
) -> Update<'g> {
    for param in params {
        cx.param(&param.name, &param.shape, param.init);
    }
    let declare = |param| gradient_state(param).declare(cx.trace());
    let gradients: Vec<Tensor<'g>> = params.iter().map(declare).collect();
    cx.trace().in_phase(Phase::Update, || {
        for gradient in &gradients {
            cx.trace().assign(*gradient, gradient.full_like(0.0));
        }
    });
    update_with(cx, &cx.params(), gradients, config, clip_norm, joined)
}

fn tensors<'g>(cx: &Context<'g>, params: &[ParamSpec]) -> Vec<Tensor<'g>> {
    params.iter().map(|p| cx.trace().tensor(p.value)).collect()
}

/// The state that sums a parameter's gradients.
fn gradient_state(param: &ParamSpec) -> StateSpec {
    StateSpec {
        name: format!("gradient.{}", param.name),
        dtype: DType::F32,
        shape: param.shape.clone(),
    }
}

fn update_with<'g>(
    cx: &Context<'g>,
    params: &[ParamSpec],
    mut gradients: Vec<Tensor<'g>>,
    config: &OptimizerConfig,
    clip_norm: Option<f64>,
    joined: &Joined,
) -> Update<'g> {
    let trace = cx.trace();
    trace.in_phase(Phase::Update, || {
        let gradient_norm = clip_norm.map(|most| {
            let norm = global_norm(&gradients);
            let factor = clip_coefficient(norm, most);
            gradients.iter_mut().for_each(|gradient| *gradient = *gradient * factor);
            norm
        });
        let mut states = Vec::new();
        for ((param, p), gradient) in params.iter().zip(tensors(cx, params)).zip(gradients) {
            let joined = joined.get(&param.name).copied().unwrap_or(0);
            let new = update_one(cx, param, p, gradient, (config, joined), &mut states);
            trace.assign(p, new);
        }
        Update { states, gradient_norm }
    })
}

/// Returns the new value of one parameter, which joined after `joined` steps, assigns its optimizer states and appends
/// them to `states`.
fn update_one<'g>(
    cx: &Context<'g>,
    param: &ParamSpec,
    p: Tensor<'g>,
    gradient: Tensor<'g>,
    (config, joined): (&OptimizerConfig, u64),
    states: &mut Vec<StateSpec>,
) -> Tensor<'g> {
    let trace = cx.trace();
    let mut state = |what: &str| {
        let spec = StateSpec {
            name: format!("optimizer.{what}.{}", param.name),
            dtype: DType::F32,
            shape: param.shape.clone(),
        };
        let tensor = spec.declare(trace);
        states.push(spec);
        tensor
    };
    let lr = cx.input("lr", DType::F32, &[]);
    let decays = param.shape.len() >= 2;
    match *config {
        OptimizerConfig::AdamW {
            beta1,
            beta2,
            eps,
            weight_decay,
        } => {
            let (m, v, t) = (state("m"), state("v"), cx.input(&steps_input(joined), DType::F32, &[]));
            let op = AdamW {
                beta1,
                beta2,
                eps,
                weight_decay: if decays { weight_decay } else { 0.0 },
            };
            let new = trace.apply(op, &[p, gradient, m, v, lr, t]);
            trace.assign(m, new[1]);
            trace.assign(v, new[2]);
            new[0]
        }
        OptimizerConfig::Sgd {
            momentum,
            nesterov,
            weight_decay,
        } => {
            let weight_decay = if decays { weight_decay } else { 0.0 };
            if momentum == 0.0 {
                let gradient = if weight_decay == 0.0 {
                    gradient
                } else {
                    gradient + p * weight_decay
                };
                return p - gradient * lr;
            }
            let buffer = state("momentum");
            let new = trace.apply(
                Sgd {
                    momentum,
                    nesterov,
                    weight_decay,
                },
                &[p, gradient, buffer, lr],
            );
            trace.assign(buffer, new[1]);
            new[0]
        }
    }
}
