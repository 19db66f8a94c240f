//! The answers of a saved model to the examples of a split, beside their labels.

use super::SavedRun;
use super::logits::Logits;
use lessen_base::Result;
use lessen_data::{Batch, Field, IGNORE};
use lessen_task::CheckedTask;
use lessen_task::SavedModel;
use lessen_task::goal::SharedGoal;
use lessen_task::goal::logits::check_finite;
use lessen_task::shared_data::SharedData;

/// What is right for an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// The number of its class.
    Class(usize),
    /// Whether it has each of the labels.
    Labels(Vec<bool>),
    /// A number.
    Number(f64),
}

/// The answer of a model to an example.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The number of the example in its split.
    pub example: usize,
    /// The numbers of the model.
    pub logits: Vec<f32>,
    /// What is right.
    pub known: Known,
}

impl SavedRun {
    /// The answers to all examples of a split of the run's own data, in their order, with the task that they are of, on
    /// data that it shares with others.
    ///
    /// # Errors
    /// Data that is missing, damaged or does not fit the model; numbers that are NaN or infinite.
    pub fn judge(&self, split: &str, shared: &SharedData) -> Result<(Vec<Judged>, CheckedTask)> {
        let config = self.config.clone().for_evaluation();
        let task = CheckedTask::assemble_on(config, Some(SavedModel::clone(&self.saved)), shared)?;
        let (source, goal) = (task.evaluation(split)?, self.goal());
        let logits = Logits::new(self.session()?, task.model());
        let mut all = Vec::new();
        for index in 0..source.eval_batches() {
            let batch = source.eval_batch(index)?;
            let numbers = logits.of(&batch)?;
            let places = source.examples_of(index);
            let rows = batch
                .fields
                .iter()
                .find(|(name, _)| name == "labels" || name == "weights");
            let rows = rows.map_or(batch.examples, |(_, field)| field.shape()[0]).max(1);
            let width = (numbers.len() / rows).max(1);
            for (row, own) in numbers.chunks_exact(width).take(batch.examples).enumerate() {
                check_finite(own)?;
                let example = places.as_ref().map_or(all.len(), |places| places[row]);
                if let Some(known) = known_of(&batch, row, width, &goal) {
                    all.push(Judged {
                        example,
                        logits: own.to_vec(),
                        known,
                    });
                }
            }
        }
        all.sort_by_key(|judged| judged.example);
        Ok((all, task))
    }
}

/// What is right for an example of a batch; none where it has no label.
fn known_of(batch: &Batch, row: usize, width: usize, goal: &SharedGoal) -> Option<Known> {
    if let Some(labels) = batch.get("labels").and_then(Field::as_i32) {
        let label = *labels.get(row)?;
        return (label != IGNORE).then_some(Known::Class(usize::try_from(label).ok()?));
    }
    let targets = batch.get("targets").and_then(Field::as_f32)?;
    if goal.class_names().is_empty() {
        return Some(Known::Number(f64::from(*targets.get(row)?)));
    }
    let own = targets.get(row * width..(row + 1) * width)?;
    Some(Known::Labels(own.iter().map(|share| *share > 0.5).collect()))
}
