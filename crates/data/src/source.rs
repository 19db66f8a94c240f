//! The interface between data and training loops.

use std::collections::BTreeSet;
use std::ops::Range;

use lessen_base::Result;

use crate::batch::Batch;
use crate::question_batches::QuestionBatches;

/// Batches by step. A batch is a pure function of the source (data, seed, batch size) and its step, so a run that
/// stopped before step 1000 resumes with `batch(1000)`.
///
/// Training batches cover the data epoch after epoch, in order or shuffled. Evaluation batches cover every example
/// exactly once, in order unless they are balanced
/// ([`ExampleBatches::with_balanced_evaluations`](crate::ExampleBatches::with_balanced_evaluations)).
pub trait Source: Send + Sync {
    /// Returns the batch of training step `step`, from 0, in epoch `step / batches_per_epoch()`.
    ///
    /// # Errors
    /// Data in a file that cannot be read any more.
    fn batch(&self, step: u64) -> Result<Batch>;

    /// Returns the number of training steps in an epoch, at least 1.
    fn batches_per_epoch(&self) -> u64;

    /// Returns the number of evaluation batches, at least 1.
    fn eval_batches(&self) -> u64;

    /// Returns the numbers of texts and of tokens that the batches of these training steps have room for, each pair
    /// once; none where all batches have the same shape. Without steps, they are the numbers of an empty batch.
    fn layouts(&self, steps: Range<u64>) -> BTreeSet<(usize, usize)> {
        let _ = steps;
        BTreeSet::new()
    }

    /// Returns the same of these evaluation batches.
    fn eval_layouts(&self, batches: Range<u64>) -> BTreeSet<(usize, usize)> {
        let _ = batches;
        BTreeSet::new()
    }

    /// Returns the most texts and the most tokens that a batch of these training steps has room for; `None` where all
    /// batches have the same shape.
    fn largest_layout(&self, steps: Range<u64>) -> Option<(usize, usize)> {
        largest(&self.layouts(steps))
    }

    /// Returns the same of these evaluation batches.
    fn largest_eval_layout(&self, batches: Range<u64>) -> Option<(usize, usize)> {
        largest(&self.eval_layouts(batches))
    }

    /// Returns how many of the tokens stand for what the vocabulary lacks, and how many there are; `None` where that
    /// cannot be, or is not known.
    fn unknown_tokens(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns how many of the texts lack tokens that did not fit, and how many texts there are; `None` where texts are
    /// not cut.
    fn cut_texts(&self) -> Option<(u64, u64)> {
        None
    }

    /// Returns the most bytes that a batch takes, those taken while it is made included; `None` where that follows from
    /// the numbers of texts and tokens.
    fn batch_bytes(&self) -> Option<usize> {
        None
    }

    /// Returns the number of places for masked tokens in a batch of `tokens` tokens; `None` where none are masked.
    fn masked_places(&self, tokens: usize) -> Option<usize> {
        let _ = tokens;
        None
    }

    /// Returns the source itself where its batches are of questions about texts; `None` for others.
    fn questions(&self) -> Option<&QuestionBatches> {
        None
    }

    /// Returns the number of the example in each place of an evaluation batch; `None` where they are in order.
    fn examples_of(&self, index: u64) -> Option<Vec<usize>> {
        let _ = index;
        None
    }

    /// Returns evaluation batch `index`, from 0; past the last one it has padding rows only.
    ///
    /// # Errors
    /// As [`Source::batch`].
    fn eval_batch(&self, index: u64) -> Result<Batch>;
}

fn largest(layouts: &BTreeSet<(usize, usize)>) -> Option<(usize, usize)> {
    let larger = |a: (usize, usize), b: (usize, usize)| (a.0.max(b.0), a.1.max(b.1));
    layouts.iter().copied().reduce(larger)
}
