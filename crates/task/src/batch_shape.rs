//! The layout of batches, and their arrays as inputs of a graph.

use lessen_data::Source;
use lessen_nn::BatchShape;
pub use lessen_train::{inputs_of, shape_of};

/// The layout of a source's batches with `size` texts of `tokens` tokens together.
pub fn packed_shape(source: &dyn Source, size: usize, tokens: usize) -> BatchShape {
    match source.masked_places(tokens) {
        Some(masked) => BatchShape::Masked { size, tokens, masked },
        None => BatchShape::Packed { size, tokens },
    }
}
