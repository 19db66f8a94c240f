//! How to train: optimizer, schedule, clipping, accumulation, budget.

use lessen_compile::Placement;
use lessen_nn::{Joined, OptimizerConfig, Schedule, ScheduleKind};

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
    /// Decides the first parameters and everything random inside the model.
    pub seed: u64,
    /// The greatest norm of the gradient over all parameters, which is scaled down to it; none leaves gradients as they
    /// are.
    pub clip_norm: Option<f64>,
    /// Batches that make one step.
    pub accumulate: usize,
    /// When parameters are updated; it changes no result.
    pub placement: Placement,
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
            seed: 1,
            clip_norm: None,
            accumulate: 1,
            placement: Placement::default(),
            budget: None,
        }
    }
}
