//! Recording of statistics: the graphs that it adds to training, and the steps at which they run.

use crate::recipe::config::Config;
use crate::recipe::keys::{RecordKeys, RecordSplit};
use crate::shapes::Shapes;
use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_nn::{BatchShape, Cx, Selection};
use lessen_train::StepGraphs;

/// Number of functions of training before the functions that record: the evaluation alone.
const OTHERS: usize = 1;

/// A batch that statistics are recorded on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordedSplit {
    /// The first batch of the next step.
    Train,
    /// The first batch of the split `dev`.
    Dev,
}

impl RecordedSplit {
    /// Prefix of the names of its statistics.
    pub fn prefix(self) -> &'static str {
        match self {
            RecordedSplit::Train => "stat",
            RecordedSplit::Dev => "dev_stat",
        }
    }
}

impl RecordKeys {
    /// Whether statistics are recorded before a step.
    pub fn is_due(&self, step: u64, total: u64) -> bool {
        self.every > 0 && (step.is_multiple_of(self.every) || step == total)
    }

    /// The recorded splits, each with the position of its function among the functions of training.
    pub fn functions(&self) -> impl Iterator<Item = (RecordedSplit, usize)> + use<> {
        let splits: &[RecordedSplit] = match self.split {
            _ if self.every == 0 => &[],
            RecordSplit::Train => &[RecordedSplit::Train],
            RecordSplit::Dev => &[RecordedSplit::Dev],
            RecordSplit::Both => &[RecordedSplit::Train, RecordedSplit::Dev],
        };
        splits.iter().copied().zip(OTHERS..)
    }
}

/// The keys of the metrics for the numbers that the functions of [`add`] record.
pub fn names(record: &RecordKeys, graphs: &StepGraphs) -> Vec<String> {
    let functions = record
        .functions()
        .filter_map(|(split, position)| Some((split, graphs.functions.get(position)?)));
    functions
        .flat_map(|(split, graph)| {
            let numbers = graph
                .outputs
                .iter()
                .filter(|output| graph.ty(output.value).numel() == 1);
            let named = move |name: &str| format!("{}/{name}", split.prefix());
            numbers.map(move |output| named(&output.name)).collect::<Vec<_>>()
        })
        .collect()
}

/// Adds the functions that record to the graphs of training. `loss` traces the loss of a batch of a layout.
///
/// # Errors
/// A part of `record.what` that no value of the model matches.
pub fn add(
    mut graphs: StepGraphs,
    config: &Config,
    shapes: Shapes,
    loss: impl Fn(Cx, BatchShape) -> Tensor,
) -> Result<StepGraphs> {
    for (split, _) in config.record.functions() {
        let selection: Result<Selection> = config.record.what.parse();
        let (training, shape) = match split {
            RecordedSplit::Train => (true, shapes.train),
            RecordedSplit::Dev => (false, shapes.first_dev),
        };
        let added = selection.and_then(|selection| graphs.with_recording(&selection, training, |cx| loss(cx, shape)));
        graphs = added.map_err(|error| error.at(config.place("record.what")))?;
    }
    Ok(graphs)
}
