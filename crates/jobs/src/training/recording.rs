//! Recording of statistics while a run is under way.

use super::Run;
use crate::job::Log;
use lessen_base::Result;
use lessen_data::Batch;
use lessen_nn::BatchShape;
use lessen_task::batch_shape::{inputs_of, shape_of};
use lessen_task::recording::RecordedSplit;
use lessen_train::Function;
use std::collections::HashMap;

/// The functions that record statistics, by split and batch layout.
pub(super) type Recordings = HashMap<(RecordedSplit, BatchShape), Function>;

/// Records statistics before the next step, where they are due. `batch` is the first one of the step.
///
/// # Errors
/// Data that does not fit the model; files that cannot be written to.
pub(super) fn record(run: &mut Run, batch: &Batch, log: &mut Log) -> Result<()> {
    let task = &run.phase.task;
    let (step, keys) = (run.trainer.done() + 1, &task.config().record);
    if !keys.is_due(step, run.phase.end()) {
        return Ok(());
    }
    for (split, _) in keys.functions() {
        let first_of_dev;
        let batch = match split {
            RecordedSplit::Train => batch,
            RecordedSplit::Dev => {
                first_of_dev = run.phase.sources.dev.eval_batch(0)?;
                &first_of_dev
            }
        };
        let shape = shape_of(batch);
        let function = match run.recordings.get(&(split, shape)) {
            Some(function) => *function,
            None => {
                let (selection, training) = (keys.what.parse()?, split == RecordedSplit::Train);
                let added = run.trainer.recording(&selection, training, |cx| task.loss(cx, shape))?;
                run.recordings.insert((split, shape), added);
                added
            }
        };
        let statistics = run.trainer.record(function, &inputs_of(batch))?;
        run.lines(log).statistics(step, split, &statistics)?;
    }
    Ok(())
}
