//! The one thing a training loop knows of data.

use crate::batch::Batch;

/// Batches by number. Both sides are pure functions of what the source was built from (data, seed, batch
/// size) and the number asked for: a run that stops after step 1000 resumes by asking for step 1000 again.
///
/// The *training side* goes through the data epoch after epoch, in the order of the data or shuffled. The
/// *evaluation side* goes through the data once, in order, every example exactly once.
pub trait Source: Send + Sync {
    /// The batch of training step `step`, from 0; it lies in epoch `step / batches_per_epoch()`.
    fn batch(&self, step: u64) -> Batch;

    /// How many training steps see the data once; at least 1.
    fn batches_per_epoch(&self) -> u64;

    /// How many batches the evaluation side has; at least 1.
    fn eval_batches(&self) -> u64;

    /// The evaluation batch `index`, from 0. Beyond the last one it has no real example.
    fn eval_batch(&self, index: u64) -> Batch;
}
