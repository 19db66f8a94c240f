//! The interface between data and training loops.

use std::ops::Range;

use crate::batch::Batch;

/// Batches by step. A batch is a pure function of the source (data, seed, batch size) and its step, so a run that
/// stopped before step 1000 resumes with `batch(1000)`.
///
/// Training batches cover the data epoch after epoch, in order or shuffled. Evaluation batches cover every example
/// exactly once, in order.
pub trait Source: Send + Sync {
    /// Returns the batch of training step `step`, from 0, in epoch `step / batches_per_epoch()`.
    fn batch(&self, step: u64) -> Batch;

    /// Returns the number of training steps in an epoch, at least 1.
    fn batches_per_epoch(&self) -> u64;

    /// Returns the number of evaluation batches, at least 1.
    fn eval_batches(&self) -> u64;

    /// Returns the step, of `steps`, whose batch has the most tokens. Batches have at most as many as that one, and
    /// memory for that one is memory for all of them.
    fn largest(&self, steps: Range<u64>) -> u64 {
        steps.start
    }

    /// Returns the evaluation batch with the most tokens.
    fn largest_eval(&self) -> u64 {
        0
    }

    /// Returns evaluation batch `index`, from 0; past the last one it has padding rows only.
    fn eval_batch(&self, index: u64) -> Batch;
}
