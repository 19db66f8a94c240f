//! The memory of a whole run: what is planned before its first step, and what it comes to.
//!
//! The plans say what states, constants and arena take. What else a process allocates (data, tokenizer, programs,
//! batches that wait, files that are written) is counted while the run is set up, and the rest follows from it: one
//! program more for each further layout of batches, and what compiling one takes for a moment.

use super::Run;
use crate::task::evaluation::{packed_shape, trace};
use lessen_base::Result;
use lessen_base::allocated::{self, Growth};
use lessen_data::{Batch, Field, Source};
use lessen_nn::BatchShape;
use lessen_train::Peak;
use lessen_train::memory::ResidentGrowth;
use std::collections::BTreeSet;

/// Bytes that writing a checkpoint takes for a moment: the buffer of a file, and a block of a tensor's text.
const CHECKPOINT: usize = lessen_base::atomic::BUFFER + (16 << 10);

/// Bytes of the names and places of a tensor in a checkpoint.
const TENSOR: usize = 640;

/// Bytes for what is not foreseen: messages, lines of metrics, buffers of files.
const MARGIN: usize = 128 << 10;

/// The memory of a process that works on a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// The most bytes that are going to be allocated.
    planned: usize,
    resident: Option<ResidentGrowth>,
}

impl Account {
    /// Begins to watch, at the start of a run.
    pub(super) fn watch() -> Account {
        Account {
            planned: 0,
            resident: ResidentGrowth::watch(),
        }
    }

    /// What a run has come to, whose trainer says this of states, constants and arena. Where nobody counts allocations,
    /// that is all that is known.
    pub(super) fn peak(&self, trainer: Peak) -> Peak {
        Peak {
            planned: self.planned.max(trainer.planned),
            measured: allocated::peak().unwrap_or(trainer.measured),
        }
    }

    /// The most that the process has grown by in resident memory.
    pub(super) fn resident(&self) -> Option<usize> {
        self.resident.and_then(|resident| resident.peak())
    }
}

impl Run {
    /// Allocates what the run's steps take and plans what the process will have allocated at most. `later` is what the
    /// phases after this one take more than it.
    ///
    /// # Errors
    /// Memory that the device does not have, and steps that cannot be compiled.
    pub(super) fn plan_memory(&mut self, later: usize) -> Result<()> {
        self.trainer.session().reserve()?;
        if allocated::current().is_none() {
            return Ok(());
        }
        let (task, sources) = (&self.stage.task, &self.stage.sources);
        let (training, dev) = (sources.training.as_ref(), sources.dev.as_ref());
        let first = self.stage.first_batch(self.trainer.done());
        let steps = first..first.max(self.stage.end_of_batches());

        // One program of each kind that is to come is made now, which tells what the others take.
        let is_new = |shape: &BatchShape| !self.trainer.has_step(*shape);
        let new: Vec<BatchShape> = shapes(training, training.layouts(steps)).filter(is_new).collect();
        let step = new.first().map(|shape| {
            let (added, growth) = allocated::growth(|| self.trainer.add_step(*shape, |cx| task.loss(cx, *shape)));
            added.map(|()| growth)
        });
        let step = step.transpose()?.unwrap_or_default();
        let of_dev = dev.eval_layouts(0..dev.eval_batches());
        let new_of_dev: Vec<BatchShape> = shapes(dev, of_dev)
            .filter(|shape| !self.evaluation.contains_key(shape))
            .collect();
        let evaluation = new_of_dev.first().map(|shape| {
            let session = self.trainer.session();
            let (function, growth) =
                allocated::growth(|| session.function(|cx| trace(cx, &task.model, &task.goal, *shape)));
            function.map(|function| {
                self.evaluation.insert(*shape, function);
                growth
            })
        });
        let evaluation = evaluation.transpose()?.unwrap_or_default();

        let others = |growth: Growth, new: &[BatchShape]| growth.lasting * new.len().saturating_sub(1);
        let programs = others(step, &new) + others(evaluation, &new_of_dev);
        let tensors = self.trainer.params().len() * 3;
        let checkpoint = CHECKPOINT + TENSOR * tensors;
        let transient = step.transient.max(evaluation.transient).max(checkpoint);
        let waiting = (self.batches_ahead() + 2) * bytes_of(&training.batch(first)?);
        let now = allocated::current().unwrap_or(0);
        let planned = now + programs + transient + waiting + later + MARGIN;
        self.account.planned = planned.max(allocated::peak().unwrap_or(0));
        Ok(())
    }
}

/// The shapes of a source's batches of these layouts.
fn shapes(source: &dyn Source, layouts: BTreeSet<(usize, usize)>) -> impl Iterator<Item = BatchShape> {
    let shape = |(size, tokens)| packed_shape(source, size, tokens);
    layouts.into_iter().map(shape)
}

/// Bytes of a batch's arrays.
fn bytes_of(batch: &Batch) -> usize {
    let bytes = |field: &Field| match field {
        Field::I32 { data, .. } => size_of_val(&data[..]),
        Field::F32 { data, .. } => size_of_val(&data[..]),
        Field::Bool { data, .. } => size_of_val(&data[..]),
    };
    batch.fields.iter().map(|(_, field)| bytes(field)).sum()
}
