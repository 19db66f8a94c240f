//! The work of a training phase as far as it decides the memory of its process: data, layouts and numbers of batches.

use lessen_base::Result;
use lessen_nn::BatchShape;
use lessen_task::batch_shape::packed_shape;
use lessen_task::sources::Sources;
use lessen_task::{CheckedTask, Shapes};
use lessen_train::TrainerOptions;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes that the report of a run takes for each step whose loss it holds.
const STEP_OF_REPORT: usize = 128;

/// Most steps whose loss the report of a run holds.
const STEPS_OF_REPORT: u64 = 16_384;

/// Most layouts with nearly as many tokens as the largest whose arenas are measured.
const NEAR: usize = 4;

/// Most batches that are made ahead.
const AHEAD: usize = 256;

/// The work of a training phase as far as it decides the memory of its process.
#[derive(Clone)]
pub(crate) struct PhaseWork<'a> {
    /// The task that is trained.
    pub task: &'a CheckedTask,
    /// The trainer's options, with the budget of the recipe.
    pub options: &'a TrainerOptions,
    /// The layouts of the largest batches.
    pub shapes: Shapes,
    /// The batches; none where the recipe names no data.
    pub batches: Option<PhaseBatches<'a>>,
}

/// The batches of a training phase.
#[derive(Clone)]
pub(crate) struct PhaseBatches<'a> {
    /// The sources of training and evaluation.
    pub sources: &'a Sources,
    /// Numbers of the batches that training reads.
    pub range: Range<u64>,
    /// Number of the first training batch after the first evaluation.
    first_evaluated: u64,
}

impl<'a> PhaseBatches<'a> {
    /// The batches `range` of a task that goes on after `done` steps of the run.
    pub fn of(sources: &'a Sources, range: Range<u64>, task: &CheckedTask, done: u64) -> PhaseBatches<'a> {
        let train = &task.config().train;
        let steps = match train.eval_every {
            0 => u64::MAX,
            every => every - done % every,
        };
        let before = steps.saturating_mul(train.accumulate as u64);
        PhaseBatches {
            sources,
            first_evaluated: range.start.saturating_add(before).min(range.end),
            range,
        }
    }

    /// Whether all layouts of training occur before the first evaluation.
    pub(super) fn are_all_seen_before_evaluation(&self) -> bool {
        let layouts = |range| self.sources.training.layouts(range);
        layouts(self.range.start..self.first_evaluated) == layouts(self.range.clone())
    }
}

impl PhaseWork<'_> {
    /// Number of batches that are made ahead.
    pub(super) fn ahead(&self) -> usize {
        batches_ahead(self.options.accumulate)
    }

    /// Bytes of the largest batch: as its source says, or four numbers for each token and each text.
    pub(super) fn largest_batch(&self) -> usize {
        let sources = self.batches.as_ref().map(|batches| batches.sources);
        if let Some(bytes) = sources.and_then(|sources| sources.training.batch_bytes()) {
            return bytes;
        }
        let shape = self.shapes.train;
        let tokens: usize = shape.tokens().iter().product();
        4 * size_of::<i32>() * (tokens + shape.size())
    }

    /// Number of examples in a full batch: in the first batch, or without data in the largest layout.
    ///
    /// # Errors
    /// Data in a file that cannot be read any more.
    pub fn examples(&self) -> Result<usize> {
        match &self.batches {
            Some(PhaseBatches { sources, range, .. }) => Ok(sources.training.batch(range.start)?.examples),
            None => Ok(self.shapes.train.size()),
        }
    }

    /// Bytes of the predictions and labels that an evaluation collects: two numbers for each example.
    pub(super) fn answers(&self) -> usize {
        let dev = self.batches.as_ref().map(|batches| &batches.sources.dev);
        let examples: usize = dev.map_or(0, |dev| {
            let batches = dev.eval_batches();
            let largest = dev.largest_eval_layout(0..batches);
            let texts = largest.map_or(self.shapes.dev.size(), |(texts, _)| texts);
            texts.saturating_mul(batches as usize)
        });
        2 * size_of::<f64>() * examples.next_power_of_two()
    }

    /// Bytes of the report of the run, which holds the losses of steps.
    pub(super) fn report(&self) -> usize {
        let range = self.batches.as_ref().map_or(0..0, |batches| batches.range.clone());
        STEP_OF_REPORT * usize::try_from((range.end - range.start).min(STEPS_OF_REPORT)).unwrap_or(0)
    }

    /// The layouts of batches beside the largest, of training and of the evaluation.
    pub(super) fn other_layouts(&self) -> (Vec<BatchShape>, Vec<BatchShape>) {
        let Some(PhaseBatches { sources, range, .. }) = &self.batches else {
            return Default::default();
        };
        let (training, dev) = (sources.training.as_ref(), sources.dev.as_ref());
        let other = |source, layouts: BTreeSet<(usize, usize)>, largest| {
            let shapes = layouts
                .into_iter()
                .map(|(size, tokens)| packed_shape(source, size, tokens));
            shapes.filter(|shape| *shape != largest).collect()
        };
        (
            other(training, training.layouts(range.clone()), self.shapes.train),
            other(dev, dev.eval_layouts(0..dev.eval_batches()), self.shapes.dev),
        )
    }
}

/// Number of batches that are made ahead where a step accumulates this number of micro-batches.
pub(crate) fn batches_ahead(accumulate: usize) -> usize {
    (2 * accumulate).min(AHEAD)
}

/// The layouts with the most tokens. Which one has the largest arena is unknown before they are compiled: the arena
/// grows with the tokens, up to a percent that depends on how rows are cut into tiles.
pub(super) fn near_largest(layouts: &[BatchShape]) -> Vec<BatchShape> {
    let tokens = |shape: &BatchShape| shape.tokens().iter().product::<usize>();
    let mut near = layouts.to_vec();
    near.sort_by_key(|shape| Reverse(tokens(shape)));
    near.truncate(NEAR);
    near
}

/// A layout of middle size.
pub(super) fn middle(layouts: &[BatchShape]) -> Option<BatchShape> {
    layouts.get(layouts.len() / 2).copied()
}
