//! Optimizers that compute what those of `torch.optim` do, with the settings of their parameter groups.

use lessen_base::{Error, Result};
use lessen_graph::ops::{Adam, AdamW, Sgd};
use lessen_graph::{Op, Tensor};
use lessen_nn::{ParamUpdate, UpdateAlgorithm};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Decays, bound and weight decay of Adam.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
pub struct Moments {
    /// Decays of the two moments.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub eps: f64,
    /// Of Adam the multiple of the parameter that is added to its gradient; of AdamW the share of the parameter that
    /// is subtracted, per unit of learning rate.
    pub weight_decay: f64,
}

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
    Adam(Moments),
    /// `torch.optim.AdamW`.
    AdamW(Moments),
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
            Rule::Adam(own) | Rule::AdamW(own) => [own.betas[0], own.betas[1], own.eps, own.weight_decay],
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
                let new = p.trace().apply(op, &[p, gradient, velocity, lr]);
                of.set("momentum", new[1]);
                new[0]
            }
            Some(Rule::Adam(own)) => {
                let [beta1, beta2] = own.betas;
                let op = Adam {
                    beta1,
                    beta2,
                    eps: own.eps,
                    weight_decay: own.weight_decay,
                };
                with_moments(of, gradient, op)
            }
            Some(Rule::AdamW(own)) => {
                let [beta1, beta2] = own.betas;
                let op = AdamW {
                    beta1,
                    beta2,
                    eps: own.eps,
                    weight_decay: own.weight_decay,
                };
                with_moments(of, gradient, op)
            }
        }
    }
}

/// Applies an operation to a parameter, its gradient and its two moments, sets these, and returns the parameter's new
/// value.
fn with_moments(of: &mut ParamUpdate<'_>, gradient: Tensor, op: impl Op) -> Tensor {
    let (p, shape) = (of.parameter(), of.parameter().shape());
    let inputs = [
        p,
        gradient,
        of.state("m", &shape),
        of.state("v", &shape),
        of.lr(),
        of.step(),
    ];
    let new = p.trace().apply(op, &inputs);
    of.set("m", new[1]);
    of.set("v", new[2]);
    new[0]
}
