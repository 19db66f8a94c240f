//! A step on batches of a source.

use crate::batch_inputs::{inputs_of, shape_of};
use crate::session::Inputs;
use crate::trainer::{Part, StepReport, Trainer};
use lessen_base::Result;
use lessen_data::Batch;

/// One step on the batches of this process, those that it accumulates unless there are several processes. Each has the
/// share of its labels in the loss, or of its examples where it has none, and its layout where the trainer has a step
/// for that.
pub(crate) fn step_on_batches(trainer: &mut Trainer, batches: Result<Vec<Batch>>) -> Result<StepReport> {
    let weight = |batch: &Batch| match batch.get("labels").and_then(|labels| labels.as_i32()) {
        Some(_) => batch.labels(),
        None => batch.examples,
    };
    let weights = |batches: &Vec<Batch>| batches.iter().map(|batch| weight(batch) as f64).collect();
    let shares = trainer.shares(batches.as_ref().map(weights).map_err(Clone::clone))?;
    let batches = batches?;
    let inputs: Vec<Vec<_>> = batches.iter().map(inputs_of).collect();
    let mut parts = Vec::with_capacity(batches.len());
    for ((batch, inputs), share) in batches.iter().zip(&inputs).zip(shares) {
        let inputs: &Inputs<'_> = inputs;
        let (part, shape) = (Part::new(share, inputs), shape_of(batch));
        parts.push(if trainer.has_step(shape) { part.at(shape) } else { part });
    }
    trainer.step_on(&parts)
}
