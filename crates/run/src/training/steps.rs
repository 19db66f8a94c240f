//! How many steps a run has.

use crate::recipe::keys::TrainKeys;
use lessen_data::Source;

/// The steps of a run and their batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Steps in all.
    pub total: u64,
    /// Batches in all; the last step of the last epoch may have fewer than the others.
    pub batches: u64,
}

impl Steps {
    /// As many steps as are asked for, or as the epochs take.
    pub(crate) fn of(train: &TrainKeys, source: &dyn Source) -> Steps {
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

    /// Batches of the step after `done` steps.
    pub(crate) fn batches_after(&self, done: u64, train: &TrainKeys) -> u64 {
        let accumulate = train.accumulate as u64;
        self.batches.saturating_sub(done * accumulate).min(accumulate)
    }
}
