//! Settings of a training, as Python hands them over.

use lessen_base::{Error, Result};
use lessen_compile::{Placement, Precision};
use lessen_nn::{Algorithm, LrSchedule, LrScheduleKind, ParamGroup, Patterns};
use lessen_train::{NonFinite, TrainerOptions};
use serde::Deserialize;
use std::collections::BTreeSet;

use crate::optimizer::{GroupSettings, TorchUpdate};

/// Settings of a training.
#[derive(Clone, Debug, Deserialize)]
pub struct TrainingSettings {
    /// The optimizer's parameter groups; parameters in none are not trained.
    pub groups: Vec<GroupSettings>,
    /// Most bytes of parameters, optimizer states, step and functions together.
    #[serde(default)]
    pub budget: Option<usize>,
    /// The dtype that products read, `f32` or `bf16`.
    #[serde(default)]
    pub precision: Option<String>,
    /// Greatest norm of the gradient over all parameters.
    #[serde(default)]
    pub clip_norm: Option<f64>,
    /// Greatest magnitude of an element of a gradient.
    #[serde(default)]
    pub clip_value: Option<f64>,
    /// Greatest declared error of a value that backward recovers inexactly.
    #[serde(default)]
    pub allowed_error: f64,
    /// Seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
}

impl TrainingSettings {
    /// The options of a trainer, and the learning rates of its first step.
    pub(crate) fn options(&self, frozen: Vec<String>) -> Result<(TrainerOptions, Vec<f64>)> {
        self.groups.iter().try_for_each(GroupSettings::check)?;
        let group = |group: &GroupSettings| ParamGroup::new(Patterns::default().and(group.params.clone()));
        let precision = match self.precision.as_deref() {
            None | Some("f32") => Precision::F32,
            Some("bf16") => Precision::Bf16,
            Some(other) => {
                return Err(Error::user(format!(
                    "there is no precision '{other}'; choose f32 or bf16"
                )));
            }
        };
        let options = TrainerOptions {
            algorithm: Some(Algorithm::new(TorchUpdate::new(&self.groups, self.clip_value))),
            schedule: LrSchedule {
                kind: LrScheduleKind::Constant,
                peak: 0.0,
                warmup: 0,
                total: 0,
            },
            groups: self
                .groups
                .iter()
                .filter(|group| !group.params.is_empty())
                .map(group)
                .collect(),
            frozen: Patterns::default().and(frozen),
            clip_norm: self.clip_norm,
            placement: Placement::BackwardFused,
            precision,
            budget: self.budget,
            allowed_error: self.allowed_error,
            non_finite: NonFinite::Allow,
            seed: self.seed,
            ..TrainerOptions::new(0.0)
        };
        Ok((
            options,
            self.rates(&self.groups.iter().map(|group| group.lr).collect::<Vec<f64>>()),
        ))
    }

    /// The learning rates of a trainer by those of all groups.
    pub(crate) fn rates(&self, of_groups: &[f64]) -> Vec<f64> {
        let used = self
            .groups
            .iter()
            .zip(of_groups)
            .filter(|(group, _)| !group.params.is_empty());
        std::iter::once(0.0).chain(used.map(|(_, lr)| *lr)).collect()
    }

    /// The groups with the parameters that the program has; others are not read by it, and do not change.
    pub(crate) fn used(mut self, states: &BTreeSet<String>) -> TrainingSettings {
        for group in &mut self.groups {
            group.params.retain(|name| states.contains(name));
        }
        self
    }
}
