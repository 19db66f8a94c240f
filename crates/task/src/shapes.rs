//! The layouts of the largest batches, for which memory is planned.

use crate::batch_shape::packed_shape;
use lessen_data::Source;
use lessen_nn::BatchShape;
use std::ops::Range;

/// The layouts of the largest batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// The largest layout of training.
    pub train: BatchShape,
    /// The largest layout of evaluations.
    pub dev: BatchShape,
    /// The layout of the first batch of an evaluation, on which statistics are recorded.
    pub first_dev: BatchShape,
}

impl Shapes {
    /// The largest layouts of the batches `steps` of a training source, and of an evaluation source. A source with a
    /// single layout has the `assumed` one.
    pub(crate) fn of(assumed: Shapes, training: &dyn Source, dev: &dyn Source, steps: Range<u64>) -> Shapes {
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
