//! Parameter updates as part of the graph: AdamW and SGD, clipping to a global norm, gradient accumulation.
//!
//! A training step is one graph, made with [`update`]. With gradient accumulation it is two: [`accumulate`] makes the
//! graph that runs for every micro-batch, [`apply`] the one that runs after the last. All states start at zero.

use std::collections::BTreeMap;

use lessen_graph::ops::clip::{clip_coefficient, global_norm};
use lessen_graph::ops::{AdamW, Sgd};
use lessen_graph::{DType, Phase, Tensor};

use crate::context::{Context, ParamSpec, StateSpec};
use crate::lora::Lora;
use crate::patterns::Patterns;

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

/// How the parameters of a model are updated.
#[derive(Clone, PartialEq, Debug)]
pub struct UpdateRule {
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// The greatest norm of the gradient over all parameters that are trained, which is scaled down to it; none leaves
    /// gradients as they are.
    pub clip_norm: Option<f64>,
    /// Parameters that joined after the first step.
    pub joined: Joined,
    /// Parameters that stay as they are: they have neither a gradient nor optimizer states.
    pub frozen: Patterns,
    /// The adapters that are trained in place of other parameters.
    pub lora: Option<Lora>,
    /// Parameters that have no weight decay, whatever their rank.
    pub no_decay: Patterns,
    /// Layer-wise decay of the learning rate: of `L` blocks, parameters of block `l` (from 0) learn with the rate times
    /// `decay^(L - l)`, those before the first block with `decay^(L + 1)`, those behind the last one with the rate
    /// itself. The block of a parameter is the first part of its name that is a number.
    pub layer_decay: Option<f64>,
    /// Decay `d` of an exponential moving average of the parameters that are trained, with the states `ema.PARAMETER`:
    /// `a := a + (p - a) (1 - d) / (1 - d^t)` after step `t`, which is the mean of the parameters after the steps up to
    /// `t`, weighted by `d` to the power of the steps since.
    pub ema: Option<f64>,
}

impl UpdateRule {
    /// All parameters are trained by this optimizer, without clipping.
    pub fn new(optimizer: OptimizerConfig) -> UpdateRule {
        UpdateRule {
            optimizer,
            clip_norm: None,
            joined: Joined::new(),
            frozen: Patterns::default(),
            lora: None,
            no_decay: Patterns::default(),
            layer_decay: None,
            ema: None,
        }
    }

    /// Whether a parameter is trained.
    pub fn trains(&self, param: &ParamSpec) -> bool {
        let name = &param.name;
        let is_adapted = self.lora.as_ref().is_none_or(|lora| lora.trains(name));
        !param.is_buffer && !self.frozen.contains(name) && is_adapted
    }

    /// Those of all parameters of a model that are trained, each with what its learning rate is multiplied by.
    fn trained(&self, params: Vec<ParamSpec>) -> Vec<(ParamSpec, f64)> {
        let factors = match self.layer_decay {
            Some(decay) => rate_factors(&params, decay),
            None => vec![1.0; params.len()],
        };
        let all = params.into_iter().zip(factors);
        all.filter(|(param, _)| self.trains(param)).collect()
    }
}

/// The name of the state with the moving average of a parameter.
pub fn average_of(name: &str) -> String {
    format!("ema.{name}")
}

/// What layer-wise decay multiplies the learning rate of each parameter by, in the order of first use.
fn rate_factors(params: &[ParamSpec], decay: f64) -> Vec<f64> {
    let block = |param: &ParamSpec| param.name.split('.').find_map(|part| part.parse::<usize>().ok());
    let blocks = params.iter().filter_map(block).max().map_or(0, |last| last + 1);
    let mut has_begun = blocks == 0;
    let depth = |param| match block(param) {
        Some(block) => {
            has_begun = true;
            block + 1
        }
        None if has_begun => blocks + 1,
        None => 0,
    };
    let depths = params.iter().map(depth);
    depths.map(|depth| decay.powi((blocks + 1 - depth) as i32)).collect()
}

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

/// Adds a whole training step: gradients of the loss with respect to the parameters of the context that are trained,
/// clipping to a global norm, and the update.
///
/// Declares the data inputs `lr` (`f32[]`, the learning rate) and, for AdamW and averages, `t` (`f32[]`, the step
/// number from 1) and those of [`steps_input`] for parameters that joined later.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn update<'g>(cx: &Context<'g>, loss: Tensor<'g>, rule: &UpdateRule) -> Update<'g> {
    let params = rule.trained(cx.params());
    assert!(!params.is_empty(), "no parameter of the model is trained");
    let gradients = loss.grad(&tensors(cx, &params));
    update_with(cx, &params, gradients, rule)
}

/// Adds the gradients of one micro-batch to the states `gradient.PARAMETER`, which it returns.
///
/// Declares the data input `share` (`f32[]`), the weight of this micro-batch in the mean loss: its number of labels
/// over that of the whole batch, which is `1 / n` for `n` equal micro-batches. If the shares sum to 1, the states end
/// as the gradient of the mean over all labels.
///
/// # Panics
/// If no parameter is trained.
#[track_caller]
pub fn accumulate<'g>(cx: &Context<'g>, loss: Tensor<'g>, rule: &UpdateRule) -> Vec<StateSpec> {
    let params = rule.trained(cx.params());
    assert!(!params.is_empty(), "no parameter of the model is trained");
    let share = cx.input("share", DType::F32, &[]);
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
/// `params` are the parameters of the accumulating graph, of which this graph declares those that are trained again.
/// Data inputs and states are those of [`update`].
pub fn apply<'g>(cx: &Context<'g>, params: &[ParamSpec], rule: &UpdateRule) -> Update<'g> {
    let mut trained = rule.trained(params.to_vec());
    for (param, _) in &mut trained {
        param.value = cx.param(&param.name, &param.shape, param.init).id();
    }
    let declare = |(param, _): &(ParamSpec, f64)| gradient_state(param).declare(cx.trace());
    let gradients: Vec<Tensor<'g>> = trained.iter().map(declare).collect();
    cx.trace().in_phase(Phase::Update, || {
        for gradient in &gradients {
            cx.trace().assign(*gradient, gradient.full_like(0.0));
        }
    });
    update_with(cx, &trained, gradients, rule)
}

fn tensors<'g>(cx: &Context<'g>, params: &[(ParamSpec, f64)]) -> Vec<Tensor<'g>> {
    params.iter().map(|(param, _)| cx.trace().tensor(param.value)).collect()
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
    params: &[(ParamSpec, f64)],
    mut gradients: Vec<Tensor<'g>>,
    rule: &UpdateRule,
) -> Update<'g> {
    let trace = cx.trace();
    trace.in_phase(Phase::Update, || {
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
            trace.assign(p, new);
            if let Some(decay) = rule.ema {
                average(cx, param, new, decay, rule, &mut states);
            }
        }
        Update { states, gradient_norm }
    })
}

/// The data input with the number of the step since a parameter joined.
fn steps_since<'g>(cx: &Context<'g>, param: &ParamSpec, rule: &UpdateRule) -> Tensor<'g> {
    let joined = rule.joined.get(&param.name).copied().unwrap_or(0);
    cx.input(&steps_input(joined), DType::F32, &[])
}

/// Moves the average of a parameter towards its new value.
fn average<'g>(
    cx: &Context<'g>,
    param: &ParamSpec,
    new: Tensor<'g>,
    decay: f64,
    rule: &UpdateRule,
    states: &mut Vec<StateSpec>,
) {
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

/// Returns the new value of one parameter, whose learning rate is multiplied by a factor, assigns its optimizer states
/// and appends them to `states`.
fn update_one<'g>(
    cx: &Context<'g>,
    (param, factor): (&ParamSpec, f64),
    gradient: Tensor<'g>,
    rule: &UpdateRule,
    states: &mut Vec<StateSpec>,
) -> Tensor<'g> {
    let p = cx.trace().tensor(param.value);
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
    let lr = if factor == 1.0 { lr } else { lr * factor };
    let decays = param.shape.len() >= 2 && !rule.no_decay.contains(&param.name);
    match rule.optimizer {
        OptimizerConfig::AdamW {
            beta1,
            beta2,
            eps,
            weight_decay,
        } => {
            let (m, v, t) = (state("m"), state("v"), steps_since(cx, param, rule));
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
