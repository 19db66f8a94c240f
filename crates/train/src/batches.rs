//! A step on batches of a source.

use crate::batch_inputs::{inputs_of, shape_of};
use crate::session::Inputs;
use crate::trainer::{Part, StepReport, Trainer};
use lessen_base::Result;
use lessen_data::Batch;

/// One step on the batches that it accumulates. Each has the share of its labels in the loss, or of its examples where
/// it has none, and its layout where the trainer has a step for that.
pub(crate) fn step_on_batches(trainer: &mut Trainer, batches: &[Batch]) -> Result<StepReport> {
    let weight = |batch: &Batch| match batch.get("labels").and_then(|labels| labels.as_i32()) {
        Some(_) => batch.labels(),
        None => batch.examples,
    };
    let weights: Vec<f64> = batches.iter().map(|batch| weight(batch) as f64).collect();
    let whole: f64 = weights.iter().sum();
    let inputs: Vec<Vec<_>> = batches.iter().map(inputs_of).collect();
    let mut parts = Vec::with_capacity(batches.len());
    for ((batch, inputs), weight) in batches.iter().zip(&inputs).zip(weights) {
        let inputs: &Inputs<'_> = inputs;
        let share = if batches.len() == 1 {
            1.0
        } else {
            weight / whole.max(1.0)
        };
        let (part, shape) = (Part::new(share as f32, inputs), shape_of(batch));
        parts.push(if trainer.has_step(shape) { part.at(shape) } else { part });
    }
    trainer.step_on(&parts)
}
