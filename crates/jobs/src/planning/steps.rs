//! The number of steps of a training phase.

use lessen_data::Source;
use lessen_task::recipe::keys::TrainKeys;

/// Numbers of steps and batches of a training phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// All steps.
    pub total: u64,
    /// All batches; the last step of the last epoch may accumulate fewer than the others.
    pub batches: u64,
}

impl Steps {
    /// The recipe's number of steps, or else the steps of its epochs.
    pub fn of(train: &TrainKeys, source: &dyn Source) -> Steps {
        let accumulate = train.accumulate as u64;
        match train.steps {
            0 => {
                let batches = train.epochs.saturating_mul(source.batches_per_epoch());
                Steps {
                    total: batches.div_ceil(accumulate),
                    batches,
                }
            }
            total => Steps {
                total,
                batches: total.saturating_mul(accumulate),
            },
        }
    }

    /// Number of batches of the step after `done` steps.
    pub(crate) fn batches_after(&self, done: u64, train: &TrainKeys) -> u64 {
        let accumulate = train.accumulate as u64;
        self.batches.saturating_sub(done * accumulate).min(accumulate)
    }
}
