//! Checks of the numbers of optimizers and update rules.

use lessen_base::{Error, Result};

use super::config::{AdamSettings, OptimizerConfig};
use super::rule::{ParamGroup, UpdateRule};
use crate::params::ParamSpec;

/// Refuses a number out of range, with a remedy.
fn check(name: &str, value: f64, is_in_range: bool, remedy: &str) -> Result<()> {
    if is_in_range {
        Ok(())
    } else {
        Err(Error::user(format!("{name} = {value} makes no sense; choose {remedy}")))
    }
}

/// Refuses a number that is not finite and at least 0.
fn not_negative(name: &str, value: f64) -> Result<()> {
    check(name, value, value.is_finite() && value >= 0.0, "a finite number from 0")
}

/// Refuses the decay of a mean that is not in `[0, 1)`.
fn decay(name: &str, value: f64) -> Result<()> {
    check(name, value, (0.0..1.0).contains(&value), "a number from 0 to below 1")
}

impl OptimizerConfig {
    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// A number out of range, infinite or none, with its name.
    pub fn check(&self) -> Result<()> {
        match *self {
            OptimizerConfig::AdamW(settings)
            | OptimizerConfig::AdamW8bit(settings)
            | OptimizerConfig::Adam(settings) => {
                let AdamSettings {
                    beta1,
                    beta2,
                    eps,
                    weight_decay,
                } = settings;
                decay("beta1", beta1)?;
                decay("beta2", beta2)?;
                not_negative("eps", eps)?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::Adagrad {
                lr_decay,
                initial_accumulator,
                eps,
                weight_decay,
            } => {
                not_negative("lr_decay", lr_decay)?;
                not_negative("initial_accumulator", initial_accumulator)?;
                not_negative("eps", eps)?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::Adadelta { rho, eps, weight_decay } => {
                decay("rho", rho)?;
                let is_positive = eps.is_finite() && eps > 0.0;
                check(
                    "eps",
                    eps,
                    is_positive,
                    "a finite number above 0: with 0 there is never a step",
                )?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::RmsProp {
                alpha,
                eps,
                momentum,
                weight_decay,
            } => {
                decay("alpha", alpha)?;
                not_negative("eps", eps)?;
                share("momentum", momentum)?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::Lion {
                beta1,
                beta2,
                weight_decay,
            } => {
                share("beta1", beta1)?;
                decay("beta2", beta2)?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::Adafactor {
                beta2_decay,
                eps,
                least_scale,
                clip_threshold,
                weight_decay,
            } => {
                let is_falling = beta2_decay.is_finite() && beta2_decay <= 0.0;
                check("beta2_decay", beta2_decay, is_falling, "a finite number up to 0")?;
                let has_square = eps.is_finite() && eps > 0.0 && (eps * eps) as f32 >= f32::MIN_POSITIVE;
                check(
                    "eps",
                    eps,
                    has_square,
                    "at least 1e-18, since its square divides and is 0 in f32 below",
                )?;
                not_negative("least_scale", least_scale)?;
                let is_positive = clip_threshold > 0.0;
                check(
                    "clip_threshold",
                    clip_threshold,
                    is_positive,
                    "a number above 0: with 0 there is never a step",
                )?;
                not_negative("weight_decay", weight_decay)
            }
            OptimizerConfig::Sgd {
                momentum,
                nesterov,
                weight_decay,
            } => {
                share("momentum", momentum)?;
                check(
                    "momentum",
                    momentum,
                    !nesterov || momentum > 0.0,
                    "a number above 0 for nesterov, or leave that out",
                )?;
                not_negative("weight_decay", weight_decay)
            }
        }
    }
}

/// Refuses a share that is not in `[0, 1]`.
fn share(name: &str, value: f64) -> Result<()> {
    check(name, value, (0.0..=1.0).contains(&value), "a number from 0 to 1")
}

impl ParamGroup {
    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// A number out of range, infinite or none, with its name.
    pub fn check(&self) -> Result<()> {
        if let Some(optimizer) = &self.optimizer {
            optimizer.check()?;
        }
        if let Some(decay) = self.weight_decay {
            not_negative("weight_decay", decay)?;
        }
        if let Some(schedule) = &self.schedule {
            schedule.check()?;
        }
        not_negative("lr_factor", self.lr_factor)
    }
}

impl UpdateRule {
    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// A number out of range, infinite or none, with its name.
    pub fn check(&self) -> Result<()> {
        self.optimizer.check()?;
        if let Some(algorithm) = &self.algorithm {
            algorithm.check()?;
        }
        for group in &self.groups {
            let check = group.check();
            check.map_err(|error| error.at(format!("the parameter group {}", group.params)))?;
        }
        if let Some(most) = self.clip_norm {
            check(
                "clip_norm",
                most,
                most > 0.0,
                "a number above 0, or none to leave gradients as they are",
            )?;
        }
        if let Some(factor) = self.layer_decay {
            not_negative("layer_decay", factor)?;
        }
        if let Some(decay) = self.ema {
            let is_mean = decay > 0.0 && decay < 1.0;
            check(
                "ema",
                decay,
                is_mean,
                "a number above 0 and below 1, or none for no averages",
            )?;
        }
        self.lora.as_ref().map_or(Ok(()), |lora| lora.check())
    }

    /// Checks that every pattern of the rule fits a parameter of a model.
    ///
    /// # Errors
    /// A pattern that no parameter fits, with the setting that it stands in.
    pub fn check_params(&self, params: &[ParamSpec]) -> Result<()> {
        let names: Vec<String> = params.iter().map(|param| param.name.clone()).collect();
        let groups = self.groups.iter().map(|group| ("the parameter groups", &group.params));
        let others = [("frozen", &self.frozen), ("no_decay", &self.no_decay)];
        let only = self.only.iter().map(|only| ("the trained parameters", only));
        let mut all = groups.chain(others).chain(only);
        all.try_for_each(|(place, patterns)| {
            let checked = patterns.check("the model", &names);
            checked.map_err(|error| error.at(place))
        })
    }
}
