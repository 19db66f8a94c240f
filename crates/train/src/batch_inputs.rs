//! The arrays of a batch as inputs of a function, and its layout.

use lessen_data::{Batch, Field};
use lessen_device::Host;
use lessen_nn::BatchShape;

/// The arrays of a batch as inputs of a graph.
pub fn inputs_of(batch: &Batch) -> Vec<(&str, Host<'_>)> {
    fn host(field: &Field) -> Host<'_> {
        match field {
            Field::I32 { data, .. } => Host::I32(data),
            Field::F32 { data, .. } => Host::F32(data),
            Field::Bool { data, .. } => Host::Bool(data),
        }
    }
    batch
        .fields
        .iter()
        .map(|(name, field)| (name.as_str(), host(field)))
        .collect()
}

/// The layout of a batch.
pub fn shape_of(batch: &Batch) -> BatchShape {
    let extents = |name| batch.get(name).map_or(&[][..], Field::shape);
    if let &[size, height, width, channels] = extents("images") {
        return BatchShape::Images {
            size,
            image: [height, width, channels],
            // A number for each example has one axis, shares of classes have two.
            mixed: extents("targets").len() == 2,
        };
    }
    match (extents("tokens"), extents("starts"), extents("places")) {
        (&[_, tokens], &[starts], &[masked]) => BatchShape::Masked {
            size: starts - 1,
            tokens,
            masked,
        },
        (&[_, tokens], &[starts], _) => BatchShape::Packed {
            size: starts - 1,
            tokens,
        },
        (tokens, ..) => BatchShape::Padded {
            size: tokens.first().copied().unwrap_or(0),
            length: tokens.last().copied().unwrap_or(0),
        },
    }
}
