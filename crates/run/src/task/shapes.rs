//! The layouts of the largest batches of a run, for which its memory is planned.

use super::batch_shape::packed_shape;
use lessen_data::Source;
use lessen_nn::BatchShape;
use std::ops::Range;

/// The layouts of the largest batches of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Of those that training reads.
    pub train: BatchShape,
    /// Of those that the evaluation reads.
    pub dev: BatchShape,
    /// Of the first one that the evaluation reads, on which statistics are recorded.
    pub first_dev: BatchShape,
}

impl Shapes {
    /// Those of the batches `steps` of a training source, and of an evaluation source. A source whose batches have a
    /// single layout has the `assumed` one.
    pub(super) fn of(assumed: Shapes, training: &dyn Source, dev: &dyn Source, steps: Range<u64>) -> Shapes {
        let shape = |source, largest: Option<(usize, usize)>, assumed| match largest {
            Some((size, tokens)) => packed_shape(source, size, tokens),
            None => assumed,
        };
        let of_dev = |range, assumed| shape(dev, dev.largest_eval_layout(range), assumed);
        Shapes {
            train: shape(training, training.largest_layout(steps), assumed.train),
            dev: of_dev(0..dev.eval_batches(), assumed.dev),
            first_dev: of_dev(0..1, assumed.first_dev),
        }
    }
}
