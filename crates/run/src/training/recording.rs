//! Recording of statistics while a run is under way.

use super::Run;
use crate::task::evaluation::inputs_of;
use crate::task::recording::RecordedSplit;
use lessen_base::Result;
use lessen_train::Inputs;

/// Records statistics before the next step, where they are due; `batch` is the first one of the step.
///
/// # Errors
/// Data that does not fit the model; files that cannot be written to.
pub(super) fn record(run: &mut Run, batch: &Inputs<'_>) -> Result<()> {
    let (step, keys) = (run.trainer.done() + 1, &run.stage.task.config.record);
    if !keys.is_due(step, run.stage.end()) {
        return Ok(());
    }
    for (split, position) in keys.functions() {
        let function = run.trainer.functions()[position];
        let statistics = match split {
            RecordedSplit::Train => run.trainer.record(function, batch)?,
            RecordedSplit::Dev => {
                let batch = run.dev.eval_batch(0);
                run.trainer.record(function, &inputs_of(&batch))?
            }
        };
        run.log.statistics(step, split, &statistics)?;
    }
    Ok(())
}
