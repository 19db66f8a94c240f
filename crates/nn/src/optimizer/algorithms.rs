//! The update of one parameter, by each of the optimizers.

use lessen_graph::ops::{Adadelta, Adagrad, Adam, AdamW, AdamW8bit, Lion, RmsProp, Sgd};
use lessen_graph::{DType, Tensor};

use super::adafactor::Adafactor;
use super::config::{AdamSettings, OptimizerConfig};
use super::rule::UpdateRule;
use super::steps_since;
use crate::context::Cx;
use crate::names::{lr_input, optimizer_state};
use crate::params::{ParamSpec, StateSpec};

/// Returns the new value of one parameter, whose learning rate is multiplied by a factor, assigns its optimizer states
/// and appends them to `states`.
pub(super) fn update_one(
    cx: Cx,
    (param, factor): (&ParamSpec, f64),
    gradient: Tensor,
    rule: &UpdateRule,
    states: &mut Vec<StateSpec>,
) -> Tensor {
    let trace = cx.trace();
    let decays = param.shape.len() >= 2 && !rule.no_decay.contains(&param.name);
    let (group, optimizer) = rule.group_of(&param.name);
    let optimizer = if decays {
        optimizer
    } else {
        optimizer.with_weight_decay(0.0)
    };
    let lr = cx.reserved_input(&lr_input(group), DType::F32, &[]);
    let mut inputs = vec![trace.tensor(param.value), gradient];
    let mut old = Vec::new();
    for (what, ty) in optimizer.states(&param.shape) {
        let spec = StateSpec {
            name: optimizer_state(what, &param.name),
            dtype: ty.dtype,
            shape: ty.shape.into_vec(),
        };
        old.push(spec.declare(trace));
        states.push(spec);
    }
    inputs.extend(&old);
    inputs.push(if factor == 1.0 { lr } else { lr * factor });
    if optimizer.counts_steps() {
        inputs.push(steps_since(cx, param, rule));
    }
    let new = updated(optimizer, &inputs);
    for (old, new) in old.into_iter().zip(&new[1..]) {
        trace.assign(old, *new);
    }
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
