//! The layouts of the largest batches of a run, for which its memory is planned.

use super::RunTask;
use super::evaluation::packed_shape;
use crate::recipe::keys::DataFormat;
use lessen_data::{Documents, Source, bucket, masked_places};
use lessen_nn::BatchShape;
use std::ops::Range;

/// Tokens that the shortest question with its context is assumed to have where there is no data.
const QUESTION: usize = 16;

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
    /// Those of a task's sources, of which training reads the batches `steps`.
    pub(crate) fn of(task: &RunTask, training: &dyn Source, dev: &dyn Source, steps: Range<u64>) -> Shapes {
        let assumed = Shapes::assumed(task);
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

    /// The largest ones that a task can have, whatever its data.
    pub fn assumed(task: &RunTask) -> Shapes {
        let config = &task.config;
        if let Some(image) = task.model.image() {
            let images = |mixed| BatchShape::Images {
                size: config.train.batch,
                image,
                mixed,
            };
            return Shapes {
                train: images(config.image.are_mixed()),
                dev: images(false),
                first_dev: images(false),
            };
        }
        let (size, length) = (config.equal_batch(), config.data.max_length);
        let tokens = bucket(size.saturating_mul(length));
        let shape = match (config.data.format, config.train.tokens) {
            (DataFormat::Labelled | DataFormat::Glue | DataFormat::Squad, 0) => BatchShape::Packed {
                size: config.train.batch,
                tokens: bucket(config.train.batch.saturating_mul(length)),
            },
            // Texts of a token each.
            (DataFormat::Labelled | DataFormat::Glue, most) => BatchShape::Packed {
                size: bucket(most),
                tokens: bucket(most),
            },
            (DataFormat::Squad, most) => BatchShape::Packed {
                size: bucket(most.div_ceil(QUESTION)),
                tokens: bucket(most),
            },
            // Texts of a token each.
            (DataFormat::Tagged, most) if most > 0 => BatchShape::Packed {
                size: bucket(most),
                tokens: bucket(most),
            },
            (DataFormat::Masked, most) if most > 0 && config.data.lines => BatchShape::Masked {
                size: bucket(most),
                tokens: bucket(most),
                masked: masked_places(bucket(most), config.data.mask),
            },
            (DataFormat::Tagged, _) => BatchShape::Packed { size, tokens },
            (DataFormat::Masked, _) => BatchShape::Masked {
                size,
                tokens,
                masked: masked_places(tokens, config.data.mask),
            },
            (DataFormat::Text, _) if config.data.documents != Documents::Off => BatchShape::Packed {
                size: bucket(size),
                tokens: size.saturating_mul(length),
            },
            (DataFormat::Text | DataFormat::Adder | DataFormat::Images, _) => BatchShape::Padded { size, length },
        };
        Shapes {
            train: shape,
            dev: shape,
            first_dev: shape,
        }
    }
}
