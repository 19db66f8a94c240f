//! What a step is given and what it reports.

use crate::session::Inputs;
use lessen_device::HostArray;
use lessen_nn::BatchShape;
use std::collections::BTreeMap;
use std::time::Duration;

/// Report of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The number of this step, from 1.
    pub step: u64,
    /// The loss before the update, over all batches of the step.
    pub loss: f32,
    /// The learning rate of parameters in no group; see [`Trainer::learning_rates`](crate::Trainer::learning_rates).
    pub lr: f64,
    /// Norm of the gradient before clipping; none without clipping.
    pub gradient_norm: Option<f32>,
    /// The values that the loss function reports, by name: means over the micro-batches, weighted by their shares; see
    /// [`Cx::report`](lessen_nn::Cx::report).
    pub values: BTreeMap<String, f64>,
    /// Other results that the loss function names with [`TraceRef::output`](lessen_graph::TraceRef::output), by name:
    /// one array for each micro-batch.
    pub arrays: BTreeMap<String, Vec<HostArray>>,
    /// Whether nothing was updated because a number was not finite; see [`NonFinite::Skip`](crate::NonFinite::Skip).
    pub skipped: bool,
    /// Time of the step.
    pub time: Duration,
}

/// A micro-batch of a step.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Share of the micro-batch in the loss.
    pub share: f32,
    /// Batch layout of the micro-batch, if the trainer has steps for several; see
    /// [`Trainer::add_step`](crate::Trainer::add_step).
    pub shape: Option<BatchShape>,
    /// The arrays; there may be more than the function declared.
    pub inputs: &'a Inputs<'a>,
}

impl<'a> Part<'a> {
    /// A batch with this share in the loss.
    pub fn new(share: f32, inputs: &'a Inputs<'a>) -> Part<'a> {
        let shape = None;
        Part { share, shape, inputs }
    }

    /// Returns the micro-batch in this layout.
    pub fn at(self, shape: BatchShape) -> Part<'a> {
        let shape = Some(shape);
        Part { shape, ..self }
    }
}
