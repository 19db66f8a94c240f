//! The batches of training phases.

use crate::CheckedTask;
use crate::recipe::phases::in_phase_of;
use lessen_base::Result;
use lessen_data::Source;
use std::sync::Arc;

/// The batches of a training phase.
#[derive(Clone)]
pub struct Sources {
    /// The batches of training.
    pub training: Arc<dyn Source>,
    /// The batches of evaluations.
    pub dev: Arc<dyn Source>,
}

impl Sources {
    fn of(task: &CheckedTask) -> Result<Sources> {
        Ok(Sources {
            training: task.training()?,
            dev: task.evaluation("dev")?,
        })
    }
}

/// The batches of successive training phases; phases with equal batches share them.
///
/// # Errors
/// Data that is not named, or does not fit the tokenizer or the sizes.
pub fn sources_of(tasks: &[CheckedTask]) -> Result<Vec<Sources>> {
    let mut sources: Vec<Sources> = Vec::with_capacity(tasks.len());
    for (number, task) in tasks.iter().enumerate() {
        let before = number
            .checked_sub(1)
            .filter(|before| task.has_batches_of(&tasks[*before]));
        sources.push(match before {
            Some(before) => sources[before].clone(),
            None => Sources::of(task).map_err(|error| in_phase_of(task.config(), error))?,
        });
    }
    Ok(sources)
}
