//! Optimizers that compute what those of `torch.optim` do, with the settings of their parameter groups.

use lessen_base::{Error, Result};
use lessen_graph::Tensor;
use lessen_graph::ops::{Adam, AdamW, Sgd};
use lessen_nn::{ParamUpdate, UpdateAlgorithm};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The rule of a parameter group.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(tag = "rule", rename_all = "lowercase")]
pub enum Rule {
    /// `torch.optim.SGD` without dampening.
    Sgd {
        /// Decay of the momentum buffer.
        momentum: f64,
        /// Whether Nesterov's look-ahead is used.
        nesterov: bool,
        /// Multiple of the parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// `torch.optim.Adam`.
    Adam {
        /// Decays of the two moments.
        betas: [f64; 2],
        /// Added to the denominator.
        eps: f64,
        /// Multiple of the parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// `torch.optim.AdamW`.
    AdamW {
        /// Decays of the two moments.
        betas: [f64; 2],
        /// Added to the denominator.
        eps: f64,
        /// Share of the parameter that is subtracted, per unit of learning rate.
        weight_decay: f64,
    },
}

/// A parameter group of an optimizer.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct GroupSettings {
    /// The names of the parameters.
    pub params: Vec<String>,
    /// How they change.
    #[serde(flatten)]
    pub rule: Rule,
    /// The learning rate of the first step.
    pub lr: f64,
}

impl GroupSettings {
    /// Checks the numbers.
    ///
    /// # Errors
    /// A number that is negative or not finite.
    pub fn check(&self) -> Result<()> {
        let numbers = match self.rule {
            Rule::Sgd {
                momentum, weight_decay, ..
            } => [momentum, weight_decay, 0.0, 0.0],
            Rule::Adam {
                betas: [a, b],
                eps,
                weight_decay,
            }
            | Rule::AdamW {
                betas: [a, b],
                eps,
                weight_decay,
            } => [a, b, eps, weight_decay],
        };
        match numbers.iter().find(|number| !(number.is_finite() && **number >= 0.0)) {
            None => Ok(()),
            Some(number) => Err(Error::user(format!(
                "an optimizer has the setting {number}; give finite numbers from 0"
            ))),
        }
    }
}

/// The update of each parameter by the rule of its group, whose weight decay is for parameters of any rank.
#[derive(Debug)]
pub struct TorchUpdate {
    rules: BTreeMap<String, Rule>,
    /// Greatest magnitude of an element of a gradient.
    clip_value: Option<f64>,
}

impl TorchUpdate {
    /// The rules of these groups.
    pub fn new(groups: &[GroupSettings], clip_value: Option<f64>) -> TorchUpdate {
        let of_group = |group: &GroupSettings| {
            let rule = group.rule;
            group.params.clone().into_iter().map(move |name| (name, rule))
        };
        let rules = groups.iter().flat_map(of_group).collect();
        TorchUpdate { rules, clip_value }
    }
}

impl UpdateAlgorithm for TorchUpdate {
    fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor {
        let (p, lr, shape) = (of.parameter(), of.lr(), of.parameter().shape());
        let gradient = match self.clip_value {
            Some(most) => of.gradient().clamp(-most, most),
            None => of.gradient(),
        };
        let trace = p.trace();
        match self.rules.get(of.name()).copied() {
            None => p,
            Some(Rule::Sgd {
                momentum,
                nesterov,
                weight_decay,
            }) => {
                if momentum == 0.0 {
                    let decayed = if weight_decay == 0.0 {
                        gradient
                    } else {
                        gradient + p * weight_decay
                    };
                    return p - decayed * lr;
                }
                let op = Sgd {
                    momentum,
                    nesterov,
                    weight_decay,
                };
                let velocity = of.state("momentum", &shape);
                let new = trace.apply(op, &[p, gradient, velocity, lr]);
                of.set("momentum", new[1]);
                new[0]
            }
            Some(Rule::Adam {
                betas: [beta1, beta2],
                eps,
                weight_decay,
            }) => {
                let inputs = [p, gradient, of.state("m", &shape), of.state("v", &shape), lr, of.step()];
                let new = trace.apply(
                    Adam {
                        beta1,
                        beta2,
                        eps,
                        weight_decay,
                    },
                    &inputs,
                );
                set_moments(of, &new)
            }
            Some(Rule::AdamW {
                betas: [beta1, beta2],
                eps,
                weight_decay,
            }) => {
                let inputs = [p, gradient, of.state("m", &shape), of.state("v", &shape), lr, of.step()];
                let new = trace.apply(
                    AdamW {
                        beta1,
                        beta2,
                        eps,
                        weight_decay,
                    },
                    &inputs,
                );
                set_moments(of, &new)
            }
        }
    }
}

/// Gives the moments their new values, and returns that of the parameter.
fn set_moments(of: &mut ParamUpdate<'_>, new: &[Tensor]) -> Tensor {
    of.set("m", new[1]);
    of.set("v", new[2]);
    new[0]
}
