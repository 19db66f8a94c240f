//! How to train: optimizer, schedule, clipping, accumulation, budget.

use lessen_compile::{CostSource, Options, Placement, Policy, Precision};
use lessen_nn::{Centred, Joined, Lora, NormKind, OptimizerConfig, Patterns, Schedule, ScheduleKind, UpdateRule};
use std::collections::BTreeMap;

/// How to train.
#[derive(Clone, Debug)]
pub struct TrainerOptions {
    /// The rule of the update.
    pub optimizer: OptimizerConfig,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// The step after which the schedule begins: where training goes on from that of another model, its last step.
    pub schedule_start: u64,
    /// Parameters that joined after the first step.
    pub joined: Joined,
    /// Where fewer steps came before than plans were made for: after how many steps parameters joined in fact, by the
    /// number in `joined`.
    pub joined_at: BTreeMap<u64, u64>,
    /// Parameters that stay as they are.
    pub frozen: Patterns,
    /// Adapters that are trained in place of other parameters.
    pub lora: Option<Lora>,
    /// Parameters without weight decay.
    pub no_decay: Patterns,
    /// Layer-wise decay of the learning rate; see [`UpdateRule::layer_decay`].
    pub layer_decay: Option<f64>,
    /// Decay of an exponential moving average of the parameters that are trained, with which functions beside the step
    /// compute; see [`UpdateRule::ema`].
    pub ema: Option<f64>,
    /// Decides the first parameters and everything random inside the model.
    pub seed: u64,
    /// The greatest norm of the gradient over all parameters, which is scaled down to it; none leaves gradients as they
    /// are.
    pub clip_norm: Option<f64>,
    /// Batches that make one step.
    pub accumulate: usize,
    /// How layer norms are computed; it changes results by their rounding alone.
    pub norm: NormKind,
    /// When parameters are updated; it changes no result.
    pub placement: Placement,
    /// What products of matrices read, in the step and in functions beside it. Parameters and optimizer stay `f32`.
    pub precision: Precision,
    /// Who decides what backward keeps and what it computes again; it changes no result.
    pub policy: Policy,
    /// The greatest declared error of a value that backward has in an inexact way, as by inversion; 0 for exact ways
    /// alone, with which no budget changes a result.
    pub allowed_error: f64,
    /// The times that the memory planner goes by; they change no result.
    pub cost: CostSource,
    /// Most bytes that parameters, optimizer, step and functions may take together.
    pub budget: Option<usize>,
}

impl TrainerOptions {
    /// AdamW at a constant learning rate.
    pub fn new(lr: f64) -> TrainerOptions {
        TrainerOptions {
            optimizer: OptimizerConfig::adamw(0.0),
            schedule: Schedule {
                kind: ScheduleKind::Constant,
                peak: lr,
                warmup: 0,
                total: 0,
            },
            schedule_start: 0,
            joined: Joined::new(),
            joined_at: BTreeMap::new(),
            frozen: Patterns::default(),
            lora: None,
            no_decay: Patterns::default(),
            layer_decay: None,
            ema: None,
            seed: 1,
            clip_norm: None,
            accumulate: 1,
            norm: NormKind::default(),
            placement: Placement::default(),
            precision: Precision::default(),
            policy: Policy::default(),
            allowed_error: 0.0,
            cost: CostSource::default(),
            budget: None,
        }
    }

    /// How its graphs are compiled within a budget.
    pub(crate) fn of_plans(&self, budget: Option<usize>) -> Options {
        Options {
            placement: self.placement,
            precision: self.precision,
            policy: self.policy,
            allowed_error: self.allowed_error,
            cost: self.cost,
            budget,
        }
    }

    /// After how many steps parameters that have this number in `joined` joined in fact.
    pub(crate) fn joined_after(&self, number: u64) -> u64 {
        self.joined_at.get(&number).copied().unwrap_or(number)
    }

    /// Parameters that joined after the first step, with the steps after which they did.
    pub fn joined_in_fact(&self) -> Joined {
        let all = self.joined.iter();
        all.map(|(name, number)| (name.clone(), self.joined_after(*number)))
            .collect()
    }

    /// How parameters are updated.
    pub fn update_rule(&self) -> UpdateRule {
        UpdateRule {
            optimizer: self.optimizer,
            clip_norm: self.clip_norm,
            joined: self.joined.clone(),
            frozen: self.frozen.clone(),
            lora: self.lora.clone(),
            no_decay: self.no_decay.clone(),
            layer_decay: self.layer_decay,
            ema: self.ema,
            centred: Centred::new(),
        }
    }
}
