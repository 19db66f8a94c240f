//! The update of one parameter, by each of the optimizers.

use lessen_graph::ops::{Adadelta, Adagrad, Adam, AdamW, AdamW8bit, Lion, RmsProp, Sgd};
use lessen_graph::{DType, Tensor};

use super::adafactor::Adafactor;
use super::algorithm::ParamUpdate;
use super::changed::{Changed, steps_since};
use super::config::{AdamSettings, OptimizerConfig};
use super::rule::UpdateRule;
use super::shared::Target;
use crate::context::Cx;
use crate::names::lr_input;
use crate::params::StateSpec;

/// Returns the new value of one parameter, or of a piece of it; `changed` gets its optimizer states.
#[track_caller]
pub(super) fn update_one(
    cx: Cx,
    target: &Target,
    gradient: Tensor,
    rule: &UpdateRule,
    changed: &mut Changed,
) -> Tensor {
    let trace = cx.trace();
    let (param, factor) = (&target.updated(cx), target.factor);
    let decays = target.param.shape.len() >= 2 && !rule.no_decay.contains(&param.name);
    let (group, optimizer) = rule.group_of(&param.name);
    let optimizer = if decays {
        optimizer
    } else {
        optimizer.with_weight_decay(0.0)
    };
    let lr = cx.reserved_input(&lr_input(group), DType::F32, &[]);
    if let Some(algorithm) = rule.algorithm_of(&param.name) {
        let lr = if factor == 1.0 { lr } else { lr * factor };
        let state_name = |state: &str| rule.state_of(state, &param.name);
        let of = ParamUpdate {
            cx,
            param,
            state_name: &state_name,
            joined: rule.joined_after(&param.name),
            gradient,
            lr,
            decays,
            states: Vec::new(),
        };
        return algorithm.updated(of, changed);
    }
    let mut inputs = vec![trace.tensor(param.value), gradient];
    let mut old = Vec::new();
    for (what, ty) in optimizer.states(&param.shape) {
        let spec = StateSpec {
            name: rule.state_of(what, &param.name),
            dtype: ty.dtype,
            shape: ty.shape.into_vec(),
        };
        old.push(cx.state(&spec.name, &spec.ty()));
        changed.states.push(spec);
    }
    inputs.extend(&old);
    inputs.push(if factor == 1.0 { lr } else { lr * factor });
    if optimizer.counts_steps() {
        inputs.push(steps_since(cx, rule.joined_after(&param.name)));
    }
    let new = updated(optimizer, &inputs);
    changed.values.extend(old.into_iter().zip(new[1..].iter().copied()));
    new[0]
}

/// The new parameter and states, of the inputs parameter, gradient, states, learning rate, and number of the step for
/// an optimizer that counts them.
fn updated(optimizer: OptimizerConfig, inputs: &[Tensor]) -> Vec<Tensor> {
    let trace = inputs[0].trace();
    match optimizer {
        OptimizerConfig::AdamW(settings) | OptimizerConfig::AdamW8bit(settings) => {
            let AdamSettings {
                beta1,
                beta2,
                eps,
                weight_decay,
            } = settings;
            let rule = AdamW {
                beta1,
                beta2,
                eps,
                weight_decay,
            };
            let has_codes = inputs[2].dtype() == DType::U8;
            if has_codes {
                trace.apply(AdamW8bit { rule }, inputs)
            } else {
                trace.apply(rule, inputs)
            }
        }
        OptimizerConfig::Adam(AdamSettings {
            beta1,
            beta2,
            eps,
            weight_decay,
        }) => {
            let rule = Adam {
                beta1,
                beta2,
                eps,
                weight_decay,
            };
            trace.apply(rule, inputs)
        }
        OptimizerConfig::Adagrad {
            lr_decay,
            initial_accumulator: initial,
            eps,
            weight_decay,
        } => {
            let rule = Adagrad {
                lr_decay,
                initial,
                eps,
                weight_decay,
            };
            trace.apply(rule, inputs)
        }
        OptimizerConfig::Adadelta { rho, eps, weight_decay } => {
            let rule = Adadelta { rho, eps, weight_decay };
            trace.apply(rule, inputs)
        }
        OptimizerConfig::RmsProp {
            alpha,
            eps,
            momentum,
            weight_decay,
        } => {
            let rule = RmsProp {
                alpha,
                eps,
                momentum,
                weight_decay,
            };
            trace.apply(rule, inputs)
        }
        OptimizerConfig::Lion {
            beta1,
            beta2,
            weight_decay,
        } => {
            let rule = Lion {
                beta1,
                beta2,
                weight_decay,
            };
            trace.apply(rule, inputs)
        }
        OptimizerConfig::Adafactor {
            beta2_decay,
            eps,
            least_scale,
            clip_threshold,
            weight_decay,
        } => {
            let rule = Adafactor {
                beta2_decay,
                eps,
                least_scale,
                clip_threshold,
                weight_decay,
            };
            rule.updated(inputs)
        }
        OptimizerConfig::Sgd {
            momentum: 0.0,
            weight_decay,
            ..
        } => {
            let [p, gradient, lr] = [0, 1, 2].map(|i| inputs[i]);
            let gradient = match weight_decay {
                0.0 => gradient,
                decay => gradient + p * decay,
            };
            vec![p - gradient * lr]
        }
        OptimizerConfig::Sgd {
            momentum,
            nesterov,
            weight_decay,
        } => {
            let rule = Sgd {
                momentum,
                nesterov,
                weight_decay,
            };
            trace.apply(rule, inputs)
        }
    }
}
