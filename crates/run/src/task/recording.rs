//! Recording of statistics: which graphs it adds to those of training, and when they run.

use super::RunTask;
use crate::recipe::keys::{RecordKeys, RecordSplit};
use lessen_base::Result;
use lessen_nn::Selection;
use lessen_train::StepGraphs;

/// The functions of training before those that record: the evaluation.
const OTHERS: usize = 1;

/// A batch that statistics are recorded on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordedSplit {
    /// The first one of the step to come.
    Train,
    /// The first one of the split `dev`.
    Dev,
}

impl RecordedSplit {
    /// What the names of its statistics begin with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            RecordedSplit::Train => "stat",
            RecordedSplit::Dev => "dev_stat",
        }
    }
}

impl RecordKeys {
    /// Whether statistics are recorded before a step.
    pub(crate) fn is_due(&self, step: u64, total: u64) -> bool {
        self.every > 0 && (step.is_multiple_of(self.every) || step == total)
    }

    /// What is recorded, and the position of the function for it among those of training.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (RecordedSplit, usize)> + use<> {
        let splits: &[RecordedSplit] = match self.split {
            _ if self.every == 0 => &[],
            RecordSplit::Train => &[RecordedSplit::Train],
            RecordSplit::Dev => &[RecordedSplit::Dev],
            RecordSplit::Both => &[RecordedSplit::Train, RecordedSplit::Dev],
        };
        splits.iter().copied().zip(OTHERS..)
    }
}

/// Adds the functions that record to the graphs of training.
///
/// # Errors
/// A part of `record.what` that the model has nothing of.
pub(crate) fn add(mut graphs: StepGraphs, task: &RunTask) -> Result<StepGraphs> {
    let record = &task.config.record;
    for (split, _) in record.functions() {
        let selection: Result<Selection> = record.what.parse();
        let training = split == RecordedSplit::Train;
        let added = selection.and_then(|selection| {
            graphs.with_recording(&selection, training, |cx| task.model.forward(cx, task.shape).loss)
        });
        graphs = added.map_err(|error| error.at(task.config.place("record.what")))?;
    }
    Ok(graphs)
}
